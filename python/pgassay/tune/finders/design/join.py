"""An index on the column that a large table is joined by, where few of its rows are.

Evidence: a hash or merge join that reads a large table whole, though the other side has few rows, by the rows
that came; or a nested loop that reads the inner table whole each time.
Threshold: as for every index; none where a B-tree begins with the column.
Prediction: the other side's rows are looked up one by one, each a descent and the rows that match; the scan,
the hash that was built of it and the join's own time go.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.tune.finders.base import Finder, FinderOffer
from pgassay.tune.finders.design.btree import single_values
from pgassay.tune.finders.evidence.building import Key, NewIndex, finds_one, index_offer, serving
from pgassay.tune.finders.evidence.conditions import join_columns
from pgassay.tune.finders.evidence.plan_evidence import JOINS, FinderEvidence, TableScan, executions, parents
from pgassay.tune.finders.evidence.shares import equal_share
from pgassay.tune.finders.evidence.work import DESCENT_MS, index_ms

_BETWEEN = frozenset({"Hash", "Gather", "Gather Merge", "Sort", "Materialize", "Memoize", "Append"})
# A full or anti join needs every row of the side that it keeps: an index doesn't spare reading them.
_KEEPS_INNER = frozenset({"Full", "Right", "Right Anti", "Right Semi"})


def _join_above(scan: TableScan) -> tuple[PlanNode, PlanNode, list[PlanNode]] | None:
    """The join just above the scan, the input of it that the scan is, and the nodes between."""
    child = scan.node
    between: list[PlanNode] = []
    for node in parents(scan.plan, scan.node):
        if node.type in JOINS:
            return node, child, between
        if node.type not in _BETWEEN:
            return None
        between.append(node)
        child = node
    return None


def _other_rows(plan: ExplainedPlan, join: PlanNode, mine: PlanNode) -> float | None:
    sides = [node for node in plan.nodes if node.parent == join.id and node.subplan is None]
    others = [node for node in sides if node.id != mine.id]
    if len(sides) != 2 or len(others) != 1:
        return None
    other = others[0]
    # A part of the plan that is not parallel runs whole in each process: all of them have the same rows.
    parts = [node for node in plan.nodes if node.parallel]
    is_shared = any(other.id in (node.id, *(each.id for each in parents(plan, node))) for node in parts)
    return (other.rows or 0.0) * (other.loops or 0.0 if is_shared else executions(other))


def _columns(scan: TableScan, join: PlanNode) -> list[str]:
    found = []
    for key in ("Hash Cond", "Merge Cond", "Join Filter"):
        for left, right in join_columns(join.conditions.get(key, "")):
            for mine, other in ((left, right), (right, left)):
                if mine[0] == scan.alias and other[0] != scan.alias and scan.table.column(mine[1]):
                    found.append(mine[1])
    return list(dict.fromkeys(found))


def _is_kept(scan: TableScan, join: PlanNode, mine: PlanNode) -> bool:
    """Whether every row of the scan's side must come out, so that it is read in any case."""
    sides = [node for node in scan.plan.nodes if node.parent == join.id and node.subplan is None]
    is_outer = bool(sides) and sides[0].id == mine.id
    kind = join.join_type or "Inner"
    if kind == "Inner":
        return False
    if is_outer:
        return not kind.startswith("Right") or kind == "Right Semi"
    return kind in _KEEPS_INNER


@dataclass(frozen=True)
class Lookups:
    """A table that is fully read for a join: its columns, and what looking its rows up would take."""

    columns: list[str]
    outer_rows: float
    matched_rows: float
    before_ms: float
    after_ms: float


def lookups(evidence: FinderEvidence, scan: TableScan) -> Lookups | None:
    """What joining by lookups instead of the whole scan would be; None where that gives other rows."""
    above = _join_above(scan)
    # An index that has all columns is read as a narrower table, without a condition.
    is_whole = scan.is_sequential or (
        scan.node.type == "Index Only Scan" and "Index Cond" not in scan.node.conditions
    )
    if above is None or not is_whole:
        return None
    join, mine, between = above
    columns = _columns(scan, join)
    outer = _other_rows(scan.plan, join, mine)
    if not columns or outer is None or _is_kept(scan, join, mine):
        return None
    rows = evidence.rows_of(scan.table)
    column = scan.table.column(columns[0])
    matched = outer * rows * (equal_share(column, None, rows) if column else 0.005)
    after = outer * DESCENT_MS + index_ms(scan, matched, evidence.symptom.machine, descents=0)
    before = scan.ms + sum(node.own_ms or 0.0 for node in (*between, join))
    return Lookups(columns, outer, matched, before, after)


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan in evidence.scans:
        found = lookups(evidence, scan)
        if found is None:
            continue
        columns, rows = found.columns, evidence.rows_of(scan.table)
        equal = [str(each.column) for each in single_values(scan, rows) if each.kind == "equal"]
        names = [*columns, *(name for name in equal if name not in columns)][:3]
        if finds_one(scan.table, columns) or serving(scan.table, columns, ()):
            continue
        yield from index_offer(
            evidence, "join", scan, NewIndex(scan.table, tuple(Key(name) for name in names)),
            found.before_ms - found.after_ms,
            f"{scan.sentence} to be joined to {found.outer_rows:,.0f} rows; the index finds about "
            f"{found.matched_rows:,.0f} for these",
        )  # fmt: skip


JOIN = Finder("join", "design", ("join",), _find)
