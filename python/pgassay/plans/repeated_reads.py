"""What is read again for each row of something else, in the statement's own words."""

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.plans import scan_conditions
from pgassay.plans.node_wording import rows_words
from pgassay.plans.plan_cost import is_not_in, table_within

# So often in a statement is again and again.
_LOOPS_MIN = 100.0
# Its stored rows are gone through again; what Memoize remembers is found at once.
_KEEPS = ("Materialize",)


def repeated_read(plan: ExplainedPlan, node: PlanNode) -> str:
    """'loans is read again for each row of copies, 43,671 times …', else ''.

    Of a node that ran or would run that often: what a nested loop joins or a SubPlan asks for.
    """
    loops = (node.loops or 0.0) / max(node.processes, 1.0)
    inner = _table(plan, node)
    if loops < _LOOPS_MIN or not inner or not (node.type in _KEEPS or node.type == "Seq Scan"):
        return ""
    below = node
    while below.parent is not None:
        above = plan.nodes[below.parent]
        if below.subplan is not None and below.subplan.startswith("SubPlan"):
            return _told(inner, node, loops, _name(above) or "the query", _of_subplan(above, below))
        sides = [each for each in plan.nodes if each.parent == above.id and each.subplan is None]
        if above.type == "Nested Loop" and len(sides) > 1 and sides[1].id == below.id:
            outer = _table(plan, sides[0]) or "its other side"
            return _told(inner, node, loops, outer, _of_join(plan, above, node))
        below = above
    return ""


def _told(inner: str, node: PlanNode, loops: float, outer: str, why: str) -> str:
    rows = rows_words(round((node.rows or 0.0) + (node.rows_removed or 0.0)))
    times = f"{loops:,.0f} times {rows}"
    return f"{inner} is read again for each row of {outer}, {times}{f': {why}' if why else ''}"


def _of_subplan(outer: PlanNode, top: PlanNode) -> str:
    if is_not_in(outer, top):
        return "NOT IN too large to hash"
    return "a subquery that runs for each row"


def _of_join(plan: ExplainedPlan, join: PlanNode, node: PlanNode) -> str:
    """The join's condition, and that no index is used for it. That of a LATERAL is the scan's own filter."""
    condition = join.conditions.get("Join Filter", "")
    table = table_within(plan, node)
    if table is not None:
        for text in (condition, table.conditions.get("Filter", "")):
            column = scan_conditions.joined_column(text, table.alias or table.relation)
            if column:
                return f"no index on {table.relation}.{column} is used"
    if condition:
        return f"joined by {condition.strip('()')}"
    return "" if _asks_for_the_other(plan, join) else "joined without a condition"


def _asks_for_the_other(plan: ExplainedPlan, join: PlanNode) -> bool:
    """Whether a condition below a nested loop's inner side names a table of its outer side."""
    outer, inner = [each.id for each in plan.nodes if each.parent == join.id and each.subplan is None][:2]
    sides = {outer: outer, inner: inner}
    for each in plan.nodes:
        if each.parent in sides:
            sides[each.id] = sides[each.parent]
    names = {each.alias or each.relation for each in plan.nodes if sides.get(each.id) == outer}
    texts = [" ".join(each.conditions.values()) for each in plan.nodes if sides.get(each.id) == inner]
    shown = [form for name in names if name for form in (f"{name}.", f'"{name}".')]
    return any(form in text for form in shown for text in texts)


def _table(plan: ExplainedPlan, node: PlanNode) -> str:
    found = table_within(plan, node)
    return _name(found) if found is not None else ""


def _name(node: PlanNode) -> str:
    return node.relation or node.alias or ""
