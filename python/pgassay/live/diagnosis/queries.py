"""What a diagnosis asks the server: sessions again and again, views, settings and statements at the ends."""

from collections.abc import Mapping
from dataclasses import replace

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from pgassay.analysis.diagnosis.interval import Session, SessionsSample
from pgassay.errors import first_line
from pgassay.model.live.diagnosis import QUERY_CHARACTERS_MAX, CalledStatement
from pgassay.trial.before_and_after.counters import VIEWS, View

# pg_blocking_pids holds all locks of the lock manager's table for a moment: it is asked for few, those that
# have waited for the longest (src/backend/utils/adt/lockfuncs.c).
BLOCKED_ASKED_MAX = 12
# The function below pg_stat_activity, without the view's joins; one row even where nobody is at work.
_SESSIONS = f"""
SELECT transactions, pid, query_id::text, left(query, {QUERY_CHARACTERS_MAX}), state,
       coalesce(wait_event_type, ''), coalesce(wait_event, ''), coalesce(usesysid::regrole::text, ''),
       coalesce(application_name, ''), extract(epoch FROM clock_timestamp() - xact_start)::float8,
       CASE WHEN wait_event_type = 'Lock' AND wait_rank <= {BLOCKED_ASKED_MAX} THEN pg_blocking_pids(pid) END
FROM (SELECT coalesce(sum(xact_commit), 0)::float8 AS transactions FROM pg_stat_database) AS counted
LEFT JOIN (SELECT *, row_number() OVER (PARTITION BY wait_event_type ORDER BY state_change) AS wait_rank
           FROM pg_stat_get_activity(NULL)
           WHERE backend_type IN ('client backend', 'parallel worker')
             AND state NOT IN ('idle', 'disabled')
             AND application_name NOT LIKE 'pgassay %') AS working ON true"""
# Views with a row for each table take long where there are many.
TABLES_MAX = 3000
_OF_TABLES = ("pg_stat_user_tables", "pg_statio_user_tables")
STATEMENTS_MAX = 10
_SETTINGS = (
    *("work_mem", "max_wal_size", "shared_buffers", "max_connections", "checkpoint_timeout", "wal_level"),
    *("io_method", "io_workers", "io_min_workers", "io_max_workers", "effective_io_concurrency"),
    *("max_parallel_workers_per_gather", "synchronous_commit", "fsync", "full_page_writes", "block_size"),
    *("autovacuum", "autovacuum_naptime", "track_io_timing", "compute_query_id", "huge_pages"),
)
Calls = Mapping[str, tuple[float, ...]]


def sample_sessions(session: psycopg.Connection, clock_ns: int) -> SessionsSample:
    """What each client session that has work does and whom it waits for, at this moment.

    Sessions that the role may not see are left out. Raises psycopg.Error.
    """
    rows = session.execute(_SESSIONS.encode()).fetchall()
    return SessionsSample(
        clock_ns=clock_ns,
        sessions=tuple(_session(row[1:]) for row in rows if row[1] is not None),
        transactions=rows[0][0],
    )


def _session(row: TupleRow) -> Session:
    pid, query_id, query, state, event_type, event, user, application, transaction_s, blocked_by = row
    return Session(
        pid=pid,
        query_id=query_id,
        query=query or "",
        state=state,
        event_type=event_type,
        event=event,
        user=user,
        application=application,
        transaction_s=transaction_s,
        blocked_by=tuple(blocked_by or ()),
    )


def views(session: psycopg.Connection) -> tuple[View, ...]:
    """The views to read: of all databases, and without those of tables where they would take too long."""
    row = session.execute("SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'm', 'p')").fetchone()
    has_few = row is not None and row[0] <= TABLES_MAX
    chosen = [view for view in VIEWS if has_few or view.name not in _OF_TABLES]
    return tuple(
        replace(view, keys=("datname",), condition="datname IS NOT NULL")
        if view.name == "pg_stat_database"
        else view
        for view in chosen
    )


def settings(session: psycopg.Connection) -> dict[str, str]:
    """Those settings that causes speak of, as the server shows them, where it has them."""
    names = sql.SQL(", ").join(map(sql.Literal, _SETTINGS))
    query = sql.SQL("SELECT name, current_setting(name) FROM pg_settings WHERE name IN ({})").format(names)
    return {str(name): str(value) for name, value in session.execute(query).fetchall()}


class Statements:
    """pg_stat_statements at two moments, wherever it is installed; `reason` says why it can't be read."""

    def __init__(self, session: psycopg.Connection) -> None:
        self._session = session
        self._function: sql.Composed | None = None
        self.reason = ""
        row = session.execute(
            "SELECT nspname::text FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace "
            "WHERE extname = 'pg_stat_statements'"
        ).fetchone()
        if row is None:
            self.reason = (
                "statements by their calls and times: pg_stat_statements is not in this database: add it to "
                "shared_preload_libraries and type CREATE EXTENSION pg_stat_statements"
            )
        else:
            self._function = sql.SQL("{}.pg_stat_statements").format(sql.Identifier(row[0]))
        self._before = self._read()

    def _read(self) -> Calls:
        """By the statement's number: calls, milliseconds, rows, blocks read, blocks of temporary files."""
        if self._function is None:
            return {}
        # Without their texts, which lie in a file.
        query = sql.SQL(
            "SELECT queryid::text, sum(calls)::float8, sum(total_exec_time), sum(rows)::float8, "
            "sum(shared_blks_read)::float8, sum(temp_blks_read + temp_blks_written)::float8 "
            "FROM {}(false) WHERE queryid IS NOT NULL GROUP BY 1"
        ).format(self._function)
        try:
            return {row[0]: row[1:] for row in self._session.execute(query).fetchall()}
        except psycopg.Error as error:
            self.reason = f"statements by their calls and times: pg_stat_statements says: {first_line(error)}"
            self._function = None
            return {}

    def difference(self, block_bytes: int) -> tuple[CalledStatement, ...] | None:
        """The statements that took longest since the first reading; None where that can't be read."""
        after = self._read()
        if self._function is None:
            return None
        nothing = (0.0,) * 5
        moved = {
            number: tuple(new - old for new, old in zip(row, self._before.get(number, nothing), strict=True))
            for number, row in after.items()
        }
        # Where it was reset meanwhile, counters went back.
        chosen = sorted((each for each in moved if moved[each][0] > 0), key=lambda each: -moved[each][1])
        chosen = chosen[:STATEMENTS_MAX]
        texts = self._texts(chosen)
        return tuple(
            CalledStatement(
                query_id=number,
                query=texts.get(number, ""),
                calls=int(moved[number][0]),
                total_s=max(0.0, moved[number][1]) / 1000,
                mean_ms=max(0.0, moved[number][1]) / moved[number][0],
                rows=int(moved[number][2]),
                read_bytes=int(moved[number][3]) * block_bytes,
                temporary_bytes=int(moved[number][4]) * block_bytes,
            )
            for number in chosen
        )

    def _texts(self, numbers: list[str]) -> dict[str, str]:
        if self._function is None or not numbers:
            return {}
        query = sql.SQL(
            "SELECT queryid::text, min(left(query, 300)) FROM {}(true) WHERE queryid = ANY (%s) GROUP BY 1"
        ).format(self._function)
        rows = self._session.execute(query, ([int(number) for number in numbers],)).fetchall()
        return {str(number): str(text or "") for number, text in rows}
