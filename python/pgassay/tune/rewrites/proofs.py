"""What keys and constraints prove: columns that are never NULL, rows that are determined, orders that are
total."""

from collections.abc import Iterator, Mapping

from pglast import ast
from pglast.enums import A_Expr_Kind, BoolTestType, JoinType, NullTestType, SetOperation

from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.rewrites.functions import SET_RETURNING
from pgassay.tune.rewrites.outputs import output_name
from pgassay.tune.rewrites.scope import INTEGERS, KNOWN_TYPES, Entry, Found, Scope
from pgassay.tune.rewrites.tree import (
    RefusedError,
    conjuncts,
    constant,
    has_grouping_sets,
    is_operation,
    items,
    meaning,
    names_of,
    sides,
    walk,
)

COMPARISONS = ("=", "<", ">", "<=", ">=", "<>", "!=")
AGGREGATES = frozenset(
    {
        "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every", "bit_and", "bit_or", "bit_xor",
        "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "corr", "covar_pop",
        "covar_samp", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope",
        "regr_sxx", "regr_sxy", "regr_syy", "array_agg", "string_agg", "json_agg", "jsonb_agg",
        "json_object_agg", "jsonb_object_agg", "xmlagg", "percentile_cont", "percentile_disc", "mode",
        "any_value", "range_agg", "range_intersect_agg",
    }
)  # fmt: skip
TEXTS = frozenset({"text", "character varying"})
# NULL for a group of NULLs alone, as an outer join without a partner gives, and for no rows; a count is 0.
NULL_WITHOUT_VALUES = frozenset({"sum", "avg", "min", "max", "bool_and", "bool_or", "every"})
STRICT_KINDS = (
    A_Expr_Kind.AEXPR_IN,
    A_Expr_Kind.AEXPR_BETWEEN,
    A_Expr_Kind.AEXPR_LIKE,
    A_Expr_Kind.AEXPR_ILIKE,
)
Name = tuple[str, str]


def key_columns(table: TableFacts, nulls: bool) -> Iterator[tuple[str, ...]]:
    """The columns of each key that holds now and at any moment.

    A key counts when its index is unique, valid, checked at once, without a predicate, and of plain columns
    in their own deterministic collation. With `nulls` the columns may be NULL, and then several rows are:
    enough where rows are looked up by equality. Without it they are NOT NULL, or NULLS NOT DISTINCT.
    """
    known = {column.name: column for column in table.columns}
    doubtful = {
        name
        for constraint in table.constraints
        if constraint.kind in ("primary", "unique")
        and (constraint.deferrable or not constraint.valid or not constraint.enforced)
        for name in (constraint.name,)
    }
    doubtful_nulls = {
        name
        for constraint in table.constraints
        if constraint.kind == "not null" and not (constraint.valid and constraint.enforced)
        for name in constraint.columns
    }
    for index in table.indexes:
        if not (index.unique and index.valid and index.immediate) or index.predicate is not None:
            continue
        if index.constraint in doubtful or index.name in doubtful or not index.keys:
            continue
        names = [key.column for key in index.keys]
        if any(name is None or name not in known for name in names):
            continue
        columns = [known[name] for name in names if name is not None]
        own = all(
            key.default_opclass and column.deterministic and key.collation in ("", column.collation)
            for key, column in zip(index.keys, columns, strict=True)
        )
        filled = all(column.not_null and column.name not in doubtful_nulls for column in columns)
        if own and (nulls or filled or index.nulls_not_distinct):
            yield tuple(column.name for column in columns)


def is_reference(node: object) -> bool:
    """A reference to one column."""
    return isinstance(node, ast.ColumnRef) and "*" not in names_of(node)


def resolved(scope: Scope, node: object) -> Found | None:
    """What a column reference of this very SELECT means; None where it is none, or of a SELECT around it."""
    if not isinstance(node, ast.ColumnRef) or not is_reference(node):
        return None
    found = scope.resolve(node)
    return found if found.level == 0 else None


