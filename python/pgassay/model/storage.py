"""Where a data directory lives: the storage that is asked for, and what was found of it."""

from typing import ClassVar

from pydantic import Field

from pgassay.model.base import MIB_BYTES, Extended, Number, Recorded

# An imitated volume of which more answers come late, by more, behaves as another volume.
IMITATION_DELAY_SHARE_MAX = 0.05
# What imitating may take of the processors where two storages are compared.
IMITATION_CPU_SHARE_MAX = 0.1


class StorageSpec(Extended):
    """A storage as the user describes it.

    kind: the name of one in `storage/registry.py` (`host`: a folder where the user points, or
    pgassay's own; `loop`: an image file with direct I/O, XFS and its own read-ahead), or `remote` for a
    server that runs already, of which it is not known. Limits are enforced by the block-I/O controller of
    the server's cgroup; None means unlimited. `read_ahead_kb` None means the default of the kind
    (host: as the device has it; loop: 128). `own`: keys that only this kind has, with their texts, in the
    kind's order. `wal`: where pg_wal lies; None: with the data.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("own", "wal")

    kind: str = "host"
    path: str | None = None
    size_bytes: int | None = None
    read_ahead_kb: int | None = None
    read_mb_s: float | None = None
    write_mb_s: float | None = None
    read_iops: int | None = None
    write_iops: int | None = None
    own: tuple[tuple[str, str], ...] = ()
    wal: "StorageSpec | None" = None

    @property
    def read_limit_mb_s(self) -> float | None:
        """The limit of reads in 10⁶ bytes a second, as every rate is told; `read_mb_s` is in MiB (2²⁰)."""
        return None if self.read_mb_s is None else self.read_mb_s * MIB_BYTES / 1e6

    @property
    def shares_ceiling(self) -> bool:
        """Whether its limits are for reads and writes together, as those of cloud volumes are."""
        return self.kind == "volume"

    @property
    def is_limited(self) -> bool:
        """Whether any rate limit is asked for."""
        limits = (self.read_mb_s, self.write_mb_s, self.read_iops, self.write_iops)
        return any(limit is not None for limit in limits)


class DeviceFacts(Recorded):
    """A block device: its queue's settings; only `name`, None, where there is none below a folder.

    `number` is MAJOR:MINOR, `disk` the whole disk that a partition is of.
    """

    name: str | None = None
    disk: str | None = None
    number: str | None = None
    size_bytes: int | None = None
    read_ahead_kb: int | None = None
    rotational: bool | None = None
    scheduler: str | None = None


class ExtentFacts(Recorded):
    """In how many pieces the largest file of a working copy lies."""

    file: str | None = None
    bytes: int | None = None
    extents: int | None = None


class PriceFacts(Recorded):
    """What a volume costs in a month, with its instance; None where the catalogue lacks a part, `missing`.

    `is_given`: the user's own figure, in place of the catalogue's.
    """

    per_month: Number | None = None
    currency: str | None = None
    region: str | None = None
    date: str | None = None
    missing: tuple[str, ...] = ()
    is_given: bool = False


class VolumeLatencyFacts(Recorded):
    """The median latency that is imitated, and between which it lies as far as is known."""

    median_ms: Number | None = None
    low_ms: Number | None = None
    high_ms: Number | None = None
    assumed: bool | None = None


class ImitatedFacts(Recorded):
    """An imitated volume: `name` orders it, `catalogue_date` says how old its figures are.

    `assumed`: what no document of a provider says. `model`: what was imitated, as `pgassay volumes` prints
    it. `shared_instance`: the instance whose limits the volumes of data and WAL share.
    """

    name: str | None = None
    catalogue_date: str | None = None
    catalogue_files: tuple[str, ...] = ()
    instance: str | None = None
    price: PriceFacts = PriceFacts()
    latency: VolumeLatencyFacts = VolumeLatencyFacts()
    assumed: tuple[str, ...] = ()
    model: dict[str, object] = Field(default_factory=dict)
    overhead_us: Number | None = None
    beyond_ceiling: str | None = None
    shared_instance: str | None = None


class LastingFacts(Recorded):
    """A volume that gives for ever what another gave while its credits lasted."""

    volume: str | None = None
    per_month: Number | None = None
    currency: str | None = None


class StorageFacts(Recorded):
    """A storage as it was found: `limits` are control files of the server's group with their lines.

    `image`, `image_bytes`, `direct_io` and `backing_device` are those of a loop device, `extents` by working
    copy. `volume`: the one that is imitated. `wal`: the storage of pg_wal, where that is another.
    """

    kind: str | None = None
    storage: str | None = None
    file_system: str | None = None
    mount_options: tuple[str, ...] = ()
    device: DeviceFacts = DeviceFacts()
    image: str | None = None
    image_bytes: int | None = None
    direct_io: bool | None = None
    backing_device: DeviceFacts = DeviceFacts()
    limits: dict[str, str] = Field(default_factory=dict)
    extents: dict[str, ExtentFacts] = Field(default_factory=dict)
    volume: ImitatedFacts = ImitatedFacts()
    wal: "StorageFacts | None" = None


class VolumeFacts(Recorded):
    """What an imitated volume delivered while a trial measured.

    `requests` were answered, `operations` counted as the volume does; `queued_s`: the sum of what limits kept
    them. `latency_ms`: the mean time of an answer as the model says, limits included; `own_delay_us`: by how
    much the mean answer was later than that. `late_share`: of the answers, those later by more than a
    twentieth of their own latency. `way_delay_us`: by how much a request of the block device took longer than
    the model says, with its way through the kernel; None where that is not known. `cpu_share`: of the
    processors that may be used, what imitating took. `credits_ended_s`: when the first credits were gone,
    from when the volume was imposed, None where they lasted; `credits_ended_of`: whose. `would_last`:
    volumes that give for ever what this one gave until then.
    """

    requests: int | None = None
    reads_and_writes: int | None = None
    operations: int | None = None
    bytes: int | None = None
    queued_s: Number | None = None
    latency_ms: Number | None = None
    own_delay_us: Number | None = None
    way_delay_us: Number | None = None
    late_share: Number | None = None
    cpu_s: Number | None = None
    cpu_share: Number | None = None
    credits_ended_s: Number | None = None
    credits_ended_of: str | None = None
    would_last: tuple[LastingFacts, ...] = ()
