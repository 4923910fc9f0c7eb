"""Several correlated scalar subqueries over the same rows → one LEFT JOIN LATERAL, once for each row.

(SELECT min(u.x) FROM u WHERE u.k > t.k), (SELECT max(u.x) FROM u WHERE u.k > t.k) becomes LEFT JOIN LATERAL
(SELECT min(u.x), max(u.x) FROM u WHERE u.k > t.k) ON TRUE. An aggregate without GROUP BY has one row always;
ORDER BY … LIMIT 1 has one at most, and where it has none all values are NULL, as a scalar subquery's is. What
the subqueries have in common is equal word for word but for their output, so all look at the same rows; which
row comes first is decided by the order, which is total. So they may depend on the row around them by more
than equal columns, which `scalar_subquery` can't.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pglast import ast
from pglast.enums import JoinType, LimitOption, SubLinkType

from pgassay.tune.candidate import RewriteProof
from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site, scope_of_site
from pgassay.tune.rewrites.conditions.calls import aggregates_of, has_aggregates
from pgassay.tune.rewrites.conditions.errors import errors_of
from pgassay.tune.rewrites.conditions.moves import around, check_collations, check_operand
from pgassay.tune.rewrites.conditions.row_order import check_row_order
from pgassay.tune.rewrites.names.outputs import keep_names, output_expression
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.names.tree_scopes import scopes_below
from pgassay.tune.rewrites.tree import (
    RefusedError,
    changed,
    changed_select,
    column,
    constant,
    fresh,
    items,
    join,
    meaning,
    names_of,
    substitute,
    target,
    walk,
)


@dataclass(frozen=True)
class Lookup:
    """A scalar subquery in the output, the order or the DISTINCT ON of a SELECT, with its scope."""

    node: ast.SubLink
    inner: Scope

    @property
    def select(self) -> ast.SelectStmt:
        """The SELECT of the subquery."""
        return self.inner.select


def _sites(context: Context) -> Iterator[Site]:
    for scope in context.scopes:
        if any(len(group) > 1 for group in _groups(scope)):
            yield Site(scope.select, scope)


def _groups(scope: Scope) -> list[list[Lookup]]:
    """The subqueries whose SELECTs are the same but for their output and how they name their order."""
    select = scope.select
    found: dict[str, list[Lookup]] = {}
    places = (select.targetList, select.sortClause, select.distinctClause)
    for node in walk(places, into_selects=False):
        if not isinstance(node, ast.SubLink) or node.subLinkType != SubLinkType.EXPR_SUBLINK:
            continue
        inner = scopes_below(node.subselect, scope) if isinstance(node.subselect, ast.SelectStmt) else None
        if inner is None or inner.select is not node.subselect or not inner.is_correlated:
            continue
        try:
            rest = changed_select(inner.select, targetList=None, sortClause=_order(inner.select))
        except RefusedError:
            continue  # what it is ordered by is not known, so that it is like no other
        found.setdefault(repr((meaning(rest), has_aggregates(inner.select))), []).append(Lookup(node, inner))
    return list(found.values())


def _order(select: ast.SelectStmt) -> tuple[ast.Node, ...] | None:
    """ORDER BY with the expressions that numbers and names of output columns stand for."""
    made = []
    for item in items(select.sortClause):
        if not isinstance(item, ast.SortBy) or not isinstance(item.node, ast.Node):
            return None
        made.append(changed(item, node=output_expression(select, item.node, None)))
    return tuple(made) or None


def _edit(context: Context, site: Site) -> Edit:
    scope = scope_of_site(site)
    select = scope.select
    if any(_is_bare_star(one) for one in items(select.targetList)):
        raise RefusedError("SELECT * would return the joined columns as well")
    if has_aggregates(select):
        raise RefusedError("the statement around the subqueries is grouped")
    if not select.fromClause:
        raise RefusedError("the statement around the subqueries has no FROM")
    base = fresh(context.tree, "looked_up")
    left = _folded(items(select.fromClause))
    replaced: dict[int, ast.Node] = {}
    proof: RewriteProof = "proven"
    for number, group in enumerate((each for each in _groups(scope) if len(each) > 1), start=1):
        name = f"{base}_{number}"
        # One column for the same expression, as DISTINCT and ORDER BY want it.
        values: dict[str, ast.Node] = {}
        for lookup in group:
            proof = "by test" if _check(lookup.inner) else proof
            check_operand(select, lookup.node)
            value = _value(lookup.select)
            values.setdefault(repr(meaning(value)), value)
            place = list(values).index(repr(meaning(value))) + 1
            replaced[id(lookup.node)] = column(name, f"{name}_value_{place}")
        left = join(left, _lateral(group[0].select, list(values.values()), name), JoinType.JOIN_LEFT, _true())
    names = keep_names(select, set(replaced))
    new = substitute(select, replaced | names)
    assert isinstance(new, ast.SelectStmt)
    reason = "All of these subqueries look at the same rows and have one row at most."
    if proof == "by test":
        reason += " Their values could overflow for rows that were not asked for before."
    return Edit(((select, changed_select(new, fromClause=(left,))),), reason, proof)


def _lateral(select: ast.SelectStmt, values: Sequence[ast.Node], name: str) -> ast.RangeSubselect:
    targets = tuple(target(value, f"{name}_value_{place}") for place, value in enumerate(values, start=1))
    inner = changed_select(select, targetList=targets, sortClause=_order(select))
    return ast.RangeSubselect(lateral=True, subquery=inner, alias=ast.Alias(aliasname=name))


def _true() -> ast.Node:
    return ast.A_Const(val=ast.Boolean(boolval=True))


def _folded(nodes: tuple[ast.Node, ...]) -> ast.Node:
    """FROM a, b as one CROSS JOIN."""
    made = nodes[0]
    for node in nodes[1:]:
        made = join(made, node, JoinType.JOIN_INNER)
    return made


def _is_bare_star(node: ast.Node) -> bool:
    return (
        isinstance(node, ast.ResTarget)
        and isinstance(node.val, ast.ColumnRef)
        and names_of(node.val) == ("*",)
    )


def _value(select: ast.SelectStmt) -> ast.Node:
    one = items(select.targetList)[0]
    assert isinstance(one, ast.ResTarget) and isinstance(one.val, ast.Node)
    return one.val


def _check(inner: Scope) -> bool:
    """Check that it has one row at most; return whether its values may overflow for rows not asked for.

    The join may compute them for rows that a LIMIT around it keeps from being asked for.
    """
    select = inner.select
    if len(items(select.targetList)) != 1:
        raise RefusedError("a scalar subquery returns several columns")
    if select.distinctClause or select.groupClause or select.havingClause or select.windowClause:
        raise RefusedError("a scalar subquery is grouped, made distinct or numbered")
    if select.withClause or select.lockingClause or not select.fromClause:
        raise RefusedError("a scalar subquery has WITH, a lock, or no FROM")
    if any(not isinstance(entry.node, ast.RangeVar) for entry in inner.entries):
        raise RefusedError("a scalar subquery reads something other than tables")
    if any(isinstance(one, ast.SelectStmt) for one in walk(select) if one is not select):
        raise RefusedError("a scalar subquery has subqueries of its own")
    value = _value(select)
    check_collations(value)
    parts: list[object] = [select.whereClause, *(item.quals for item in _joins(select))]
    if has_aggregates(select):
        if select.sortClause or select.limitCount or select.limitOffset:
            raise RefusedError("an aggregated scalar subquery is ordered or limited")
        parts += _arguments(inner)
        parts.append(around(value, aggregates_of(value), inner))
    else:
        is_one = constant(select.limitCount) == 1 and select.limitOption == LimitOption.LIMIT_OPTION_COUNT
        if not is_one or select.limitOffset:
            raise RefusedError("a scalar subquery may find two rows, and must fail then")
        order = [item.node for item in _order(select) or () if isinstance(item, ast.SortBy)]
        if any(isinstance(one, ast.A_Const) for one in order):
            raise RefusedError("a scalar subquery is ordered by a constant")
        parts += [value, *order]
    errors = {errors_of(part, inner) for part in parts if part is not None}
    if "may" in errors:
        raise RefusedError("a subquery can raise an error for rows that were not asked for before")
    return "overflow" in errors


def _arguments(inner: Scope) -> list[object]:
    """What the aggregates of a subquery collect; raises RefusedError where an order of rows would matter."""
    parts: list[object] = []
    for call in aggregates_of(_value(inner.select)):
        check_row_order(call, inner)
        parts.append((call.args, call.agg_filter, call.agg_order))
    return parts


def _joins(select: ast.SelectStmt) -> Iterator[ast.JoinExpr]:
    for node in walk(select.fromClause, into_selects=False):
        if isinstance(node, ast.JoinExpr):
            yield node


REWRITE = Rewrite(
    "lateral", _sites, _edit, "several subqueries look through the same rows for each row", moves=True
)
