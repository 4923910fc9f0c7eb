"""Where a data directory lives: the description of a storage, not the storage itself."""

from pgassay.model.base import Frozen


class StorageSpec(Frozen):
    """A storage as the user describes it.

    kind: the name of one in `environment/storage/registry.py` (`host`: a folder where the user points, or
    pgassay's own; `loop`: an image file with direct I/O, XFS and its own read-ahead), or `remote` for a
    server that runs already, of which it is not known. Limits are enforced by the block-I/O controller of
    the server's cgroup; None means unlimited. `read_ahead_kb` None means the default of the kind
    (host: as the device has it; loop: 128).
    """

    kind: str = "host"
    path: str | None = None
    size_bytes: int | None = None
    read_ahead_kb: int | None = None
    read_mb_s: float | None = None
    write_mb_s: float | None = None
    read_iops: int | None = None
    write_iops: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether any rate limit is asked for."""
        limits = (self.read_mb_s, self.write_mb_s, self.read_iops, self.write_iops)
        return any(limit is not None for limit in limits)
