"""`pgassay list`: the experiments in a folder, one line each."""

import argparse
import sys

from pgassay.cli import options


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "list",
        help="list stored experiments with their verdicts",
        description="Lists the experiments below a folder, by default ./pgassay-results.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "folder",
        type=options.folder,
        nargs="?",
        metavar="FOLDER",
        help="where to look (default pgassay-results)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read every experiment and print a row; one that can't be read is named with the reason."""
    from pgassay.analysis.compare import analyse
    from pgassay.errors import UsageError
    from pgassay.experiment.folder import DEFAULT_PARENT, find_experiments
    from pgassay.record.read import load
    from pgassay.report import listing

    parent = arguments.folder or DEFAULT_PARENT
    if arguments.folder is not None and not parent.is_dir():
        raise UsageError(f"{parent} is not a folder: name one that holds experiments")
    rows = []
    for folder in find_experiments(parent):
        try:
            stored = load(folder)
            result = analyse(stored)
        except UsageError as error:
            rows.append(listing.ListingRow(str(folder), "", "", 0, "", "", error=str(error)))
            continue
        experiment = stored.experiment
        rows.append(
            listing.ListingRow(
                folder=str(folder),
                started=experiment.created_at,
                title=experiment.title,
                blocks=result.blocks,
                stopped=result.stopped,
                verdict=result.verdict,
            )
        )
    sys.stdout.write(listing.render(rows, unicode=_is_unicode()))
    return 0


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
