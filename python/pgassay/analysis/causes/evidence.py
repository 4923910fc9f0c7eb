"""All that the rules may look at: of a stored trial (`trial_evidence.py`), or of an interval of a running
server (`analysis/diagnosis/interval_evidence.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.accounts.work_times import WorkTimes
from pgassay.analysis.causes.sql_evidence import SqlEvidence
from pgassay.analysis.causes.volume_evidence import BurstEnd
from pgassay.analysis.descriptive.round_trips import RoundTrips
from pgassay.model.account import Account
from pgassay.model.base import PAGE_BYTES
from pgassay.model.build import major_of
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import Counters, StatementObservation
from pgassay.model.vacuum_state import VacuumState
from pgassay.model.workload import PoolerUse

MB = 1e6


def block_bytes(settings: Mapping[str, str]) -> float:
    """The size of a server's pages, by its setting block_size where that was recorded."""
    return float(settings.get("block_size", PAGE_BYTES))


# Of a device's requests: fewer writes beside its reads are no matter.
WRITES_SHARE_MIN = 0.05


@dataclass(frozen=True)
class DeviceFlow:
    """What the device delivered while statements read, or during a load; MB are 10⁶ bytes.

    read_bytes: to the server where that is known, a load's warm-up included; the rates are those of all who
    read from the device, since its ceiling is for them together.
    service_s: the time of its requests from their start to their end, summed (the kernel's weighted time);
    None where its counters were not sampled. seconds: how long that was.
    writes_s: writes, flushes and discards a second; write_mb_s: what was written; read_ms, write_ms: the mean
    time of a read and of a write. None where that was not sampled.
    """

    read_bytes: float
    read_mb_s: float
    reads_s: float | None
    seconds: float
    service_s: float | None
    writes_s: float | None = None
    write_mb_s: float | None = None
    read_ms: float | None = None
    write_ms: float | None = None

    @property
    def is_mixed(self) -> bool:
        """Whether so much is written beside the reads that it counts."""
        if self.writes_s is None or self.reads_s is None:
            return False
        return self.writes_s >= WRITES_SHARE_MIN * (self.reads_s + self.writes_s) > 0


@dataclass(frozen=True)
class Processors:
    """The machine's processors over the measured part: their number, and seconds of use.

    available_s: what the server and its client could have used at most, by the number of processors or the
    server's cap; own_s: what they used; others_s: what all others used.
    """

    count: float
    available_s: float
    own_s: float
    others_s: float


@dataclass(frozen=True)
class EvidenceCaps:
    """What the server's control groups allow it, None without a cap.

    is_inherited: a cap is one of a group that pgassay was started in, so its client is under it too.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    is_inherited: bool = False


@dataclass(frozen=True)
class Load:
    """A load's connections.

    client_cpu_s: of the client's threads together. connections, threads: the client's, None where it is not
    pgassay's. warmup_s: what the server's counters have in them beside the measured part. has_pauses:
    its clients pause, as those of a capture did, or have nothing due. pooler: what they came through.
    client_waited_s: for how long its threads together were ready to run and had no processor, None where that
    is not known.
    """

    transactions: int
    client_cpu_s: float
    connections: int | None = None
    threads: int | None = None
    warmup_s: float = 0.0
    has_pauses: bool = False
    pooler: PoolerUse | None = None
    client_waited_s: float | None = None


@dataclass(frozen=True)
class Observed:
    """What was seen of a server: over the measured parts of a trial, or over an interval of a running one.

    spans, elapsed_s: when, and how long that was together. accounts: where the time of each kind of process
    went, {} where the server's were not observed. settings: the effective ones. counters: of the statistics
    views. group: what the counters of the server's control group moved by, {} without one.
    vacuum_state: what VACUUM had left to do. client_cpu_s: of the clients that are on the server's machine.
    """

    folder: Path
    spans: tuple[Span, ...]
    elapsed_s: float
    accounts: Mapping[str, Account]
    version: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    caps: EvidenceCaps = field(default_factory=EvidenceCaps)
    group: Mapping[str, float] = field(default_factory=dict)
    vacuum_state: VacuumState | None = None
    client_cpu_s: float = 0.0

    @property
    def block_bytes(self) -> float:
        """The size of the server's pages."""
        return block_bytes(self.settings)

    @property
    def major(self) -> int | None:
        """The server's major version, None where it is not known."""
        return major_of(self.version) or None

    @property
    def server_cpu_s(self) -> float:
        """CPU seconds of all the server's threads."""
        return sum(
            item.seconds for each in self.accounts.values() for item in each.items if item.kind == "cpu"
        )


@dataclass(frozen=True)
class EvidenceMachine:
    """What the server's machine gave. None where that can't be seen.

    shares_ceiling: the storage's own limits are for reads and writes together, as those of cloud volumes are.
    has_own_wal: the WAL lies on another storage than the data, so that waiting for it is none for this one.
    burst_ends: of imitated volumes, those whose burst credits ended meanwhile.
    """

    device: DeviceFlow | None
    ceiling: ArmCeiling = field(default_factory=ArmCeiling)
    processors: Processors | None = None
    shares_ceiling: bool = False
    has_own_wal: bool = False
    burst_ends: tuple[BurstEnd, ...] = ()


@dataclass(frozen=True)
class Work:
    """What was asked of the server, and what that made it do. None where something is not known.

    load: None where statements ran, which are in `statements`. plans: those of the statements by name.
    bytes_read, bytes_hit: pages that PostgreSQL asked the kernel for, and found itself. wal_bytes: the WAL
    that was written. over_network: whether the clients come over one, trips: what they waited for it.
    sessions_opened: connections that others than pgassay opened meanwhile, connect_s: what opening one takes.
    asked_for: the settings that the arm sets, compared: the names of the factors that the arms differ in.
    """

    bytes_read: float
    bytes_hit: float
    load: Load | None = None
    statements: Sequence[StatementObservation] = ()
    plans: Mapping[str, object] = field(default_factory=dict)
    wal_bytes: float | None = None
    over_network: bool | None = None
    trips: RoundTrips | None = None
    sessions_opened: float | None = None
    connect_s: float | None = None
    asked_for: Mapping[str, str] = field(default_factory=dict)
    compared: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Evidence:
    """All that the rules may look at; times: where the server's time went.

    is_live: an interval of a server that runs already, of whose clients nothing is known.
    sql: what SQL alone tells of storage and processors, where the server's machine can't be seen.
    """

    server: Observed
    times: WorkTimes
    machine: EvidenceMachine
    work: Work
    sql: SqlEvidence | None = None
    is_live: bool = False

    @property
    def is_unobserved(self) -> bool:
        """Whether nothing is known of the server's processes, so that times but the whole are not counted."""
        return not self.server.accounts

    @property
    def counted_s(self) -> float:
        """The seconds that the server's counters are of: the measured part, and the warm-up before it."""
        return self.server.elapsed_s + (self.work.load.warmup_s if self.work.load is not None else 0.0)

    @property
    def is_load(self) -> bool:
        """Whether a closed loop of connections was measured."""
        return self.work.load is not None
