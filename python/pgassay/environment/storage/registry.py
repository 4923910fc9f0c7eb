"""Every kind of storage, in one table."""

from pgassay.environment.storage.base import StorageKind, Volume
from pgassay.environment.storage.host import HostKind
from pgassay.environment.storage.loop import LoopKind
from pgassay.model.storage import StorageSpec

KINDS: dict[str, StorageKind] = {kind.name: kind for kind in (HostKind(), LoopKind())}


def provide(spec: StorageSpec, bytes_needed: int) -> Volume:
    """Make the storage usable; raises UsageError naming what is missing and the remedy.

    `bytes_needed` is the space that the working copies will take.
    """
    return KINDS[spec.kind].provide(spec, bytes_needed)


def capabilities() -> dict[str, str | None]:
    """Each kind, and what is missing for it here (None: available)."""
    return {name: kind.capability() for name, kind in KINDS.items()}
