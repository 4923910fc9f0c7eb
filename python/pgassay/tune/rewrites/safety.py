"""Statements whose rows are not decided by the data alone, and expressions that can't raise an error.

Functions are judged by a list of PostgreSQL's own that are immutable, or stable and decided by settings of
the session; one that is not listed and not among the facts counts as volatile. An operator of an unknown
name does as well.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Literal

from pglast import ast
from pglast.enums import A_Expr_Kind, SubLinkType
from pglast.enums.parsenodes import FRAMEOPTION_ROWS

from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites.conditions.calls import why_of_another, why_undecided_call
from pgassay.tune.rewrites.functions import (
    ARBITRARY_AGGREGATES,
    DAY_UNITS,
    ERROR_FREE_FUNCTIONS,
    NOW_WORDS,
    OPERATORS,
    ORDERED_AGGREGATES,
    SAFE_CASTS,
    TIE_PROOF_WINDOWS,
)
from pgassay.tune.rewrites.proofs import (
    AGGREGATES,
    COMPARISONS,
    determined,
    has_aggregates,
    has_total_order,
    orders_totally,
    output_expression,
    resolved,
)
from pgassay.tune.rewrites.scope import (
    FLOATS,
    INTEGERS,
    KNOWN_TYPES,
    SYSTEM_COLUMNS,
    Column,
    Scope,
    scoped_selects,
)
from pgassay.tune.rewrites.tree import (
    RefusedError,
    constant,
    is_operation,
    items,
    names_of,
    new_select,
    plain_subselect,
    references,
    walk,
)

Errors = Literal["never", "overflow", "may"]


def scopes_by_select(tree: ast.Node, facts: SchemaFacts) -> dict[int, Scope]:
    """The scope of each SELECT that has one, by the SELECT's id."""
    return {id(one.select): one for one in scoped_selects(tree, facts) if isinstance(one, Scope)}


def why_undecided(tree: ast.Node, facts: SchemaFacts) -> str | None:
    """Why the statement's rows are not decided by the data alone; None when they are."""
    if not isinstance(tree, ast.SelectStmt):
        return "it is no SELECT"
    scopes = scopes_by_select(tree, facts)
    for node in walk(tree):
        reason = _of_node(node, facts)
        if reason is None and isinstance(node, ast.SelectStmt):
            try:
                reason = _of_select(node, scopes)
            except RefusedError as refused:
                reason = f"its order can't be judged: {refused}"
        if reason is not None:
            return reason
    return None


def _of_node(node: ast.Node, facts: SchemaFacts) -> str | None:
    if isinstance(node, ast.FuncCall):
        return why_undecided_call(node, facts)
    if isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt | ast.MergeStmt):
        return "it changes data in WITH"
    if isinstance(node, ast.SQLValueFunction):
        return "its rows depend on the time or the user of its run"
    if isinstance(node, ast.A_Const) and isinstance(constant(node), str):
        return (
            "a constant means the time of its run"
            if str(constant(node)).strip().lower() in NOW_WORDS
            else None
        )
    if isinstance(node, ast.RangeTableSample):
        return "TABLESAMPLE chooses rows by chance"
    if isinstance(node, ast.ColumnRef) and names_of(node)[-1] in SYSTEM_COLUMNS:
        return f"{names_of(node)[-1]} is a system column"
    if isinstance(node, ast.RangeTableFunc | ast.JsonTable):
        return "XMLTABLE and JSON_TABLE are not judged"
    if isinstance(node, ast.A_Expr) and node.kind == A_Expr_Kind.AEXPR_OP:
        words = names_of(node.name)
        if words[-1] not in OPERATORS or (len(words) > 1 and words[0] != "pg_catalog"):
            return f"what the operator {'.'.join(words)} does is not known"
    return None


def _of_select(select: ast.SelectStmt, scopes: Mapping[int, Scope]) -> str | None:
    scope = scopes.get(id(select))
    if select.lockingClause:
        return "it locks rows (FOR UPDATE or its kin)"
    if select.intoClause:
        return "it makes a table"
    if select.limitCount or select.limitOffset:
        # LIMIT NULL and LIMIT ALL are no limits.
        count = select.limitCount
        unlimited = isinstance(count, ast.A_Const) and count.isnull and not select.limitOffset
        if not unlimited and not has_total_order(select, scopes):
            return "LIMIT or OFFSET without an order that is total"
    if not _distinct_on_is_decided(select, scope):
        return "DISTINCT ON without an order that is total"
    of_another = why_of_another(scope, scopes) if scope is not None else None
    if of_another is not None:
        return of_another
    if scope is not None and (select.distinctClause or has_aggregates(select)):
        blind = _blind_column(select, scope)
        if blind is not None:
            return f"which of the equal texts of {blind} it returns is left open"
        twin = _twin_column(select, scope)
        if twin is not None:
            return f"which of the equal values of {twin} it returns is left open, as 1.0 or 1.00"
    for node in walk(select, into_selects=False):
        if isinstance(node, ast.FuncCall) and node.over is not None:
            reason = _of_window(node, select, scope)
            if reason is not None:
                return reason
    return None


