"""The evidence that finders share: the symptom's plans as scans and joins, with tables and times."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.tune.candidate import Symptom, TunedStatement
from pgassay.tune.facts.schema import IndexFacts, TableFacts
from pgassay.tune.finders.evidence.conditions import Condition, SortColumn, conditions, sort_columns
from pgassay.tune.finders.evidence.sql_text import SqlText

SCANS = frozenset({"Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Sample Scan"})
# Nodes that hand on the rows of the one below in its order.
_THROUGH = frozenset({"Gather", "Gather Merge", "Subquery Scan", "Result", "Append", "Merge Append"})
# Nodes that read all rows below before they hand on the first.
_NEEDS_ALL = frozenset({"Sort", "Aggregate", "Hash", "SetOp", "ModifyTable", "Recursive Union"})
# reltuples is about right: a table of which so many rows were read was read to its end.
_WHOLE_MIN = 0.9
JOINS = frozenset({"Nested Loop", "Hash Join", "Merge Join"})


@dataclass(frozen=True)
class TableScan:
    """A node that reads a table, with the nodes that belong to it (bitmap index scans).

    `table` is the partitioned table where a partition is read. `rows_in` are the rows looked at and `rows`
    those that passed, both over all loops and processes. `ms` is the statement's time in it. `sort`: the keys
    that a Sort just above it asks for, `sort_node` that node, `limit` the rows that a Limit above lets
    through. `is_estimated`: its statement did not end, and its figures are the planner's."""

    statement: TunedStatement
    plan_number: int
    plan: ExplainedPlan
    node: PlanNode
    table: TableFacts
    read_table: TableFacts
    conditions: tuple[Condition, ...]
    ms: float
    rows_in: float
    rows: float
    loops: float
    indexes: tuple[str, ...] = ()
    sort: tuple[SortColumn, ...] = ()
    sort_node: PlanNode | None = None
    limit: float | None = None
    is_estimated: bool = False

    @property
    def is_sequential(self) -> bool:
        """Whether the whole table was read."""
        return self.node.type == "Seq Scan"

    @property
    def is_stopped(self) -> bool:
        """Whether a LIMIT above ended it before the table's end: nothing between needs all rows first."""
        for above in parents(self.plan, self.node):
            if above.type in _NEEDS_ALL:
                return False
            if above.type == "Limit":
                return self.rows_in / max(self.loops, 1.0) < _WHOLE_MIN * max(self.read_table.rows, 0.0)
        return False

    @property
    def alias(self) -> str:
        """The name that the conditions call the table."""
        return self.node.alias or self.table.name

    @property
    def sentence(self) -> str:
        """What the scan did, with its figures: the beginning of a reason."""
        estimated = "by the planner's estimate " if self.is_estimated else ""
        whole = "read until a LIMIT had its rows" if self.is_stopped else "fully read"
        way = whole if self.is_sequential else f"read by {self.node.type.lower()}"
        return (
            f"{estimated}{self.read_table.name} was {way}: {self.rows_in:,.0f} rows looked at, "
            f"{self.rows:,.0f} wanted ({self.ms:.1f} ms)"
        )


def statement_ms(plan: ExplainedPlan) -> float:
    """The statement's time in milliseconds: planning and execution; 0 where it was not executed."""
    return (plan.execution_ms or 0.0) + (plan.planning_ms or 0.0) if plan.execution_ms else 0.0


def executions(node: PlanNode) -> float:
    """How often a node ran to its end in a statement: its loops, of which parallel processes share one."""
    return (node.loops or 0.0) / max(node.processes, 1.0)


