"""What `pgassay watch` shows of one interval: a server, its machine, and the experiment that runs on it."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.result import Stopped, Verdict

WATCH_SCHEMA = 1

# What the scheduler said in the moment of the look: 'running' is on a processor or in its queue, 'device' a
# sleep that can't be interrupted, 'unknown' where /proc of the server can't be read.
SchedulerState = Literal["running", "asleep", "device", "unknown"]


class Connections(Frozen):
    """Client connections, as means over the looks of the interval; pgassay's own are left out.

    `by_state`: the state of pg_stat_activity → connections. `limit`: max_connections.
    """

    by_state: dict[str, float]
    limit: int | None


class Wait(Frozen):
    """How many threads of a kind were seen so, as a mean over the looks of the interval.

    `state` is that of pg_stat_activity ('' where a process has none), `event_type` and `event` are '' where
    PostgreSQL told no wait event.
    """

    kind: str
    state: str
    event_type: str
    event: str
    scheduler: SchedulerState
    threads: float


class ThreadUse(Frozen):
    """What the threads of a kind used, per second of the interval.

    `cpu` and `queue`: processors used and waited for, in seconds per second, by the scheduler's count. The
    bytes are those at block devices; None where the kernel does not show them to this account.
    """

    kind: str
    threads: int
    cpu: float
    queue: float
    read_bytes_s: float | None
    write_bytes_s: float | None


class Throughput(Frozen):
    """What all databases of the server did per second of the interval; None where a counter was set back.

    `hit_share`: of the blocks asked for, those that were in shared buffers; None when none was asked for.
    `wal_bytes_s`: WAL written, on a standby WAL replayed. `checkpoints`: those completed or begun in the
    interval, a number and no rate.
    """

    transactions_s: float | None
    rollbacks_s: float | None
    tuples_read_s: float | None
    tuples_written_s: float | None
    blocks_hit_s: float | None
    blocks_read_s: float | None
    hit_share: float | None
    temp_bytes_s: float | None
    wal_bytes_s: float | None
    deadlocks: float | None
    checkpoints: float | None


class DeviceRates(Frozen):
    """The block device below the data; `iostat` has iostat's columns by their names and definitions."""

    name: str
    iostat: dict[str, float]


class HostUse(Frozen):
    """The whole machine: shares of its processors' time by kind.

    `pressure` (PSI) are shares of the interval, {} where the kernel keeps none; `memory` are levels in bytes.
    """

    processors: int
    cpu: dict[str, float]
    pressure: dict[str, float]
    memory: dict[str, float]


class AioHandles(Frozen):
    """Handles of asynchronous reads and writes in use at the end of the interval (pg_aios, 18 and newer)."""

    state: str
    operation: str
    handles: int
    bytes: int


class WaitingStatement(Frozen):
    """A statement by the sessions that ran it, as means over the looks of the interval.

    `waiting`: sessions that waited for anything but their client; `event` is what they waited for most often
    ('' for nothing that PostgreSQL told). `query_id` is None where the server computes none; `query` is cut.
    """

    query_id: int | None
    query: str
    active: float
    waiting: float
    event: str


class CommandProgress(Frozen):
    """A VACUUM, ANALYZE, CREATE INDEX, CLUSTER or REPACK at work at the end of the interval.

    `command`: as the server names it. `relation`: its number in another database than the one connected to.
    `autovacuum`: whether an autovacuum worker runs it. `phase` is '' where this role may not see it. `done`
    of `total`: what the phase counts (blocks, indexes or tuples), None in a phase without a total.
    `passes`: passes over the indexes that have ended (VACUUM alone). `dead_rows`: identifiers of dead rows
    held now; of `dead_rows_max` up to 16, from 17 on of a size in bytes, `dead_rows_bytes` of
    `dead_rows_bytes_max`. `delay_ms`: slept so far to be gentle (18 and newer, with
    track_cost_delay_timing).
    """

    pid: int
    command: str
    database: str | None
    relation: str | None
    autovacuum: bool
    phase: str
    done: float | None = None
    total: float | None = None
    passes: int | None = None
    dead_rows: float | None = None
    dead_rows_max: float | None = None
    dead_rows_bytes: float | None = None
    dead_rows_bytes_max: float | None = None
    delay_ms: float | None = None


class ServerSample(Frozen):
    """One server over one interval; a part is None where it can't be seen, and `missing` says why.

    `progress`: the commands that report their progress; () when none runs.
    """

    name: str
    version: str | None
    pid: int | None
    connections: Connections | None
    waits: tuple[Wait, ...] | None
    threads: tuple[ThreadUse, ...] | None
    throughput: Throughput | None
    aios: tuple[AioHandles, ...] | None
    statements: tuple[WaitingStatement, ...] | None
    progress: tuple[CommandProgress, ...] | None = None


class RunningTrial(Frozen):
    """The trial that runs now; numbers from 0 as in the results folder, `arm_id` is its hidden name."""

    number: int
    attempt: int
    block: int
    position: int
    arm_id: str
    elapsed_s: float
    expected_s: float | None


class ArmEstimate(Frozen):
    """An arm against its control so far, as in the JSON document of `pgassay compare`."""

    name: str
    stratum: str
    ratio: float | None
    interval: tuple[float | None, float | None] | None
    verdict: Verdict
    withheld: bool


class ExperimentState(Frozen):
    """Where a stored experiment stands.

    `is_running`: a process holds its folder now. `trials` counts attempts by their status. `time_left_s`:
    until the limit of time, never below 0; None when it does not run. `report` is None until there is one.
    """

    folder: str
    title: str
    stopped: Stopped
    is_running: bool
    blocks: int
    blocks_max: int
    arms: int
    margin: float
    trials: dict[str, int]
    trial: RunningTrial | None
    time_left_s: float | None
    estimates: tuple[ArmEstimate, ...]
    report: str | None


class WatchSample(Frozen):
    """One interval. `time`: its end by the wall clock (UTC), `clock_ns` by CLOCK_MONOTONIC.

    `missing`: one sentence for each part that can't be seen here, with what would help.
    """

    schema_: int = Field(default=WATCH_SCHEMA, alias="schema")
    time: str
    clock_ns: int
    interval_s: float
    experiment: ExperimentState | None
    server: ServerSample | None
    device: DeviceRates | None
    host: HostUse | None
    missing: tuple[str, ...]


def pass_number(phase: str, ended: int) -> int:
    """Which of VACUUM's passes a phase is part of; 1 for a phase that has no passes.

    index_vacuum_count rises after the indexes and before the heap of the same pass
    (lazy_vacuum_all_indexes of src/backend/access/heap/vacuumlazy.c).
    """
    if phase == "vacuuming heap":
        return max(ended, 1)
    return ended + 1 if phase in ("scanning heap", "vacuuming indexes") else 1