def strict_references(condition: ast.Node) -> Iterator[ast.ColumnRef]:
    """Columns that are not NULL in any row for which the condition holds."""
    if isinstance(condition, ast.NullTest):
        if condition.nulltesttype == NullTestType.IS_NOT_NULL and isinstance(condition.arg, ast.ColumnRef):
            yield condition.arg
    elif is_operation(condition, *COMPARISONS):
        yield from (side for side in sides(condition) if isinstance(side, ast.ColumnRef))
    elif (
        isinstance(condition, ast.A_Expr)
        and condition.kind in STRICT_KINDS
        and (isinstance(condition.lexpr, ast.ColumnRef) and names_of(condition.name) != ("<>",))
    ):
        yield condition.lexpr


def never_null(scope: Scope, reference: ast.ColumnRef) -> bool:
    """Whether a column can't be NULL in the rows that this SELECT's conditions leave.

    Of a column of a SELECT around it only its own declaration counts.
    """
    found = scope.resolve(reference)
    if found.not_null:
        return True
    if found.level or found.column.type not in KNOWN_TYPES:
        return False
    for condition in conjuncts(scope.select.whereClause):
        for other in strict_references(condition):
            same = scope.resolve(other)
            if same.level == 0 and same.entry is found.entry and same.column.name == found.column.name:
                return True
    return False


def joins(node: ast.Node) -> Iterator[ast.JoinExpr]:
    """The joins of one item of FROM, not those of subqueries."""
    if isinstance(node, ast.JoinExpr):
        yield node
        for side in (node.larg, node.rarg):
            if isinstance(side, ast.Node):
                yield from joins(side)


def entries_below(scope: Scope, node: object) -> list[Entry]:
    """The things in FROM that stand below a node."""
    nodes = {id(one) for one in walk(node, into_selects=False)}
    return [entry for entry in scope.entries if id(entry.node) in nodes]


def _equalities(scope: Scope) -> Iterator[tuple[ast.Node, list[Entry] | None]]:
    """Conditions that hold for every row; with the entries that alone they say something of (LEFT JOIN)."""
    yield from ((condition, None) for condition in conjuncts(scope.select.whereClause))
    for item in items(scope.select.fromClause):
        inner = True
        for join in joins(item):
            if join.jointype not in (JoinType.JOIN_INNER, JoinType.JOIN_LEFT):
                inner = False
        for join in joins(item) if inner else ():
            side = entries_below(scope, join.rarg) if join.jointype == JoinType.JOIN_LEFT else None
            below_left = any(entry.nullable for entry in entries_below(scope, join))
            if side is None and below_left:
                continue
            yield from ((condition, side) for condition in conjuncts(join.quals))


def determined(scope: Scope, start: set[Name], besides: frozenset[str] = frozenset()) -> set[str]:
    """The things in FROM of which two result rows have the same row when they agree in the columns `start`.

    A closure over keys and equalities, as of functional dependencies. `besides` are entries that are left
    out.
    """
    known = set(start)
    rows: set[str] = set()
    equalities = [pair for pair in _equalities(scope) if is_operation(pair[0], "=")]
    grew = True
    while grew:
        before = (len(known), len(rows))
        for condition, only in equalities:
            for one, other in (sides(condition), sides(condition)[::-1]):
                name = _local(scope, one)
                if name is None or name[0] in besides or (only and name[0] not in {e.name for e in only}):
                    continue
                if _is_fixed(scope, other, known) and _is_of_one_value(scope, one, other):
                    known.add(name)
        for entry in scope.entries:
            if entry.name in rows or entry.name in besides or entry.table is None:
                continue
            if any(
                {(entry.name, name) for name in key} <= known for key in key_columns(entry.table, nulls=False)
            ):
                rows.add(entry.name)
                known |= {(entry.name, column.name) for column in entry.columns or ()}
        grew = (len(known), len(rows)) != before
    return rows


