"""What to do about a plan: indexes, rewrites, maintenance and settings that it calls for, each by rule.

One plan proves nothing: every list ends with the command that tries it. `pgassay tune` knows the tables too.
"""

import re
from collections.abc import Iterator, Sequence

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanAdvice, PlanNode
from pgassay.plans import scan_conditions, setting_advice
from pgassay.plans.findings import slow_constraints
from pgassay.plans.node_wording import Order, label, read_words, rows_words, statistics_in_sql
from pgassay.plans.plan_cost import (
    evaluations,
    is_not_in,
    is_slow,
    limit_above,
    matters,
    offset_rows,
    order_wanted,
    reads_whole,
    rows_estimated,
    table_within,
)
from pgassay.sql_text import identifier

_LINES_MAX = 4
_COMPARED = re.compile(r"ANY \((?P<column>[\w$.\"]+) = \(SubPlan")
_RETURNED = re.compile(r"(?:[\w$\"]+\.)?(?P<column>[\w$\"]+)")
_PARAMETER = re.compile(r"\$\d+")
_ROWS_MIN = 1000.0
_INNER_LOOPS_MIN = 100.0
_SCANS = ("Seq Scan",)
_INDEXABLE = ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Heap Scan")
# Nobody may give the system's own tables an index (allow_system_table_mods).
_REFUSED = re.compile(r"CREATE .* (?:ON|FROM) (?:pg_|information_schema\.)")
TUNE = "pgassay tune --dataset dump:FILE --workload sql:FILE"
_TRY = (
    "Whether it helps, and by how much: pgassay tune tries these and others on a copy and proves what holds "
    "(pgassay tune DSN for a server)."
)
_LOOK_FURTHER = (
    "This plan alone suggests no index and no rewrite: pgassay tune knows the tables as well, and tries "
    "what they allow on a copy (pgassay tune DSN for a server)."
)
_NOTHING = "Nothing to improve in this plan: it reads little more than it returns."


def advice_of(plan: ExplainedPlan) -> list[PlanAdvice]:
    """The advice on a plan whose findings are known; never empty."""
    found: dict[str, PlanAdvice] = {}
    rules = (_foreign_keys, _rewrites, _indexes, _inner_indexes, _sorted_indexes, _maintenance)
    for rule in (*rules, setting_advice.memory, setting_advice.jit):
        for each in rule(plan):
            if _REFUSED.match(each.sql or "") is None:
                found.setdefault(each.sql or each.sentence, each)
    listed = list(found.values())[:_LINES_MAX]
    if listed:
        return [*listed, PlanAdvice(kind="tune", sentence=_TRY, sql=TUNE)]
    if is_slow(plan):
        return [PlanAdvice(kind="tune", sentence=_LOOK_FURTHER, sql=TUNE)]
    return [PlanAdvice(kind="nothing", sentence=_NOTHING)]


def _costliest(plan: ExplainedPlan) -> Sequence[PlanNode]:
    return sorted(plan.nodes, key=lambda node: -((node.own_ms if plan.executed else node.cost_total) or 0.0))


def _can_have_index(node: PlanNode) -> bool:
    """Whether it reads a table of this server, which a result, a function and a foreign table are not.

    A sample reads its part of the table whatever indexes there are.
    """
    return node.relation is not None and node.type in _INDEXABLE


def _table(node: PlanNode) -> str:
    schema = f"{identifier(node.relation_schema)}." if node.relation_schema else ""
    return f"{schema}{identifier(str(node.relation))}"


def _index(node: PlanNode, keys: scan_conditions.Keys) -> str:
    method = f" USING {keys.method}" if keys.method else ""
    columns = ", ".join(map(scan_conditions.plainly, keys.columns))
    sql = f"CREATE INDEX CONCURRENTLY ON {_table(node)}{method} ({columns});"
    return f"{keys.needs}; {sql}" if keys.needs else sql


def _statistics(node: PlanNode, keys: Sequence[str]) -> str:
    return statistics_in_sql(node.relation_schema, str(node.relation), keys, _table(node))


