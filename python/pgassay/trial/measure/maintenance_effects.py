"""What a maintenance command did: from the server's messages, its WAL counters and the files that are new."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgassay.errors import MeasurementError, first_line
from pgassay.model.maintenance import MaintenanceObservation, VacuumedRelation
from pgassay.model.workload import Statement
from pgassay.native.sql import Executed
from pgassay.trial.measure.maintenance_progress import SampledProgress
from pgassay.trial.measure.vacuum_verbose import read_vacuum
from pgassay.trial.snapshots.counters import Snapshot
from pgassay.workloads.maintenance import command_of

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

Files = dict[int, tuple[str, int, float]]

# What is summed over the relations of one VACUUM: fields of VacuumedRelation.
_SUMMED = (
    *("pages_removed", "pages_remain", "pages_scanned", "pages_eagerly_scanned"),
    *("tuples_removed", "tuples_remain", "tuples_dead_not_removable", "tuples_missed"),
    *("pages_frozen", "tuples_frozen", "pages_set_all_visible", "pages_set_all_frozen"),
    *("pages_with_dead_items", "index_passes", "parallel_workers_launched", "memory_resets"),
    *("delay_ms", "read_ms", "write_ms", "buffer_hits", "buffer_reads", "buffers_dirtied"),
    *("wal_records", "wal_full_page_images", "wal_bytes", "wal_full_page_image_bytes", "wal_buffers_full"),
    *("cpu_user_s", "cpu_system_s"),
)
# src/backend/commands/analyze.c, acquire_sample_rows; src/backend/commands/cluster.c, copy_table_data.
_MESSAGES = (
    re.compile(
        r'".*": scanned (?P<pages_scanned>\d+) of \d+ pages, containing (?P<tuples_live>\d+) live rows and '
        r"(?P<tuples_dead>\d+) dead rows; (?P<rows_sampled>\d+) rows in sample",
        re.DOTALL,
    ),
    re.compile(
        r'".*": found (?P<tuples_removed>\d+) removable, (?P<tuples_copied>\d+) nonremovable row versions in '
        r"(?P<pages_scanned>\d+) pages",
        re.DOTALL,
    ),
)
_FILES = """
SELECT c.relfilenode::int8, c.relkind, pg_relation_size(c.oid), greatest(c.reltuples, 0)::float8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm', 'i') AND c.relfilenode <> 0
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND c.relpersistence <> 't'"""


def run_untimed(connection: "ControlSession", statement: Statement) -> None:
    """Run what stands untimed before a statement, then a checkpoint, which every command has before it.

    After it no buffer is dirty, and the first change of every page logs the whole page: alike in all trials.
    Raises MeasurementError when one of them fails.
    """
    import psycopg

    for sql in statement.before:
        try:
            connection.execute(sql.encode(), prepare=False)
        except psycopg.Error as error:
            raise MeasurementError(
                f"what runs untimed before {statement.name} failed ({first_line(error)}): correct its SQL"
            ) from error
    connection.execute("CHECKPOINT")


def relation_files(connection: "ControlSession") -> Files:
    """The main files of tables and indexes now: file node → (kind, bytes, row versions as estimated)."""
    return {row[0]: (row[1], row[2], row[3]) for row in connection.execute(_FILES).fetchall()}


def observe(
    statement: Statement,
    executed: Executed,
    *,
    files: tuple[Files, Files],
    views: tuple[Snapshot, Snapshot],
    progress: SampledProgress,
) -> MaintenanceObservation | None:
    """Put together what a command did; `files` and `views` are those before and after it."""
    command = command_of(statement.sql)
    if command is None:
        return None
    messages = [notice.message for notice in executed.notices]
    relations = read_vacuum(messages)
    done = _wal(*views) | _new_files(*files) | _message_figures(messages)
    for name, value in _sums(relations).items():
        # VACUUM's own figures are of itself alone; ANALYZE in the same command adds to the pages scanned.
        done[name] = value
    return MaintenanceObservation(
        statement=statement.name,
        command=command,
        elapsed_s=executed.elapsed_s,
        done=done,
        relations=relations,
        progress_samples=progress.samples,
        phases_s=dict(progress.phases_s),
        messages_dropped=executed.notices_dropped,
    )


def _sums(relations: Sequence[VacuumedRelation]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name in _SUMMED:
        values = [value for relation in relations if (value := getattr(relation, name)) is not None]
        if values:
            sums[name] = float(sum(values))
    deleted = [index.pages_newly_deleted for relation in relations for index in relation.indexes]
    if deleted:
        sums["index_pages_deleted"] = float(sum(deleted))
    return sums


def _message_figures(messages: Sequence[str]) -> dict[str, float]:
    done: dict[str, float] = {}
    for message in messages:
        for pattern in _MESSAGES:
            found = pattern.match(message)
            for name, value in found.groupdict().items() if found else ():
                done[name] = done.get(name, 0.0) + float(value)
    return done


def _wal(before: Snapshot, after: Snapshot) -> dict[str, float]:
    """The whole server's WAL over the command: nothing else runs in it."""
    old = next(iter(before.get("pg_stat_wal", {}).values()), {})
    new = next(iter(after.get("pg_stat_wal", {}).values()), {})
    names = {
        "wal_records": "wal_records",
        "wal_fpi": "wal_full_page_images",
        "wal_bytes": "wal_bytes",
    }
    return {ours: new[name] - old.get(name, 0.0) for name, ours in names.items() if name in new}


def _new_files(before: Files, after: Files) -> dict[str, float]:
    """What was written anew: every rewrite and every index that is built gets another file node."""
    new = [facts for node, facts in after.items() if node not in before]
    if not new:
        return {}
    indexes = [(size, tuples) for kind, size, tuples in new if kind == "i"]
    done = {"table_bytes_written": float(sum(size for kind, size, _ in new if kind != "i"))}
    if indexes:
        done["index_bytes_built"] = float(sum(size for size, _ in indexes))
        done["index_tuples_built"] = float(sum(tuples for _, tuples in indexes))
    return {name: value for name, value in done.items() if value}
