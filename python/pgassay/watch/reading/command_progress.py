"""Commands that report how far they are: VACUUM, ANALYZE, CREATE INDEX and their kin, over all databases."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgassay.model.running_server.watch import CommandProgress
from pgassay.trial.measure.maintenance_progress import VIEWS, counted_in_phase, passes_ended, union_of_views

if TYPE_CHECKING:
    import psycopg

Figures = Mapping[str, str | float | None]


def query(major: int) -> str:
    """The query whose rows are view, database, relation, whether autovacuum runs it, and the row as JSON."""
    return union_of_views(
        major,
        """SELECT '{view}' AS view, p.datname::text, CASE WHEN p.datname = current_database()
            THEN p.relid::regclass::text ELSE p.relid::text END,
            coalesce(a.backend_type = 'autovacuum worker', false), to_jsonb(p)
        FROM pg_stat_progress_{view} p LEFT JOIN pg_stat_activity a ON a.pid = p.pid""",
    )


def read(session: "psycopg.Connection", major: int) -> tuple[CommandProgress, ...]:
    """The commands at work now, by process; raises psycopg.Error."""
    rows = session.execute(query(major).encode()).fetchall()
    made = [command_progress(*row[:3], figures=row[4], autovacuum=row[3]) for row in rows]
    return tuple(sorted(made, key=lambda each: each.pid))


def command_progress(
    view: str, database: str | None, relation: str | None, *, figures: Figures, autovacuum: bool
) -> CommandProgress:
    """One row of `pg_stat_progress_VIEW`, whichever version has written it."""
    counted = counted_in_phase(view, figures)
    return CommandProgress(
        pid=int(_number(figures, "pid") or 0),
        command=str(figures.get("command") or VIEWS[view][2]),
        database=database,
        relation=relation,
        autovacuum=autovacuum,
        phase=str(figures.get("phase") or ""),
        done=counted[0] if counted else None,
        total=counted[1] if counted else None,
        passes=passes_ended(view, figures) if view == "vacuum" else None,
        dead_rows=_number(figures, "num_dead_tuples", "num_dead_item_ids"),
        dead_rows_max=_number(figures, "max_dead_tuples"),
        dead_rows_bytes=_number(figures, "dead_tuple_bytes"),
        dead_rows_bytes_max=_number(figures, "max_dead_tuple_bytes"),
        delay_ms=_number(figures, "delay_time"),
    )


def _number(figures: Figures, *names: str) -> float | None:
    """The first of these figures that the row has."""
    values = (figures.get(name) for name in names)
    return next((float(value) for value in values if isinstance(value, int | float)), None)
