"""What a plan costs by its shape, executed or not: from its figures, else from the planner's costs.

The formulas are those of costsize.c and pathnode.c (src/backend/optimizer): a sequential scan costs a page
and about 60 rows at 0.01 and more, a LIMIT with OFFSET the share of its rows that it leaves out.
"""

import re
from collections.abc import Sequence

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.plans import scan_conditions

# Less costs no statement much.
COST_MIN = 10_000.0
_SHARE_MIN = 0.1
_ROWS_MIN = 1000.0
_TIMES_MIN = 100.0
_SLOW_MS, _SLOW_WITH_FEW_ROWS_MS = 10.0, 100.0
_GATHERS = ("Gather", "Gather Merge")
# The part of its time that a leader loses to each worker (get_parallel_divisor of costsize.c).
_LEADER_LOST = 0.3
# What keeps its rows, so that a NOT IN goes through them again for each row (ExecMaterializesOutput of
# src/backend/executor/execAmi.c; the planner puts a Materialize upon anything else).
_KEEP_ROWS = (
    *("Materialize", "Function Scan", "Table Function Scan", "CTE Scan", "Named Tuplestore Scan"),
    *("WorkTable Scan", "Sort"),
)
# Rows that a scan reads for a cost of 1, about: a page of 60 rows costs 1 + 60 × (0.01 + 0.0025).
_ROWS_OF_COST = 30.0

# Of a scan that is called one of the whole table: a LIMIT ends others before.
_WHOLE_MIN = 0.9


def matters(plan: ExplainedPlan, node: PlanNode) -> bool:
    """Whether a node takes a share of the statement's time or cost that is worth a look."""
    if plan.executed:
        if not node.loops:
            return False
        return node.own_ms is None or not plan.nodes_ms or node.own_ms >= _SHARE_MIN * plan.nodes_ms
    return (node.cost_total or 0.0) >= _SHARE_MIN * plan.cost_total > 0


def reads_whole(plan: ExplainedPlan, node: PlanNode) -> bool:
    """Whether a plan that was not executed reads a table whole for few of its rows."""
    cost, rows = node.cost_total or 0.0, node.rows_estimated
    if plan.executed or node.type != "Seq Scan" or rows is None or "Filter" not in node.conditions:
        return False
    if cost < COST_MIN / 10 or cost < _SHARE_MIN * plan.cost_total:
        return False
    if share_until_limit(plan, node) < _WHOLE_MIN:
        return False
    return rows < 0.1 * _ROWS_OF_COST * cost and evaluations_below(plan, node) is None


def rows_estimated(plan: ExplainedPlan, node: PlanNode) -> float:
    """The rows that the planner expects of a node, of all processes together: it prints one's share.

    That is a division by the workers and what the leader has left beside them (get_parallel_divisor of
    costsize.c).
    """
    rows = node.rows_estimated or 0.0
    if not node.parallel:
        return rows
    above: PlanNode | None = node
    while above is not None and above.type not in _GATHERS:
        above = plan.nodes[above.parent] if above.parent is not None else None
    workers = (above.workers_planned if above is not None else None) or 0
    return rows * (workers + max(0.0, 1.0 - _LEADER_LOST * workers))


def share_until_limit(plan: ExplainedPlan, node: PlanNode) -> float:
    """The part of a node's work that the planner expects before a LIMIT above has its rows; 1 without one.

    A LIMIT costs that part of what is below it (src/backend/optimizer/util/pathnode.c,
    adjust_limit_rows_costs). What takes all its rows first (a sort, a hash, an aggregate) is done whole.
    """
    found = limit_above(plan, node)
    if found is None:
        return 1.0
    limit, below = found
    whole = below.cost_total or 0.0
    return min(1.0, (limit.cost_total or 0.0) / whole) if whole > 0 else 1.0


def limit_above(plan: ExplainedPlan, node: PlanNode) -> tuple[PlanNode, PlanNode] | None:
    """The LIMIT that may end a node before it has all its rows, and the node just below it."""
    below = node
    while below.parent is not None and below.subplan is None:
        above = plan.nodes[below.parent]
        if above.type in ("Sort", "Hash", "Aggregate", "ModifyTable"):
            return None
        if above.type == "Limit":
            return above, below
        below = above
    return None


def order_wanted(plan: ExplainedPlan, node: PlanNode) -> tuple[PlanNode, tuple[str, ...]] | None:
    """The Sort above a scan of which a LIMIT takes the first rows, and its keys; None where there is none."""
    above = _through(plan, node, _GATHERS)
    if above is None or above.type != "Sort":
        return None
    limit = _through(plan, above, _GATHERS)
    keys = scan_conditions.sort_keys(above.conditions.get("Sort Key", ""))
    return (above, keys) if limit is not None and limit.type == "Limit" and keys is not None else None