class FinderEvidence:
    """A symptom, read: every finder asks this one and no node twice."""

    def __init__(self, symptom: Symptom) -> None:
        self.symptom = symptom
        self.facts = symptom.facts
        self._texts: dict[str, SqlText] = {}

    def text(self, statement: TunedStatement) -> SqlText:
        """The statement's own SQL, parsed."""
        if statement.name not in self._texts:
            self._texts[statement.name] = SqlText(statement.sql)
        return self._texts[statement.name]

    def share(self, statement: str) -> float:
        """The statement's part of the workload's time, 0 to 1."""
        return self.symptom.share.get(statement, 1 / max(len(self.symptom.statements), 1))

    @cached_property
    def plans(self) -> tuple[tuple[TunedStatement, int, ExplainedPlan], ...]:
        """Each executed plan with its statement and its number among that statement's."""
        return tuple(
            (statement, number, plan)
            for statement in self.symptom.statements
            for number, plan in enumerate(self.symptom.plans.get(statement.name, ()))
            if plan.executed and statement_ms(plan) > 0
        )

    @cached_property
    def scans(self) -> tuple[TableScan, ...]:
        """The scans of all plans that ran, of tables that the facts know."""
        return tuple(scan for each in self.plans for scan in self._scans(*each))

    def table_of(self, node: PlanNode) -> TableFacts | None:
        """The table that a node reads; a partition itself."""
        return self.facts.table(node.relation, node.relation_schema) if node.relation else None

    def root_of(self, table: TableFacts) -> TableFacts:
        """The partitioned table on top of a partition, else the table itself."""
        # A partition may have its parent's name in another schema.
        parents_of = [
            each
            for each in self.facts.tables
            if table.is_partition_of(each) and each.kind == "partitioned" and each is not table
        ]
        near = [each for each in parents_of if each.schema_ == table.schema_]
        return self.root_of((near or parents_of)[0]) if parents_of else table

    def rows_of(self, table: TableFacts) -> float:
        """The rows of a table as far as they are known; those of its partitions together."""
        if table.kind == "partitioned":
            parts = [each for each in self.facts.tables if each.is_partition_of(table)]
            return sum(self.rows_of(each) for each in parts)
        return max(table.rows, 0.0) or float(table.live_rows or 0)

    def index(self, table: TableFacts, name: str) -> IndexFacts | None:
        """An index of a table by its name."""
        return next((each for each in table.indexes if each.name == name), None)

    def setting(self, name: str, default: float = 0.0) -> float:
        """A numeric setting in its base unit."""
        try:
            return float(self.facts.settings.get(name, default))
        except ValueError:
            return default

    def _scans(self, statement: TunedStatement, number: int, plan: ExplainedPlan) -> Iterator[TableScan]:
        for node in plan.nodes:
            if node.type not in SCANS or node.never_executed or not node.loops:
                continue
            table = self.table_of(node)
            if table is None:
                continue
            below = [each for each in plan.nodes if _is_within_bitmap(plan, each, node)]
            sort, keys, limit = _order_above(plan, node)
            texts = [node.conditions.get(key, "") for key in ("Index Cond", "Recheck Cond", "Filter")]
            found = [each for text in texts if text for each in conditions(text, node.alias or table.name)]
            yield TableScan(
                statement=statement,
                plan_number=number,
                plan=plan,
                node=node,
                table=self.root_of(table),
                read_table=table,
                conditions=tuple(checked(each, table) for each in dict.fromkeys(found)),
                ms=sum(each.own_ms or 0.0 for each in (node, *below)),
                rows_in=((node.rows or 0.0) + (node.rows_removed or 0.0)) * node.loops,
                rows=(node.rows or 0.0) * node.loops,
                loops=executions(node),
                indexes=tuple(each.index for each in (node, *below) if each.index),
                sort=keys,
                sort_node=sort,
                limit=limit,
                is_estimated=statement.name in self.symptom.endless,
            )


def _is_within_bitmap(plan: ExplainedPlan, node: PlanNode, top: PlanNode) -> bool:
    if top.type != "Bitmap Heap Scan" or node is top:
        return False
    while node.parent is not None and node.type in ("Bitmap Index Scan", "BitmapAnd", "BitmapOr"):
        node = plan.nodes[node.parent]
        if node is top:
            return True
    return False


def parents(plan: ExplainedPlan, node: PlanNode) -> Iterator[PlanNode]:
    """The nodes above a node of the same part of the plan, nearest first: not those above a subplan."""
    while node.parent is not None and node.subplan is None:
        node = plan.nodes[node.parent]
        yield node


def _order_above(
    plan: ExplainedPlan, node: PlanNode
) -> tuple[PlanNode | None, tuple[SortColumn, ...], float | None]:
    """A Sort above the scan with its keys, and a Limit's rows above it; only where nothing joins between."""
    sort: PlanNode | None = None
    keys: tuple[SortColumn, ...] = ()
    limit: float | None = None
    alias = node.alias or node.relation
    for each in parents(plan, node):
        if each.type in ("Sort", "Incremental Sort") and sort is None:
            found = sort_columns(each.conditions.get("Sort Key", ""))
            if not found or any(key.column is None or key.alias not in (alias, None) for key in found):
                break
            sort, keys = each, found
        elif each.type == "Limit":
            limit = (each.rows or 0.0) * (each.loops or 0.0)
            break
        elif each.type not in _THROUGH:
            break
    return sort, keys, limit


_TEXT_TYPES = ("text", "character varying", "name", "citext")


_WITHOUT_ZONE = re.compile(r"timestamp(\(\d\))? without time zone|date")


def checked(condition: Condition, table: TableFacts) -> Condition:
    """The condition with what the columns' types say of it."""
    known = (table.column(name) for name in condition.columns)
    types = {column.name: column.own_type for column in known if column is not None}
    if condition.cast and not types.get(condition.column or "", "").startswith(_TEXT_TYPES):
        return replace(condition, kind="other", column=None)
    # Of a timestamp with time zone, expressions depend on the session's zone: stable, not immutable.
    if condition.expression and any("with time zone" in type_ for type_ in types.values()):
        return replace(condition, immutable=False)
    if condition.immutable_without_zone and all(map(_WITHOUT_ZONE.fullmatch, types.values())):
        return replace(condition, immutable=True)
    return condition