def _blind_column(select: ast.SelectStmt, scope: Scope) -> str | None:
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


def _twin_column(select: ast.SelectStmt, scope: Scope) -> str | None:
    """A column that groups or distinct rows are made by, whose equal values can look different.

    Not one of a row that the others determine, as by a key.
    """
    values: list[object] = [output_expression(select, one, scope) for one in items(select.groupClause)]
    if select.distinctClause:
        values += [one.val for one in items(select.targetList) if isinstance(one, ast.ResTarget)]
    found = [one for value in values if not _is_star(value) and (one := resolved(scope, value)) is not None]
    twins = [one for one in found if has_twins(one.column)]
    if not twins:
        return None
    rows = determined(scope, {(one.entry.name, one.column.name) for one in found})
    return next((one.column.name for one in twins if one.entry.name not in rows), None)


def _is_star(value: object) -> bool:
    return isinstance(value, ast.ColumnRef) and "*" in names_of(value)


def _distinct_on_is_decided(select: ast.SelectStmt, scope: Scope | None) -> bool:
    if not select.distinctClause or select.distinctClause == (None,):
        return True
    if scope is None:
        return False
    by = [one.node for one in items(select.sortClause) if isinstance(one, ast.SortBy)]
    values = [output_expression(select, one, None) for one in by if isinstance(one, ast.Node)]
    plain = new_select(
        targetList=select.targetList, fromClause=select.fromClause, whereClause=select.whereClause
    )
    if select.groupClause or not select.sortClause:
        return False
    return orders_totally(
        Scope(plain, scope.facts, scope.parent, scope.blind, scope.ctes, scope.entries), values
    )


def _of_window(node: ast.FuncCall, select: ast.SelectStmt, scope: Scope | None) -> str | None:
    name = names_of(node.funcname)[-1]
    if name in TIE_PROOF_WINDOWS:
        return None
    definition = node.over
    named = {str(one.name): one for one in items(select.windowClause) if isinstance(one, ast.WindowDef)}
    if definition is not None and definition.name:
        definition = named.get(str(definition.name))
    if definition is None or definition.refname:
        return "a window that refers to another"
    by_range = not (definition.frameOptions or 0) & FRAMEOPTION_ROWS
    collects = name in ORDERED_AGGREGATES or name in ARBITRARY_AGGREGATES
    if name in AGGREGATES and by_range and not collects:
        return None
    order = [one.node for one in items(definition.orderClause) if isinstance(one, ast.SortBy)]
    by = [*items(definition.partitionClause), *(one for one in order if isinstance(one, ast.Node))]
    if scope is None or select.groupClause or not order or not orders_totally(scope, by):
        return f"{name}() over an order that is not total"
    return None


def errors_of(node: object, scope: Scope) -> Errors:
    """Whether evaluating the expression can raise an error: never, by an overflow only, or by other
    things."""
    worst: Errors = "never"
    for part in _error_parts(node, scope):
        if part == "may":
            return "may"
        worst = part if part != "never" else worst
    return worst


def _error_parts(node: object, scope: Scope) -> Iterator[Errors]:
    if isinstance(node, tuple):
        for one in node:
            yield from _error_parts(one, scope)
        return
    if not isinstance(node, ast.Node) or _is_constant(node):
        return
    if isinstance(node, ast.ColumnRef):
        yield "never" if scope.resolve(node).column.type in KNOWN_TYPES else "may"
        return
    if isinstance(node, ast.TypeCast) and _is_safe_cast(node, scope):
        return
    if isinstance(node, ast.SubLink):
        yield from _errors_of_sublink(node, scope)
        return
    yield _own_errors(node)
    if isinstance(node, ast.A_Expr) and _compares_float_and_numeric(node, scope):
        yield "overflow"
    for name in node:
        if name not in ("name", "funcname", "typeName"):
            yield from _error_parts(getattr(node, name), scope)


def _is_safe_cast(node: ast.TypeCast, scope: Scope) -> bool:
    kind = node.typeName
    if not isinstance(node.arg, ast.ColumnRef) or kind is None or kind.typmods or kind.arrayBounds:
        return False
    return (scope.resolve(node.arg).column.type, names_of(kind.names)[-1]) in SAFE_CASTS


