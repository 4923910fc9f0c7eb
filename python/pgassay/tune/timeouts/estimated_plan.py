"""The estimated plan of a statement that did not end, with times and rows made plausible. Pure.

Finders work on executed plans. Of a statement that was stopped there is none: all that is known is that it
takes longer than it was given. So that time is laid over the planner's costs: the top node takes all of it,
and below each node the time is parted as its cost is. How often a node runs follows from the plan's shape:
the inner side of a nested loop once for each row of the outer one, a SubPlan as often as its cost is in that
of the node which asks for it (cost_subplan and cost_qual_eval of src/backend/optimizer/path/costsize.c charge
it for each row). What costs more below a node than the node itself, as below a LIMIT, is cut to that.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode

_GATHERS = ("Gather", "Gather Merge")
# Going through stored rows once more costs that for each (cost_rescan and cpu_operator_cost).
_AGAIN_ROW_COST = 0.0025
# The rows that a table has, by the node that reads it; None where they are not known.
RowsOf = Callable[[PlanNode], float | None]


@dataclass
class _Shared:
    """What each node gets, by its id: `ms` of the statement, `runs` of it in each of its `processes`."""

    ms: list[float]
    runs: list[float]
    processes: list[float]
    children: list[list[PlanNode]] = field(default_factory=list)


def plausible_execution(plan: ExplainedPlan, seconds: float, rows_of: RowsOf) -> ExplainedPlan:
    """The plan as if it had been executed in so many seconds with the rows that the planner expects."""
    count = len(plan.nodes)
    shared = _Shared([0.0] * count, [0.0] * count, [1.0] * count, [[] for _ in plan.nodes])
    for node in plan.nodes:
        if node.parent is not None:
            shared.children[node.parent].append(node)
    made: list[PlanNode] = []
    for node in plan.nodes:
        if node.parent is None:
            shared.ms[node.id], shared.runs[node.id] = 1000 * seconds, 1.0
        ms_of_cost = 1000 * seconds / max(plan.cost_total, 1e-9)
        _hand_down(node, shared, ms_of_cost, rows_of)
        made.append(_executed(node, shared, rows_of))
    own = sum(node.own_ms or 0.0 for node in made)
    return plan.model_copy(
        update={
            "executed": True,
            "nodes": tuple(made),
            "planning_ms": 0.0,
            "execution_ms": 1000 * seconds,
            "nodes_ms": own,
            "findings": (),
        }
    )


def _hand_down(node: PlanNode, shared: _Shared, ms_of_cost: float, rows_of: RowsOf) -> None:
    """Part a node's time among those below it; what none of them gets is its own."""
    regular = [child for child in shared.children[node.id] if not _is_asked_for(child, node)]
    asked_for = [child for child in shared.children[node.id] if _is_asked_for(child, node)]
    for place, child in enumerate(regular):
        more = 1.0 + (node.workers_planned or 0) if node.type in _GATHERS else 1.0
        shared.processes[child.id] = shared.processes[node.id] * more
        shared.runs[child.id] = _runs(node, child, shared, is_inner=place == 1 and child.subplan is None)
        shared.ms[child.id] = ms_of_cost * _cost(child, shared.runs[child.id])
    _cut(node, regular, shared, shared.ms[node.id])
    left_ms = shared.ms[node.id] - sum(shared.ms[child.id] for child in regular)
    for child in asked_for:
        shared.processes[child.id] = shared.processes[node.id]
        one_ms = max(ms_of_cost * (child.cost_total or 0.0), 1e-9)
        rows = rows_of(node)
        most = left_ms / len(asked_for) / one_ms
        rows_in = most if rows is None else rows / shared.processes[node.id] * shared.runs[node.id]
        shared.runs[child.id] = max(1.0, min(most, rows_in))
        shared.ms[child.id] = one_ms * shared.runs[child.id]
    _cut(node, asked_for, shared, left_ms)


def _is_asked_for(child: PlanNode, node: PlanNode) -> bool:
    """Whether a node is a SubPlan that runs for each row anew, and not once for all of them."""
    name = child.subplan or ""
    texts = " ".join((*node.conditions.values(), node.output or ""))
    return name.startswith("SubPlan") and re.search(rf"hashed {re.escape(name)}\b", texts) is None


def _runs(node: PlanNode, child: PlanNode, shared: _Shared, *, is_inner: bool) -> float:
    """How often a node below another one runs, in each process."""
    if child.subplan is not None or node.type == "Materialize":
        return 1.0  # its rows are kept
    if node.type == "Nested Loop" and is_inner:
        outer = shared.children[node.id][0]
        return shared.runs[node.id] * max(outer.rows_estimated or 1.0, 1.0)
    return shared.runs[node.id]


def _cost(node: PlanNode, runs: float) -> float:
    """What a node and all below it cost in so many runs; stored rows are made once."""
    once = node.cost_total or 0.0
    if node.type == "Materialize":
        return once + (runs - 1) * _AGAIN_ROW_COST * (node.rows_estimated or 1.0)
    return runs * once


def _cut(node: PlanNode, children: Sequence[PlanNode], shared: _Shared, most_ms: float) -> None:
    """Give these no more than there is; what would run too often for that runs less often."""
    wanted = sum(shared.ms[child.id] for child in children)
    if wanted <= most_ms:
        return
    part = max(most_ms, 0.0) / wanted
    for child in children:
        shared.ms[child.id] *= part
        if shared.runs[child.id] > shared.runs[node.id]:
            shared.runs[child.id] = max(shared.runs[node.id], part * shared.runs[child.id])


def _executed(node: PlanNode, shared: _Shared, rows_of: RowsOf) -> PlanNode:
    processes, runs, whole_ms = shared.processes[node.id], shared.runs[node.id], shared.ms[node.id]
    below_ms = sum(shared.ms[child.id] for child in shared.children[node.id])
    rows = node.rows_estimated or 0.0
    removed = None
    if node.type == "Seq Scan" and "Filter" in node.conditions:
        removed = max((rows_of(node) or 0.0) / processes - rows, 0.0)
    return node.model_copy(
        update={
            "own_ms": max(whole_ms - below_ms, 0.0),
            "total_ms": whole_ms,
            "processes_ms": whole_ms * processes,
            "loop_ms": whole_ms / max(runs, 1.0),
            "rows": rows,
            "loops": runs * processes,
            "processes": processes,
            "rows_removed": removed,
        }
    )
