"""What each client session that has work does and whom it waits for, at one moment."""

from typing import TYPE_CHECKING, Any

from pgassay.analysis.diagnosis.interval import Look, Session

if TYPE_CHECKING:
    import psycopg

QUERY_CHARACTERS_MAX = 300
# pg_blocking_pids holds all locks of the lock manager's table for a moment: it is asked for few, those that
# have waited for the longest (src/backend/utils/adt/lockfuncs.c).
BLOCKED_ASKED_MAX = 12
# The function below pg_stat_activity, without the view's joins; one row even where nobody is at work.
_SQL = f"""
SELECT transactions, pid, query_id::text, left(query, {QUERY_CHARACTERS_MAX}), state,
       coalesce(wait_event_type, ''), coalesce(wait_event, ''), coalesce(usesysid::regrole::text, ''),
       coalesce(application_name, ''), extract(epoch FROM clock_timestamp() - xact_start)::float8,
       CASE WHEN wait_event_type = 'Lock' AND place <= {BLOCKED_ASKED_MAX} THEN pg_blocking_pids(pid) END
FROM (SELECT coalesce(sum(xact_commit), 0)::float8 AS transactions FROM pg_stat_database) AS counted
LEFT JOIN (SELECT *, row_number() OVER (PARTITION BY wait_event_type ORDER BY state_change) AS place
           FROM pg_stat_get_activity(NULL)
           WHERE backend_type IN ('client backend', 'parallel worker')
             AND state NOT IN ('idle', 'disabled')
             AND application_name NOT LIKE 'pgassay %') AS working ON true"""


def look(session: "psycopg.Connection[tuple[Any, ...]]", clock_ns: int) -> Look:
    """Look once; raises psycopg.Error. Sessions that the role may not see are left out."""
    rows = session.execute(_SQL.encode()).fetchall()
    return Look(
        clock_ns=clock_ns,
        sessions=tuple(_session(row[1:]) for row in rows if row[1] is not None),
        transactions=rows[0][0],
    )


def _session(row: tuple[Any, ...]) -> Session:
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
