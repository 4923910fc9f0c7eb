"""Statements whose rows are not decided by the data alone, and expressions that can't raise an error.

Functions are judged by a list of PostgreSQL's own that are immutable, or stable and decided by settings of
the session; one that is not listed and not among the facts counts as volatile. An operator of an unknown
name does as well.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from pglast import ast
from pglast.enums import A_Expr_Kind, SubLinkType
from pglast.enums.parsenodes import FRAMEOPTION_ROWS

from pgassay.tune.facts.schema import SchemaFacts, TableFacts
from pgassay.tune.rewrites.functions import (
    ARBITRARY_AGGREGATES,
    DAY_UNITS,
    DECIDED_FUNCTIONS,
    ERROR_FREE_FUNCTIONS,
    NOW_LIKE,
    NOW_WORDS,
    OPERATORS,
    ORDERED_AGGREGATES,
    TIE_PROOF_WINDOWS,
    TIED_WINDOWS,
)
from pgassay.tune.rewrites.proofs import (
    AGGREGATES,
    COMPARISONS,
    has_aggregates,
    has_total_order,
    orders_totally,
    output_expression,
)
from pgassay.tune.rewrites.scope import FLOATS, INTEGERS, KNOWN_TYPES, SYSTEM_COLUMNS, Scope, scoped_selects
from pgassay.tune.rewrites.tree import (
    RefusedError,
    constant,
    items,
    meaning,
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
        return _of_call(node, facts)
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


def _of_call(node: ast.FuncCall, facts: SchemaFacts) -> str | None:
    words = names_of(node.funcname)
    name = words[-1]
    own = [one for one in facts.functions if one.name == name and words[:-1] in ((), (one.schema_,))]
    if words[:-1] == ("pg_catalog",):
        own = []
    if any(one.volatility == "v" for one in own):
        return f"{name}() is volatile"
    if name in NOW_LIKE or (name == "age" and len(items(node.args)) == 1):
        return f"{name}() has another value at each run"
    builtin = words[:-1] in ((), ("pg_catalog",))
    listed = DECIDED_FUNCTIONS | AGGREGATES | TIE_PROOF_WINDOWS | TIED_WINDOWS | {"age"}
    if not own and not (builtin and name in listed):
        return f"{'.'.join(words)}() is not known to be immutable or stable"
    if node.over is not None:
        return None
    if name in ARBITRARY_AGGREGATES:
        return f"{name}() may choose among values"
    if name in ORDERED_AGGREGATES and not _orders_its_arguments(node):
        return f"{name}() without an order of all that it collects"
    return None


def _orders_its_arguments(node: ast.FuncCall) -> bool:
    """Ties in the aggregate's order are then equal values."""
    ordered = {repr(meaning(one.node)) for one in items(node.agg_order) if isinstance(one, ast.SortBy)}
    return all(isinstance(one, ast.A_Const) or repr(meaning(one)) in ordered for one in items(node.args))


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
    if scope is not None and (select.distinctClause or has_aggregates(select)):
        blind = _blind_column(select, scope)
        if blind is not None:
            return f"which of the equal texts of {blind} it returns is left open"
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


def why_untrusted(tree: ast.Node, facts: SchemaFacts) -> str | None:
    """Why what the catalog says of a table in the statement proves nothing; None when it does."""
    common = {str(node.ctename) for node in walk(tree) if isinstance(node, ast.CommonTableExpr)}
    for node in walk(tree):
        if isinstance(node, ast.WithClause) and node.recursive:
            return "WITH RECURSIVE stops by the rows that it finds"
        if not isinstance(node, ast.RangeVar):
            continue
        # The name of a CTE may mean a table elsewhere in the statement: then both have to be sure.
        table = facts.table(str(node.relname), node.schemaname)
        if table is None and node.schemaname is None and node.relname in common:
            continue
        if table is None:
            return f"the facts have no table {node.relname}"
        reason = why_untrusted_table(table)
        if reason is not None:
            return reason
    return None


def why_untrusted_table(table: TableFacts) -> str | None:
    """Row security, rules, views, foreign tables and inheritance: keys and NOT NULL say less there."""
    if table.row_security:
        return f"{table.name} has row security"
    if table.has_rules:
        return f"{table.name} has rules"
    if table.kind in ("view", "foreign"):
        return f"{table.name} is a {table.kind}{' table' if table.kind == 'foreign' else ''}"
    if table.inherited:
        return f"{table.name} has tables that inherit from it"
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
    if isinstance(node, ast.SubLink):
        yield from _errors_of_sublink(node, scope)
        return
    yield _own_errors(node)
    for name in node:
        if name not in ("name", "funcname", "typeName"):
            yield from _error_parts(getattr(node, name), scope)


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


def sums_floats(call: ast.FuncCall, scope: Scope) -> bool:
    """Whether an aggregate's value depends on the order of its rows by rounding, or might."""
    name = names_of(call.funcname)[-1]
    if name in ("count", "min", "max", "bool_and", "bool_or", "every"):
        return False
    if name.startswith(("corr", "covar", "regr")):
        return True
    for reference in references(call.args):
        kind = scope.resolve(reference).column.type
        if kind in FLOATS or kind not in INTEGERS | {"numeric", "interval"}:
            return True
    # A constant like 1e0 is numeric; a cast or a function may give a float.
    return any(isinstance(node, ast.TypeCast | ast.FuncCall) for node in walk(call.args))
