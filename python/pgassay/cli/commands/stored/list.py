"""`pgassay list`: the experiments in a folder, one line each."""

import argparse
import sys

from pgassay.cli import options, stored_experiments
from pgassay.cli.output import is_unicode


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "list",
        help="list stored experiments with their verdicts",
        description="Lists the experiments below a folder, by default ./pgassay-results.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    stored_experiments.add_folder(parser, "where to look")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read every experiment and print a row; one that can't be read is named with the reason."""
    from pgassay.errors import UsageError
    from pgassay.report import listing
    from pgassay.report.compare import verdicts

    rows = []
    parent = stored_experiments.parent_of(arguments, may_be_missing=True)
    for folder, found in stored_experiments.analysed_below(parent):
        if isinstance(found, UsageError):
            rows.append(listing.ListingRow(str(folder), "", "", 0, "", "", error=str(found)))
            continue
        stored, result = found
        rows.append(
            listing.ListingRow(
                folder=str(folder),
                started=stored.experiment.created_at,
                title=stored.experiment.title,
                blocks=result.blocks,
                stopped=result.stopped,
                verdict="\n".join(verdicts.headline_lines(result)),
            )
        )
    sys.stdout.write(listing.render(rows, unicode=is_unicode()))
    return 0