def _foreign_keys(plan: ExplainedPlan) -> Iterator[PlanAdvice]:
    """What is deleted, or gets another key, is looked for in each table that refers to it, after the plan.

    The triggers that do so are RI_ConstraintTrigger_a_…; those of the referring table (…_c_…) look for its
    key (src/backend/commands/trigger.c, CreateTriggerFiringOn). EXPLAIN's text may name neither.
    """
    changes = {node.name for node in plan.nodes if node.type == "ModifyTable"}
    for trigger in slow_constraints(plan):
        is_of_key = trigger.name.startswith("RI_ConstraintTrigger_a_")
        is_unknown = trigger.name == trigger.constraint and "Delete" in changes
        if not is_of_key and not is_unknown:
            continue
        name = str(trigger.constraint).replace("'", "''")
        yield PlanAdvice(
            kind="index",
            sentence=f"For each row that goes, the table of the foreign key {trigger.constraint} is searched "
            "for rows that refer to it: create an index on the key's columns there, if it has none.",
            sql="SELECT conrelid::regclass, pg_get_constraintdef(oid) FROM pg_constraint "
            f"WHERE conname = '{name}';",
        )


def _indexes(plan: ExplainedPlan) -> Iterator[PlanAdvice]:
    """Tables that are fully read, and indexes that throw most of what they found away."""
    for node in _costliest(plan):
        condition = node.conditions.get("Filter")
        if not _can_have_index(node) or not condition or not matters(plan, node):
            continue
        if not _throws_away(plan, node):
            continue
        # A bitmap's index has its condition in a node of its own, and the scan repeats it.
        known = node.conditions.get("Index Cond") or node.conditions.get("Recheck Cond")
        wanted = order_wanted(plan, node)
        keys = scan_conditions.keys_of(
            f"({known} AND {condition})" if known else condition,
            node.alias,
            order=wanted[1] if wanted else (),
        )
        if keys is None or (known and keys == scan_conditions.keys_of(known, node.alias)):
            continue
        how = "reads the whole table" if node.type in _SCANS else "finds too many rows with its index"
        if node.type in _SCANS and limit_above(plan, node) is not None:
            how = "scans the table until it has enough rows"
        yield PlanAdvice(
            kind="index",
            node=node.id,
            sentence=f"{label(node)} {how}{_for_rows(plan, node)}: create an index on its "
            f"condition{_if_text(keys)}.",
            sql=_index(node, keys),
        )


def _if_text(keys: scan_conditions.Keys) -> str:
    """What a plan, which does not have the types of columns, leaves open."""
    if not any(map(scan_conditions.takes_text, keys.columns)):
        return ""
    return ", if the column is a text (no index can hold the text of a date or an enum)"


def _throws_away(plan: ExplainedPlan, node: PlanNode) -> bool:
    if not plan.executed:
        return reads_whole(plan, node)
    # What a recheck removes is no matter of another index: there was too little work_mem for the bitmap.
    removed, rows = (node.rows_removed or 0.0) - (node.rows_rechecked or 0.0), node.rows or 0.0
    loops = node.loops or 0.0
    return removed * loops >= _ROWS_MIN and removed >= 9 * rows


def _for_rows(plan: ExplainedPlan, node: PlanNode) -> str:
    if not plan.executed:
        return f" for an estimated {rows_words(round(rows_estimated(plan, node)))}"
    read, loops = read_words(node)
    return f", {read} for {rows_words(round((node.rows or 0.0) * loops))}"


def _inner_indexes(plan: ExplainedPlan) -> Iterator[PlanAdvice]:
    """Tables that a nested loop reads whole again for each row of its other side."""
    for node in _costliest(plan):
        if node.type not in _SCANS or node.relation is None or node.parent is None:
            continue
        parent = plan.nodes[node.parent]
        again = parent if parent.type in ("Materialize", "Memoize") else node
        join = plan.nodes[again.parent] if again.parent is not None else parent
        condition = join.conditions.get("Join Filter") if join.type == "Nested Loop" else None
        children = [each for each in plan.nodes if each.parent == join.id and each.subplan is None]
        if not condition or len(children) < 2 or children[1].id != again.id:
            continue
        outer = children[0]
        loops = again.loops if plan.executed else outer.rows_estimated
        column = scan_conditions.joined_column(condition, node.alias or node.relation)
        if column is None or (loops or 0.0) < _INNER_LOOPS_MIN or not _is_share(plan, join):
            continue
        yield PlanAdvice(
            kind="index",
            node=node.id,
            sentence=f"{label(node)} is scanned again for each of {rows_words(loops)}: create "
            "an index on the join column.",
            sql=_index(node, scan_conditions.Keys((column,))),
        )


