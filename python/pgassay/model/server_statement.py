"""What is counted per arm beside its metric: statements, tables and latencies, by the server or the load."""

from pydantic import Field

from pgassay.model.base import Frozen


class ServerStatement(Frozen):
    """One statement as the server tells it, in means per trial over those that ran it.

    `query`: its text with constants replaced, cut; `query_id`: the server's identifier, as text since it is
    wider than a script's numbers. `exec_ms`: time executing; `read_ms`: waiting for blocks (0 without
    track_io_timing). Blocks are of the server's block size; None: this version of the extension has no such
    column.
    """

    query_id: str
    query: str
    trials: int
    calls: float
    rows: float
    exec_ms: float
    shared_blocks_hit: float
    shared_blocks_read: float
    shared_blocks_written: float
    read_ms: float | None
    temp_blocks_read: float
    temp_blocks_written: float
    wal_bytes: float | None


class ArmStatements(Frozen):
    """The statements of one arm that took longest, by their execution time in its valid trials.

    `statements_total`: how many there were; `exec_ms`: of all of them, mean per trial.
    """

    arm: str
    stratum: str = ""
    trials: int
    statements_total: int
    exec_ms: float
    statements: tuple[ServerStatement, ...]


class TableCache(Frozen):
    """How much of what an arm asked of a table or an index was in shared buffers, over its valid trials.

    `index` None: the table's own pages. Counts are of the server's blocks. A block that is not in shared
    buffers may still be in the system's page cache: `blocks_read` is what PostgreSQL asked the system for.
    """

    arm: str
    stratum: str = ""
    table_schema: str
    table: str
    index: str | None = None
    blocks_hit: int
    blocks_read: int
    hit_ratio: float


class ArmErrors(Frozen):
    """Executions, or transactions, that the server refused with one SQLSTATE in an arm's valid trials.

    `arm`: as reports write it, so that a twin is told from its control. `name`: of the statement, '' for the
    transactions of a load. `share`: of all that were executed. `example`: the first message, '' where the
    record has none.
    """

    arm: str
    stratum: str = ""
    name: str
    sqlstate: str
    failed: int
    share: float
    example: str = ""


class ArmConnections(Frozen):
    """How an arm's clients came to their connections, medians over its valid trials.

    `opened_per_s`: how many were opened in a second, which took `opening_ms`. `wait_*_ms`: how long a
    transaction waited for one. Of all trials together: `lost`, ended by the server; `refused`, attempts that
    failed, by SQLSTATE; `outages`, of how many seconds each was.
    """

    arm: str
    stratum: str = ""
    trials: int
    pool: int | None
    lifetime_s: float | None
    opened_per_s: float
    opening_ms: float
    wait_mean_ms: float
    wait_p99_ms: float
    wait_max_ms: float
    lost: int
    refused: dict[str, int]
    outages: tuple[float, ...]


class ArmLoadStatement(Frozen):
    """The latencies of one statement of an arm's transactions, medians over its valid trials.

    `name`: its place in a script, '' where there is none; `text`: its first line. `executions`: in all of
    them.
    """

    arm: str
    stratum: str = ""
    name: str
    text: str
    trials: int
    executions: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


class ArmPooler(Frozen):
    """What stood between an arm's clients and its server, medians over its valid trials.

    `pooler`: as typed; `version`: PgBouncer's. `size`: the most server connections that it may open, of which
    `server_connections_max` were open. `busy`: the share of the time in which its one thread had work, on a
    processor or waiting for one; `processors`: of it on a processor. `cpu_us`: of that for a transaction;
    `wait_ms`: what a transaction waited for a server connection. `is_full`: it could do no more.
    """

    arm: str
    stratum: str = ""
    pooler: str
    version: str
    trials: int
    size: int
    server_connections_max: int
    busy: float
    processors: float
    cpu_us: float
    wait_ms: float
    is_full: bool


class ArmLatency(Frozen):
    """Latencies of all transactions of an arm's valid trials together, in milliseconds.

    `latency_stddev_ms`: the standard deviation of all of them, as pgbench reports it, and not of a sample.
    `latency_stddev_ratio`: over the control's, by the median over blocks of the trials' own; its interval
    holds at any look, and all arms' together. Neither is written of a control, nor before blocks bound it.
    """

    arm: str
    stratum: str = ""
    trials: int
    transactions: int
    latency_mean_ms: float
    latency_stddev_ms: float
    latency_stddev_ratio: float | None = Field(default=None, exclude_if=lambda ratio: ratio is None)
    latency_stddev_interval: tuple[float, float] | None = Field(
        default=None, exclude_if=lambda interval: interval is None
    )


class ArmIostat(Frozen):
    """The device below an arm's data in iostat's columns, by their names and in their units.

    Each is over the measured part of a trial, and the mean of the arm's valid trials. `%iowait` is that of
    the processors.
    """

    arm: str
    stratum: str = ""
    trials: int
    columns: dict[str, float]


class ArmCheckpoints(Frozen):
    """Checkpoints and WAL of an arm whose workload writes, means of its valid trials.

    `requested`: for the WAL that was written (max_wal_size) or by command; `timed`: by checkpoint_timeout.
    `full_page_images`: pages that were written whole, as the first change after a checkpoint does.
    """

    arm: str
    stratum: str = ""
    trials: int
    requested: float
    timed: float
    wal_bytes: float
    full_page_images: float
