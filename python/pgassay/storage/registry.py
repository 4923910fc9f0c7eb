"""The table of kinds of storage: a new one is one file and one line here."""

from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec
from pgassay.storage.base import StorageKind, Volume
from pgassay.storage.host import HostKind
from pgassay.storage.loop import LoopKind
from pgassay.storage.separate_wal import WAL_BYTES, SeparateWal
from pgassay.storage.volume import VolumeKind

_TABLE: tuple[StorageKind, ...] = (
    HostKind(),
    LoopKind(),
    VolumeKind(),
)
KINDS: dict[str, StorageKind] = {kind.name: kind for kind in _TABLE}


def kind_named(name: str) -> StorageKind:
    """A kind by its name; raises UsageError for one that only another version of pgassay knows."""
    if name not in KINDS:
        raise UsageError(f"There is no storage of the kind '{name}': the kinds are {', '.join(KINDS)}.")
    return KINDS[name]


def provide(spec: StorageSpec, bytes_needed: int) -> Volume:
    """Make the storage usable; raises UsageError naming what is missing and the remedy.

    `bytes_needed` is the space that the working copies will take.
    """
    data = kind_named(spec.kind).provide(spec.model_copy(update={"wal": None}), bytes_needed)
    if spec.wal is None:
        return data
    try:
        return SeparateWal(data, kind_named(spec.wal.kind).provide_wal(spec.wal, WAL_BYTES, data))
    except BaseException:
        data.remove()
        raise


def capabilities() -> dict[str, str | None]:
    """Each kind, and what is missing for it here (None: available)."""
    return {name: kind.capability() for name, kind in KINDS.items()}
