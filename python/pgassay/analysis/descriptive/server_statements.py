"""What pg_stat_statements counted over each arm's trials; descriptive, without a verdict."""

from collections.abc import Sequence
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.server_statement import ArmStatements, ServerStatement
from pgassay.model.trial import CounterRow, figure
from pgassay.record import observations
from pgassay.record.experiment import StoredExperiment

SAMPLER = "pg_stat_statements"
STATEMENTS_MAX = 10
# Column of the file → field of a ServerStatement.
_FIGURES = {
    "calls": "calls",
    "rows": "rows",
    "total_exec_time": "exec_ms",
    "shared_blks_hit": "shared_blocks_hit",
    "shared_blks_read": "shared_blocks_read",
    "shared_blks_written": "shared_blocks_written",
    "shared_blk_read_time": "read_ms",
    "temp_blks_read": "temp_blocks_read",
    "temp_blks_written": "temp_blocks_written",
    "wal_bytes": "wal_bytes",
}
_OPTIONAL = frozenset({"read_ms", "wal_bytes"})


def arm_statements(stored: StoredExperiment) -> tuple[ArmStatements, ...]:
    """One per compared arm and control whose trials have the extension's counts, in the plan's order."""
    found = []
    for arm in stored.experiment.arms:
        if arm.role == "twin":
            continue
        trials = [
            rows
            for trial in stored.trials
            if trial.record.arm_id == arm.id and trial.record.status == "ok" and (rows := _rows(trial.folder))
        ]
        found += [_arm(arm, trials)] if trials else []
    return tuple(found)


def _rows(folder: Path) -> list[CounterRow]:
    try:
        columns = observations.columns(folder, SAMPLER) or {}
    except UsageError:
        # A damaged file costs this trial's part of a table without a verdict.
        return []
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _arm(arm: Arm, trials: Sequence[Sequence[CounterRow]]) -> ArmStatements:
    seen: dict[str, list[CounterRow]] = {}
    for rows in trials:
        for row in rows:
            seen.setdefault(str(row["queryid"]), []).append(row)
    ordered = sorted(seen.values(), key=lambda rows: -sum(figure(row, "total_exec_time") for row in rows))
    return ArmStatements(
        arm=arm.name,
        stratum=arm.stratum,
        trials=len(trials),
        statements_total=len(ordered),
        exec_ms=sum(figure(row, "total_exec_time") for rows in ordered for row in rows) / len(trials),
        statements=tuple(_statement(rows) for rows in ordered[:STATEMENTS_MAX]),
    )


def _statement(rows: Sequence[CounterRow]) -> ServerStatement:
    figures: dict[str, float | None] = {}
    for column, field in _FIGURES.items():
        values = [row.get(column) for row in rows]
        known = [float(value) for value in values if value is not None and not isinstance(value, str)]
        figures[field] = sum(known) / len(known) if known else (None if field in _OPTIONAL else 0.0)
    return ServerStatement.model_validate(
        {
            "query_id": str(rows[0]["queryid"]),
            "query": str(rows[0]["query"]),
            "trials": len(rows),
            **figures,
        }
    )
