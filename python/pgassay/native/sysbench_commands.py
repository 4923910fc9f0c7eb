"""A run by sysbench's rules, and its tables, by two commands of the native binary."""

from collections.abc import Callable, Mapping
from typing import TypedDict

from pgassay.native.pgbench_command import Percentiles
from pgassay.native.process import ErrorsOfState, NativeProcess


class Queries(TypedDict):
    """Queries that returned rows, that changed any, and all others."""

    read: int
    write: int
    other: int


class SysbenchProgress(TypedDict):
    """One interval: what ended in it, and with a rate how many events wait (`queued`) and run."""

    elapsed_s: float
    interval_s: float
    connections: int
    events: int
    queries: Queries
    errors: int
    reconnects: int
    percentile_ms: float
    percentiles: Percentiles
    queued: int
    running: int


class Ended(TypedDict):
    """What ended a run before its time: what the server said, or how the connection was lost."""

    message: str
    sqlstate: str | None
    detail: str | None
    hint: str | None


class ConnectionRecord(TypedDict):
    """What one connection did."""

    events: int
    busy_s: float


class SysbenchRecord(TypedDict):
    """A whole run.

    `errors`: events that were begun again, by SQLSTATE. `reconnects`: connections opened anew.
    `failure`: what ended the run before its time.
    `latency_ms`: mean, min, max and percentiles by name ("p99"), from when events began; `from_due_ms`: from
    when they were due, None without a rate. `queued`: due and not begun when time was over. `histogram`:
    base64 of a compressed V2 HdrHistogram of microseconds; `places`: sysbench's own, milliseconds and counts.
    `client_waited_s`: how long the thread that waited most was ready to run and had no processor.
    """

    elapsed_s: float
    events: int
    queries: Queries
    errors: dict[str, ErrorsOfState]
    reconnects: int
    failure: Ended | None
    latency_ms: dict[str, float]
    latency_sum_ms: float
    percentile_ms: float
    histogram: str
    places: list[tuple[float, int]]
    from_due_ms: dict[str, float] | None
    queued: int
    connections: list[ConnectionRecord]
    client_cpu_s: float
    client_cpu_most_s: float
    client_waited_s: float


def run_sysbench(
    spec: Mapping[str, object],
    on_started: Callable[[], None],
    on_progress: Callable[[SysbenchProgress], None],
) -> SysbenchRecord:
    """Runs a script to its end.

    Args:
        spec: the fields of `SysbenchSpec` in `crates/load/src/sysbench/spec.rs`.
        on_started: called when all connections are open and their statements prepared.
        on_progress: called at each interval. When either raises, the run is ended.

    Raises:
        StatementError: a connection can't be opened, or a statement can't be prepared.
        UsageError: there is no native binary of this version.
    """
    with NativeProcess("sysbench") as process:
        process.send(spec)
        while True:
            document = process.receive()
            if "record" in document:
                record: SysbenchRecord = document["record"]
                break
            if "progress" in document:
                on_progress(document["progress"])
            else:
                on_started()
    return record


def make_tables(spec: Mapping[str, object], on_step: Callable[[int, str], None]) -> None:
    """Makes and loads sysbench's tables.

    Args:
        spec: the fields of `TablesSpec` in `crates/native/src/sysbench_tables.rs`.
        on_step: called with a table's number and what begins with it: "create", "insert" or "index".

    Raises:
        StatementError: the server can't be reached, or refuses a statement.
        UsageError: there is no native binary of this version.
    """
    with NativeProcess("sysbench-tables") as process:
        process.send(spec)
        while "made" not in (document := process.receive()):
            on_step(document["table"], document["step"])
