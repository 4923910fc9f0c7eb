"""What autovacuum is told of a table, where its statements suffer from what it left.

Evidence: a scan that VACUUM would help (vacuum.py), and why autovacuum did not come: it is off, for the table
or altogether; the table's size times the scale factor is still ahead of its dead rows though these are a
tenth and more, and as many rows were changed as it has; or the dead rows are twice that threshold, so that
autovacuum came too late or was too slow (its cost limit).
Threshold: see there; 1 % of the rows is offered as scale factor, so that a run has little to do.
Prediction: what VACUUM saves, kept; no trial of minutes shows it, so these are told and not tried.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.building import place, shown
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence
from pgassay.tune.finders.operations.vacuum import harmed

_ROWS_MIN = 10_000
_DEAD_MIN, _CHANGED_MIN, _LATE = 0.1, 1.0, 2.0
_SCALE_FACTOR, _COST_LIMIT = 0.01, 2000
# autovacuum_vacuum_max_threshold, from 18 on: so many dead rows are enough, however large the table is.
_LARGEST_SINCE, _LARGEST = 180_000, 100_000_000
_ENABLED = ("autovacuum_enabled",)
_LIMIT = ("autovacuum_vacuum_cost_limit",)
_FACTORS = ("autovacuum_vacuum_scale_factor", "autovacuum_vacuum_insert_scale_factor")
# What parse_bool of src/backend/utils/adt/bool.c takes for false; pg_class keeps it as it was typed.
_OFF = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"})
UNTRIED = "a trial of minutes can't show what autovacuum does in a day: it is reported, not tested"


def _option(evidence: FinderEvidence, table: TableFacts, name: str, default: float) -> float:
    value = table.options.get(name)
    return float(value) if value is not None else evidence.setting(name, default)


def _remedy(
    evidence: FinderEvidence, table: TableFacts
) -> tuple[str, str, tuple[str, ...], str, dict[str, str]] | None:
    """Id, title, SQL, why, and settings."""
    where, name = place(table), shown(table)
    if table.options.get("autovacuum_enabled", "on").lower() in _OFF:
        return (
            f"autovacuum:{where}:enabled", f"Enable autovacuum for {name}",
            (f"ALTER TABLE {where} RESET (autovacuum_enabled)",), "autovacuum is switched off for it", {},
        )  # fmt: skip
    if evidence.facts.settings.get("autovacuum") == "off":
        return "autovacuum:on", "Switch autovacuum on", (), "autovacuum is off", {"autovacuum": "on"}
    rows, dead = evidence.rows_of(table), float(table.dead_rows or 0)
    factor = _option(evidence, table, "autovacuum_vacuum_scale_factor", 0.2)
    threshold = _option(evidence, table, "autovacuum_vacuum_threshold", 50) + factor * rows
    if evidence.facts.version >= _LARGEST_SINCE:
        largest = _option(evidence, table, "autovacuum_vacuum_max_threshold", _LARGEST)
        threshold = min(threshold, largest) if largest >= 0 else threshold
    if rows < _ROWS_MIN or dead < _DEAD_MIN * rows:
        return None
    if dead > _LATE * threshold:
        if not _is_held_back(evidence, table):
            return None
        why = f"{dead:,.0f} rows are dead, autovacuum should have run at {threshold:,.0f}"
        if _LIMIT[0] in table.options:  # which the server's does not change
            set_anew = f"ALTER TABLE {where} SET ({_LIMIT[0]} = {_COST_LIMIT})"
            return f"autovacuum:{where}:cost-limit", f"Make autovacuum of {name} faster", (set_anew,), why, {}
        settings = {"autovacuum_vacuum_cost_limit": str(_COST_LIMIT)}
        return "autovacuum:cost-limit", "Make autovacuum faster", (), why, settings
    changed = float((table.updated or 0) + (table.deleted or 0))
    if dead < threshold and changed >= _CHANGED_MIN * rows and factor > _SCALE_FACTOR:
        return (
            f"autovacuum:{where}:threshold", f"Run autovacuum on {name} more often",
            (f"ALTER TABLE {where} SET ({', '.join(f'{each} = {_SCALE_FACTOR}' for each in _FACTORS)})",),
            f"{changed:,.0f} rows were changed; autovacuum waits until {threshold:,.0f} are dead", {},
        )  # fmt: skip
    return None


def _is_held_back(evidence: FinderEvidence, table: TableFacts) -> bool:
    """Whether autovacuum sleeps so often that a higher cost limit makes it faster.

    -1 stands for VACUUM's own settings; without a delay it never sleeps (VacuumUpdateCosts of
    src/backend/postmaster/autovacuum.c).
    """
    delay = _option(evidence, table, "autovacuum_vacuum_cost_delay", 2)
    limit = _option(evidence, table, _LIMIT[0], -1)
    delay = evidence.setting("vacuum_cost_delay", 0) if delay < 0 else delay
    limit = evidence.setting("vacuum_cost_limit", 200) if limit <= 0 else limit
    return delay > 0 and limit < _COST_LIMIT


def _as_it_was(table: TableFacts, names: tuple[str, ...]) -> Iterator[str]:
    """What gives the table these options as it has them now."""
    had = [f"{name} = {table.options[name]}" for name in names if name in table.options]
    not_had = [name for name in names if name not in table.options]
    if had:
        yield f"ALTER TABLE {place(table)} SET ({', '.join(had)})"
    if not_had:
        yield f"ALTER TABLE {place(table)} RESET ({', '.join(not_had)})"


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan, saved, why in harmed(evidence):
        table = scan.read_table
        remedy = _remedy(evidence, table)
        if remedy is None:
            continue
        id_, title, sql, reason, settings = remedy
        changed = {"enabled": _ENABLED, "cost-limit": _LIMIT}.get(id_.rpartition(":")[2], _FACTORS)
        yield FinderOffer(
            Candidate(
                id=id_,
                layer="operations",
                kind="autovacuum",
                title=title,
                reason=f"{why}; {reason}",
                statements=(),
                sql=sql,
                undo=tuple(_as_it_was(table, changed)) if sql else (),
                settings=settings,
                physical=True,
                described=True,
                why_not=UNTRIED,
                bytes=0,
            ),
            (ExpectedSaving(scan.statement.name, scan.plan_number, saved),),
        )


AUTOVACUUM = Finder("autovacuum", "operations", ("autovacuum",), _find)
