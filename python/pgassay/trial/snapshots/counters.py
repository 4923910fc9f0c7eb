"""The server's cumulative statistics, as differences of snapshots (never a reset).

What differs between versions is data: the views below with the first major that has each column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgassay.model.base import PAGE_BYTES
from pgassay.model.trial import CounterRow

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession


@dataclass(frozen=True)
class View:
    """One statistics view: how its rows are told apart, and its counters per first and last major."""

    name: str
    keys: tuple[str, ...]
    columns: Mapping[str, tuple[int, int]]
    majors: tuple[int, int]
    condition: str = "true"


_ALL = (0, 99)
# pg_stat_force_next_flush came with statistics in shared memory.
_FLUSH_MAJOR_MIN = 15
_TABLE_COUNTERS = (
    *("seq_scan", "seq_tup_read", "idx_scan", "idx_tup_fetch"),
    *("n_tup_ins", "n_tup_upd", "n_tup_hot_upd", "n_tup_del"),
    *("vacuum_count", "autovacuum_count", "analyze_count", "autoanalyze_count"),
)
# Milliseconds, from 18 on (src/backend/catalog/system_views.sql).
_TABLE_TIMES = (
    *("total_vacuum_time", "total_autovacuum_time"),
    *("total_analyze_time", "total_autoanalyze_time"),
)
VIEWS = (
    View(
        "pg_stat_io",
        ("backend_type", "object", "context"),
        {
            **dict.fromkeys(
                ("reads", "writes", "writebacks", "extends", "hits", "evictions", "reuses"), _ALL
            ),
            **dict.fromkeys(("fsyncs", "read_time", "write_time", "fsync_time"), _ALL),
            **dict.fromkeys(("writeback_time", "extend_time"), _ALL),
            "op_bytes": (16, 17),
            **dict.fromkeys(("read_bytes", "write_bytes", "extend_bytes"), (18, 99)),
        },
        (16, 99),
    ),
    View(
        "pg_stat_database",
        (),
        {
            **dict.fromkeys(("xact_commit", "xact_rollback", "blks_read", "blks_hit"), _ALL),
            **dict.fromkeys(("tup_returned", "tup_fetched", "tup_inserted"), _ALL),
            **dict.fromkeys(("tup_updated", "tup_deleted", "conflicts", "deadlocks"), _ALL),
            **dict.fromkeys(("temp_files", "temp_bytes", "blk_read_time", "blk_write_time"), _ALL),
            **dict.fromkeys(("session_time", "active_time", "idle_in_transaction_time"), (14, 99)),
            **dict.fromkeys(("sessions", "sessions_killed", "sessions_fatal"), (14, 99)),
            **dict.fromkeys(("parallel_workers_to_launch", "parallel_workers_launched"), (18, 99)),
        },
        _ALL,
        "datname = current_database()",
    ),
    View(
        "pg_statio_user_tables",
        ("schemaname", "relname"),
        {
            **dict.fromkeys(("heap_blks_read", "heap_blks_hit", "idx_blks_read", "idx_blks_hit"), _ALL),
            **dict.fromkeys(("toast_blks_read", "toast_blks_hit", "tidx_blks_read", "tidx_blks_hit"), _ALL),
        },
        _ALL,
    ),
    View(
        "pg_statio_user_indexes",
        ("schemaname", "relname", "indexrelname"),
        dict.fromkeys(("idx_blks_read", "idx_blks_hit"), _ALL),
        _ALL,
    ),
    View(
        "pg_stat_user_indexes",
        ("schemaname", "relname", "indexrelname"),
        dict.fromkeys(("idx_scan", "idx_tup_read", "idx_tup_fetch"), _ALL),
        _ALL,
    ),
    View(
        "pg_stat_user_tables",
        ("schemaname", "relname"),
        dict.fromkeys(_TABLE_COUNTERS, _ALL) | dict.fromkeys(_TABLE_TIMES, (18, 99)),
        _ALL,
    ),
    View(
        "pg_stat_wal",
        (),
        {
            **dict.fromkeys(("wal_records", "wal_fpi", "wal_bytes", "wal_buffers_full"), _ALL),
            # From 18 on these are rows of pg_stat_io.
            **dict.fromkeys(("wal_write", "wal_sync", "wal_write_time", "wal_sync_time"), (14, 17)),
            "wal_fpi_bytes": (19, 99),
        },
        (14, 99),
    ),
    View(
        "pg_stat_checkpointer",
        (),
        {
            **dict.fromkeys(("num_timed", "num_requested", "write_time", "sync_time"), _ALL),
            "buffers_written": _ALL,
            **dict.fromkeys(("num_done", "slru_written"), (18, 99)),
        },
        (17, 99),
    ),
    View(
        "pg_stat_bgwriter",
        (),
        {
            **dict.fromkeys(("buffers_clean", "maxwritten_clean", "buffers_alloc"), _ALL),
            **dict.fromkeys(("checkpoints_timed", "checkpoints_req", "buffers_checkpoint"), (0, 16)),
            **dict.fromkeys(("checkpoint_write_time", "checkpoint_sync_time"), (0, 16)),
            **dict.fromkeys(("buffers_backend", "buffers_backend_fsync"), (0, 16)),
        },
        _ALL,
    ),
)
# Levels, not counters: kept as they are in the later snapshot.
_LEVELS = frozenset({"op_bytes"})

Snapshot = dict[str, dict[tuple[str, ...], dict[str, float]]]


def _query(view: View, major: int) -> str:
    columns = [name for name, (first, last) in view.columns.items() if first <= major <= last]
    keys = [f"{key}::text" for key in view.keys]
    values = [f"coalesce({column}, 0)::float8" for column in columns]
    return f"SELECT {', '.join([*keys, *values])} FROM {view.name} WHERE {view.condition}"


def snapshot(connection: "ControlSession", major: int, views: Sequence[View] = VIEWS) -> Snapshot:
    """All views that this major has, read in one transaction's view of the statistics."""
    result: Snapshot = {}
    # This session's own reads (a prewarm) must be counted before the snapshot, not within what follows.
    if major >= _FLUSH_MAJOR_MIN:
        connection.execute("SELECT pg_stat_force_next_flush()")
    connection.execute("SELECT pg_stat_clear_snapshot()")
    for view in views:
        if not view.majors[0] <= major <= view.majors[1]:
            continue
        names = [name for name, (first, last) in view.columns.items() if first <= major <= last]
        width = len(view.keys)
        result[view.name] = {
            tuple(row[:width]): dict(zip(names, (float(value) for value in row[width:]), strict=True))
            for row in connection.execute(_query(view, major).encode()).fetchall()
        }
    return result


