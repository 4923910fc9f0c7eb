"""`pgassay combine`: experiments of one design on several machines as one result; needs no server."""

import argparse

from pgassay.cli import options
from pgassay.cli.output import publish


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "combine",
        help="combine stored experiments of the same design on several machines into one result",
        description="Answers two questions from experiments of one design on several machines: the effect "
        "on these machines, if they share one, and the effect to expect on machines like these, for "
        "which each machine counts once. Lists what differs between the machines.",
        epilog="example:\n  pgassay combine host1/results host2/results host3/results --markdown",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "folders",
        type=options.folder,
        nargs="+",
        metavar="FOLDER",
        help="the experiments' folders, two or more; several from one host count as one machine",
    )
    options.add_formats(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read all, combine, print."""
    from pgassay.analysis.machines.combine import combine
    from pgassay.record.experiment import load
    from pgassay.report.combine import page_of

    publish(page_of(combine([load(folder) for folder in arguments.folders])), arguments)
    return 0
