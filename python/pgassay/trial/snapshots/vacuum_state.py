"""Reads what VACUUM has left to do, and who keeps it from doing so: five queries of catalogs and views.

All that they use exists in every major from 14 on.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgassay.model.vacuum_state import Holder, IndexState, TableState, VacuumState

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

TABLES_MAX = 50
INDEXES_MAX = 50
# Length (−1: variable), alignment, whether it was dropped, average bytes and share of nulls (None: unknown).
Column = tuple[int, str, bool, float | None, float | None]
# The columns of _TABLES in their order.
_TableRow = tuple[str, str, int, int, float, float, float, int, float | None, float | None, int]
_HOLDERS_MAX = 5
_ALIGNMENTS = {"c": 1, "s": 2, "i": 4, "d": 8}
# A row's header without its map of nulls, its line pointer, and the alignment of both ends
# (src/include/access/htup_details.h, itemid.h).
_HEADER_BYTES = 23
_POINTER_BYTES = 4
# An index's entry without and with its map of nulls (src/include/access/itup.h).
_INDEX_HEADER_BYTES = 8
_INDEX_NULLS_BYTES = 4
_MAXIMUM_ALIGNMENT = 8
# Up to here a value of variable length has a header of one byte and is not aligned (src/include/varatt.h).
_SHORT_BYTES_MAX = 126

# Few are asked for their size, which looks at files: pages by the last ANALYZE or rows by the statistics
# pick them.
_TABLES = """
SELECT schemaname::text, relname::text, relid, pg_relation_size(relid) / current_setting('block_size')::int,
       reltuples::float8, n_live_tup::float8, n_dead_tup::float8, fillfactor, vacuumed_s,
       n_mod_since_analyze::float8, current_setting('block_size')::int
FROM (
    SELECT s.schemaname, s.relname, s.relid, c.reltuples, s.n_live_tup, s.n_dead_tup, s.n_mod_since_analyze,
           coalesce((SELECT option_value::int FROM pg_options_to_table(c.reloptions)
                     WHERE option_name = 'fillfactor'), 100) AS fillfactor,
           extract(epoch FROM clock_timestamp()
                   - greatest(s.last_vacuum, s.last_autovacuum))::float8 AS vacuumed_s
    FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
    WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't'
    ORDER BY greatest(c.relpages, (s.n_live_tup + s.n_dead_tup) / 200) DESC, s.relid
    LIMIT %s
) AS largest"""
_COLUMNS = """
SELECT a.attrelid, a.attlen::int, a.attalign::text, a.attisdropped, s.avg_width::int, s.null_frac::float8
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
    AND NOT s.inherited
WHERE a.attrelid = ANY(%s) AND a.attnum > 0
ORDER BY a.attrelid, a.attnum"""
# The user's B-trees; a column's width is that of the table's column, of an expression the index's own.
_INDEXES = """
SELECT n.nspname::text, t.relname::text, c.relname::text, c.oid::int8,
       pg_relation_size(c.oid) / current_setting('block_size')::int, c.reltuples::float8,
       coalesce((SELECT option_value::int FROM pg_options_to_table(c.reloptions)
                 WHERE option_name = 'fillfactor'), 90),
       current_setting('block_size')::int
FROM (
    SELECT c.* FROM pg_class c JOIN pg_am m ON m.oid = c.relam
    WHERE c.relkind = 'i' AND c.oid >= 16384 AND c.relpersistence <> 't' AND m.amname = 'btree'
    ORDER BY c.relpages DESC, c.oid LIMIT %s
) AS c
JOIN pg_index i ON i.indexrelid = c.oid AND i.indisvalid
JOIN pg_class t ON t.oid = i.indrelid AND t.relkind IN ('r', 'm')
JOIN pg_namespace n ON n.oid = t.relnamespace
ORDER BY c.relpages DESC, c.oid"""
_INDEX_COLUMNS = """
SELECT a.attrelid::int8, a.attlen::int, a.attalign::text, false,
       coalesce(own.avg_width, of_table.avg_width)::int, coalesce(own.null_frac, of_table.null_frac)::float8
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class t ON t.oid = i.indrelid
JOIN pg_attribute a ON a.attrelid = i.indexrelid
LEFT JOIN pg_attribute b ON b.attrelid = i.indrelid AND b.attnum = i.indkey[a.attnum - 1] AND b.attnum > 0
LEFT JOIN pg_stats of_table ON of_table.schemaname = n.nspname AND of_table.tablename = t.relname
    AND of_table.attname = b.attname AND NOT of_table.inherited