def table_within(plan: ExplainedPlan, node: PlanNode) -> PlanNode | None:
    """The first node that reads a table, of this one and those below it; None where there is none."""
    inside = {node.id}
    for each in plan.nodes:
        if each.parent in inside:
            inside.add(each.id)
        if each.id in inside and each.relation is not None:
            return each
    return None


def _through(plan: ExplainedPlan, node: PlanNode, passed: Sequence[str]) -> PlanNode | None:
    """The node above, without those that only pass rows on."""
    while node.parent is not None:
        node = plan.nodes[node.parent]
        if node.type not in passed:
            return node
    return None


def evaluations_below(plan: ExplainedPlan, node: PlanNode) -> float | None:
    """How often the dearest subplan of a node runs, None where none runs often: its cost is the node's."""
    found = [evaluations(plan, each) for each in plan.nodes if each.parent == node.id]
    return max((times for times in found if times is not None), default=None)


def evaluations(plan: ExplainedPlan, node: PlanNode) -> float | None:
    """How often a SubPlan's top node runs, where that is often and takes much of the statement; else None."""
    if node.subplan is None or not node.subplan.startswith("SubPlan") or node.parent is None:
        return None
    outer = plan.nodes[node.parent]
    if is_hashed(node.subplan, " ".join((*outer.conditions.values(), outer.output or ""))):
        return None
    if plan.executed:
        loops = node.loops or 0.0
        is_share = not plan.nodes_ms or (node.total_ms or 0.0) >= 0.2 * plan.nodes_ms
        return loops if loops >= _TIMES_MIN and is_share else None
    cost = outer.cost_total or 0.0
    each = (node.cost_total or 0.0) or 1.0
    # ANY and ALL are reckoned to end halfway (cost_subplan).
    times = 2 * cost / each if "ANY" in " ".join(outer.conditions.values()) else cost / each
    is_share = cost >= COST_MIN and cost >= 0.2 * plan.cost_total
    return times if is_share and times >= _TIMES_MIN else None


def is_hashed(subplan: str, text: str) -> bool:
    """Whether conditions name a SubPlan as hashed: it runs once (not "hashed SubPlan 10" for 1)."""
    return re.search(rf"hashed {re.escape(subplan)}(?![\w$])", text) is not None


def is_not_in(outer: PlanNode, top: PlanNode) -> bool:
    """Whether a SubPlan's top node is that of a NOT IN that was not hashed.

    Until 16 a NOT EXISTS is printed alike, `NOT (SubPlan 1)`; it asks for other rows each time, and so does
    a NOT IN that names a column from outside: neither keeps its rows.
    """
    text = " ".join(outer.conditions.values())
    return top.type in _KEEP_ROWS and scan_conditions.is_not_in(text, top.subplan)


def offset_rows(plan: ExplainedPlan, node: PlanNode) -> float | None:
    """How many rows a LIMIT reads to leave them out (OFFSET), where they are many; else None."""
    if node.type != "Limit":
        return None
    below = next((each for each in plan.nodes if each.parent == node.id and each.subplan is None), None)
    if below is None:
        return None
    if plan.executed and below.rows is not None and node.rows is not None:
        # Workers may each read some rows more than the LIMIT takes.
        skipped = (below.rows - node.rows) * (below.loops or 0.0)
        enough = max(_ROWS_MIN, 5 * node.rows * (node.loops or 0.0))
        return skipped if skipped >= enough else None
    start, end, rows = below.cost_startup or 0.0, below.cost_total or 0.0, below.rows_estimated or 0.0
    if end <= start or node.cost_startup is None:
        return None
    skipped = min(1.0, (node.cost_startup - start) / (end - start)) * rows
    return skipped if skipped >= max(_ROWS_MIN, 5 * (node.rows_estimated or 0.0)) else None


def is_slow(plan: ExplainedPlan) -> bool:
    """Whether something may be gained, whatever the plan looks like.

    Where few rows were handled, tens of milliseconds are a busy machine's or a disk's, not the plan's.
    """
    if not plan.executed:
        return plan.cost_total >= COST_MIN
    ms = plan.execution_ms or plan.nodes_ms or 0.0
    handled = [((node.rows or 0.0) + (node.rows_removed or 0.0)) * (node.loops or 0.0) for node in plan.nodes]
    return ms >= (_SLOW_MS if max(handled, default=0.0) >= _ROWS_MIN else _SLOW_WITH_FEW_ROWS_MS)
