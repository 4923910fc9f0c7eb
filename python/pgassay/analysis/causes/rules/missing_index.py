"""Scans that examine a whole table and throw nearly all of it away: an index is missing.

A plan's `Filter` of a sequential scan drops rows after they were read, an index would not have visited them
(doc/src/sgml/perform.sgml, "Using EXPLAIN"). How many it keeps is the planner's estimate, or what the
statement returned when that is more; how many it examined is the server's count. An estimate of one row
from before many rows were written says nothing: what ANALYZE has not seen is one row, whatever it holds now.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pgassay.analysis.causes.base import Answer, Missing, Rule, lifted
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.scans import Saving, Scan, nodes, saved_seconds, scans
from pgassay.plans.plan_shape import children_of, number

# Where more is kept, reading it all may well be the better plan.
_KEPT_MAX = 0.05
_ROWS_MIN = 1000
# Twice the share at which autovacuum analyses a table (autovacuum_analyze_scale_factor).
_CHANGED_MAX = 0.2
# The least share of the time that is worth an index.
_SHARE_MIN = 0.25
# A row by an index costs the way down the tree as well.
_INDEX_ROWS = 2.0


@dataclass(frozen=True)
class _Filter:
    """One sequential scan in a plan: whose, and the share of the table's rows that its filter keeps."""

    statement: str
    key: tuple[str, str]
    kept_rows: float | None
    condition: str


def _discarding(evidence: Evidence) -> Answer:
    found = scans(evidence)
    if found is None:
        return Missing("the rows that scans examined")
    if not evidence.work.plans:
        return Missing("the plans") if any(scan.rows >= _ROWS_MIN for scan in found) else None
    filters = list(_filters(evidence))
    worst: tuple[Saving, Scan, _Filter] | None = None
    total = Saving()
    for scan in found:
        saving, strongest = _saving(scan, filters)
        if strongest is None:
            continue
        total += saving
        if worst is None or saving.rows > worst[0].rows:
            worst = saving, scan, strongest
    if worst is None:
        return None
    seconds, cpu_s = saved_seconds(evidence, total)
    if evidence.times.share(seconds) < _SHARE_MIN:
        return None
    _, scan, strongest = worst
    is_stale = (scan.table.changed_rows or 0.0) > _CHANGED_MAX * scan.live_rows
    if is_stale and (strongest.kept_rows or 0.0) <= 1:
        name = scan.table.name
        return Missing(f"how many rows the filter on {name} keeps (type ANALYZE {name})")
    figures: dict[str, float | str] = {
        "statement": strongest.statement,
        "table": f"{scan.table.schema_name}.{scan.table.name}",
        "filter": strongest.condition,
        "rows_examined": scan.live_rows,
        "rows_kept": strongest.kept_rows or 0.0,
        "pages": float(scan.table.pages),
        "scans": scan.times,
    }
    return lifted(evidence, seconds, figures, cpu_s=cpu_s, reads_as_much=False)


def _saving(scan: Scan, filters: list[_Filter]) -> tuple[Saving, _Filter | None]:
    """What indexes would spare of a table's scans; all scans of its plans count alike."""
    table = scan.table
    mine = [each for each in filters if each.key == (table.schema_name, table.name)]
    strong = [
        each
        for each in mine
        if each.kept_rows is not None
        and scan.live_rows >= _ROWS_MIN
        and each.kept_rows <= _KEPT_MAX * scan.live_rows
    ]
    total = Saving()
    for each in strong:
        times, kept = scan.times / len(mine), each.kept_rows or 0.0
        pages = max(0.0, table.pages - kept)
        spared = pages / table.pages
        total += Saving(
            times * pages,
            scan.pages_read / len(mine) * spared,
            times * max(0.0, scan.live_rows - _INDEX_ROWS * kept),
        )
    return total, min(strong, key=lambda each: each.kept_rows or 0.0, default=None)


def _filters(evidence: Evidence) -> Iterator[_Filter]:
    returned = {item.name: float(item.rows) for item in evidence.work.statements}
    for statement, plan in evidence.work.plans.items():
        parents: dict[int, float] = {}
        for node in nodes(plan):
            # Of a parallel scan the rows are those of one participant
            # (src/backend/optimizer/path/costsize.c, get_parallel_divisor).
            divisor = parents.get(id(node), 1.0)
            workers = number(node, "Workers Planned")
            if workers:
                divisor = workers + max(0.0, 1 - 0.3 * workers)
            parents |= {id(child): divisor for child in children_of(node)}
            if node.get("Node Type") == "Seq Scan" and "Relation Name" in node:
                kept = None
                if "Filter" in node:
                    estimate = number(node, "Plan Rows")
                    estimate *= divisor if node.get("Parallel Aware") else 1.0
                    kept = max(estimate, returned.get(statement, 0.0))
                key = str(node.get("Schema", "")), str(node["Relation Name"])
                yield _Filter(statement, key, kept, str(node.get("Filter", "")))


DISCARDING = Rule(
    cause="discarding-scan",
    kind="fault",
    layer="design",
    phrase="a whole table was read and nearly all of it discarded",
    remedy="Create an index on the columns of the filter (CREATE INDEX CONCURRENTLY), or on its expression.",
    next_step="Check the plan of the statement that scans the table, and the columns of its filter.",
    find=_discarding,
)