def _errors_of_sublink(node: ast.SubLink, scope: Scope) -> Iterator[Errors]:
    kinds = (SubLinkType.EXISTS_SUBLINK, SubLinkType.ANY_SUBLINK)
    select = next((found for kind in kinds if (found := plain_subselect(node, kind))), None)
    inner = scopes_below(select, scope) if select is not None else None
    if (
        select is None
        or inner is None
        or any(not isinstance(one, ast.RangeVar) for one in items(select.fromClause))
    ):
        yield "may"
        return
    yield from _error_parts(node.testexpr, scope)
    yield from _error_parts(select.whereClause, inner)
    if node.subLinkType == SubLinkType.ANY_SUBLINK:
        yield from _error_parts(
            tuple(one.val for one in items(select.targetList) if isinstance(one, ast.ResTarget)), inner
        )


def scopes_below(select: ast.SelectStmt, scope: Scope) -> Scope | None:
    """The scope of a SELECT in an expression of another."""
    made = next(iter(scoped_selects(select, scope.facts, scope, scope.ctes)), None)
    return made if isinstance(made, Scope) else None


def _is_constant(node: ast.Node) -> bool:
    """Constants and parameters, and what is computed of them alone: any error is raised by the planner."""
    return next(references(node), None) is None and not any(
        isinstance(one, ast.SubLink | ast.SelectStmt) for one in walk(node)
    )


def _own_errors(node: ast.Node) -> Errors:
    if isinstance(node, ast.BoolExpr | ast.NullTest | ast.BooleanTest | ast.CoalesceExpr | ast.CaseExpr):
        return "never"
    if isinstance(node, ast.CaseWhen | ast.MinMaxExpr | ast.A_ArrayExpr | ast.CollateClause):
        return "never"
    if isinstance(node, ast.A_Expr):
        return _errors_of_operator(node)
    if isinstance(node, ast.FuncCall):
        words = names_of(node.funcname)
        args = items(node.args)
        if words[-1] in ERROR_FREE_FUNCTIONS:
            return "never"
        first = constant(args[0]) if args else None
        if words[-1] in ("date_trunc", "extract", "date_part") and first in DAY_UNITS:
            return "never"
    return "may"


def _errors_of_operator(node: ast.A_Expr) -> Errors:
    kinds = (
        A_Expr_Kind.AEXPR_IN, A_Expr_Kind.AEXPR_BETWEEN, A_Expr_Kind.AEXPR_NOT_BETWEEN,
        A_Expr_Kind.AEXPR_DISTINCT, A_Expr_Kind.AEXPR_NOT_DISTINCT, A_Expr_Kind.AEXPR_NULLIF,
        A_Expr_Kind.AEXPR_OP_ANY, A_Expr_Kind.AEXPR_OP_ALL,
    )  # fmt: skip
    name = names_of(node.name)[-1]
    if node.kind in kinds and name in (*COMPARISONS, "BETWEEN", "NOT BETWEEN"):
        return "never"
    if node.kind in (A_Expr_Kind.AEXPR_LIKE, A_Expr_Kind.AEXPR_ILIKE):
        pattern = constant(node.rexpr)
        # "LIKE pattern must not end with escape character"
        return "never" if isinstance(pattern, str) and not pattern.endswith("\\") else "may"
    if node.kind == A_Expr_Kind.AEXPR_OP and name in COMPARISONS:
        return "never"
    if node.kind == A_Expr_Kind.AEXPR_OP and name in ("+", "-", "*"):
        return "overflow"
    return "may"


def _compares_float_and_numeric(node: ast.A_Expr, scope: Scope) -> bool:
    """A numeric is then made a float, which not every one fits in."""
    parts = list(walk(node, into_selects=False))
    kinds = {scope.resolve(one).column.type for one in parts if isinstance(one, ast.ColumnRef)}
    casts = {
        names_of(one.typeName.names)[-1]
        for one in parts
        if isinstance(one, ast.TypeCast) and one.typeName is not None
    }
    return "numeric" in kinds and bool(kinds & FLOATS or casts & {"float4", "float8"})


def sums_floats(call: ast.FuncCall, scope: Scope) -> bool:
    """Whether an aggregate's value depends on the order of its rows by rounding, or might.

    Or by which of several equal values it returns: 1.0 or 1.00.
    """
    name = names_of(call.funcname)[-1]
    if name in ("min", "max"):
        return _mixes_twins(call.args, scope)
    if name in ("count", "bool_and", "bool_or", "every"):
        return False
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
    if any(has_twins(one) for one in found):
        return True
    # Sums and products of numbers of one scale each are of one scale; a quotient or a COALESCE need not be.
    counted = (ast.ColumnRef, ast.A_Const, ast.String, ast.Integer, ast.Float)
    plain = all(isinstance(one, counted) or is_operation(one, "+", "-", "*") for one in walk(args))
    numbers = any(one.type == "numeric" for one in found) or any(
        isinstance(constant(one), Decimal) for one in walk(args)
    )
    return numbers and not plain


def has_twins(column: Column) -> bool:
    """Whether values of the column can be equal and look different: 1.0 and 1.00, 24 hours and 1 day."""
    written = column.source.type if column.source is not None else ""
    return column.type == "interval" or (column.type == "numeric" and "(" not in written)