def _is_share(plan: ExplainedPlan, node: PlanNode) -> bool:
    """Whether a node with those below it takes a share of the whole that is worth a look."""
    if plan.executed:
        return not plan.nodes_ms or (node.total_ms or 0.0) >= 0.2 * plan.nodes_ms
    return (node.cost_total or 0.0) >= 0.2 * plan.cost_total > 0


def _sorted_indexes(plan: ExplainedPlan) -> Iterator[PlanAdvice]:
    """A LIMIT over a sort of a whole table: an index in that order ends after the rows that are wanted."""
    for node in plan.nodes:
        if node.type not in _SCANS or node.relation is None:
            continue
        wanted = order_wanted(plan, node)
        if wanted is None or not _is_share(plan, wanted[0]):
            continue
        above, keys = wanted
        sorted_rows = (above.rows if plan.executed else above.rows_estimated) or 0.0
        read = (node.rows if plan.executed else node.rows_estimated) or 0.0
        if max(sorted_rows, read * (node.loops or 1.0)) < _ROWS_MIN:
            continue
        equal = scan_conditions.equal_keys(node.conditions.get("Filter", ""), node.alias)
        # A column that is only bounded, in front, would leave the rows in its own order.
        keys = (*equal, *(key for key in keys if key.partition(" ")[0] not in equal))
        yield PlanAdvice(
            kind="index",
            node=above.id,
            sentence=f"{label(above)} sorts all rows although a LIMIT needs only the first: create an index "
            "in that order.",
            sql=_index(node, scan_conditions.Keys(keys[: scan_conditions.COLUMNS_MAX])),
        )


def _rewrites(plan: ExplainedPlan) -> Iterator[PlanAdvice]:
    for node in plan.nodes:
        yield from _of_subplan(plan, node)
        skipped = offset_rows(plan, node)
        if skipped is not None:
            yield PlanAdvice(
                kind="rewrite",
                node=node.id,
                sentence=f"{label(node)} reads {rows_words(skipped)} only to skip them: fetch the rows "
                "after the last one shown (keyset pagination), with an index on the order. The "
                "application then passes that row's values instead of a number of rows.",
                sql="WHERE (sort columns) > (their last values) ORDER BY sort columns LIMIT n",
            )
        if _can_have_index(node) and matters(plan, node):
            yield from _of_timestamps(plan, node)


def _of_timestamps(plan: ExplainedPlan, node: PlanNode) -> Iterator[PlanAdvice]:
    """Timestamps in a form that no index on their column serves; a plan does not tell their type."""
    hidden = list(scan_conditions.hidden_timestamps(node.conditions.get("Filter", "")))
    if not hidden:
        return
    # Until 16 an InitPlan's value is printed as a parameter's.
    returned = {name for each in plan.nodes for name in _PARAMETER.findall(each.subplan or "")}
    ranges = [
        each for each in hidden if each.as_range and returned.isdisjoint(_PARAMETER.findall(each.as_range))
    ]
    shown = scan_conditions.plainly(hidden[0].expression)[:80]
    known = [each.part for each in hidden if each.part is not None]
    says = f"{label(node)} compares {shown}, which an index on the column can't support"
    if len(ranges) == len(hidden) or not known:
        index = f"\nCREATE INDEX CONCURRENTLY ON {_table(node)} ({ranges[0].name});" if ranges else ""
        yield PlanAdvice(
            kind="rewrite",
            node=node.id,
            sentence=f"{says}: write the condition as a range of the column itself, and index that.",
            sql=f"WHERE {' AND '.join(each.as_range for each in ranges)}{index}" if ranges else None,
        )
        return
    keys = scan_conditions.Keys(tuple(scan_conditions.as_key(each.expression, node.alias) for each in known))
    one, other = ("with", "without") if known[0].has_zone else ("without", "with")
    yield PlanAdvice(
        kind="index",
        node=node.id,
        sentence=f"{says}: create an index on the expression, if the column is a timestamp {one} time zone. "
        f"With one {other} time zone the value depends on the setting TimeZone, and no index can hold it.",
        sql=_index(node, keys),
    )


