"""`pgassay diff`: two experiments beside each other; needs no server."""

import argparse
import sys

from pgassay.cli import options


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
    parser.add_argument("--json", action="store_true", help="print the comparison as one JSON document")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read both, compare, print."""
    from pgassay.analysis.diff import compare_experiments
    from pgassay.cli.outcome import is_unicode
    from pgassay.record.read import load
    from pgassay.report import diff

    found = compare_experiments(load(arguments.first), load(arguments.second))
    sys.stdout.write(diff.to_json(found) if arguments.json else diff.render(found, unicode=is_unicode()))
    return 0
