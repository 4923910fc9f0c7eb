"""Whether a statement's rows are decided by the data alone.

Functions are judged by a list of PostgreSQL's own that are immutable, or stable and decided by settings of
the session; one that is not listed and not among the facts counts as volatile. An operator of an unknown
name does as well.
"""

import re
from collections.abc import Iterator, Mapping

from pglast import ast
from pglast.enums import A_Expr_Kind, SetOperation, SubLinkType
from pglast.enums.parsenodes import FRAMEOPTION_ROWS

from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites.conditions.calls import has_aggregates, why_of_another, why_undecided_call
from pgassay.tune.rewrites.conditions.orders import has_total_order, orders_totally
from pgassay.tune.rewrites.conditions.proofs import same_value
from pgassay.tune.rewrites.conditions.row_order import blind_column, twin_column
from pgassay.tune.rewrites.functions import (
    AGGREGATES,
    ARBITRARY_AGGREGATES,
    NOW_WORDS,
    OPERATORS,
    ORDERED_AGGREGATES,
    TIE_PROOF_WINDOWS,
)
from pgassay.tune.rewrites.names.outputs import output_expression
from pgassay.tune.rewrites.names.scope import SYSTEM_COLUMNS, Scope
from pgassay.tune.rewrites.names.tree_scopes import scopes_by_select
from pgassay.tune.rewrites.tree import RefusedError, constant, items, names_of, new_select, walk

# What may stand beside 'today' in a text that is a moment: a time, a zone.
CLOCK = re.compile(r"[-+]?\d[\d:.]*([ap]m)?|[ap]m|allballs|z|utc|gmt|[a-z_]+/[a-z_/]+")


def why_undecided(tree: ast.Node, facts: SchemaFacts) -> str | None:
    """Why the statement's rows are not decided by the data alone; None when they are."""
    if not isinstance(tree, ast.SelectStmt):
        return "it is not a SELECT"
    scopes = scopes_by_select(tree, facts)
    united = {id(one) for node in walk(tree) if isinstance(node, ast.SelectStmt) for one in _united(node)}
    for node in walk(tree):
        reason = _of_node(node, facts)
        if reason is None and isinstance(node, ast.SelectStmt | ast.SubLink):
            try:
                if isinstance(node, ast.SubLink):
                    reason = _of_array(node, scopes)
                else:
                    reason = _of_select(node, scopes, id(node) in united)
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
        return "a constant means the time of its run" if _means_now(str(constant(node))) else None
    if isinstance(node, ast.RangeTableSample):
        return "TABLESAMPLE chooses rows by chance"
    if isinstance(node, ast.ColumnRef) and names_of(node)[-1] in SYSTEM_COLUMNS:
        return f"{names_of(node)[-1]} is a system column"
    if isinstance(node, ast.RangeTableFunc | ast.JsonTable):
        return "XMLTABLE and JSON_TABLE are not analysed"
    if isinstance(node, ast.JsonArrayAgg | ast.JsonObjectAgg | ast.JsonArrayQueryConstructor):
        return "JSON_ARRAYAGG and similar functions are not analysed"
    words = _operator(node)
    if words and (words[-1] not in OPERATORS or (len(words) > 1 and words[0] != "pg_catalog")):
        return f"what the operator {'.'.join(words)} does is not known"
    return None


def _means_now(said: str) -> bool:
    """Whether a text is 'now', 'today 12:00' or the like."""
    words = said.strip().lower().split()
    return any(word in NOW_WORDS for word in words) and all(
        word in NOW_WORDS or CLOCK.fullmatch(word) for word in words
    )


def _operator(node: ast.Node) -> tuple[str, ...]:
    """The operator that a node calls by its name, () where it calls none or one that its grammar fixes."""
    kinds = (A_Expr_Kind.AEXPR_OP, A_Expr_Kind.AEXPR_OP_ANY, A_Expr_Kind.AEXPR_OP_ALL)
    if isinstance(node, ast.A_Expr) and node.kind in kinds:
        return names_of(node.name)
    if isinstance(node, ast.SubLink):
        return names_of(node.operName)
    return names_of(node.useOp) if isinstance(node, ast.SortBy) else ()


def _united(node: ast.SelectStmt) -> Iterator[ast.SelectStmt]:
    """The SELECTs below a UNION, INTERSECT or EXCEPT that makes their rows distinct."""
    if node.op != SetOperation.SETOP_NONE and not node.all:
        waiting = [node.larg, node.rarg]
        while waiting:
            side = waiting.pop()
            if side is not None and side.op != SetOperation.SETOP_NONE:
                waiting += [side.larg, side.rarg]
            elif side is not None:
                yield side


def _of_array(node: ast.SubLink, scopes: Mapping[int, Scope]) -> str | None:
    """ARRAY(SELECT …) keeps the order of its rows, which has to be one of the values or total."""
    select = node.subselect
    if node.subLinkType != SubLinkType.ARRAY_SUBLINK or not isinstance(select, ast.SelectStmt):
        return None
    scope = scopes.get(id(select))
    for item in items(select.sortClause):
        assert isinstance(item, ast.SortBy) and isinstance(item.node, ast.Node)
        by = output_expression(select, item.node, None)
        values = [one.val for one in items(select.targetList) if isinstance(one, ast.ResTarget)]
        if scope is not None and any(
            isinstance(value, ast.Node) and same_value(scope, value, by) for value in values
        ):
            return None
    return None if has_total_order(select, scopes) else "ARRAY(SELECT …) without an order that is total"


def _of_select(select: ast.SelectStmt, scopes: Mapping[int, Scope], united: bool) -> str | None:
    scope = scopes.get(id(select))
    if select.lockingClause:
        return "it locks rows (FOR UPDATE or similar)"
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
    if scope is not None and (select.distinctClause or has_aggregates(select) or united):
        blind = blind_column(select, scope)
        if blind is not None:
            return f"which of the equal texts of {blind} it returns is left open"
        twin = twin_column(select, scope, united)
        if twin is not None:
            return f"which of the equal values of {twin} it returns is left open, as 1.0 or 1.00"
    for node in walk(select, into_selects=False):
        if isinstance(node, ast.FuncCall) and node.over is not None:
            reason = _of_window(node, select, scope)
            if reason is not None:
                return reason
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
