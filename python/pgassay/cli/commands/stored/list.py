"""`pgassay list`: the stored results in a folder, two lines each."""

import argparse
import sys

from pgassay.cli import options, stored_experiments
from pgassay.cli.output import is_unicode


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "list",
        help="list stored results with their verdicts",
        description="Lists the results below a folder: experiments, what tune, gate and fleet found, and "
        "probes that were kept; by default those in ./pgassay-results and ./pgassay-gates.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    stored_experiments.add_folder(parser, "where to look")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read every experiment and print a row; one that can't be read is named with the reason."""
    from pgassay.cli.stored_results import RUNNING, others_below
    from pgassay.errors import UsageError
    from pgassay.experiment.gating.run import PARENT as GATES
    from pgassay.record.holding import is_held
    from pgassay.report import listing
    from pgassay.report.compare import verdicts

    rows = []
    parent = stored_experiments.parent_of(arguments, may_be_missing=True)
    parents = [parent] if arguments.folder is not None else [parent, GATES]
    for folder, other in (each for place in parents for each in others_below(place)):
        if isinstance(other, UsageError):
            rows.append(listing.ListingRow(str(folder), "", "", "", "", "", error=str(other)))
            continue
        rows.append(
            listing.ListingRow(
                folder=str(folder),
                started=other.started,
                title=other.title,
                amount=other.amount,
                stopped=other.ended,
                verdict="\n".join(other.verdict),
            )
        )
    for folder, found in stored_experiments.analysed_below(parent):
        if isinstance(found, UsageError):
            rows.append(listing.ListingRow(str(folder), "", "", "", "", "", error=str(found)))
            continue
        stored, result = found
        rows.append(
            listing.ListingRow(
                folder=str(folder),
                started=stored.experiment.created_at,
                title=stored.experiment.title,
                amount=listing.blocks_words(result.blocks),
                stopped=RUNNING if is_held(folder) else result.stopped,
                verdict="\n".join(verdicts.headline_lines(result)),
            )
        )
    sys.stdout.write(listing.render(rows, unicode=is_unicode()))
    return 0