def _local(scope: Scope, node: ast.Node) -> Name | None:
    found = resolved(scope, node)
    if found is None or found.column.type not in KNOWN_TYPES or not found.column.deterministic:
        return None
    return found.entry.name, found.column.name


def compared_exactly(types: set[str]) -> bool:
    """Whether a value of one of these types equals one value of each other at most.

    A bigint turned into a float loses digits, a timestamp gains a time zone whose clock leaves out an hour.
    """
    return len(types) == 1 or types <= INTEGERS | {"numeric"} or types <= TEXTS


def _is_of_one_value(scope: Scope, one: ast.Node, other: ast.Node) -> bool:
    """Whether `one = other` leaves one value for `one`; a constant or a parameter has its very type."""
    columns = [side for side in (one, other) if isinstance(side, ast.ColumnRef)]
    return compared_exactly({scope.resolve(side).column.type for side in columns})


def _is_fixed(scope: Scope, node: ast.Node, known: set[Name]) -> bool:
    if isinstance(node, ast.ColumnRef):
        found = scope.resolve(node)
        return found.level > 0 or (found.entry.name, found.column.name) in known
    return constant(node) is not None or isinstance(node, ast.ParamRef)


def output_expression(select: ast.SelectStmt, node: ast.Node, by_column_first: Scope | None) -> ast.Node:
    """What an item of ORDER BY or GROUP BY stands for: a place, an output name, or itself.

    ORDER BY looks among the output names first; GROUP BY (`by_column_first`) among the columns.
    """
    targets = [one for one in items(select.targetList) if isinstance(one, ast.ResTarget)]
    place = constant(node)
    if isinstance(place, int) and not isinstance(place, bool) and 1 <= place <= len(targets):
        if any(isinstance(one.val, ast.ColumnRef) and "*" in names_of(one.val) for one in targets):
            raise RefusedError("a place of ORDER BY counts a star's columns")
        return _value(targets[place - 1])
    if isinstance(node, ast.ColumnRef) and len(names_of(node)) == 1:
        name = names_of(node)[0]
        if by_column_first is not None and by_column_first.unqualified(name) is not None:
            return node
        named = [one for one in targets if output_name(one) == name]
        if len(named) == 1:
            return _value(named[0])
        if len({repr(meaning(one.val)) for one in named}) > 1:
            raise RefusedError(f"{name} is the name of two output columns")
    return node


def _value(node: ast.ResTarget) -> ast.Node:
    assert isinstance(node.val, ast.Node)
    return node.val


def is_aggregate(node: object) -> bool:
    """A call of an aggregate that is no window function; rank() WITHIN GROUP is one too."""
    if not isinstance(node, ast.FuncCall) or node.over is not None:
        return False
    return names_of(node.funcname)[-1] in AGGREGATES or bool(node.agg_within_group)


def returns_sets(scope: Scope) -> bool:
    """Whether the output may hold several rows for one, so that what tells rows apart tells these not."""
    own = {one.name for one in scope.facts.functions if one.returns_set}
    return any(
        isinstance(node, ast.FuncCall) and names_of(node.funcname)[-1] in SET_RETURNING | own
        for node in walk(scope.select.targetList, into_selects=False)
    )


def has_aggregates(select: ast.SelectStmt) -> bool:
    """Whether the SELECT itself (not a subquery of it) is grouped."""
    if select.groupClause or select.havingClause:
        return True
    parts = (select.targetList, select.sortClause)
    return any(is_aggregate(node) for part in parts for node in walk(part, into_selects=False))


def same_value(scope: Scope, one: ast.Node, other: ast.Node) -> bool:
    """Whether two expressions are the same: the same text, or names of one column."""
    if isinstance(one, ast.ColumnRef) and isinstance(other, ast.ColumnRef):
        left, right = scope.resolve(one), scope.resolve(other)
        return left.entry is right.entry and left.column.name == right.column.name
    return meaning(one) == meaning(other)


