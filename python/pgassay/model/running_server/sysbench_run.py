"""A run of `pgassay sysbench` as one document: what `--json` prints. All latencies are milliseconds."""

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.running_server.pgbench_run import PgbenchClient, PgbenchServer
from pgassay.model.workload import Distribution

SYSBENCH_SCHEMA = 1


class SysbenchQueries(Frozen):
    """Queries that returned rows, that changed any, and all others."""

    read: int
    write: int
    other: int


class SysbenchResult(Frozen):
    """A whole run.

    `tps`: events a second; `errors`: events that were begun again, by SQLSTATE. `latency_ms`: mean, min, max
    and percentiles by name ("p99"), as far as 20 events are beyond, from when events began; `from_due_ms`:
    from when they were due, null without a rate. `queued`: due and not begun when time was over. `histogram`:
    base64 of a compressed V2 HdrHistogram of microseconds. `profile`: whose defaults, `1.0.20` or `head`.
    `error_examples`: the first message of each SQLSTATE; `ended_by`: what ended the run before its time.
    `reconnects`: connections that were opened anew, with --reconnect.
    """

    schema_: int = Field(default=SYSBENCH_SCHEMA, alias="schema")
    script: str
    profile: str
    distribution: Distribution
    threads: int
    elapsed_s: float
    events: int
    tps: float
    queries: SysbenchQueries
    errors: dict[str, int]
    error_examples: dict[str, str] = Field(default_factory=dict, exclude_if=lambda errors: not errors)
    ended_by: str = Field(default="", exclude_if=lambda why: not why)
    reconnects: int = Field(default=0, exclude_if=lambda count: not count)
    latency_ms: dict[str, float]
    from_due_ms: dict[str, float] | None
    queued: int
    histogram: str
    client: PgbenchClient
    server: PgbenchServer
