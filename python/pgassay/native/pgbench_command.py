"""A run by pgbench's rules, by the native binary's command `pgbench`."""

from collections.abc import Callable, Mapping
from typing import TypedDict

from pgassay.native.process import ErrorsOfState, NativeProcess


class Sums(TypedDict):
    """Count, range, sum and sum of squares of microseconds."""

    count: int
    min: float
    max: float
    sum: float
    sum2: float


class Stats(TypedDict):
    """Counts of transactions, as pgbench has them; `lag_us`: how late they began."""

    done: int
    skipped: int
    retries: int
    retried: int
    serialization_failures: int
    deadlock_failures: int
    other_failures: int
    latency_us: Sums
    lag_us: Sums


class CommandRecord(TypedDict):
    """One command of a script: how often it ran and for how long in all, where commands are timed."""

    text: str
    line: int
    count: int
    total_s: float
    failures: int
    retries: int


class ScriptRecord(TypedDict):
    """One script."""

    stats: Stats
    commands: list[CommandRecord]


class Percentiles(TypedDict):
    """Percentiles of what ended in an interval; None where nothing did."""

    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class PgbenchProgress(TypedDict):
    """What was counted up to an instant, in seconds since the run began.

    `percentiles` are those of the interval; `queued`: with a rate how many are due and not begun.
    """

    elapsed_s: float
    stats: Stats
    percentiles: Percentiles
    queued: int


class PgbenchRecord(TypedDict):
    """A whole run.

    `elapsed_s` from the first transaction to the end of the last thread; `connection_s` before it,
    `connections_s` what connections for single transactions took; `errors`: all that clients met by
    SQLSTATE, those of a transaction that was tried again among them; `late`: done, but above the limit;
    `percentiles_ms`: pairs of a percentage and milliseconds, none where nothing was done; `histogram`: base64
    of a compressed V2 HdrHistogram of microseconds; `client_waited_s`: how long the thread that waited most
    was ready to run and had no processor.
    """

    elapsed_s: float
    connection_s: float
    connections_s: float
    stats: Stats
    late: int
    aborted: int
    aborted_threads: list[int]
    errors: dict[str, ErrorsOfState]
    scripts: list[ScriptRecord]
    percentiles_ms: list[tuple[float, float]]
    histogram: str
    client_cpu_s: float
    client_cpu_most_s: float
    client_waited_s: float


def run_pgbench(
    spec: Mapping[str, object],
    on_progress: Callable[[PgbenchProgress], None],
    on_said: Callable[[str, str], None],
) -> PgbenchRecord:
    """Runs scripts to the end.

    Args:
        spec: the fields of `PgbenchSpec` in `crates/load/src/pgbench/spec.rs`.
        on_progress: called at each interval. When it raises, the run is ended.
        on_said: called with the level (error, detail, info) and the text of each message.

    Raises:
        StatementError: a first connection or a log that can't be opened, a script that is none.
        UsageError: there is no native binary of this version.
    """
    with NativeProcess("pgbench", passes_errors=True) as process:
        process.send(spec)
        while True:
            document = process.receive()
            if "record" in document:
                record: PgbenchRecord = document["record"]
                break
            if "said" in document:
                on_said(document["said"]["level"], document["said"]["text"])
            else:
                on_progress(document["progress"])
    return record
