"""What was seen of a running server over an interval: the input of its diagnosis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgassay.analysis.causes.evidence import EvidenceCaps
from pgassay.model.experiment import ArmCeiling
from pgassay.model.running_server.diagnosis import CalledStatement, DiagnosedServer
from pgassay.model.running_server.statement import PlanFrom
from pgassay.model.trial import CounterRow
from pgassay.model.vacuum_state import VacuumState


@dataclass(frozen=True)
class Session:
    """A client session within a statement or a transaction at one look.

    event_type, event: '' for none; transaction_s: its transaction's age; blocked_by: the processes that it
    waits for (pg_blocking_pids; 0 is a prepared transaction), () also where that was not asked. is_worker: it
    is a parallel worker of another session's statement.
    """

    pid: int
    query_id: str | None
    query: str
    state: str
    event_type: str = ""
    event: str = ""
    user: str = ""
    application: str = ""
    transaction_s: float | None = None
    blocked_by: tuple[int, ...] = ()
    is_worker: bool = False


@dataclass(frozen=True)
class Referencing:
    """A foreign key of another table that refers to a table; is_indexed: an index begins with its columns.

    rows: of a partitioned table those of its partitions.
    """

    schema: str
    table: str
    columns: tuple[str, ...]
    rows: float
    is_indexed: bool
    is_partitioned: bool = False


@dataclass(frozen=True)
class TableShape:
    """What the catalogs say of a table that a plan reads.

    rows: reltuples, below 0 where it was never analyzed; changed_rows: those written since the last ANALYZE.
    indexes: the keys of each valid B-tree of all rows, as SQL. referencing: the foreign keys that refer to
    it. types: of its columns, as format_type has them. is_analyzed is True where the role may not know.
    partition_of: schema and name of the partitioned table on top, of a partition.
    """

    schema: str
    name: str
    rows: float
    changed_rows: float | None
    is_analyzed: bool
    indexes: Mapping[str, tuple[str, ...]]
    referencing: tuple[Referencing, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    partition_of: tuple[str, str] | None = None


@dataclass(frozen=True)
class ReplicationSlot:
    """A replication slot at the end; held_bytes: the WAL since its restart_lsn, None where it holds none.

    wal_status: as pg_replication_slots has it: reserved, extended, unreserved, lost.
    """

    name: str
    is_active: bool
    wal_status: str
    held_bytes: float | None


@dataclass(frozen=True)
class PlannedStatement:
    """The plan of a statement that was never executed for it; missing: why there is none.

    key: the statement's number, or its text without constants where it has none. document: what EXPLAIN
    (FORMAT JSON) said, '' for nothing.
    """

    key: str
    document: str
    plan_from: PlanFrom
    missing: str = ""


@dataclass(frozen=True)
class SessionsSample:
    """All such sessions at one moment, and the transactions that the whole server had counted by then."""

    clock_ns: int
    sessions: tuple[Session, ...]
    transactions: float


@dataclass(frozen=True)
class Cost:
    """CPU seconds that looking took: pgassay's process, its native sampler, the server's answers."""

    tool_cpu_s: float
    observer_cpu_s: float
    sessions_cpu_s: float | None
    rate_hz: float
    samples: int
    missed: int


@dataclass(frozen=True)
class Interval:
    """An interval, in CLOCK_MONOTONIC nanoseconds.

    `folder` holds the samplers' files as a trial's folder does (device, host_cpu, threads, waits, …), with
    idle connections as IDLE_CONNECTION. `counters`: differences of the statistics views, over all databases;
    `group`: those of the control groups. `has_thread_bytes`: whether threads.parquet holds what devices
    delivered to each thread. `clients_cpu_s`: CPU of processes of this machine that were
    connected to the server at the end, `others` that of further ones by name. `statements` is None without
    pg_stat_statements. `vcpus`: the number of the server's processors, as the user gave it. `is_hidden`: the
    role may not see what sessions of other roles do. `statements_s`: the seconds of all statements of
    pg_stat_statements together, those of the system's catalogs left out; `passed_over`: sentences about the
    statements that are left out. `planned`, `tables`: the plans of those that took most time, and the tables
    that they read.
    """

    server: DiagnosedServer
    folder: Path
    started_at: str
    begin_ns: int
    end_ns: int
    seconds_asked: float
    interrupted: bool
    is_hidden: bool
    cost: Cost
    samples: tuple[SessionsSample, ...]
    counters: Mapping[str, Sequence[CounterRow]]
    settings: Mapping[str, str]
    caps: EvidenceCaps = field(default_factory=EvidenceCaps)
    group: Mapping[str, float] = field(default_factory=dict)
    ceiling: ArmCeiling = field(default_factory=ArmCeiling)
    has_thread_bytes: bool = False
    clients_cpu_s: float = 0.0
    others: Mapping[str, float] = field(default_factory=dict)
    statements: tuple[CalledStatement, ...] | None = None
    vacuum_state: VacuumState | None = None
    statements_s: float = 0.0
    passed_over: tuple[str, ...] = ()
    planned: tuple[PlannedStatement, ...] = ()
    tables: tuple[TableShape, ...] = ()
    slots: tuple[ReplicationSlot, ...] = ()
    vcpus: float | None = None
    missing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Its length, from the readings of the clock at both ends."""
        return (self.end_ns - self.begin_ns) / 1e9
