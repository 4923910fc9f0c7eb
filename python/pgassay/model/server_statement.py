"""What is counted per arm beside its metric: statements, tables and latencies, by the server or the load."""

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


class ArmLatency(Frozen):
    """Latencies of all transactions of an arm's valid trials together, in milliseconds.

    `latency_stddev_ms`: the standard deviation of all of them, as pgbench reports it, and not of a sample.
    """

    arm: str
    stratum: str = ""
    trials: int
    transactions: int
    latency_mean_ms: float
    latency_stddev_ms: float
