"""What a rewrite may move: expressions that mean the same elsewhere, and rows whose search can't fail."""

from collections.abc import Iterator, Sequence

from pglast import ast

from pgassay.tune.rewrites.conditions.calls import own_functions
from pgassay.tune.rewrites.functions import SET_RETURNING
from pgassay.tune.rewrites.proofs import joins
from pgassay.tune.rewrites.safety import Errors, errors_of, scopes_below
from pgassay.tune.rewrites.scope import KNOWN_TYPES, Scope, scope_of
from pgassay.tune.rewrites.tree import RefusedError, column, items, names_of, substitute, walk


def errors_of_rows(scope: Scope) -> Errors:
    """Whether a SELECT's conditions, and those of what it reads, can raise an error.

    EXISTS stops at the first row, and a join looks at other rows than a subquery that runs for each.
    """
    found = {errors_of(one, scope) for one in _conditions(scope)}
    for entry in scope.entries:
        below = _read(scope, entry.node)
        if below is not None:
            found.add(errors_of_rows(below))
    return "may" if "may" in found else "overflow" if "overflow" in found else "never"


def _conditions(scope: Scope) -> Iterator[ast.Node]:
    if scope.select.whereClause is not None:
        yield scope.select.whereClause
    for item in items(scope.select.fromClause):
        yield from (join.quals for join in joins(item) if join.quals is not None)


def _read(scope: Scope, node: ast.Node) -> Scope | None:
    """The scope of a subquery or of a CTE in FROM; None for tables, functions and set operations."""
    if isinstance(node, ast.RangeVar) and node.schemaname is None and node.relname in scope.ctes:
        cte = scope.ctes[str(node.relname)]
        query = cte.node.ctequery
        plain = isinstance(query, ast.SelectStmt) and query.larg is None and not query.valuesLists
        return scope_of(query, scope.facts, None, cte.before, blind=True) if plain else None
    if isinstance(node, ast.RangeSubselect) and isinstance(node.subquery, ast.SelectStmt):
        inner = scopes_below(node.subquery, scope)
        return inner if inner is not None and inner.select is node.subquery else None
    return None


def around(value: ast.Node, calls: Sequence[ast.FuncCall], scope: Scope) -> ast.Node:
    """An expression with a column in place of each of its aggregates, to be judged without them.

    Raises `RefusedError` where what stands around them makes several rows or looks at several.
    """
    inside = {id(part) for call in calls for part in walk(call)}
    for node in walk(value):
        if id(node) in inside or not isinstance(node, ast.FuncCall):
            continue
        name = names_of(node.funcname)[-1]
        if node.over is not None:
            raise RefusedError(f"{name}() looks at the rows of the statement that it stands in")
        if name in SET_RETURNING or any(one.returns_set for one in own_functions(node, scope.facts)):
            raise RefusedError(f"{name}() returns a set")
    return substitute(value, {id(call): _any_column(scope) for call in calls}) if calls else value


def _any_column(scope: Scope) -> ast.ColumnRef:
    for entry in scope.entries:
        for one in entry.columns or ():
            if entry.name and one.type in KNOWN_TYPES:
                return column(entry.name, one.name)
    raise RefusedError("no column of a type that is known stands in FROM")


def check_collations(*parts: object) -> None:
    """COLLATE holds for all that it stands in; a column's own collation gives way, or clashes."""
    if any(isinstance(node, ast.CollateClause) for part in parts for node in walk(part)):
        raise RefusedError("COLLATE in a subquery counts for more than the collation of a column")


def check_operand(select: ast.SelectStmt, link: ast.SubLink) -> None:
    """ROW(…) = (SELECT …) compares the columns of a row, which a single column has not."""
    for node in walk((select.targetList, select.whereClause, select.sortClause), into_selects=False):
        if isinstance(node, ast.A_Expr) and node.rexpr is link and isinstance(node.lexpr, ast.RowExpr):
            raise RefusedError("a row is compared with the scalar subquery")
