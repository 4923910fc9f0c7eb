"""WHERE a OR b → two SELECTs under UNION ALL, the second without the rows of the first.

Each branch can then use an index of its own. "Without the rows of the first" is `(a) IS NOT TRUE`: NOT a
would lose the rows for which a is NULL.
"""

from collections.abc import Iterator

from pglast import ast
from pglast.enums import BoolExprType, BoolTestType, LimitOption, SetOperation

from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site, scope_of_site
from pgassay.tune.rewrites.conditions.calls import has_aggregates
from pgassay.tune.rewrites.conditions.errors import errors_of_conditions, errors_of_values
from pgassay.tune.rewrites.conditions.proofs import same_value
from pgassay.tune.rewrites.names.outputs import output_expression
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.tree import (
    RefusedError,
    changed,
    changed_select,
    conjunction,
    conjuncts,
    flattened,
    integer,
    is_operation,
    items,
    names_of,
    new_select,
    references,
    walk,
)

BRANCHES_MAX = 4


def _sites(context: Context) -> Iterator[Site]:
    for scope in context.scopes:
        if _chosen(scope) is not None:
            yield Site(scope.select, scope)


def _chosen(scope: Scope) -> ast.Node | None:
    """The first OR whose parts say something of different columns: of one column, IN does as well."""
    for condition in conjuncts(scope.select.whereClause):
        parts = flattened(condition, BoolExprType.OR_EXPR)
        if 2 <= len(parts) <= BRANCHES_MAX:
            columns = [_columns(part) for part in parts]
            if all(columns) and len(set(columns)) > 1 and all(_selects(part) for part in parts):
                return condition
    return None


def _columns(part: ast.Node) -> frozenset[tuple[str, ...]]:
    return frozenset(names_of(reference) for reference in references(part))


def _selects(part: ast.Node) -> bool:
    """Whether an index could find the rows of a part: a comparison, IN, EXISTS, or several with AND."""
    return all(
        is_operation(one, "=", "<", ">", "<=", ">=")
        or isinstance(one, ast.SubLink | ast.A_Expr | ast.NullTest)
        for one in conjuncts(part)
    )


def _edit(context: Context, site: Site) -> Edit:
    scope = scope_of_site(site)
    select = scope.select
    if _is_part_of_a_set(context, select):
        raise RefusedError("the SELECT with OR is a part of a set operation")
    if has_aggregates(select) or select.windowClause or select.distinctClause:
        raise RefusedError("the rows of both branches would be grouped, numbered or made distinct apart")
    for node in walk(select.targetList, into_selects=False):
        if isinstance(node, ast.FuncCall) and node.over is not None:
            raise RefusedError("a window function looks at the rows of both branches")
    condition = _chosen(scope)
    assert condition is not None
    parts = flattened(condition, BoolExprType.OR_EXPR)
    _check_errors(context, scope)
    branches = []
    for number, part in enumerate(parts):
        earlier = [ast.BooleanTest(arg=one, booltesttype=BoolTestType.IS_NOT_TRUE) for one in parts[:number]]
        kept = [part if one is condition else one for one in conjuncts(select.whereClause)]
        where = conjunction([*kept, *earlier])
        branches.append(
            new_select(targetList=select.targetList, fromClause=select.fromClause, whereClause=where)
        )
    made = branches[0]
    for branch in branches[1:]:
        made = new_select(op=SetOperation.SETOP_UNION, all=True, larg=made, rarg=branch)
    made = changed_select(
        made,
        sortClause=tuple(_by_place(scope, item) for item in items(select.sortClause)) or None,
        limitCount=select.limitCount,
        limitOffset=select.limitOffset,
        limitOption=select.limitOption or LimitOption.LIMIT_OPTION_DEFAULT,
        withClause=select.withClause,
    )
    _check_parameters(select, made)
    reason = "Each branch leaves out the rows for which an earlier one is true, so each row comes once."
    return Edit(((select, made),), reason)


def _check_errors(context: Context, scope: Scope) -> None:
    """What was looked at last may now be looked at first: `x = 0 OR 1 / x > 2` never divides by zero.

    The planner moves conditions of joins and subqueries too, and asks all rows of a union for their outputs
    where it asks a SELECT for those of a few.
    """
    if any(errors_of_conditions(one) != "never" for one in context.scopes):
        raise RefusedError("a condition can raise an error, and would be evaluated for other rows")
    select = scope.select
    all_rows = select is context.tree and not select.limitCount and not select.limitOffset
    if not all_rows and errors_of_values(scope) != "never":
        raise RefusedError("an output can raise an error, and would be evaluated for rows not asked for")


def _check_parameters(select: ast.SelectStmt, made: ast.SelectStmt) -> None:
    """The place where a parameter stands first gives it its type."""
    before, after = (
        {node.number: id(node) for node in reversed(list(walk(one))) if isinstance(node, ast.ParamRef)}
        for one in (select, made)
    )
    for number, place in before.items():
        if after[number] != place:
            raise RefusedError(f"${number} would get its type in another place")


def _is_part_of_a_set(context: Context, select: ast.SelectStmt) -> bool:
    return any(
        isinstance(node, ast.SelectStmt) and (node.larg is select or node.rarg is select)
        for node in walk(context.tree)
    )


def _by_place(scope: Scope, item: ast.Node) -> ast.Node:
    """An item of ORDER BY as the place of an output column: a set operation sorts by nothing else."""
    assert isinstance(item, ast.SortBy) and isinstance(item.node, ast.Node)
    value = output_expression(scope.select, item.node, None)
    for number, node in enumerate(items(scope.select.targetList), 1):
        assert isinstance(node, ast.ResTarget) and isinstance(node.val, ast.Node)
        if isinstance(node.val, ast.ColumnRef) and "*" in names_of(node.val):
            raise RefusedError("ORDER BY of a star's columns has no place that is known")
        if same_value(scope, node.val, value) if _are_columns(node.val, value) else node.val is value:
            return changed(item, node=integer(number))
    raise RefusedError("ORDER BY sorts by what is not an output column")


def _are_columns(one: ast.Node, other: ast.Node) -> bool:
    return isinstance(one, ast.ColumnRef) and isinstance(other, ast.ColumnRef)


REWRITE = Rewrite(
    "or-union", _sites, _edit, "OR keeps each of its conditions from using an index of its own", apart=True
)
