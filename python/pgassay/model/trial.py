"""One arm's run in one block: what is asked for, and what it left behind."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import Field

from pgassay.model.arm import Arm
from pgassay.model.base import Extended, Frozen, Number, Recorded
from pgassay.model.experiment import Protocol
from pgassay.model.maintenance import MaintenanceObservation
from pgassay.model.profile.result import ProfileFacts
from pgassay.model.storage import StorageFacts, VolumeFacts
from pgassay.model.traffic.trial_replay import Replayed
from pgassay.model.vacuum_state import VacuumState
from pgassay.model.workload import ConnectionUse, LoadStatement, PoolerUse

TrialStatus = Literal["ok", "failed", "invalid", "interrupted"]
TRIAL_FORMAT = 1
# A row of a statistics view: its keys (names), and by how much its counters moved.
CounterRow = Mapping[str, Number | str | None]


class TrialSpec(Frozen):
    """A trial to run. Knows nothing of the experiment around it but its own place in the order."""

    number: int
    attempt: int
    block: int
    position: int
    arm: Arm
    protocol: Protocol


class StatementObservation(Extended):
    """One statement's run.

    `elapsed_s`: from sending it to the server's ReadyForQuery, by the native binary's monotonic
    clock; `clock_ns` are its readings at both ends. `cold`: the statement began with nothing of its
    relations in any cache pgassay can see.
    Byte counts are differences over the statement, None where they can't be had. `device_read_bytes` is what
    the device delivered to anybody, `server_device_read_bytes` what it delivered to the server's processes.
    `aio`: the plan holds a node that can use asynchronous reads on this major version.
    `device_bytes_min`: PostgreSQL's reads less what the page cache already held. `further_s`: the seconds of
    each further execution within the trial, of which nothing else is recorded (`executions` of the protocol).
    `stopped`: it did not end in the time that the protocol gives it (`statement_limits`); that is `elapsed_s`
    then, a lower bound. `at_once`: how many executions by sessions at once `elapsed_s` is the mean of; 0 for
    one that was executed alone. `rounds_s`: the seconds in each round of a start in which all arms took
    turns; `elapsed_s` is then the figure of that start, which is made of all arms' rounds. `parts_s`: of a
    transaction the seconds of each of its statements by name, in their order. `failures`: executions that the
    server refused, which are in no figure, by SQLSTATE.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        *("further_s", "stopped", "at_once", "rounds_s", "parts_s", "failures"),
    )

    name: str
    elapsed_s: float
    rows: int
    cold: bool
    aio: bool
    postgres_read_bytes: int | None = None
    postgres_hit_bytes: int | None = None
    device_read_bytes: int | None = None
    device_read_requests: int | None = None
    server_device_read_bytes: int | None = None
    server_cpu_s: float | None = None
    clock_ns: tuple[int, int] | None = None
    further_s: tuple[float, ...] = ()
    stopped: bool = False
    at_once: int = 0
    rounds_s: tuple[float, ...] = ()
    parts_s: dict[str, float] = Field(default_factory=dict)
    failures: dict[str, int] = Field(default_factory=dict)

    @property
    def least_s(self) -> float:
        """The least of all its executions: the figure that is compared.

        What else a machine does only ever adds time, to short executions many times their own, so that the
        least is the best estimate of what the statement itself takes (Chen and Revels, "Robust benchmarking
        in noisy environments", 2016, arXiv:1608.04295).
        """
        return min(self.elapsed_s, *self.further_s, math.inf)

    @property
    def counted_s(self) -> float:
        """The seconds of the execution whose bytes and CPU these are; 0 where nobody knows."""
        if self.rounds_s:
            return (self.clock_ns[1] - self.clock_ns[0]) / 1e9 if self.clock_ns else 0.0
        return self.elapsed_s

    @property
    def delivered_bytes(self) -> int | None:
        """What the device delivered to the server; to anybody, where the two can't be told apart."""
        if self.server_device_read_bytes is not None:
            return self.server_device_read_bytes
        return self.device_read_bytes


class OpenLoop(Frozen):
    """What became of the transactions that were due in a load's measured interval.

    `scheduled` is the sum of the next four: `done`, in the interval or after it; `failed`, given up by the
    server; `skipped`, too late for the latency limit before they began; `queued`, not begun when the time to
    work off the queue was over. `warmup_dropped`: those of the warm-up that had not begun at its end.
    `per_second_due`, `per_second_queue`: how many were due in each second, and had not begun at its end.
    `from_send_ms`: latencies from the send; `held_ms`: for how long the load generator alone held one up.
    """

    scheduled: int
    done: int
    failed: int
    skipped: int
    queued: int
    warmup_dropped: int = 0
    per_second_due: tuple[int, ...] = ()
    per_second_queue: tuple[int, ...] = ()
    from_send_ms: dict[str, float] = Field(default_factory=dict)
    held_ms: dict[str, float] = Field(default_factory=dict)


