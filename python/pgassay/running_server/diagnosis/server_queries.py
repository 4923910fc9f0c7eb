"""What a diagnosis asks the server: sessions again and again, views and settings at the ends."""

from dataclasses import replace

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from pgassay.analysis.diagnosis.interval import ReplicationSlot, Session, SessionsSample
from pgassay.analysis.diagnosis.sessions import statement_key
from pgassay.model.running_server.diagnosis import QUERY_CHARACTERS_MAX
from pgassay.trial.snapshots.counters import VIEWS, View

# pg_blocking_pids holds all locks of the lock manager's table for a moment: it is asked for few, those that
# have waited for the longest (src/backend/utils/adt/lockfuncs.c).
BLOCKED_ASKED_MAX = 12
# Longer texts are not kept to be planned, nor more of them.
_TEXT_BYTES_MAX, TEXTS_MAX = 20_000, 1000
# The function below pg_stat_activity, without the view's joins; one row even where nobody is at work.
_SESSIONS = f"""
SELECT transactions, pid, query_id::text, left(query, {QUERY_CHARACTERS_MAX}), state,
       coalesce(wait_event_type, ''), coalesce(wait_event, ''), coalesce(usesysid::regrole::text, ''),
       coalesce(application_name, ''), extract(epoch FROM clock_timestamp() - xact_start)::float8,
       CASE WHEN wait_event_type = 'Lock' AND wait_rank <= {BLOCKED_ASKED_MAX} THEN pg_blocking_pids(pid) END,
       leader_pid IS NOT NULL AND leader_pid <> pid,
       CASE WHEN state = 'active' AND octet_length(query)
                 < least({_TEXT_BYTES_MAX}, pg_size_bytes(current_setting('track_activity_query_size')) - 1)
            THEN query END
FROM (SELECT coalesce(sum(xact_commit), 0)::float8 AS transactions FROM pg_stat_database) AS counted
LEFT JOIN (SELECT *, row_number() OVER (PARTITION BY wait_event_type ORDER BY state_change) AS wait_rank
           FROM pg_stat_get_activity(NULL)
           WHERE backend_type IN ('client backend', 'parallel worker')
             AND state NOT IN ('idle', 'disabled')
             AND application_name NOT LIKE 'pgassay %') AS working ON true"""
# A standby keeps WAL for slots of its own.
_SLOTS = """
SELECT slot_name::text, active, coalesce(wal_status, ''), pg_wal_lsn_diff(
           CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
           restart_lsn)::float8
FROM pg_replication_slots ORDER BY slot_name"""
# Views with a row for each table take long where there are many.
TABLES_MAX = 3000
_OF_TABLES = ("pg_stat_user_tables", "pg_statio_user_tables")
_SETTINGS = (
    *("work_mem", "max_wal_size", "shared_buffers", "max_connections", "checkpoint_timeout", "wal_level"),
    *("io_method", "io_workers", "io_min_workers", "io_max_workers", "effective_io_concurrency"),
    *("max_parallel_workers_per_gather", "synchronous_commit", "fsync", "full_page_writes", "block_size"),
    *("autovacuum", "autovacuum_naptime", "track_io_timing", "compute_query_id", "huge_pages"),
)


def sample_sessions(session: psycopg.Connection, clock_ns: int, texts: dict[str, str]) -> SessionsSample:
    """What each client session that has work does and whom it waits for, at this moment.

    texts: gets the whole text of each statement that is executed, by `statement_key`. Sessions that the role
    may not see are left out. Raises psycopg.Error.
    """
    rows = session.execute(_SESSIONS.encode()).fetchall()
    for _, _, query_id, query, *_, text in rows:
        if text and len(texts) < TEXTS_MAX:
            texts[statement_key(query_id, query)] = text
    return SessionsSample(
        clock_ns=clock_ns,
        sessions=tuple(_session(row[1:]) for row in rows if row[1] is not None),
        transactions=rows[0][0],
    )


def _session(row: TupleRow) -> Session:
    (
        pid,
        query_id,
        query,
        state,
        event_type,
        event,
        user,
        application,
        transaction_s,
        blocked_by,
        is_worker,
        _,
    ) = row
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
        is_worker=bool(is_worker),
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


def slots(session: psycopg.Connection) -> tuple[ReplicationSlot, ...]:
    """The replication slots and the WAL that each holds, which any role may see."""
    return tuple(ReplicationSlot(*row) for row in session.execute(_SLOTS.encode()).fetchall())
