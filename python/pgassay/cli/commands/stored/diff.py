"""`pgassay diff`: two experiments beside each other; needs no server."""

import argparse

from pgassay.cli import options
from pgassay.cli.output import publish


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "diff",
        help="compare two stored experiments: how each effect changed, and what else differs",
        description="Compares the effects that two stored experiments share (another machine, another "
        "version, or the same again), and lists what else differs between them.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("first", type=options.folder, metavar="A", help="the first experiment's folder")
    parser.add_argument("second", type=options.folder, metavar="B", help="the second experiment's folder")
    options.add_formats(parser, "the comparison")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read both, compare, print, and write the page that was asked for."""
    from pgassay.analysis.diff.experiments import compare_experiments
    from pgassay.record.experiment import load
    from pgassay.report.diff.diff_page import page_of

    found = compare_experiments(load(arguments.first), load(arguments.second))
    publish(page_of(found), arguments)
    return 0
