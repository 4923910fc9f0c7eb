"""`pgassay list`: the stored results in a folder, two lines each."""

import argparse

from pgassay.cli import options, stored_experiments
from pgassay.cli.output import publish


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
    stored_experiments.add_folder(parser, "the folder to read")
    options.add_formats(parser, "the results")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read every experiment and print a row; one that can't be read is named with the reason."""
    from pgassay.cli.stored_results import RUNNING, others_below
    from pgassay.errors import UsageError
    from pgassay.experiment.gating.run_gate import PARENT as GATES
    from pgassay.record.experiment_lock import is_held
    from pgassay.report.compare import verdicts
    from pgassay.report.listings import ListedResult, results_page
    from pgassay.report.text import plural

    results = []
    parent = stored_experiments.parent_of(arguments, may_be_missing=True)
    parents = [parent] if arguments.folder is not None else [parent, GATES]
    for folder, other in (each for place in parents for each in others_below(place)):
        if isinstance(other, UsageError):
            results.append(ListedResult(str(folder), error=str(other)))
        else:
            results.append(ListedResult(str(folder), **vars(other)))
    for folder, found in stored_experiments.analysed_below(parent):
        if isinstance(found, UsageError):
            results.append(ListedResult(str(folder), error=str(found)))
            continue
        stored, result = found
        results.append(
            ListedResult(
                folder=str(folder),
                started=stored.experiment.created_at,
                title=stored.experiment.title,
                amount=plural(result.blocks, "block"),
                ended=RUNNING if is_held(folder) else result.stopped,
                verdict=tuple(verdicts.headline_lines(result)),
            )
        )
    publish(results_page(results), arguments)
    return 0
