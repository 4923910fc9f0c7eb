"""ANALYZE, extended statistics and statistics targets, where an estimate is wrong and a plan depends on it.

Evidence: a node whose rows are wrong by a factor of ten and more, below a join, a sort or an aggregate that
planned for other rows, and that takes a fifth of the statement's time; a wrong estimate that no other choice
hangs on is left alone. What is offered depends on why it is wrong:
- the table was never analysed, or a fifth of it changed since: ANALYZE. Where autovacuum lets a tenth change
  (autovacuum_analyze_scale_factor), a fifth is beyond its doing.
- several conditions of one table, each estimated well, together wrong: CREATE STATISTICS, dependencies and
  mcv where all compare with one value, mcv alone otherwise; groups of several columns: ndistinct.
- one value of one column that is not among the most common ones kept, whose list is full: a larger target.
Threshold: the factor of ten is that of PostgreSQL's own advice on EXPLAIN, as plan viewers use it; a factor
of two or three rarely changes a plan.
Prediction: the time of the nested loop's inner side or of what spilled becomes that of reading the inner
table once; half of the node's time where the better plan can't be told. The planner's next choice with right
numbers is not known before it has them, so it is tried wherever the cheapest of them would be worth it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.plans.findings import gone_back, stopped_early
from pgassay.sql_text import identifier
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.building import place, shown
from pgassay.tune.finders.evidence.conditions import sort_columns
from pgassay.tune.finders.evidence.plan_evidence import (
    JOINS,
    FinderEvidence,
    TableScan,
    parents,
    statement_ms,
)
from pgassay.tune.finders.evidence.shares import together
from pgassay.tune.finders.evidence.work import SEQUENTIAL_ROW_MS
from pgassay.tune.names import bounded, digest

FACTOR_MIN = 10.0
CHANGED_MIN = 0.2
DEPENDENT_SHARE_MIN = 0.2
TARGET = 1000
_ROWS_MIN = 100
# EXPLAIN's clock makes a node with many loops look dearer than it is.
_OF_TIMED = 0.75


@dataclass(frozen=True)
class _Saved:
    """What another plan saves in milliseconds: as expected, and at most."""

    ms: float
    most_ms: float


@dataclass(frozen=True)
class _Wrong:
    """A scan whose rows were estimated wrongly, the node that depends on it, and what a right one saves."""

    scan: TableScan
    factor: float
    dependent: PlanNode
    saved: _Saved


def factor_of(node: PlanNode) -> float:
    """How wrong a node's estimate is: 1 or more, whichever way."""
    estimated, came = max(node.rows_estimated or 1.0, 1.0), max(node.rows or 0.0, 1.0)
    return max(estimated / came, came / estimated)


def _dependent(
    evidence: FinderEvidence, plan: ExplainedPlan, wrong: PlanNode
) -> tuple[PlanNode, _Saved] | None:
    """What was planned for the wrong number of a node's rows, and what the right one would save in it."""
    total = statement_ms(plan)
    rows = (wrong.rows or 0.0) * (wrong.loops or 0.0)
    too_few = (wrong.rows or 0.0) > (wrong.rows_estimated or 0.0)
    below = wrong
    for node in parents(plan, wrong):
        sides = [each for each in plan.nodes if each.parent == node.id and each.subplan is None]
        if node.type == "Nested Loop" and too_few and len(sides) == 2 and sides[0].id == below.id:
            inner = sides[1]
            spent = inner.total_ms or 0.0
            least, once = _inner_once_ms(evidence, plan, rows, inner)
            if spent >= DEPENDENT_SHARE_MIN * total and least < spent:
                return node, _Saved(max(_OF_TIMED * (spent - once), 0.0), _OF_TIMED * (spent - least))
        if node.type in JOINS - {"Nested Loop"} and not too_few and len(sides) == 2:
            other = next(each for each in sides if each.id != below.id)
            spent = (other.total_ms or 0.0) + (node.own_ms or 0.0)
            lookups = max(rows, 1.0) * 0.005
            if (
                spent >= DEPENDENT_SHARE_MIN * total
                and lookups < spent
                and _has_index(evidence, plan_nodes=sides)
            ):
                return node, _Saved(spent - lookups, spent)
        if node.disk and (node.own_ms or 0.0) >= DEPENDENT_SHARE_MIN * total:
            return node, _Saved(0.5 * (node.own_ms or 0.0), node.own_ms or 0.0)
        below = node
    return None


