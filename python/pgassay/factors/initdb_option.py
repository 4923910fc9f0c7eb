"""`checksums=on,off` and `wal_segsize=16MB,64MB`: options of initdb, so each level has data of its own."""

from collections.abc import Callable

from pgassay.environment.server.initdb import WAL_SEGMENT_SIZES_MB
from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.value_syntax.quantities import size_bytes

CHECKSUMS = "checksums"
WAL_SEGSIZE = "wal_segsize"
# The kind of dataset that is a copy of somebody's cluster, which was made long ago.
FROM_A_FOLDER = "folder"
_CHECKSUMS = {"on": True, "off": False}


def parse_checksums(text: str) -> bool:
    """Whether data pages have checksums: `on` or `off`; raises UsageError for anything else."""
    if text not in _CHECKSUMS:
        raise UsageError(f"{CHECKSUMS}={text} is not known: write {CHECKSUMS}=on,off")
    return _CHECKSUMS[text]


def parse_wal_segsize(text: str) -> int:
    """The size of a WAL segment in MB of `64MB`, `64` (initdb's own way) or `1GB`; raises UsageError."""
    found_bytes = size_bytes(text, f"factor {WAL_SEGSIZE}", default_unit="MB", example="16MB")
    size_mb, rest = divmod(found_bytes, 1024**2)
    if rest or size_mb not in WAL_SEGMENT_SIZES_MB:
        raise UsageError(
            f"{WAL_SEGSIZE}={text} is not a size of a WAL segment: write a power of two from 1MB to 1024MB, "
            f"like {WAL_SEGSIZE}=16MB,64MB"
        )
    return size_mb


_OPTIONS: dict[str, tuple[str, Callable[[str], object]]] = {
    CHECKSUMS: ("checksums", parse_checksums),
    WAL_SEGSIZE: ("wal_segment_mb", parse_wal_segsize),
}


def split(name: str, text: str) -> tuple[str, ...]:
    """The levels as typed; raises UsageError for one that is none, or two that mean the same."""
    levels = split_levels(name, text)
    seen: dict[object, str] = {}
    for level in levels:
        value = _OPTIONS[name][1](level)
        if value in seen:
            raise UsageError(f"{name}: '{seen[value]}' and '{level}' mean the same: give each level once")
        seen[value] = level
    return levels


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm on a cluster that initdb made so; raises UsageError for data that no initdb makes."""
    if spec.dataset.kind == FROM_A_FOLDER:
        raise UsageError(
            f"{name}= is fixed by initdb, and {spec.dataset.source} exists already: leave it "
            "out, or move the data with a dump (pg_dump, then --dataset dump:FILE)"
        )
    field, parse = _OPTIONS[name]
    return spec.model_copy(update={"dataset": spec.dataset.model_copy(update={field: parse(level)})})


KIND = FactorKind(split=split, apply=apply)