LEFT JOIN pg_stats own ON own.schemaname = n.nspname AND own.tablename = c.relname AND own.attname = a.attname
WHERE i.indexrelid = ANY(%s)
ORDER BY a.attrelid, a.attnum"""
# Rows of this database are kept for its own sessions and for those of replication; a slot's catalog_xmin
# keeps rows of catalogs alone, and a VACUUM nobody's (src/backend/storage/ipc/procarray.c,
# ComputeXidHorizons). For how long a standby has been connected says nothing of what its queries see, which
# it tells anew every few seconds (wal_receiver_status_interval).
_HOLDERS = r"""
SELECT CASE WHEN backend_type = 'walsender' THEN 'standby' ELSE 'session' END,
       'process ' || pid || coalesce(' (' || nullif(application_name, '') || ')', ''),
       greatest(age(backend_xmin), age(backend_xid)),
       extract(epoch FROM clock_timestamp() - coalesce(xact_start, CASE WHEN backend_type <> 'walsender'
                                                                        THEN backend_start END))::float8
FROM pg_stat_activity
WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
    AND backend_type NOT LIKE 'autovacuum%%' AND query !~* '^\s*vacuum\M'
    AND application_name NOT LIKE 'pgassay %%' AND (datname = current_database() OR datname IS NULL)
UNION ALL
SELECT 'prepared transaction', gid, age(transaction),
       extract(epoch FROM clock_timestamp() - prepared)::float8
