"""What the order of rows decides: how a sum of floats is rounded, and which of several equal values that look
different is returned."""

from decimal import Decimal

from pglast import ast

from pgassay.tune.rewrites.conditions.proofs import determined
from pgassay.tune.rewrites.names.data_types import FLOATS, INTEGERS, has_twins
from pgassay.tune.rewrites.names.outputs import output_expression
from pgassay.tune.rewrites.names.scope import FoundColumn, Scope, ScopeColumn
from pgassay.tune.rewrites.tree import (
    RefusedError,
    constant,
    is_operation,
    items,
    names_of,
    references,
    walk,
)


def check_row_order(call: ast.FuncCall, scope: Scope) -> None:
    """Refuse an aggregate that `depends_on_row_order`."""
    if depends_on_row_order(call, scope):
        raise RefusedError(
            f"{names_of(call.funcname)[-1]}() of floats, of numbers of several scales, or of a type that is "
            "not known, depends on the order of its rows"
        )


def depends_on_row_order(call: ast.FuncCall, scope: Scope) -> bool:
    """Whether an aggregate's value depends on the order of its rows, or might: by rounding, or by which of
    several equal values it returns."""
    name = names_of(call.funcname)[-1]
    if call.agg_within_group:
        return _mixes_twins(call.agg_order, scope)
    if name in ("min", "max"):
        return _mixes_twins(call.args, scope)
    if name in ("count", "bool_and", "bool_or", "every"):
        return False
    # DISTINCT keeps one of the values that are equal, and an order leaves theirs open.
    if (call.agg_distinct or call.agg_order) and _mixes_twins((call.args, call.agg_order), scope):
        return True
    if name.startswith(("corr", "covar", "regr")):
        return True
    for reference in references(call.args):
        kind = scope.resolve(reference).column.type
        if kind in FLOATS or kind not in INTEGERS | {"numeric", "interval"}:
            return True
    # A constant like 1e0 is numeric; a cast or a function may give a float.
    return any(isinstance(node, ast.TypeCast | ast.FuncCall) for node in walk(call.args))


def _mixes_twins(args: object, scope: Scope) -> bool:
    """Whether two values of the expressions can be equal and look different, as numbers of two scales do."""
    found = [scope.resolve(one).column for one in references(args)]
    if any(_column_has_twins(one) for one in found):
        return True
    # Sums and products of numbers of one scale each are of one scale; a quotient or a COALESCE need not be.
    counted = (ast.ColumnRef, ast.A_Const, ast.String, ast.Integer, ast.Float, ast.SortBy)
    plain = all(isinstance(one, counted) or is_operation(one, "+", "-", "*") for one in walk(args))
    numbers = any(one.type == "numeric" for one in found) or any(
        isinstance(constant(one), Decimal) for one in walk(args)
    )
    return numbers and not plain


def _column_has_twins(column: ScopeColumn) -> bool:
    return has_twins(column.type, column.source.type if column.source is not None else "")


def blind_column(select: ast.SelectStmt, scope: Scope) -> str | None:
    """A text column among the output or the groups whose collation calls different texts equal."""
    for node in walk((select.targetList, select.groupClause), into_selects=False):
        if isinstance(node, ast.ColumnRef) and "*" not in names_of(node):
            try:
                found = scope.resolve(node)
            except RefusedError:
                continue
            if found.column.source is not None and not found.column.deterministic:
                return found.column.name
    return None


def twin_column(select: ast.SelectStmt, scope: Scope, united: bool) -> str | None:
    """A column that rows are made distinct or grouped by, whose equal values can look different.

    Where the other columns hold its table's key, each group has one value of it. `united`: a set operation
    around the SELECT makes its rows distinct.
    """
    outputs = [one.val for one in items(select.targetList) if isinstance(one, ast.ResTarget)]
    values: list[object] = list(outputs) if select.distinctClause == (None,) or united else []
    values += [output_expression(select, one, scope) for one in items(select.groupClause)]
    found: list[FoundColumn] = []
    for value in values:
        for node in references(value) if isinstance(value, ast.GroupingSet) else [value]:
            if isinstance(node, ast.ColumnRef):
                found += [one for one in _columns_of(node, scope) if one.level == 0]
    twins = [one for one in found if _column_has_twins(one.column)]
    if not twins:
        return None
    known = determined(scope, {(one.entry.name, one.column.name) for one in found})
    return next((one.column.name for one in twins if one.entry.name not in known), None)


def _columns_of(node: ast.ColumnRef, scope: Scope) -> list[FoundColumn]:
    """The column that a reference means, or those of a star."""
    words = names_of(node)
    if words[-1] != "*":
        return [scope.resolve(node)]
    chosen = [entry for entry in scope.entries if len(words) == 1 or entry.name == words[-2]]
    return [FoundColumn(entry, column, 0) for entry in chosen for column in entry.columns or ()]