def orders_totally(scope: Scope, by: list[ast.Node]) -> bool:
    """Whether rows that agree in these expressions are one row, so that an order by them has no ties."""
    select = scope.select
    if not select.fromClause:
        return True
    if has_grouping_sets(select) or returns_sets(scope):
        return False
    if has_aggregates(select):
        grouped = [output_expression(select, node, scope) for node in items(select.groupClause)]
        return all(any(same_value(scope, group, one) for one in by) for group in grouped)
    outputs = [one.val for one in items(select.targetList) if isinstance(one, ast.ResTarget)]
    if select.distinctClause == (None,):
        return all(
            isinstance(value, ast.Node) and any(same_value(scope, value, one) for one in by)
            for value in outputs
        )
    start = set()
    for one in by:
        found = resolved(scope, one)
        if found is not None and found.column.deterministic:
            start.add((found.entry.name, found.column.name))
    return {entry.name for entry in scope.entries} <= determined(scope, start)


def has_total_order(select: ast.SelectStmt, scopes: Mapping[int, Scope]) -> bool:
    """Whether ORDER BY leaves no choice; `scopes` are those of the SELECTs by their ids. Raises
    `RefusedError`."""
    if select.valuesLists:
        return False
    branches = _branches(select)
    if branches is None:
        return False
    ordered = []
    for branch in branches:
        scope = scopes.get(id(branch))
        if scope is None or (branch is not select and (branch.limitCount or branch.limitOffset)):
            return False
        # The names that a set operation is sorted by are those of its first branch.
        by = [_place_or_value(branches, branch, item) for item in items(select.sortClause)]
        ordered.append(orders_totally(scope, by))
    pairs = [(one, other) for place, one in enumerate(branches) for other in branches[place + 1 :]]
    return all(ordered) and all(_excludes(one, other) for one, other in pairs)


def _place_or_value(branches: list[ast.SelectStmt], branch: ast.SelectStmt, item: ast.Node) -> ast.Node:
    assert isinstance(item, ast.SortBy) and isinstance(item.node, ast.Node)
    node = item.node
    if len(branches) > 1 and isinstance(node, ast.ColumnRef):
        names = [output_name(one) for one in items(branches[0].targetList) if isinstance(one, ast.ResTarget)]
        word = names_of(node)[-1]
        if names.count(word) != 1:
            raise RefusedError(f"{word} is not the name of one output column")
        node = ast.A_Const(val=ast.Integer(ival=names.index(word) + 1))
    return output_expression(branch, node, None)


def _branches(select: ast.SelectStmt) -> list[ast.SelectStmt] | None:
    """The SELECTs below UNION ALL, None below any other set operation."""
    if select.op == SetOperation.SETOP_NONE:
        return [select]
    if select.op != SetOperation.SETOP_UNION or not select.all or select.larg is None or select.rarg is None:
        return None
    left, right = _branches(select.larg), _branches(select.rarg)
    return None if left is None or right is None else left + right


def _excludes(one: ast.SelectStmt, other: ast.SelectStmt) -> bool:
    """Whether the second SELECT is the first with other conditions, one of which is that the first's is
    not true. Groups and distinct rows of two branches may be equal though no row is in both."""
    if any(branch.distinctClause or has_aggregates(branch) for branch in (one, other)):
        return False
    if meaning(one.fromClause) != meaning(other.fromClause) or meaning(one.targetList) != meaning(
        other.targetList
    ):
        return False
    first = [meaning(part) for part in conjuncts(one.whereClause)]
    return any(
        isinstance(part, ast.BooleanTest)
        and part.booltesttype == BoolTestType.IS_NOT_TRUE
        and isinstance(part.arg, ast.Node)
        and all(meaning(piece) in first for piece in conjuncts(part.arg))
        for part in conjuncts(other.whereClause)
    )
