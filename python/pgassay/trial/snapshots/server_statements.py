"""What the server counted for each statement over a trial, where pg_stat_statements is installed.

The extension's version decides its columns, and a data directory that was upgraded has an older one than its
server: so they are looked up. Its counters are differenced, never reset.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from pgassay.record.columns import Column, to_parquet
from pgassay.trial.target import RunningServer

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

LIBRARY = "pg_stat_statements"
FILE = f"{LIBRARY}.parquet"
VERSION = 1
QUERY_CHARACTERS_MAX = 1000
# Column of the file → its names in the extension, newest first: 1.11 (PostgreSQL 17) told local blocks from
# shared ones (contrib/pg_stat_statements/pg_stat_statements--1.10--1.11.sql).
COLUMNS: dict[str, tuple[str, ...]] = {
    "calls": ("calls",),
    "rows": ("rows",),
    "total_exec_time": ("total_exec_time",),
    "shared_blks_hit": ("shared_blks_hit",),
    "shared_blks_read": ("shared_blks_read",),
    "shared_blks_dirtied": ("shared_blks_dirtied",),
    "shared_blks_written": ("shared_blks_written",),
    "shared_blk_read_time": ("shared_blk_read_time", "blk_read_time"),
    "shared_blk_write_time": ("shared_blk_write_time", "blk_write_time"),
    "temp_blks_read": ("temp_blks_read",),
    "temp_blks_written": ("temp_blks_written",),
    "wal_records": ("wal_records",),
    "wal_fpi": ("wal_fpi",),
    "wal_bytes": ("wal_bytes",),
}
# Counted in the measured session itself, between its statements.
_OWN = frozenset({"SELECT pg_stat_force_next_flush()"})

_FIND = """
SELECT quote_ident(n.nspname), array_agg(a.attname::text)
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'pg_stat_statements'
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE e.extname = 'pg_stat_statements'
GROUP BY n.nspname"""

# The server's identifier of a statement → its text, and its counters in the order of the columns.
Snapshot = dict[str, tuple[str, tuple[float, ...]]]


class ControlledServer(Protocol):
    """A server with a control session."""

    @property
    def control(self) -> "ControlSession":
        """The control session."""


class ServerStatements:
    """The extension's counters on one connection's database; `names` are those that this version has."""

    def __init__(self, schema: str, names: dict[str, str]) -> None:
        """`schema`: where the extension is, quoted; `names`: column of the file → column of the view."""
        self.names = names
        sums = ", ".join(f"sum({name})::float8" for name in names.values())
        self._query = (
            f"SELECT queryid::text, coalesce(max(left(query, {QUERY_CHARACTERS_MAX})), ''), {sums} "
            f"FROM {schema}.pg_stat_statements(%s) WHERE queryid IS NOT NULL "
            "AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY queryid"
        )

    @classmethod
    def of(cls, connection: "ControlSession") -> "ServerStatements | None":
        """The counters that this connection can read; None without the extension, loaded and created."""
        import psycopg

        row = connection.execute(_FIND).fetchone()
        if row is None:
            return None
        try:
            connection.execute(f"SELECT FROM {row[0]}.pg_stat_statements(false) LIMIT 1".encode())
        except psycopg.Error:
            # The library is not loaded, or the role may not ask.
            return None
        names = {
            column: name
            for column, names in COLUMNS.items()
            if (name := next((each for each in names if each in row[1]), None)) is not None
        }
        return cls(str(row[0]), names) if {"calls", "total_exec_time"} <= names.keys() else None

    def snapshot(self, connection: "ControlSession", *, texts: bool = True) -> Snapshot:
        """The counters of every statement of this database now; reading no `texts` is quicker."""
        rows = connection.execute(self._query.encode(), (texts,)).fetchall()
        return {str(row[0]): (str(row[1]), tuple(float(value) for value in row[2:])) for row in rows}

    def content(self, before: Snapshot, after: Snapshot) -> bytes | None:
        """The Parquet file: a row per statement that ran between the snapshots; None when none did."""
        nothing = (0.0,) * len(self.names)
        calls = list(self.names).index("calls")
        rows = []
        for query_id, (query, values) in after.items():
            old = before.get(query_id, ("", nothing))[1]
            # One that was thrown out for a while, to make room for others, began anew.
            old = nothing if values[calls] < old[calls] else old
            moved = tuple(new - past for new, past in zip(values, old, strict=True))
            if moved[calls] > 0 and query not in _OWN and f"{LIBRARY}(" not in query:
                rows.append((query_id, query, *moved))
        if not rows:
            return None
        names = ("queryid", "query", *self.names)
        columns: dict[str, Column] = {
            name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
        }
        return to_parquet(columns, sampler=LIBRARY, version=VERSION)


def counted_before(server: ControlledServer, statements: ServerStatements | None) -> Snapshot:
    """The snapshot before a measurement; empty where nothing is counted."""
    return statements.snapshot(server.control, texts=False) if statements else {}


def counted_files(
    server: ControlledServer, statements: ServerStatements | None, before: Snapshot
) -> dict[str, bytes]:
    """The observation file of what was counted since `before`: name → content; {} when nothing was."""
    content = statements.content(before, statements.snapshot(server.control)) if statements else None
    return {FILE: content} if content is not None else {}


@contextmanager
def own_sessions_uncounted(server: RunningServer) -> Iterator[ServerStatements | None]:
    """Have the server count nothing of the control sessions opened within, where it counts statements at all.

    Gives the counters, None without the extension. Afterwards sessions are as the arm's settings say again.
    """
    statements = ServerStatements.of(server.control)
    if statements is None:
        yield None
        return
    server.close_control()
    server.own_settings = {f"{LIBRARY}.track": "none"}
    try:
        yield statements
    finally:
        server.own_settings = {}
        server.close_control()
