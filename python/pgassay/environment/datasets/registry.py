"""The table of kinds of dataset: a new one is one file and one line here."""

from difflib import get_close_matches
from pathlib import Path

from pgassay.environment.datasets import dump, folder, pgbench, script, sysbench
from pgassay.environment.datasets.base import DatasetKind, Made, OnStage
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build

KINDS: dict[str, DatasetKind] = {
    "pgbench": pgbench.KIND,
    "sysbench": sysbench.KIND,
    "dump": dump.KIND,
    "folder": folder.KIND,
    "script": script.KIND,
}
# What makes a cluster, and one load of the data into it, whatever they are.
_OF_ANY_KIND = {"kind", "checksums", "encoding", "locale", "wal_segment_mb", "load"}


def parse_dataset(text: str, build: Build, scale: int) -> DatasetSpec:
    """A dataset as typed after --dataset (`pgbench`, `dump:FILE`, …); raises UsageError.

    Reads its source, to tell what it holds; starts nothing.
    """
    name, _, rest = text.partition(":")
    if name in KINDS:
        spec = KINDS[name].specify(rest, build, DatasetSpec(kind=name, scale=scale))
        KINDS[name].check(build, spec)
        return spec
    close = get_close_matches(name, KINDS, n=1)
    *others, last = [kind.usage for kind in KINDS.values() if kind.usage]
    hint = f"did you mean {close[0]}?" if close else f"write {', '.join(others)} or {last}"
    raise UsageError(f"--dataset {text} is not known: {hint}")


def kind_named(name: str) -> DatasetKind:
    """A kind by its name; raises UsageError for one that only another version of pgassay knows."""
    if name not in KINDS:
        raise UsageError(f"There is no dataset of the kind '{name}': the kinds are {', '.join(KINDS)}.")
    return KINDS[name]


def content(dataset: DatasetSpec) -> dict[str, object]:
    """What decides the content of the data, by name."""
    return dataset.model_dump(include={*_OF_ANY_KIND, *kind_named(dataset.kind).decided_by})


def describe(dataset: DatasetSpec) -> str:
    """The data in a few words, for titles: `scale 10`, or `dump:shop.dump`."""
    # Data on a remote server are of no kind that is made here: `remote:`, as the history names them.
    kind = KINDS.get(dataset.kind)
    return kind.describe(dataset) if kind else f"{dataset.kind}:{dataset.source}"


def check_dataset(build: Build, dataset: DatasetSpec) -> None:
    """Raise UsageError for a dataset that cannot be made, or not for this build; starts nothing."""
    kind_named(dataset.kind).check(build, dataset)


def needed_bytes(dataset: DatasetSpec) -> int:
    """Return the disk space in bytes that making the dataset takes, its cluster and WAL included."""
    return kind_named(dataset.kind).needed_bytes(dataset)


def make_dataset(build: Build, folder: Path, dataset: DatasetSpec, on_progress: OnStage) -> Made:
    """Make a cluster with the dataset in `folder` (missing or empty), stopped; not synced.

    Raises UsageError for what the user must mend, MeasurementError when the disk is full or the
    server fails; the folder is then in no usable state.
    """
    return kind_named(dataset.kind).make(build, folder, dataset, on_progress)
