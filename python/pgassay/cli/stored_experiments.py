"""What `list` and `index` share: the folder they look in, and the experiments below it."""

import argparse

from pgassay.cli import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgassay.errors import UsageError
    from pgassay.model.result import CompareResult
    from pgassay.record.experiment import StoredExperiment

    Analysed = tuple[StoredExperiment, CompareResult]


def add_folder(parser: argparse.ArgumentParser, purpose: str) -> None:
    """The optional argument FOLDER; `purpose` begins its help."""
    parser.add_argument(
        "folder",
        type=options.folder,
        nargs="?",
        metavar="FOLDER",
        help=f"{purpose} (default pgassay-results)",
    )


def parent_of(arguments: argparse.Namespace, *, may_be_missing: bool = False) -> "Path":
    """The folder that was named, else the usual one; raises UsageError when it is none.

    `may_be_missing`: the usual one need not be there, for then nothing has been measured yet.
    """
    from pgassay.errors import UsageError
    from pgassay.experiment.running.results_folder import DEFAULT_PARENT

    parent: Path = arguments.folder or DEFAULT_PARENT
    is_excused = may_be_missing and arguments.folder is None
    if not is_excused and not parent.is_dir():
        raise UsageError(f"{parent} is not a folder: name one that holds experiments")
    return parent


def analysed_below(parent: "Path") -> "Iterator[tuple[Path, Analysed | UsageError]]":
    """Each experiment's folder with what was read and found in it, or why it can't be read."""
    from pgassay.analysis.verdicts.compare import analyse
    from pgassay.errors import UsageError
    from pgassay.experiment.running.results_folder import find_experiments
    from pgassay.record.experiment import load

    for folder in find_experiments(parent):
        try:
            stored = load(folder)
            found: Analysed | UsageError = (stored, analyse(stored))
        except UsageError as error:
            found = error
        yield folder, found
