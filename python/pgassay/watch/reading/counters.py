"""The server's cumulative counters, over all its databases, by one query an interval.

What differs between versions is data: the table below has the first and last major of each expression.
"""

from typing import TYPE_CHECKING

from pgassay.model.running_server.watch import Throughput
from pgassay.watch.reading.rates import Counters, increase, rate

if TYPE_CHECKING:
    import psycopg

_ALL = (0, 99)
# Name, SQL, first and last major. Sources: PostgreSQL's manual, "The Cumulative Statistics System", 14 to 19.
_EXPRESSIONS: tuple[tuple[str, str, tuple[int, int]], ...] = (
    ("transactions", "sum(xact_commit) FROM pg_stat_database", _ALL),
    ("rollbacks", "sum(xact_rollback) FROM pg_stat_database", _ALL),
    # Rows of scans and entries of indexes: tup_fetched counts the rows of these entries once more.
    ("tuples_read", "sum(tup_returned) FROM pg_stat_database", _ALL),
    ("tuples_written", "sum(tup_inserted + tup_updated + tup_deleted) FROM pg_stat_database", _ALL),
    ("blocks_hit", "sum(blks_hit) FROM pg_stat_database", _ALL),
    ("blocks_read", "sum(blks_read) FROM pg_stat_database", _ALL),
    ("temp_bytes", "sum(temp_bytes) FROM pg_stat_database", _ALL),
    ("deadlocks", "sum(deadlocks) FROM pg_stat_database", _ALL),
    # A level and no counter: sessions of any kind that are connected to a database.
    ("backends", "sum(numbackends) FROM pg_stat_database", _ALL),
    ("checkpoints", "checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter", (0, 16)),
    ("checkpoints", "num_timed + num_requested FROM pg_stat_checkpointer", (17, 99)),
    # The position in the WAL rather than pg_stat_wal, which lags behind by what backends have not told yet.
    (
        "wal_bytes",
        "pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
        "ELSE pg_current_wal_insert_lsn() END, '0/0')",
        _ALL,
    ),
)
# This session and the observer's are among the backends.
OWN_BACKENDS = 2
_NAMES = tuple(dict.fromkeys(name for name, _, _ in _EXPRESSIONS))


def query(major: int) -> str:
    """The query whose one row has the counters in the order of their names."""
    chosen = {name: sql for name, sql, (first, last) in _EXPRESSIONS if first <= major <= last}
    return "SELECT " + ", ".join(f"(SELECT {chosen[name]})::float8" for name in _NAMES)


def read(session: "psycopg.Connection", major: int) -> dict[str, float]:
    """The counters now; raises psycopg.Error. One that is null (nothing replayed yet) is left out."""
    row = session.execute(query(major).encode()).fetchone()
    return {name: float(value) for name, value in zip(_NAMES, row or (), strict=True) if value is not None}


def throughput(before: Counters, after: Counters, seconds: float) -> Throughput:
    """What the server did between two readings."""
    hit, asked = increase(before, after, "blocks_hit"), None
    read_blocks = increase(before, after, "blocks_read")
    if hit is not None and read_blocks is not None:
        asked = hit + read_blocks
    return Throughput(
        transactions_s=rate(before, after, ("transactions",), seconds),
        rollbacks_s=rate(before, after, ("rollbacks",), seconds),
        tuples_read_s=rate(before, after, ("tuples_read",), seconds),
        tuples_written_s=rate(before, after, ("tuples_written",), seconds),
        blocks_hit_s=rate(before, after, ("blocks_hit",), seconds),
        blocks_read_s=rate(before, after, ("blocks_read",), seconds),
        hit_share=(hit or 0.0) / asked if asked else None,
        temp_bytes_s=rate(before, after, ("temp_bytes",), seconds),
        wal_bytes_s=rate(before, after, ("wal_bytes",), seconds),
        deadlocks=increase(before, after, "deadlocks"),
        checkpoints=increase(before, after, "checkpoints"),
    )