class LoadKind(Frozen):
    """The latencies of one script of several."""

    name: str
    transactions: int
    latency_ms: dict[str, float] = Field(default_factory=dict)


class LoadObservation(Extended):
    """A load's measured interval (the warm-up is not in it).

    `late_transactions` began within the interval and ended after it, so they are not counted: with
    those of the warm-up and the measured ones they are all that the load committed. `latency_ms`: mean, min,
    max and percentiles by name ("p99"), from when a transaction was due, which in a closed loop is when it
    began. `per_second_mean_ms`, `per_second_p99_ms`: latencies of the transactions that ended in each second
    (of an open loop: that were due in it), None for a second in which none did; () in records that did not
    keep them. `own_delay_ms`: what of the latencies the load generator itself added, as far as it can see.
    `client_idle_s`, `client_run_queue_s`: for how long its `threads` together had nothing to do, and were
    ready to run without a processor. `over_limit`: transactions that took longer than the latency limit.
    `replayed`: of a load that plays a capture, whose statements are its transactions. `failures`: `errors` by
    SQLSTATE; `failure_examples`: the first message of each. `pooler`: what stood before the server.
    `connections`: of a load that shares, closes or reopens them. `statements`: of its transactions.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        *(
            "own_delay_ms",
            "client_idle_s",
            "client_run_queue_s",
            "threads",
            "over_limit",
            "kinds",
            "open_loop",
            "replayed",
            "failures",
            "failure_examples",
            "pooler",
            "connections",
            "statements",
        ),
    )

    transactions: int
    elapsed_s: float
    errors: int
    client_cpu_s: float
    per_second: tuple[int, ...] = ()
    per_second_mean_ms: tuple[float | None, ...] = ()
    per_second_p99_ms: tuple[float | None, ...] = ()
    latency_ms: dict[str, float] = Field(default_factory=dict)
    warmup_transactions: int = 0
    late_transactions: int = 0
    own_delay_ms: dict[str, float] = Field(default_factory=dict)
    client_idle_s: float | None = None
    client_run_queue_s: float | None = None
    threads: int = 0
    over_limit: int = 0
    kinds: tuple[LoadKind, ...] = ()
    open_loop: OpenLoop | None = None
    replayed: Replayed | None = None
    failures: dict[str, int] = Field(default_factory=dict)
    failure_examples: dict[str, str] = Field(default_factory=dict)
    pooler: PoolerUse | None = None
    connections: ConnectionUse | None = None
    statements: tuple[LoadStatement, ...] = ()

    @property
    def latencies(self) -> int:
        """How many transactions `latency_ms` is of; those that were due and never begun are among them."""
        if self.open_loop is not None:
            return self.open_loop.scheduled - self.open_loop.failed
        return self.transactions + self.late_transactions


@dataclass(frozen=True)
class Counters:
    """By how much the counters of the statistics views moved: by view the rows that did, with their keys.

    A control group's own counters are one row of the view 'control_group'.
    """

    views: Mapping[str, Sequence[CounterRow]] = field(default_factory=dict)

    def rows(self, view: str) -> Sequence[CounterRow]:
        """The rows of a view that moved; () when none did."""
        return self.views.get(view, ())

    def total(self, view: str, *names: str) -> float | None:
        """The sum of these counters over the rows of a view; None when no row has one of them."""
        rows = [row for row in self.rows(view) if any(name in row for name in names)]
        return sum(figure(row, name) for row in rows for name in names) if rows else None


def figure(row: CounterRow, name: str) -> float:
    """One counter of a row; 0 where it is missing."""
    value = row.get(name)
    return 0.0 if value is None or isinstance(value, str) else float(value)


class CacheFacts(Recorded):
    """The cache state that was made, and what was verified of it.

    `resident_bytes`, `resident_fraction`: of the relations' pages in the page cache; `buffered_fraction`: in
    shared buffers. `buffers_emptied_by`: 'restart' or 'pg_buffercache'.
    """

    state: str | None = None
    buffers_emptied_by: str | None = None
    pages_loaded_from: str | None = None
    resident_bytes: int | None = None
    resident_fraction: Number | None = None
    buffered_fraction: Number | None = None


class LimitFacts(Recorded):
    """The caps on the server as the kernel held them, and the most memory that its group used.

    `inherited_cpus`, `inherited_memory_bytes`: caps of groups above its own that are tighter than the arm's.
    """

    cpus: Number | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_peak_bytes: int | None = None
    inherited_cpus: Number | None = None
    inherited_memory_bytes: int | None = None


class ObserverFacts(Recorded):
    """What could be sampled of the server's threads, and what sampling cost.

    `over`: how the client came to the server, 'tcp' or by a Unix socket; None where that was not seen.
    """

    activity: bool | None = None
    threads: bool | None = None
    io: bool | None = None
    over: str | None = None
    rate_hz: Number | None = None
    samples: int | None = None
    missed: int | None = None
    observer_cpu_s: Number | None = None
    server_cpu_s: Number | None = None


class ServerState(Recorded):
    """A remote server before the measured part: who else was at work there, and the way to it."""

    name: str | None = None
    other_active_sessions: int | None = None
    round_trip_ms: Number | None = None


class BeforeTrial(Recorded):
    """What the user's command before a trial on a remote server did.

    `exit_status`: None where it was not done in time. `seconds`: what it took; `waited_s`: until the server
    accepted connections after it. `restarted`: whether it was then another start of the server.
    """

    exit_status: int | None = None
    seconds: Number | None = None
    waited_s: Number | None = None
    restarted: bool | None = None


class TrialFacts(Recorded):
    """What was true before the measured part; `settings` are the server's effective ones.

    `prefaulted_bytes`: shared memory that was touched before; `stage_s`: seconds by stage of the protocol.
    `volume`, `wal_volume`: what imitated volumes delivered during it. `profile`: how perf sampled it.
    """

    settings: dict[str, str] = Field(default_factory=dict)
    server_version: str | None = None
    data_checksums: bool | str | None = None
    dataset_load: int | None = None
    storage: StorageFacts = StorageFacts()
    restored: bool | None = None
    limits: LimitFacts = LimitFacts()
    started_for_this_trial: bool | None = None
    prefaulted_bytes: int | None = None
    cache: CacheFacts = CacheFacts()
    observer: ObserverFacts = ObserverFacts()
    server: ServerState = ServerState()
    before_trial: BeforeTrial = BeforeTrial()
    volume: VolumeFacts = VolumeFacts()
    wal_volume: VolumeFacts = VolumeFacts()
    profile: ProfileFacts = ProfileFacts()
    stage_s: dict[str, Number] = Field(default_factory=dict)


class Verification(Recorded):
    """What was checked afterwards: bytes of WAL and of reads, over the whole measured part.

    `server_device_read_bytes`: what the device delivered to the server's own processes, `device_read_bytes`
    to anybody.
    """

    wal_bytes: int | None = None
    postgres_read_bytes: Number | None = None
    device_read_bytes: Number | None = None
    server_device_read_bytes: Number | None = None


class TrialRecord(Extended):
    """trial.json. Raw observations and facts; every summary is recomputed from them.

    `facts` holds what is true before the measurement (effective settings, checksums, cache state,
    read-ahead), `counters` differences of the server's and the host's counters over it,
    `verification` what the protocol checked afterwards. `clock_ns` are CLOCK_MONOTONIC readings at
    the start and the end of the measured part, on the boot named by `boot_id`. `upkeep_before` and
    `upkeep_after`: what VACUUM had left to do at both ends, None where that could not be read.
    `clock_offset_ns`: CLOCK_REALTIME less CLOCK_MONOTONIC just before and just after the measured part, which
    ties the server's log to it. `data_copy`: the copy of the data that it ran on, None in records that did
    not name it and on servers that run already. `neutral_s`: what the neutral trial before it took, which
    `wall_s` does not hold; None where none ran. `memory_s`, `disk_s`: seconds that fixed tasks took before
    the server was started, None where the protocol has them not. `repeated_s`: seconds of all statements
    together for each further time that they were measured within the same start. `plans_s`: what executing
    plans after the trial took, which `wall_s` does not hold; None where none were due.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        *("data_copy", "neutral_s", "memory_s", "disk_s", "repeated_s", "plans_s"),
    )

    format: int = TRIAL_FORMAT
    number: int
    attempt: int
    block: int
    position: int
    arm_id: str
    status: TrialStatus
    reason: str = ""
    started_at: str
    ended_at: str
    wall_s: float
    clock_ns: tuple[int, int] | None = None
    clock_offset_ns: tuple[int, int] | None = None
    host: str
    boot_id: str
    data_copy: int | None = None
    neutral_s: float | None = None
    canary_s: float | None = None
    memory_s: float | None = None
    disk_s: float | None = None
    repeated_s: tuple[float, ...] = ()
    plans_s: float | None = None
    statements: tuple[StatementObservation, ...] = ()
    load: LoadObservation | None = None
    maintenance: tuple[MaintenanceObservation, ...] = ()
    server_cpu_s: float | None = None
    steal_s: float | None = None
    facts: TrialFacts = TrialFacts()
    counters: dict[str, list[CounterRow]] = Field(default_factory=dict)
    verification: Verification = Verification()
    upkeep_before: VacuumState | None = None
    upkeep_after: VacuumState | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_mix(self) -> bool:
        """Whether its statements were executed by sessions at once (`clients` of the workload)."""
        return any(statement.at_once for statement in self.statements)

    @property
    def sessions_s(self) -> float:
        """The time of all executions of its statements together, over all sessions."""
        return math.fsum(each.elapsed_s * max(1, each.at_once) for each in self.statements)

    @property
    def took_s(self) -> float:
        """The wall time that the trial took of its experiment, with the neutral one before it."""
        return self.wall_s + (self.neutral_s or 0.0)
