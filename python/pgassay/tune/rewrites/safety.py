"""Statements whose rows are not decided by the data alone.

Functions are judged by a list of PostgreSQL's own that are immutable, or stable and decided by settings of
the session; one that is not listed and not among the facts counts as volatile. An operator of an unknown
name does as well.
"""

import re
from collections.abc import Iterator, Mapping

from pglast import ast
from pglast.enums import A_Expr_Kind, SetOperation, SubLinkType
from pglast.enums.parsenodes import FRAMEOPTION_ROWS

from pgassay.tune.facts.schema import SchemaFacts, TableFacts
from pgassay.tune.rewrites.functions import (
    ARBITRARY_AGGREGATES,
    DECIDED_FUNCTIONS,
    NOW_LIKE,
    NOW_WORDS,
    OPERATORS,
    ORDERED_AGGREGATES,
    TIE_PROOF_WINDOWS,
    TIED_WINDOWS,
)
from pgassay.tune.rewrites.proofs import (
    AGGREGATES,
    determined,
    has_aggregates,
    has_total_order,
    is_aggregate,
    orders_totally,
    output_expression,
    same_value,
)
from pgassay.tune.rewrites.scope import SYSTEM_COLUMNS, Found, Scope, base_type, scoped_selects
from pgassay.tune.rewrites.tree import (
    RefusedError,
    constant,
    items,
    meaning,
    names_of,
    new_select,
    references,
    walk,
)

# 1.0 and 1.00, "24 hours" and "1 day" are equal and not the same; so are texts of citext.
LOOSE_TYPES = frozenset({"numeric", "interval", "jsonb", "citext"})
# What may stand beside 'today' in a text that is a moment: a time, a zone.
CLOCK = re.compile(r"[-+]?\d[\d:.]*([ap]m)?|[ap]m|allballs|z|utc|gmt|[a-z_]+/[a-z_/]+")


def scopes_by_select(tree: ast.Node, facts: SchemaFacts) -> dict[int, Scope]:
    """The scope of each SELECT that has one, by the SELECT's id."""
    return {id(one.select): one for one in scoped_selects(tree, facts) if isinstance(one, Scope)}


def why_undecided(tree: ast.Node, facts: SchemaFacts) -> str | None:
    """Why the statement's rows are not decided by the data alone; None when they are."""
    if not isinstance(tree, ast.SelectStmt):
        return "it is no SELECT"
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
        return _of_call(node, facts)
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
        return "XMLTABLE and JSON_TABLE are not judged"
    if isinstance(node, ast.JsonArrayAgg | ast.JsonObjectAgg | ast.JsonArrayQueryConstructor):
        return "JSON_ARRAYAGG and its kin are not judged"
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


def _of_call(node: ast.FuncCall, facts: SchemaFacts) -> str | None:
    words = names_of(node.funcname)
    name = words[-1]
    own = [one for one in facts.functions if one.name == name and words[:-1] in ((), (one.schema_,))]
    if words[:-1] == ("pg_catalog",):
        own = []
    if any(one.volatility == "v" for one in own):
        return f"{name}() is volatile"
    if name not in AGGREGATES and any(one.kind in ("a", "w") for one in own):
        return f"{name}() is an aggregate or a window function of your own"
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


def _of_select(select: ast.SelectStmt, scopes: Mapping[int, Scope], united: bool) -> str | None:
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
    if scope is not None and (select.distinctClause or has_aggregates(select) or united):
        blind = _blind_column(select, scope)
        if blind is not None:
            return f"which of the equal texts of {blind} it returns is left open"
        loose = _loose_column(select, scope, united)
        if loose is not None:
            return f"which of the equal values of {loose} it returns is left open"
    if scope is not None and _collects_for_another(scope):
        return "an aggregate of columns around a subquery belongs to the statement around it"
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


def _loose_column(select: ast.SelectStmt, scope: Scope, united: bool) -> str | None:
    """A column that rows are made distinct or grouped by, whose equal values are not the same.

    Where the other columns hold its table's key, each group has one value of it.
    """
    outputs = [one.val for one in items(select.targetList) if isinstance(one, ast.ResTarget)]
    values: list[object] = list(outputs) if select.distinctClause == (None,) or united else []
    values += [output_expression(select, one, scope) for one in items(select.groupClause)]
    found: list[Found] = []
    for value in values:
        for node in references(value) if isinstance(value, ast.GroupingSet) else [value]:
            if isinstance(node, ast.ColumnRef):
                found += _columns_of(node, scope)
    loose = [one for one in found if one.level == 0 and _is_loose(one)]
    if not loose:
        return None
    known = determined(scope, {(one.entry.name, one.column.name) for one in found if one.level == 0})
    return next((one.column.name for one in loose if one.entry.name not in known), None)


def _columns_of(node: ast.ColumnRef, scope: Scope) -> list[Found]:
    """The column that a reference means, or those of a star."""
    words = names_of(node)
    if words[-1] != "*":
        return [scope.resolve(node)]
    chosen = [entry for entry in scope.entries if len(words) == 1 or entry.name == words[-2]]
    return [Found(entry, column, 0) for entry in chosen for column in entry.columns or ()]


def _is_loose(found: Found) -> bool:
    """numeric(10,2) always writes two digits."""
    source = found.column.source
    return found.column.type in LOOSE_TYPES and (source is None or base_type(source.type) == source.type)


def _collects_for_another(scope: Scope) -> bool:
    """Whether an aggregate of a subquery is of columns around it alone: it groups the statement around."""
    if scope.parent is None or (scope.blind and scope.parent.parent is None):
        return False
    for node in walk(scope.select, into_selects=False):
        if isinstance(node, ast.FuncCall) and is_aggregate(node):
            inside = references((node.args, node.agg_filter, node.agg_order))
            levels = [scope.resolve(one).level for one in inside if "*" not in names_of(one)]
            if levels and min(levels) > 0:
                return True
    return False


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
        if _has_foreign_partitions(table, facts):
            return f"{table.name} has foreign tables for partitions"
    return None


def _has_foreign_partitions(table: TableFacts, facts: SchemaFacts) -> bool:
    """Nothing enforces NOT NULL in a partition that is a foreign table."""
    names, grew = {table.name}, True
    while grew:
        below = [one for one in facts.tables if one.parent in names]
        if any(one.kind == "foreign" for one in below):
            return True
        grew = not {one.name for one in below} <= names
        names |= {one.name for one in below}
    return False


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