def _inner_once_ms(
    evidence: FinderEvidence, plan: ExplainedPlan, outer: float, inner: PlanNode
) -> tuple[float, float]:
    """Reading the inner side's tables once: at least, and with hashing as is expected."""
    rows = 0.0
    for node in plan.nodes:
        if node.relation and (node is inner or inner in parents(plan, node)):
            table = evidence.table_of(node)
            rows += evidence.rows_of(table) if table else 0.0
    return rows * SEQUENTIAL_ROW_MS, rows * SEQUENTIAL_ROW_MS * 3 + outer * SEQUENTIAL_ROW_MS * 2


def _has_index(evidence: FinderEvidence, plan_nodes: list[PlanNode]) -> bool:
    """Whether a side is fully read though its table has indexes that a nested loop could use."""
    tables = [evidence.table_of(node) for node in plan_nodes]
    return any(table is not None and table.indexes for table in tables) or any(
        node.type in ("Hash", "Sort", "Materialize") for node in plan_nodes
    )


def wrong_scans(evidence: FinderEvidence) -> Iterator[_Wrong]:
    """Scans whose estimate is wrong by FACTOR_MIN and more, and whose plan depends on it."""
    for scan in evidence.scans:
        factor = factor_of(scan.node)
        most = max(scan.node.rows or 0.0, scan.node.rows_estimated or 0.0)
        if factor < FACTOR_MIN or most < _ROWS_MIN or scan.limit is not None:
            continue
        fewer = (scan.node.rows or 0.0) < (scan.node.rows_estimated or 0.0)
        nodes = scan.plan.nodes
        if scan.node.id in (stopped_early(nodes) if fewer else gone_back(nodes)):
            continue
        found = _dependent(evidence, scan.plan, scan.node)
        if found is not None:
            yield _Wrong(scan, factor, *found)


def is_stale(evidence: FinderEvidence, table: TableFacts) -> bool:
    """Whether the statistics are missing or of other rows than the table has now."""
    if table.rows < 0 or not any(column.distinct is not None for column in table.columns):
        return True
    changed = float(table.changed_since_analyze or 0)
    return changed >= CHANGED_MIN * max(evidence.rows_of(table), 1.0)


def _sentence(wrong: _Wrong) -> str:
    node = wrong.scan.node
    return (
        f"{wrong.scan.read_table.name}: {node.rows_estimated or 0:,.0f} rows expected, "
        f"{node.rows or 0:,.0f} came; "
        f"the {wrong.dependent.name} above was planned for the wrong number"
    )


def _offer(
    wrong: _Wrong, kind: str, id_: str, title: str, reason: str, sql: tuple[str, ...], undo: str
) -> FinderOffer:
    scan = wrong.scan
    return FinderOffer(
        Candidate(
            id=id_, layer="operations", kind=kind, title=title, reason=reason, statements=(), sql=sql,
            undo=(undo,) if undo else (), undoable=bool(undo), bytes=0,
        ),
        (ExpectedSaving(scan.statement.name, scan.plan_number, wrong.saved.ms, wrong.saved.most_ms),),
    )  # fmt: skip


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for wrong in wrong_scans(evidence):
        table = wrong.scan.table
        where, name = place(table), shown(table)
        if is_stale(evidence, wrong.scan.read_table):
            # Of the partition that was read: autovacuum never analyses the table that has it.
            read = wrong.scan.read_table
            when = read.last_analyze[:16] if read.last_analyze else "never"
            yield _offer(
                wrong, "analyze", f"analyze:{where}", f"ANALYZE {name}",
                f"{_sentence(wrong)}; last analysed: {when}, {read.changed_since_analyze or 0:,} "
                "rows changed since",
                (f"ANALYZE {where}",), "",
            )  # fmt: skip
            continue
        yield from _extended(evidence, wrong)
    yield from _groups(evidence)


