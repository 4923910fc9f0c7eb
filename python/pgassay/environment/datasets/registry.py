"""The table of kinds of dataset: a new one is one file and one line here."""

from difflib import get_close_matches
from pathlib import Path

from pgassay.environment.datasets import dump, folder, pgbench, script, sysbench
from pgassay.environment.datasets.base import DatasetKind, Made, Progress
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetKindName, DatasetSpec
from pgassay.model.build import Build

KINDS: dict[DatasetKindName, DatasetKind] = {
    "pgbench": pgbench.KIND,
    "sysbench": sysbench.KIND,
    "dump": dump.KIND,
    "folder": folder.KIND,
    "script": script.KIND,
}


def parse_dataset(text: str, build: Build, scale: int) -> DatasetSpec:
    """A dataset as typed after --dataset (`pgbench`, `dump:FILE`, …); raises UsageError.

    Reads its source, to tell what it holds; starts nothing.
    """
    name, _, rest = text.partition(":")
    for known, kind in KINDS.items():
        if known == name:
            spec = kind.specify(rest, build, DatasetSpec(scale=scale))
            kind.check(build, spec)
            return spec
    close = get_close_matches(name, KINDS, n=1)
    hint = f"did you mean {close[0]}?" if close else "write pgbench, dump:FILE, folder:DATADIR or script:FILE"
    raise UsageError(f"--dataset {text} is not known: {hint}")


def check_dataset(build: Build, dataset: DatasetSpec) -> None:
    """Raise UsageError for a dataset that cannot be made, or not for this build; starts nothing."""
    KINDS[dataset.kind].check(build, dataset)


def needed_bytes(dataset: DatasetSpec) -> int:
    """Return the disk space in bytes that making the dataset takes, its cluster and WAL included."""
    return KINDS[dataset.kind].needed_bytes(dataset)


def make_dataset(build: Build, folder: Path, dataset: DatasetSpec, on_progress: Progress) -> Made:
    """Make a cluster with the dataset in `folder` (missing or empty), stopped; not synced.

    Raises UsageError for what the user must mend, MeasurementError when the disk is full or the
    server fails; the folder is then in no usable state.
    """
    return KINDS[dataset.kind].make(build, folder, dataset, on_progress)
