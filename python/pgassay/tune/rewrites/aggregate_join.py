"""GROUP BY after a join → the many rows are aggregated first, and their groups joined.

Right where each group is one row of the other tables (GROUP BY holds their keys), so that every aggregate
is of all rows of the aggregated table with one value of its join column: no sums have to be put together,
and none is multiplied. Below a LEFT JOIN a group without partners has one row of NULLs: count(*) is 1
there, count(x) is 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pglast import ast
from pglast.enums import JoinType

from pgassay.tune.candidate import RewriteProof
from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site, scope_of_site
from pgassay.tune.rewrites.conditions.calls import is_aggregate
from pgassay.tune.rewrites.conditions.errors import errors_of
from pgassay.tune.rewrites.conditions.moves import check_collations
from pgassay.tune.rewrites.conditions.proofs import alike, determined, joins, resolved
from pgassay.tune.rewrites.conditions.row_order import check_row_order
from pgassay.tune.rewrites.distinct_exists import inner_tables
from pgassay.tune.rewrites.functions import NULL_WITHOUT_VALUES
from pgassay.tune.rewrites.names.outputs import keep_names, output_expression
from pgassay.tune.rewrites.names.scope import Entry, Scope
from pgassay.tune.rewrites.tree import (
    RefusedError,
    changed_select,
    column,
    conjunction,
    conjuncts,
    fresh,
    has_grouping_sets,
    integer,
    is_operation,
    items,
    join,
    names_of,
    new_select,
    operation,
    references,
    sides,
    substitute,
    target,
    walk,
)


@dataclass(frozen=True)
class Sides:
    """Which table is aggregated, what joins it to the rest, and the conditions on either side alone."""

    many: Entry
    outer: bool
    keys: tuple[tuple[ast.ColumnRef, ast.ColumnRef], ...]
    inside: tuple[ast.Node, ...]
    outside: tuple[ast.Node, ...]


def _sites(context: Context) -> Iterator[Site]:
    for scope in context.scopes:
        if scope.select.groupClause and len(scope.entries) > 1 and _calls(scope):
            yield Site(scope.select, scope)


def _calls(scope: Scope) -> list[ast.FuncCall]:
    select = scope.select
    parts = (select.targetList, select.havingClause, select.sortClause)
    return [
        one for one in walk(parts, into_selects=False) if isinstance(one, ast.FuncCall) and is_aggregate(one)
    ]


def _edit(context: Context, site: Site) -> Edit:
    scope = scope_of_site(site)
    select = scope.select
    _check_shape(scope)
    many = _many(scope)
    parts = _sides(scope, many)
    _check_groups(scope, many)
    proof = _check_calls(scope, parts)
    name = fresh(context.tree, "summed")
    calls = _calls(scope)
    values = {id(call): _reference(call, name, number, parts) for number, call in enumerate(calls, 1)}
    names = keep_names(select, set(values))
    new = substitute(select, values | names)
    assert isinstance(new, ast.SelectStmt)
    item = _summed(name, calls, parts)
    condition = conjunction(
        operation(column(name, f"{name}_key_{number}"), "=", other)
        for number, (_, other) in enumerate(parts.keys, 1)
    )
    assert condition is not None
    kept = [entry.node for entry in scope.entries if entry is not many]
    left = kept[0]
    for node in kept[1:]:
        left = join(left, node, JoinType.JOIN_INNER)
    kind = JoinType.JOIN_LEFT if parts.outer else JoinType.JOIN_INNER
    where = conjunction([*parts.outside, *conjuncts(new.havingClause)])
    made = changed_select(
        _without_groups(new), fromClause=(join(left, item, kind, condition),), whereClause=where
    )
    reason = f"Each group is one row of the other tables, by their keys, so {many.name} is grouped alone."
    return Edit(((select, made),), reason, proof)


def _without_groups(select: ast.SelectStmt) -> ast.SelectStmt:
    return changed_select(select, groupClause=None, havingClause=None)


def _check_shape(scope: Scope) -> None:
    select = scope.select
    if has_grouping_sets(select) or select.groupDistinct:
        raise RefusedError("it is grouped by ROLLUP, CUBE or GROUPING SETS")
    if select.windowClause or select.distinctClause:
        raise RefusedError("its groups are numbered or made distinct")
    for part in (select.targetList, select.havingClause, select.sortClause):
        for node in walk(part):
            if isinstance(node, ast.SelectStmt):
                raise RefusedError("a subquery stands among its output or in HAVING")
            if isinstance(node, ast.FuncCall) and node.over is not None:
                raise RefusedError("a window function looks at its groups")
            if isinstance(node, ast.ColumnRef) and "*" in names_of(node):
                raise RefusedError("it returns a star")
            if isinstance(node, ast.GroupingFunc):
                raise RefusedError("it asks for GROUPING")


def _many(scope: Scope) -> Entry:
    """The one table whose columns are aggregated; of count(*) alone, the one that is not grouped by."""
    found: list[Entry] = []
    for call in _calls(scope):
        for reference in references((call.args, call.agg_filter, call.agg_order)):
            one = scope.resolve(reference)
            if one.level == 0 and not any(entry is one.entry for entry in found):
                found.append(one.entry)
    if not found:
        grouped = [resolved(scope, one) for one in _groups(scope)]
        left = [one for one in scope.entries if not any(group and group.entry is one for group in grouped)]
        if len(left) != 1:
            raise RefusedError("which table's rows are counted is not one")
        found = left
    if len(found) > 1:
        raise RefusedError(
            "columns of several tables are aggregated, and one side's rows are repeated by the other's"
        )
    return found[0]


def _groups(scope: Scope) -> list[ast.Node]:
    return [output_expression(scope.select, one, scope) for one in items(scope.select.groupClause)]


def _sides(scope: Scope, many: Entry) -> Sides:
    outer = _left_join(scope, many)
    if outer is not None:
        on, rest = conjuncts(outer.quals), conjuncts(scope.select.whereClause)
        rest += [one for side in joins(_larg(outer)) for one in conjuncts(side.quals)]
        if any(side.jointype != JoinType.JOIN_INNER for side in joins(_larg(outer))) or scope.merged:
            raise RefusedError("several outer joins, or one by USING, stand in FROM")
        if any(many.name in _named(scope, one) for one in rest):
            raise RefusedError(f"WHERE has a condition on {many.name}, which may be NULL by the outer join")
    else:
        on, rest = inner_tables(scope) + conjuncts(scope.select.whereClause), []
    if any(entry.table is None for entry in scope.entries):
        raise RefusedError("a subquery, a CTE or a function stands in FROM")
    keys, inside, outside = [], [], list(rest)
    for condition in on:
        names = _named(scope, condition)
        if many.name not in names and outer is None:
            outside.append(condition)
        elif names == {many.name}:
            if errors_of(condition, scope) != "never":
                raise RefusedError("a condition can raise an error for rows that the join leaves out")
            inside.append(condition)
        else:
            keys.append(_key(scope, many, condition))
    if not keys:
        raise RefusedError(f"no equality joins {many.name}")
    return Sides(many, outer is not None, tuple(keys), tuple(inside), tuple(outside))


def _left_join(scope: Scope, many: Entry) -> ast.JoinExpr | None:
    """The LEFT JOIN whose right side is the aggregated table, where that is all of FROM."""
    nodes = items(scope.select.fromClause)
    top = nodes[0] if len(nodes) == 1 else None
    if isinstance(top, ast.JoinExpr) and top.jointype == JoinType.JOIN_LEFT and top.rarg is many.node:
        return top
    return None


def _larg(node: ast.JoinExpr) -> ast.Node:
    assert isinstance(node.larg, ast.Node)
    return node.larg


def _named(scope: Scope, condition: ast.Node) -> set[str]:
    if any(isinstance(node, ast.SelectStmt) for node in walk(condition)):
        raise RefusedError("a condition has a subquery")
    found = [scope.resolve(one) for one in references(condition)]
    return {one.entry.name for one in found if one.level == 0}


def _key(scope: Scope, many: Entry, condition: ast.Node) -> tuple[ast.ColumnRef, ast.ColumnRef]:
    for one, other in (sides(condition), sides(condition)[::-1]) if is_operation(condition, "=") else ():
        if not isinstance(one, ast.ColumnRef) or not isinstance(other, ast.ColumnRef):
            break
        own, kept = scope.resolve(one), scope.resolve(other)
        if own.entry is many and kept.entry is not many and kept.level == 0:
            if not alike(own, kept):
                raise RefusedError("the columns that are joined are of different types")
            if not own.column.deterministic or not kept.column.deterministic:
                raise RefusedError(
                    "the columns that are joined have a collation that calls different texts equal"
                )
            return one, other
    raise RefusedError(f"{many.name} is joined by something other than equal columns")


def _check_groups(scope: Scope, many: Entry) -> None:
    start = set()
    for group in _groups(scope):
        found = resolved(scope, group)
        if found is None:
            raise RefusedError("it is grouped by an expression")
        if found.entry is many:
            raise RefusedError(f"it is grouped by a column of {many.name}")
        start.add((found.entry.name, found.column.name))
    rows = determined(scope, start, frozenset({many.name}))
    missing = {entry.name for entry in scope.entries} - rows - {many.name}
    if missing:
        raise RefusedError(
            f"a group may hold several rows of {sorted(missing)[0]}: GROUP BY has no key of it that is "
            "valid, enforced, checked at once and never NULL"
        )


def _check_calls(scope: Scope, parts: Sides) -> RewriteProof:
    calls = _calls(scope)
    inside = {id(node) for call in calls for node in walk(call)}
    proof: RewriteProof = "proven"
    for call in calls:
        name = names_of(call.funcname)[-1]
        if call.agg_within_group or call.agg_order:
            raise RefusedError(f"{name}() has an order of its own")
        check_row_order(call, scope)
        check_collations(call)
        worst = {errors_of(part, scope) for part in (call.args, call.agg_filter) if part}
        if "may" in worst:
            raise RefusedError(
                f"the argument of {name}() can raise an error for rows that the join leaves out"
            )
        proof = "by test" if "overflow" in worst else proof
        if parts.outer:
            _check_outer(call, name)
    for part in (scope.select.targetList, scope.select.havingClause):
        for one in references(part):
            if id(one) not in inside and scope.resolve(one).entry is parts.many:
                raise RefusedError(f"a column of {parts.many.name} stands outside of the aggregates")
    # An inner join with the aggregated table may have kept the others' rows from their conditions.
    for condition in () if parts.outer else parts.outside:
        errors = errors_of(condition, scope)
        if errors == "may":
            raise RefusedError("a condition can raise an error for rows that the join leaves out")
        proof = "by test" if errors == "overflow" else proof
    # HAVING becomes a condition that the server may evaluate before the join.
    column_of_any = {id(call): parts.keys[0][0] for call in calls}
    for condition in conjuncts(scope.select.havingClause):
        errors = errors_of(substitute(condition, column_of_any), scope)
        if errors == "may":
            raise RefusedError("HAVING can raise an error for groups that the join leaves out")
        proof = "by test" if errors == "overflow" else proof
    return proof


def _check_outer(call: ast.FuncCall, name: str) -> None:
    if call.agg_filter:
        raise RefusedError(f"{name}() has a FILTER below an outer join")
    if name == "count" and (call.agg_star or isinstance(items(call.args)[0], ast.ColumnRef)):
        return
    plain = all(isinstance(one, ast.ColumnRef) for one in items(call.args))
    if name not in NULL_WITHOUT_VALUES or not plain:
        raise RefusedError(f"the value of {name}() for a row without a partner is not known here")


def _reference(call: ast.FuncCall, name: str, number: int, parts: Sides) -> ast.Node:
    made = column(name, f"{name}_value_{number}")
    if parts.outer and names_of(call.funcname)[-1] == "count":
        return ast.CoalesceExpr(args=(made, integer(1 if call.agg_star else 0)))
    return made


def _summed(name: str, calls: list[ast.FuncCall], parts: Sides) -> ast.RangeSubselect:
    targets = [target(own, f"{name}_key_{number}") for number, (own, _) in enumerate(parts.keys, 1)]
    targets += [target(call, f"{name}_value_{number}") for number, call in enumerate(calls, 1)]
    select = new_select(
        targetList=tuple(targets),
        fromClause=(parts.many.node,),
        whereClause=conjunction(parts.inside),
        groupClause=tuple(own for own, _ in parts.keys),
    )
    return ast.RangeSubselect(lateral=False, subquery=select, alias=ast.Alias(aliasname=name))


REWRITE = Rewrite(
    "aggregate-before-join", _sites, _edit, "rows are joined first and aggregated after that", moves=True
)
