"""`pgassay history`: effects over stored gates and experiments, and where they changed; needs no server."""

import argparse

from pgassay.cli import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.model.gates.history import HistoryResult


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "history",
        help="show how effects changed over stored gates and experiments",
        description="Sorts the gates and experiments of a folder by time, looks for changes of each "
        "effect, and names the first run after each change.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    add = parser.add_argument
    add("folder", type=options.folder, metavar="FOLDER", help="a folder of gates, of experiments, or of both")
    options.add_formats(parser, "the history", markdown="for an issue or a wiki")
    add(
        "--alpha",
        type=options.fraction,
        default=0.05,
        metavar="FRACTION",
        help="how often a folder in which nothing changed may show a change (default 0.05)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, look for changes, print, and write the page that was asked for."""

    from pgassay.cli.output import publish
    from pgassay.errors import UsageError
    from pgassay.report.gate.history_page import page_of

    if not 0.001 <= arguments.alpha <= 0.2:
        raise UsageError(f"--alpha {arguments.alpha} is out of range: use 0.001 to 0.2")
    publish(page_of(_found(arguments.folder, arguments.alpha)), arguments)
    return 0


def _found(folder: "Path", alpha: float) -> "HistoryResult":
    """All gates directly below the folder, and all experiments beside them."""
    from pgassay.analysis.gate.gate_history import history_of
    from pgassay.errors import UsageError
    from pgassay.experiment.running.results_folder import find_experiments
    from pgassay.record.experiment import load
    from pgassay.record.gates import gate_folders, load_gate

    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}: name one that holds gates or experiments")
    gates, experiments, skipped = [], [], []
    folders = gate_folders(folder)
    for each in folders:
        try:
            gate = load_gate(each)
            if gate.outcome == "interrupted":
                skipped.append(f"{each.name} was interrupted, so it is left out.")
            else:
                gates.append((each.name, gate))
        except UsageError as error:
            skipped.append(str(error))
    # A gate's own experiments are in it already.
    for each in find_experiments(folder) if folder not in folders else ():
        try:
            experiments.append((each.name, load(each)))
        except UsageError as error:
            skipped.append(str(error))
    if not gates and not experiments and not skipped:
        raise UsageError(
            f"{folder} has neither gates nor experiments: name a folder that has some directly below it"
        )
    return history_of(str(folder), gates, experiments, alpha=alpha, skipped=tuple(skipped))
