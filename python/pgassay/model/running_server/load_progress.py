"""An interval of a load that runs, as `pgassay pgbench` and `pgassay sysbench` print each with `--json`.

All latencies are milliseconds, of what ended in the interval; None where nothing did.
"""

from pydantic import Field

from pgassay.model.base import Frozen

PGBENCH_PROGRESS_SCHEMA = 1
SYSBENCH_PROGRESS_SCHEMA = 1


class PgbenchProgressSample(Frozen):
    """One interval of a run by pgbench's rules.

    `elapsed_s`: since the run began, `interval_s`: how long the interval was. `transactions` were done, at
    `tps` a second. `lag_mean_ms`: how late they began. `queued`: due and not begun at its end, None without
    `--rate`.
    """

    schema_: int = Field(default=PGBENCH_PROGRESS_SCHEMA, alias="schema")
    elapsed_s: float
    interval_s: float
    tps: float
    transactions: int
    failed: int
    retried: int
    retries: int
    skipped: int
    latency_mean_ms: float | None
    latency_stddev_ms: float | None
    lag_mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    queued: int | None


class SysbenchProgressSample(Frozen):
    """One interval of a run by sysbench's rules.

    `elapsed_s`: since the measured run began, `interval_s`: how long the interval was. `queries` are of
    all kinds. `errors`: events that were begun again. `queued`: events that are due and wait for a
    connection, `running`: those that run, both None without `--rate`.
    """

    schema_: int = Field(default=SYSBENCH_PROGRESS_SCHEMA, alias="schema")
    elapsed_s: float
    interval_s: float
    threads: int
    tps: float
    events: int
    queries: int
    errors: int
    reconnects: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    queued: int | None
    running: int | None
