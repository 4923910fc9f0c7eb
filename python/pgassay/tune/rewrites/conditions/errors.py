"""Expressions that can't raise an error, whatever the columns hold.

An error is a result. An expression that a rewrite evaluates for other rows, or for fewer, must have none to
raise.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from pglast import ast
from pglast.enums import A_Expr_Kind, SubLinkType

from pgassay.tune.rewrites.conditions.calls import is_aggregate, is_builtin
from pgassay.tune.rewrites.functions import (
    COMPARISONS,
    DAY_UNITS,
    ERROR_FREE_AGGREGATES,
    ERROR_FREE_FUNCTIONS,
    ERROR_FREE_WINDOWS,
    SAFE_CASTS,
)
from pgassay.tune.rewrites.names.data_types import FLOATS, KNOWN_TYPES, TEXTS
from pgassay.tune.rewrites.names.scope import Cte, Scope, ScopeColumn
from pgassay.tune.rewrites.names.tree_scopes import scoped_selects, scopes_below
from pgassay.tune.rewrites.tree import (
    RefusedError,
    conjuncts,
    constant,
    is_operation,
    items,
    names_of,
    plain_subselect,
    references,
    walk,
)

Errors = Literal["never", "overflow", "may"]
PLAIN, ZONED, DATE = "timestamp without time zone", "timestamp with time zone", "date"
# The names of casts to types that are compared with others.
_COMPARED_CASTS = {"float4": "real", "float8": "double precision", "numeric": "numeric"}
# What holds expressions and does nothing itself.
_HOLDERS = (
    ast.BoolExpr, ast.NullTest, ast.BooleanTest, ast.CoalesceExpr, ast.CaseExpr, ast.CaseWhen, ast.MinMaxExpr,
    ast.A_ArrayExpr, ast.CollateClause, ast.ResTarget, ast.SortBy, ast.WindowDef, ast.GroupingSet,
)  # fmt: skip


def errors_of(node: object, scope: Scope) -> Errors:
    """Whether evaluating the expression can raise an error: never, by an overflow only, or by other
    things."""
    return worst_of(_error_parts(node, scope))


def worst_of(found: Iterable[Errors]) -> Errors:
    """The worst of several."""
    worst: Errors = "never"
    for part in found:
        if part == "may":
            return "may"
        worst = part if part != "never" else worst
    return worst


def errors_of_conditions(scope: Scope) -> Errors:
    """Whether a condition of a SELECT can raise an error: of WHERE, of HAVING or of a join."""
    select = scope.select
    quals = tuple(
        one.quals for one in walk(select.fromClause, into_selects=False) if isinstance(one, ast.JoinExpr)
    )
    parts = (*conjuncts(select.whereClause), *quals, *conjuncts(select.havingClause))
    return worst_of(errors_of(part, scope) for part in parts)


def errors_of_rows(scope: Scope) -> Errors:
    """Whether finding a SELECT's rows can raise an error: its conditions, and all that it reads computes.

    EXISTS stops at the first row, and a join looks at other rows than a subquery that runs for each.
    """
    read = (_errors_of_read(scope, entry.node) for entry in scope.entries)
    return worst_of((errors_of_conditions(scope), *(worst_of(one) for one in read)))


def _errors_of_read(scope: Scope, node: ast.Node) -> Iterator[Errors]:
    """Of something in FROM: a table has none, a subquery and a CTE those of their own."""
    if isinstance(node, ast.RangeVar):
        cte = scope.ctes.get(str(node.relname)) if node.schemaname is None else None
        if cte is not None:
            yield from _errors_of_query(cte.node.ctequery, scope, None, cte.before)
    elif isinstance(node, ast.RangeSubselect):
        yield from _errors_of_query(node.subquery, scope, scope, scope.ctes, not node.lateral)
    elif isinstance(node, ast.RangeFunction):
        yield errors_of(node.functions, scope)
    else:
        yield "may"


def _errors_of_query(
    query: object, around: Scope, parent: Scope | None, ctes: Mapping[str, Cte], blind: bool = True
) -> Iterator[Errors]:
    lists = (one.valuesLists for one in walk(query) if isinstance(one, ast.SelectStmt) and one.valuesLists)
    if any(next(references(one), None) is not None for one in lists):
        yield "may"
    for inner in scoped_selects(query, around.facts, parent, ctes, blind):
        if isinstance(inner, RefusedError):
            yield "may"
            return
        yield errors_of_conditions(inner)
        yield errors_of_values(inner)
        for entry in inner.entries:
            # The scopes of subqueries are among these.
            if not isinstance(entry.node, ast.RangeSubselect):
                yield from _errors_of_read(inner, entry.node)


def errors_of_values(scope: Scope) -> Errors:
    """Whether what a SELECT computes beside its conditions can raise an error: outputs, groups, order."""
    select = scope.select
    parts = (
        *items(select.targetList), *items(select.groupClause), *items(select.sortClause),
        *items(select.windowClause), *items(select.distinctClause),
    )  # fmt: skip
    return worst_of(_errors_of_value(one, scope) for one in parts if isinstance(one, ast.Node))


def _errors_of_value(node: ast.Node, scope: Scope) -> Errors:
    value: object = node
    if isinstance(node, ast.ResTarget):
        value = node.val
    elif isinstance(node, ast.SortBy):
        value = node.node
    if not isinstance(value, ast.ColumnRef):
        return errors_of(value, scope)
    if "*" not in names_of(value):
        try:
            found = scope.resolve(value)
        except RefusedError:
            # The name of an output column, whose own expression is looked at.
            return "never"
        return "may" if _is_computed(found.column) else "never"
    columns = [column for entry in scope.entries for column in entry.columns or ()]
    return "may" if any(_is_computed(column) for column in columns) else "never"


def _is_computed(column: ScopeColumn) -> bool:
    """Whether reading the column may compute what can fail: a generated column that is not stored, or an
    expression of a subquery. Reading any other raises no error, of whatever type it is."""
    return column.source.computed if column.source is not None else not column.type


def _error_parts(node: object, scope: Scope) -> Iterator[Errors]:
    if isinstance(node, tuple):
        for one in node:
            yield from _error_parts(one, scope)
        return
    if not isinstance(node, ast.Node) or _is_constant(node, scope):
        return
    if isinstance(node, ast.ColumnRef):
        yield "never" if scope.resolve(node).column.type in KNOWN_TYPES else "may"
        return
    if isinstance(node, ast.SubLink):
        yield from _errors_of_sublink(node, scope)
        return
    yield _own_errors(node, scope)
    if isinstance(node, ast.FuncCall) and _only_counts(node, scope):
        return
    for name in node:
        if name not in ("name", "funcname", "typeName"):
            yield from _error_parts(getattr(node, name), scope)


def _errors_of_sublink(node: ast.SubLink, scope: Scope) -> Iterator[Errors]:
    kinds = (SubLinkType.EXISTS_SUBLINK, SubLinkType.ANY_SUBLINK)
    select = next((found for kind in kinds if (found := plain_subselect(node, kind))), None)
    inner = scopes_below(select, scope) if select is not None else None
    operator = names_of(node.operName)
    own = not operator or (len(operator) == 1 and operator[0] in COMPARISONS)
    if select is None or inner is None or not own:
        yield "may"
        return
    yield from _error_parts(node.testexpr, scope)
    yield errors_of_rows(inner)
    if node.subLinkType == SubLinkType.ANY_SUBLINK:
        values = tuple(one.val for one in items(select.targetList) if isinstance(one, ast.ResTarget))
        yield from _error_parts(values, inner)
        yield _of_comparison(_types(node.testexpr, scope) | _types(values, inner))


def _is_constant(node: ast.Node, scope: Scope) -> bool:
    """Constants, parameters and casts of them, and what is computed of constants alone.

    The planner computes these, and raises their errors whatever the rows are. Of a parameter it may not know
    the value, and a function of the user may read tables.
    """
    if next(references(node), None) is not None:
        return False
    plain: object = node
    while isinstance(plain, ast.TypeCast):
        plain = plain.arg
    if isinstance(plain, ast.A_Const | ast.ParamRef):
        return True
    return not any(
        isinstance(one, ast.SubLink | ast.SelectStmt | ast.ParamRef)
        or (
            isinstance(one, ast.FuncCall)
            and (is_aggregate(one) or one.over or not is_builtin(one, scope.facts))
        )
        for one in walk(node)
    )


def _types(node: object, scope: Scope) -> set[str]:
    """The types of the columns and casts in an expression, not those of its subqueries."""
    found = set()
    for one in walk(node, into_selects=False):
        if isinstance(one, ast.ColumnRef) and "*" not in names_of(one):
            found.add(scope.resolve(one).column.type)
        elif isinstance(one, ast.TypeCast) and one.typeName is not None:
            word = names_of(one.typeName.names)[-1]
            found.add(_COMPARED_CASTS.get(word, word))
    return found


def _of_comparison(types: set[str]) -> Errors:
    """Beside a float a numeric is turned into one, and 1e400 is none."""
    return "overflow" if types & FLOATS and "numeric" in types else "never"


def _own_errors(node: ast.Node, scope: Scope) -> Errors:
    if isinstance(node, ast.CoalesceExpr | ast.CaseExpr | ast.MinMaxExpr):
        return _of_comparison(_types(node, scope))
    if isinstance(node, _HOLDERS):
        return "never"
    if isinstance(node, ast.A_Expr):
        return _errors_of_operator(node, scope)
    if isinstance(node, ast.FuncCall) and is_builtin(node, scope.facts):
        return _errors_of_call(node, scope)
    if isinstance(node, ast.TypeCast):
        return _errors_of_cast(node, scope)
    return "may"


def _only_counts(node: ast.FuncCall, scope: Scope) -> bool:
    """count(column) looks at no value, so that its type does not matter."""
    plain = all(
        isinstance(one, ast.ColumnRef) and not _is_computed(scope.resolve(one).column)
        for one in items(node.args)
    )
    other = node.agg_distinct or node.agg_filter or node.agg_order or node.over
    return names_of(node.funcname)[-1] == "count" and plain and not other


def _errors_of_call(node: ast.FuncCall, scope: Scope) -> Errors:
    name, args = names_of(node.funcname)[-1], items(node.args)
    offsets = (node.over.startOffset, node.over.endOffset) if node.over is not None else ()
    if node.agg_within_group or any(one and not isinstance(one, ast.A_Const) for one in offsets):
        return "may"
    if name in ERROR_FREE_AGGREGATES or (node.over is not None and name in ERROR_FREE_WINDOWS):
        return "never"
    if name in ("sum", "avg"):
        return "overflow"
    if len(args) <= ERROR_FREE_FUNCTIONS.get(name, 0):
        return "overflow" if name == "round" and "numeric" in _types(args, scope) else "never"
    if name in ("date_trunc", "extract", "date_part") and len(args) == 2:
        return _errors_of_period(name, constant(args[0]), args[1], scope)
    return "may"


def _errors_of_period(name: str, unit: object, value: ast.Node, scope: Scope) -> Errors:
    """A time and an interval lack some units, and the first month of 4714 BC begins before all timestamps.

    A date is turned into a timestamp, and has more years than one.
    """
    kind = scope.resolve(value).column.type if isinstance(value, ast.ColumnRef) else ""
    if unit not in DAY_UNITS or kind not in (PLAIN, ZONED, DATE):
        return "may"
    if name == "extract" or (kind != DATE and name == "date_part") or (kind == PLAIN and unit == "day"):
        return "never"
    return "overflow"


def _errors_of_cast(node: ast.TypeCast, scope: Scope) -> Errors:
    kind = node.typeName
    if not isinstance(node.arg, ast.ColumnRef) or kind is None or kind.arrayBounds or kind.typmods:
        return "may"
    words = names_of(kind.names)
    known = words[:-1] in ((), ("pg_catalog",))
    return "never" if known and (scope.resolve(node.arg).column.type, words[-1]) in SAFE_CASTS else "may"


def _errors_of_operator(node: ast.A_Expr, scope: Scope) -> Errors:
    kinds = (
        A_Expr_Kind.AEXPR_IN, A_Expr_Kind.AEXPR_BETWEEN, A_Expr_Kind.AEXPR_NOT_BETWEEN,
        A_Expr_Kind.AEXPR_DISTINCT, A_Expr_Kind.AEXPR_NOT_DISTINCT, A_Expr_Kind.AEXPR_NULLIF,
        A_Expr_Kind.AEXPR_OP_ANY, A_Expr_Kind.AEXPR_OP_ALL,
    )  # fmt: skip
    name = names_of(node.name)[-1]
    if node.kind in kinds and name in (*COMPARISONS, "BETWEEN", "NOT BETWEEN"):
        return _of_comparison(_types(node, scope))
    if node.kind in (A_Expr_Kind.AEXPR_LIKE, A_Expr_Kind.AEXPR_ILIKE):
        pattern = constant(node.rexpr)
        # "LIKE pattern must not end with escape character"
        sound = isinstance(pattern, str) and not pattern.endswith("\\")
        return "never" if sound and not _is_blind(node, scope) else "may"
    if node.kind == A_Expr_Kind.AEXPR_OP and name in COMPARISONS:
        return _of_comparison(_types(node, scope))
    if is_operation(node, "||") and _types(node, scope) <= TEXTS:
        return "never"
    if node.kind == A_Expr_Kind.AEXPR_OP and name in ("+", "-", "*"):
        return "overflow"
    return "may"


def _is_blind(node: ast.Node, scope: Scope) -> bool:
    """Before 18 LIKE fails by a collation that calls different texts equal."""
    return any(not scope.resolve(one).column.deterministic for one in references(node))