def _extended(evidence: FinderEvidence, wrong: _Wrong) -> Iterator[FinderOffer]:
    scan, table = wrong.scan, wrong.scan.table
    where, rows = place(table), evidence.rows_of(table)
    known = [each for each in scan.conditions if each.column and table.column(each.column)]
    columns = list(dict.fromkeys(str(each.column) for each in known))
    if len(columns) >= 2:
        kinds = ("dependencies", "mcv") if all(each.kind == "equal" for each in known) else ("mcv",)
        yield from _statistics(evidence, wrong, columns[:8], kinds)
        return
    if len(columns) != 1:
        return
    column = table.column(columns[0])
    target = int(evidence.setting("default_statistics_target", 100))
    if column is None or (column.statistics_target or target) >= TARGET:
        return
    estimated = together(tuple(known), table, rows) * rows
    if len(column.common) >= 0.9 * (column.statistics_target or target) and estimated:
        name = identifier(columns[0])
        before = column.statistics_target if column.statistics_target is not None else -1
        yield _offer(
            wrong, "statistics-target", f"statistics-target:{where}.{name}",
            f"A larger statistics target for {shown(table)}.{columns[0]}",
            f"{_sentence(wrong)}; the list of its {len(column.common)} most common values is full",
            (f"ALTER TABLE {where} ALTER COLUMN {name} SET STATISTICS {TARGET}", f"ANALYZE {where}"),
            f"ALTER TABLE {where} ALTER COLUMN {name} SET STATISTICS {before}",
        )  # fmt: skip


def _statistics(
    evidence: FinderEvidence, wrong: _Wrong, columns: list[str], kinds: tuple[str, ...]
) -> Iterator[FinderOffer]:
    table = wrong.scan.table
    for have in evidence.facts.statistics:
        is_of_it = (have.table_schema, have.table) == (table.schema_, table.name)
        if is_of_it and set(columns) <= set(have.columns) and set(kinds) & set(have.kinds):
            return
    listed = ", ".join(identifier(name) for name in columns)
    id_ = f"statistics:{place(table)}({listed}):{','.join(kinds)}"
    # Other kinds of the same columns are another object.
    name = identifier(bounded(f"{table.name}_{'_'.join(columns)}", f"_pgastat{digest(id_)}"))
    qualified = f"{identifier(table.schema_)}.{name}"
    yield _offer(
        wrong, "extended-statistics", id_,
        f"Extended statistics ({', '.join(kinds)}) on {shown(table)} ({listed})",
        f"{_sentence(wrong)}; the columns {listed} depend on each other, which only extended statistics show",
        (f"CREATE STATISTICS {qualified} ({', '.join(kinds)}) ON {listed} FROM {place(table)}",
         f"ANALYZE {place(table)}"),
        f"DROP STATISTICS {qualified}",
    )  # fmt: skip


def _groups(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    """Groups of several columns, counted as if they had nothing to do with each other."""
    for scan in evidence.scans:
        if is_stale(evidence, scan.read_table):
            continue
        for node in parents(scan.plan, scan.node):
            keys = sort_columns(node.conditions.get("Group Key", "")) if node.type == "Aggregate" else ()
            names = [key.column for key in keys if key.alias in (scan.alias, None) and key.column]
            if len(names) < 2 or len(names) != len(keys) or factor_of(node) < FACTOR_MIN:
                continue
            found = _dependent(evidence, scan.plan, node) or _sorted_for(scan, node)
            if found is None:
                continue
            wrong = _Wrong(scan, factor_of(node), *found)
            for each in _statistics(evidence, wrong, [str(name) for name in names], ("ndistinct",)):
                reason = (
                    f"{node.rows_estimated or 0:,.0f} groups expected, {node.rows or 0:,.0f} came: "
                    "the columns "
                    f"{', '.join(str(name) for name in names)} of {scan.table.name} depend on each other"
                )
                yield FinderOffer(each.candidate.model_copy(update={"reason": reason}), each.savings)


def _sorted_for(scan: TableScan, aggregate: PlanNode) -> tuple[PlanNode, _Saved] | None:
    """A sort below the aggregate, for groups too many to be hashed, or an aggregate that went to disk."""
    between = [each for each in parents(scan.plan, scan.node) if each.depth > aggregate.depth]
    sorts = [each for each in between if each.type in ("Sort", "Incremental Sort")]
    spent = sum(each.own_ms or 0.0 for each in (*sorts, *([aggregate] if aggregate.disk else [])))
    if spent < DEPENDENT_SHARE_MIN * statement_ms(scan.plan):
        return None
    return aggregate, _Saved(0.6 * spent, spent)


ANALYZE = Finder(
    "analyze", "operations", ("analyze", "extended-statistics", "statistics-target"), _find
)  # fmt: skip
