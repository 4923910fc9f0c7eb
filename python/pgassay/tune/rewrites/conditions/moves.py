"""Expressions that a rewrite moves: what they must not hold to mean the same elsewhere."""

from collections.abc import Sequence

from pglast import ast

from pgassay.tune.rewrites.conditions.calls import returns_set
from pgassay.tune.rewrites.names.data_types import KNOWN_TYPES
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.tree import RefusedError, column, names_of, substitute, walk


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
        if returns_set(node, scope.facts):
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
    places = (select.targetList, select.whereClause, select.sortClause, select.distinctClause)
    for node in walk(places, into_selects=False):
        if isinstance(node, ast.A_Expr) and node.rexpr is link and isinstance(node.lexpr, ast.RowExpr):
            raise RefusedError("a row is compared with the scalar subquery")