def _of_subplan(plan: ExplainedPlan, node: PlanNode) -> Iterator[PlanAdvice]:
    times = evaluations(plan, node)
    if times is None or node.parent is None:
        return
    outer = plan.nodes[node.parent]
    condition = " ".join(outer.conditions.values())
    about = f"{label(outer)} runs {node.subplan} again for each row, about {times:,.0f} times"
    if is_not_in(outer, node):
        yield PlanAdvice(
            kind="rewrite",
            node=outer.id,
            sentence=f"{about}: NOT IN too large to hash. Write NOT EXISTS, which is "
            "planned as an anti join; the rows are the same where neither column can be NULL, and in "
            "that case PostgreSQL 19 does it itself.",
            sql=_not_exists(plan, node, outer, condition),
        )
        return
    yield PlanAdvice(
        kind="rewrite",
        node=outer.id,
        sentence=f"{about}: write it as a join, or as LEFT JOIN LATERAL where it gives one value, and index "
        "the column that it is looked up by.",
    )


def _not_exists(plan: ExplainedPlan, top: PlanNode, outer: PlanNode, condition: str) -> str:
    """NOT EXISTS for a NOT IN, with the names that the plan tells; `top`: of the subplan."""
    table = table_within(plan, top)
    compared = _COMPARED.search(condition)
    # EXPLAIN (VERBOSE) says what the subplan returns.
    returned = _RETURNED.fullmatch(top.output or "")
    column = compared["column"] if compared is not None else "column"
    if "." not in column:
        column = f"{identifier(outer.alias or outer.relation or 'outer_table')}.{column}"
    inner = identifier(table.relation) if table is not None and table.relation else "inner_table"
    own = returned["column"] if returned is not None else "column"
    return f"WHERE NOT EXISTS (SELECT FROM {inner} i WHERE i.{own} = {column})"


def _maintenance(plan: ExplainedPlan) -> Iterator[PlanAdvice]:
    kinds = {finding.kind: finding for finding in reversed(plan.findings) if finding.node is not None}
    fetches, wrong = kinds.get("heap-fetches"), kinds.get("misestimate")
    if fetches is not None and fetches.node is not None:
        node = plan.nodes[fetches.node]
        if node.relation is not None:
            yield PlanAdvice(
                kind="maintenance",
                node=node.id,
                sentence=f"{label(node)} visits the table for rows that its index has: VACUUM "
                "marks their pages all-visible.",
                sql=f"VACUUM (ANALYZE) {_table(node)};",
            )
    if wrong is not None and wrong.node is not None:
        node = plan.nodes[wrong.node]
        if node.relation is not None and node.type == "Foreign Scan":
            yield _analyze(node)
        elif node.conditions and (_can_have_index(node) or node.type == "Sample Scan"):
            yield from _of_estimate(plan, node)


def _of_estimate(plan: ExplainedPlan, node: PlanNode) -> Iterator[PlanAdvice]:
    names = ("Index Cond", "Recheck Cond", "Filter")
    text = " AND ".join(f"({node.conditions[name]})" for name in names if name in node.conditions)
    keys = scan_conditions.keys_of(text, node.alias)
    columns = [scan_conditions.without_operator_class(each) for each in (keys.columns if keys else ())]
    hidden = scan_conditions.hidden_timestamps(text)
    columns += [scan_conditions.as_key(each.expression, node.alias) for each in hidden]
    plain = [column for column in columns if not column.startswith("(")]
    if columns and not plain:
        # ANALYZE looks at an expression only where an index or CREATE STATISTICS has it.
        if not _throws_away(plan, node):
            yield PlanAdvice(
                kind="statistics",
                node=node.id,
                sentence=f"The estimate of {label(node, Order.LOWER)} is wrong: there are no statistics of "
                "the expression in its condition: create them.",
                sql=_statistics(node, [scan_conditions.plainly(columns[0])]),
            )
        return
    if len(plain) > 1:
        yield PlanAdvice(
            kind="statistics",
            node=node.id,
            sentence=f"The estimate of {label(node, Order.LOWER)} is wrong and its condition "
            "has several columns: create extended statistics on them.",
            sql=_statistics(node, plain),
        )
        return
    yield _analyze(node)


def _analyze(node: PlanNode) -> PlanAdvice:
    return PlanAdvice(
        kind="statistics",
        node=node.id,
        sentence=f"The estimate of {label(node, Order.LOWER)} is wrong: run ANALYZE if "
        "the table changed much since the last one.",
        sql=f"ANALYZE {_table(node)};",
    )
