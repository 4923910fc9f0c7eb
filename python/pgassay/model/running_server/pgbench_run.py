"""A run of `pgassay pgbench` as one document: what `--json` prints. All latencies are milliseconds."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen

PGBENCH_SCHEMA = 1


class PgbenchCounts(Frozen):
    """Counts of transactions, and what those took that were done; None where none was.

    `lag_mean_ms`: how late they began, which `--rate` alone makes differ from 0.
    """

    tps: float
    transactions: int
    failed: int
    serialization_failures: int
    deadlock_failures: int
    other_failures: int
    retried: int
    retries: int
    skipped: int
    latency_mean_ms: float | None
    latency_min_ms: float | None
    latency_max_ms: float | None
    lag_mean_ms: float | None


class PgbenchCommand(Frozen):
    """One command of a script; `count` and `mean_ms` are those of `-r`, and None without it."""

    text: str
    line: int
    count: int | None
    mean_ms: float | None
    failures: int
    retries: int


class PgbenchScript(Frozen):
    """One script, with its weight among the others."""

    name: str
    weight: int
    counts: PgbenchCounts
    commands: list[PgbenchCommand]


class PgbenchClient(Frozen):
    """What the client took, as shares of the time that passed.

    `processors`: processor time of all threads together; `busiest_thread`: of the one that used most;
    `waited`: how long one was ready to run and had no processor. `is_limit`: a thread had no time left.
    """

    processors: float
    busiest_thread: float
    waited: float
    is_limit: bool


class PgbenchSetting(Frozen):
    """A setting of the server that differs from PostgreSQL's default, as SHOW prints it."""

    name: str
    value: str


class PgbenchServer(Frozen):
    """The server that was measured."""

    version: str
    settings: list[PgbenchSetting]


class PgbenchResult(Frozen):
    """A whole run.

    `elapsed_s`: from the first transaction to the end of the last thread; `connection_s`: before it, or with
    `--connect` what all connections took; `late`: done, but above the limit; `histogram`: base64 of a
    compressed V2 HdrHistogram of microseconds; `aborted_clients`: where it isn't 0 the run is not complete.
    `errors`: all that clients met by SQLSTATE, those of a transaction that was tried again among them;
    `error_examples`: the first message of each.
    """

    schema_: int = Field(default=PGBENCH_SCHEMA, alias="schema")
    scale: int
    partition_method: Literal["range", "hash"] | None
    partitions: int
    protocol: Literal["simple", "extended", "prepared"]
    clients: int
    threads: int
    max_tries: int
    transactions_per_client: int | None
    duration_s: int | None
    rate: float | None
    latency_limit_ms: float | None
    random_seed: int
    elapsed_s: float
    connection_s: float
    counts: PgbenchCounts
    late: int
    percentiles_ms: dict[str, float]
    histogram: str
    aborted_clients: int
    errors: dict[str, int] = Field(default_factory=dict, exclude_if=lambda errors: not errors)
    error_examples: dict[str, str] = Field(default_factory=dict, exclude_if=lambda errors: not errors)
    client: PgbenchClient
    server: PgbenchServer
    scripts: list[PgbenchScript]