FROM pg_prepared_xacts WHERE database = current_database()
UNION ALL
SELECT 'replication slot', slot_name::text, age(xmin), NULL
FROM pg_replication_slots WHERE xmin IS NOT NULL
ORDER BY 3 DESC LIMIT %s"""
_BEGUN = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8"
# Of these the server tells how many transactions have begun since what they see, and not when that was.
_WITHOUT_TIME = frozenset({"standby", "replication slot"})


def vacuum_state_or_none(connection: "ControlSession") -> VacuumState | None:
    """As `read_vacuum_state`; None where the server refuses (a table locked, no right to read)."""
    import psycopg

    try:
        return read_vacuum_state(connection)
    except psycopg.Error:
        # It costs this evidence alone; of a connection that is lost the next statement tells.
        return None


def read_vacuum_state(connection: "ControlSession") -> VacuumState:
    """The state of this database now; takes some milliseconds. Raises psycopg.Error."""
    tables = [row for row in connection.execute(_TABLES.encode(), (TABLES_MAX,)) if row[3]]
    identifiers = [row[2] for row in tables]
    columns: dict[int, list[Column]] = {}
    for identifier, *column in connection.execute(_COLUMNS.encode(), (identifiers,)):
        columns.setdefault(identifier, []).append((column[0], column[1], column[2], column[3], column[4]))
    indexes = connection.execute(_INDEXES.encode(), (INDEXES_MAX,)).fetchall()
    for identifier, *column in connection.execute(_INDEX_COLUMNS.encode(), ([row[3] for row in indexes],)):
        columns.setdefault(identifier, []).append((column[0], column[1], column[2], column[3], column[4]))
    return VacuumState(
        tables=tuple(_table(row, columns.get(row[2], ())) for row in tables),
        holders=read_holders(connection),
        indexes=tuple(
            IndexState(
                schema_name=schema,
                table=table,
                name=name,
                pages=int(pages),
                rows=max(rows, 0.0),
                entry_bytes=entry_bytes(columns.get(identifier, ())),
                fillfactor=fillfactor,
                page_bytes=page_bytes,
            )
            for schema, table, name, identifier, pages, rows, fillfactor, page_bytes in indexes
        ),
    )


def read_holders(connection: "ControlSession") -> tuple[Holder, ...]:
    """Who keeps row versions of the past, by the age of what they see, the oldest first."""
    return tuple(
        Holder(kind=kind, name=name, transactions=age, seconds=seconds)
        for kind, name, age, seconds in connection.execute(_HOLDERS.encode(), (_HOLDERS_MAX,)).fetchall()
    )


class TransactionRate:
    """How many transactions with a number a server begins in a second, since this was made.

    Those that only read have none. Raises psycopg.Error.
    """

    def __init__(self, connection: "ControlSession") -> None:
        self._connection = connection
        self._begun, self._clock_s = self._now()

    def _now(self) -> tuple[float, float]:
        row = self._connection.execute(_BEGUN.encode()).fetchone()
        return float(row[0]) if row else 0.0, time.monotonic()

    def per_second(self) -> float:
        """Until now; 0 where none has begun."""
        begun, clock_s = self._now()
        return max(0.0, begun - self._begun) / max(1e-9, clock_s - self._clock_s)


def with_ages(holders: Sequence[Holder], transactions_s: float) -> tuple[Holder, ...]:
    """Of standbys and slots also since when they need what they see, at this rate of transactions.

    hot_standby_feedback keeps a little all the time: only what is old is in VACUUM's way.
    """
    return tuple(
        each.model_copy(update={"seconds": each.transactions / transactions_s})
        if each.kind in _WITHOUT_TIME and each.seconds is None and transactions_s > 0
        else each
        for each in holders
    )


def _table(row: _TableRow, columns: Sequence[Column]) -> TableState:
    schema, name, _, pages, reltuples, live, dead, fillfactor, vacuumed_s, changed, page_bytes = row
    # A crash forgets the counts, and what came since is no count of all.
    is_lost = live + dead < reltuples / 2
    return TableState(
        schema_name=schema,
        name=name,
        pages=int(pages),
        live_rows=max(reltuples, 0.0) if is_lost else live,
        dead_rows=None if is_lost else dead,
        row_bytes=row_bytes(columns),
        fillfactor=fillfactor,
        vacuumed_s=vacuumed_s,
        changed_rows=None if is_lost else changed,
        page_bytes=page_bytes,
    )


def row_bytes(columns: Sequence[Column]) -> float | None:
    """What a row takes in a page: line pointer, header, and values aligned one after the other.

    columns: in their order (length or −1, alignment, whether it was dropped, average bytes, share of nulls),
    the last two None without statistics. None where these are needed and not there.
    (src/backend/access/common/heaptuple.c, heap_compute_data_size.)
    """
    found = _values(columns)
    if found is None:
        return None
    offset, has_nulls = found
    header = _HEADER_BYTES + (-(-len(columns) // 8) if has_nulls else 0)
    return _in_page(header, offset)


def entry_bytes(columns: Sequence[Column]) -> float | None:
    """What a row takes in a leaf page of a B-tree: line pointer, header and values.

    columns: as of `row_bytes`. The map of nulls has one fixed size.
    (src/backend/access/common/indextuple.c, index_form_tuple.)
    """
    found = _values(columns)
    if found is None:
        return None
    offset, has_nulls = found
    return _in_page(_INDEX_HEADER_BYTES + (_INDEX_NULLS_BYTES if has_nulls else 0), offset)


def _in_page(header_bytes: int, values_bytes: float) -> float:
    whole = _aligned(header_bytes, _MAXIMUM_ALIGNMENT) + values_bytes
    return float(_POINTER_BYTES + _aligned(whole, _MAXIMUM_ALIGNMENT))


def _values(columns: Sequence[Column]) -> tuple[float, bool] | None:
    """The bytes of the values one after the other, and whether there are nulls; None without statistics."""
    offset = 0.0
    has_nulls = False
    for length, alignment, is_dropped, width, null_share in columns:
        has_nulls = has_nulls or is_dropped or bool(null_share)
        if is_dropped:
            continue
        value_bytes = width if length < 0 else length
        if value_bytes is None:
            return None
        is_short = length < 0 and value_bytes <= _SHORT_BYTES_MAX
        step = 1 if is_short else _ALIGNMENTS.get(alignment, 1)
        value = _aligned(offset, step) - offset + value_bytes
        offset += value * (1 - (null_share or 0.0))
    return offset, has_nulls


def _aligned(offset: float, step: int) -> float:
    return float(-(-offset // step) * step)