def difference(
    before: Snapshot, after: Snapshot, views: Sequence[View] = VIEWS
) -> dict[str, list[CounterRow]]:
    """Per view the rows whose counters moved: their keys and the differences, ready for JSON.

    Counters of a row that fell were reset, and are what was counted since.
    """
    moved: dict[str, list[CounterRow]] = {}
    for view in views:
        for key, values in after.get(view.name, {}).items():
            old = before.get(view.name, {}).get(key, {})
            if _is_reset(old, values):
                old = {}
            changes = {
                name: value - old.get(name, 0.0) for name, value in values.items() if name not in _LEVELS
            }
            if not any(changes.values()):
                continue
            levels = {name: value for name, value in values.items() if name in _LEVELS}
            row: dict[str, str] = dict(zip(view.keys, key, strict=True))
            moved.setdefault(view.name, []).append({**row, **changes, **levels})
    return moved


def _is_reset(old: Mapping[str, float], new: Mapping[str, float]) -> bool:
    return any(value < old.get(name, 0.0) for name, value in new.items() if name not in _LEVELS)


def reset_views(before: Snapshot, after: Snapshot, views: Sequence[View] = VIEWS) -> tuple[str, ...]:
    """The views of which counters were reset between two snapshots.

    Those of tables are left out: a table of the same name may be another.
    """
    return tuple(
        view.name
        for view in views
        if "relname" not in view.keys
        and any(
            _is_reset(before.get(view.name, {}).get(key, {}), values)
            for key, values in after.get(view.name, {}).items()
        )
    )


def block_bytes(connection: "ControlSession") -> int:
    """The size of the server's blocks."""
    row = connection.execute("SELECT current_setting('block_size')::int").fetchone()
    return int(row[0]) if row else PAGE_BYTES


def database_bytes(before: Snapshot, after: Snapshot, block_bytes: int) -> tuple[int, int]:
    """Bytes that this database's backends read and found in shared buffers between two snapshots.

    block_bytes: the size of the server's blocks, which its statistics count.
    """
    old = next(iter(before["pg_stat_database"].values()))
    new = next(iter(after["pg_stat_database"].values()))
    read = int(new["blks_read"] - old["blks_read"]) * block_bytes
    hit = int(new["blks_hit"] - old["blks_hit"]) * block_bytes
    return read, hit
