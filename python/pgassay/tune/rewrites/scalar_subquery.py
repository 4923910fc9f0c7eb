"""A correlated scalar subquery → LEFT JOIN on a subquery that is computed once for all rows.

(SELECT sum(u.x) FROM u WHERE u.k = t.k) becomes LEFT JOIN (SELECT k, sum(x) … GROUP BY k). An aggregate
without GROUP BY has one row always: where none matches it is NULL, or 0 for a count. A subquery without an
aggregate must have a key in its conditions: with two rows it has to fail, and a join would return both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pglast import ast
from pglast.enums import JoinType, SubLinkType

from pgassay.tune.candidate import RewriteProof
from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site, scope_of_site
from pgassay.tune.rewrites.conditions.calls import aggregates_of, has_aggregates
from pgassay.tune.rewrites.conditions.errors import errors_of
from pgassay.tune.rewrites.conditions.moves import around, check_collations, check_operand
from pgassay.tune.rewrites.conditions.proofs import alike, key_columns, resolved
from pgassay.tune.rewrites.conditions.row_order import check_row_order
from pgassay.tune.rewrites.functions import NULL_WITHOUT_VALUES
from pgassay.tune.rewrites.names.outputs import keep_names
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.names.tree_scopes import scopes_below
from pgassay.tune.rewrites.tree import (
    RefusedError,
    changed_select,
    column,
    conjunction,
    conjuncts,
    constant,
    fresh,
    integer,
    is_operation,
    is_plain,
    items,
    join,
    meaning,
    names_of,
    new_select,
    operation,
    references,
    sides,
    substitute,
    target,
    walk,
)


@dataclass
class Joined:
    """A subquery in FROM that takes the place of one or more scalar subqueries with the same FROM and
    WHERE."""

    name: str
    select: ast.SelectStmt
    keys: list[tuple[ast.ColumnRef, ast.Node]]
    rest: list[ast.Node]
    grouped: bool
    values: list[ast.Node] = field(default_factory=list)

    def value(self, expression: ast.Node) -> ast.ColumnRef:
        """A reference to an output column; one for the same expression, as DISTINCT and ORDER BY want it."""
        known = [meaning(one) for one in self.values]
        if meaning(expression) not in known:
            known.append(meaning(expression))
            self.values.append(expression)
        return column(self.name, f"{self.name}_value_{known.index(meaning(expression)) + 1}")

    def item(self) -> tuple[ast.RangeSubselect, ast.Node]:
        """What stands in FROM, and the condition of the join."""
        targets = [target(one, f"{self.name}_key_{n}") for n, (one, _) in enumerate(self.keys, 1)]
        targets += [target(one, f"{self.name}_value_{n}") for n, one in enumerate(self.values, 1)]
        select = new_select(
            targetList=tuple(targets),
            fromClause=self.select.fromClause,
            whereClause=conjunction(self.rest),
            groupClause=tuple(one for one, _ in self.keys) if self.grouped else None,
        )
        condition = conjunction(
            operation(column(self.name, f"{self.name}_key_{n}"), "=", outer)
            for n, (_, outer) in enumerate(self.keys, 1)
        )
        assert condition is not None
        alias = ast.Alias(aliasname=self.name)
        return ast.RangeSubselect(lateral=False, subquery=select, alias=alias), condition


def _sites(context: Context) -> Iterator[Site]:
    for scope in context.scopes:
        if any(True for _ in _subqueries(scope)):
            yield Site(scope.select, scope)


def _subqueries(scope: Scope) -> Iterator[tuple[ast.SubLink, Scope]]:
    """The correlated scalar subqueries in the output, WHERE, ORDER BY and DISTINCT ON of a SELECT."""
    select = scope.select
    # DISTINCT ON has to name what ORDER BY begins with.
    places = (select.targetList, select.whereClause, select.sortClause, select.distinctClause)
    for node in walk(places, into_selects=False):
        if isinstance(node, ast.SubLink) and node.subLinkType == SubLinkType.EXPR_SUBLINK:
            inner = (
                scopes_below(node.subselect, scope) if isinstance(node.subselect, ast.SelectStmt) else None
            )
            if inner is not None and inner.select is node.subselect and inner.is_correlated:
                yield node, inner


def _edit(context: Context, site: Site) -> Edit:
    scope = scope_of_site(site)
    select = scope.select
    base = fresh(context.tree, "looked_up")
    joined: dict[str, Joined] = {}
    replaced: dict[int, ast.Node] = {}
    reasons: list[RefusedError] = []
    proof: RewriteProof = "proven"
    for node, inner in _subqueries(scope):
        try:
            _check_place(scope, node)
            overflow = _check(inner)
            keys, rest = _split(inner)
            overflow |= _check_condition(scope, node, keys[0][1], inner)
            made = _one(inner, keys, rest, joined, f"{base}_{len(joined) + 1}")
        except RefusedError as refused:
            reasons.append(refused)
            continue
        replaced[id(node)] = made
        proof = "by test" if overflow else proof
    if not replaced:
        raise reasons[0]
    names = keep_names(select, set(replaced))
    new = substitute(select, replaced | names)
    assert isinstance(new, ast.SelectStmt)
    left = _folded(items(select.fromClause))
    for one in joined.values():
        item, condition = one.item()
        left = join(left, item, JoinType.JOIN_LEFT, condition)
    reason = "The joined subquery has at most one row for each value of its key."
    if proof == "by test":
        reason += " Its values could overflow for rows that were not asked for before."
    return Edit(((select, changed_select(new, fromClause=(left,))),), reason, proof)


def _folded(nodes: tuple[ast.Node, ...]) -> ast.Node:
    """FROM a, b as one CROSS JOIN."""
    if not nodes:
        raise RefusedError("the statement around the subquery has no FROM")
    made = nodes[0]
    for node in nodes[1:]:
        made = join(made, node, JoinType.JOIN_INNER)
    return made


def _check_place(scope: Scope, node: ast.SubLink) -> None:
    select = scope.select
    check_operand(select, node)
    if any(isinstance(one, ast.ResTarget) and _is_bare_star(one) for one in items(select.targetList)):
        raise RefusedError("SELECT * would return the joined columns as well")
    in_where = any(one is node for one in walk(select.whereClause, into_selects=False))
    if has_aggregates(select) and not in_where:
        raise RefusedError("the statement around the subquery is grouped")


def _check_condition(scope: Scope, node: ast.SubLink, stand_in: ast.Node, inner: Scope) -> bool:
    """In WHERE the value becomes a column, and its condition may be evaluated for all values of the join.

    Returns whether that may overflow.
    """
    errors = set()
    for condition in conjuncts(scope.select.whereClause):
        if any(one is node for one in walk(condition, into_selects=False)):
            others = {
                id(one): stand_in
                for one in walk(condition, into_selects=False)
                if isinstance(one, ast.SubLink) and one.subLinkType == SubLinkType.EXPR_SUBLINK
            }
            value = _value(inner.select)
            errors.add(errors_of(substitute(condition, others), scope))
            errors.add(errors_of(around(value, aggregates_of(value), inner), inner))
    if "may" in errors:
        raise RefusedError("the condition on it can raise an error for rows not asked for before")
    return "overflow" in errors


def _is_bare_star(node: ast.ResTarget) -> bool:
    return isinstance(node.val, ast.ColumnRef) and names_of(node.val) == ("*",)


def _check(inner: Scope) -> bool:
    """Check what the subquery is made of; return whether its values may overflow for rows not asked for."""
    select = inner.select
    if not is_plain(select):
        raise RefusedError("the scalar subquery is grouped, ordered, limited or a set operation")
    if len(items(select.targetList)) != 1:
        raise RefusedError("the scalar subquery returns several columns")
    if any(
        isinstance(one, ast.SelectStmt)
        for part in (select.targetList, select.whereClause)
        for one in walk(part)
    ):
        raise RefusedError("the scalar subquery has subqueries of its own")
    if any(not isinstance(entry.node, ast.RangeVar) for entry in inner.entries):
        raise RefusedError("the scalar subquery reads something other than tables")
    if inner.merged or any(isinstance(one, ast.JoinExpr) for one in items(select.fromClause)):
        raise RefusedError("the scalar subquery has a JOIN")
    value = _value(select)
    calls = aggregates_of(value)
    around(value, calls, inner)
    check_collations(value)
    parts = [(call.args, call.agg_filter, call.agg_order) for call in calls]
    errors = {errors_of(part, inner) for part in (parts if has_aggregates(select) else [value])}
    if "may" in errors:
        raise RefusedError("its value can raise an error for rows that were not asked for before")
    return "overflow" in errors


def _value(select: ast.SelectStmt) -> ast.Node:
    one = items(select.targetList)[0]
    assert isinstance(one, ast.ResTarget) and isinstance(one.val, ast.Node)
    return one.val


def _split(inner: Scope) -> tuple[list[tuple[ast.ColumnRef, ast.Node]], list[ast.Node]]:
    """The equalities between a column of the subquery and one around it; and the conditions on itself
    alone."""
    keys: list[tuple[ast.ColumnRef, ast.Node]] = []
    rest = []
    for condition in conjuncts(inner.select.whereClause):
        levels = {inner.resolve(one).level for one in references(condition)}
        if 1 not in levels:
            if errors_of(condition, inner) != "never":
                raise RefusedError(
                    "a condition of the subquery can raise an error for rows not asked for before"
                )
            rest.append(condition)
            continue
        pair = _key(inner, condition)
        if pair is None:
            raise RefusedError(
                "the subquery depends on the row around it by something other than equal columns"
            )
        keys.append(pair)
    if not keys:
        raise RefusedError("only the output of the subquery depends on the row around it")
    return keys, rest


def _key(inner: Scope, condition: ast.Node) -> tuple[ast.ColumnRef, ast.Node] | None:
    if not is_operation(condition, "="):
        return None
    for one, other in (sides(condition), sides(condition)[::-1]):
        if not isinstance(one, ast.ColumnRef) or not isinstance(other, ast.ColumnRef):
            return None
        own, outer = inner.resolve(one), inner.resolve(other)
        if own.level == 0 and outer.level == 1:
            if not alike(own, outer):
                raise RefusedError("the columns that are equal are of different types")
            if not own.column.deterministic or not outer.column.deterministic:
                raise RefusedError(
                    "the columns that are equal have a collation that calls different texts equal"
                )
            return one, other
    return None


def _one(
    inner: Scope,
    keys: list[tuple[ast.ColumnRef, ast.Node]],
    rest: list[ast.Node],
    joined: dict[str, Joined],
    name: str,
) -> ast.Node:
    """What takes the subquery's place; its join is added to `joined`, or one with the same rows is used."""
    select, value = inner.select, _value(inner.select)
    grouped = has_aggregates(select)
    for one in references(value):
        if inner.resolve(one).level == 1:
            raise RefusedError("the value of the subquery is made of columns around it")
    if not grouped and not _has_key(inner, keys, rest):
        raise RefusedError("the subquery may find two rows, and must fail then")
    mark = repr((meaning(select.fromClause), meaning(select.whereClause), grouped))
    if not grouped:
        place = joined.setdefault(mark, Joined(name, select, keys, rest, grouped))
        return place.value(value)
    calls = aggregates_of(value)
    for call in calls:
        called = names_of(call.funcname)[-1]
        if called not in NULL_WITHOUT_VALUES and called != "count":
            raise RefusedError(f"the value of {called}() for no rows is not known here")
        check_row_order(call, inner)
    inside = {id(part) for call in calls for part in walk(call)}
    if any(id(one) not in inside for one in references(value)):
        raise RefusedError("the value of the subquery holds a column outside of its aggregate")
    place = joined.setdefault(mark, Joined(name, select, keys, rest, grouped))
    made: dict[int, ast.Node] = {}
    for call in calls:
        reference: ast.Node = place.value(call)
        if names_of(call.funcname)[-1] == "count":
            reference = ast.CoalesceExpr(args=(reference, integer(0)))
        made[id(call)] = reference
    return substitute(value, made)


def _has_key(inner: Scope, keys: list[tuple[ast.ColumnRef, ast.Node]], rest: list[ast.Node]) -> bool:
    """Whether the equalities fix all columns of a key. NULLs in it do no harm: no equality finds them."""
    if len(inner.entries) != 1 or inner.entries[0].table is None:
        return False
    fixed = {inner.resolve(one).column.name for one, _ in keys}
    for condition in rest:
        for one, other in (sides(condition), sides(condition)[::-1]) if is_operation(condition, "=") else ():
            found = resolved(inner, one)
            if found is not None and constant(other) is not None:
                fixed.add(found.column.name)
    return any(set(key) <= fixed for key in key_columns(inner.entries[0].table, nulls=True))


REWRITE = Rewrite("scalar-subquery", _sites, _edit, "the subquery is executed once for each row", moves=True)
