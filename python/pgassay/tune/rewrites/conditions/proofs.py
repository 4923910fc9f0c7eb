"""What keys and constraints prove: columns that are never NULL, and rows that are determined by others."""

from collections.abc import Iterator

from pglast import ast
from pglast.enums import A_Expr_Kind, JoinType, LimitOption, NullTestType, SetOperation

from pgassay.tune.facts.schema import SchemaFacts, TableFacts
from pgassay.tune.rewrites.conditions.calls import has_aggregates, returns_sets
from pgassay.tune.rewrites.functions import COMPARISONS
from pgassay.tune.rewrites.names.data_types import INTEGERS, KNOWN_TYPES, compared_exactly
from pgassay.tune.rewrites.names.scope import Entry, FoundColumn, Scope
from pgassay.tune.rewrites.tree import (
    conjuncts,
    constant,
    is_operation,
    items,
    meaning,
    names_of,
    sides,
    walk,
)

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


def resolved(scope: Scope, node: object) -> FoundColumn | None:
    """What a column reference of this very SELECT means; None where it is none, or of a SELECT around it."""
    if not isinstance(node, ast.ColumnRef) or not is_reference(node):
        return None
    found = scope.resolve(node)
    return found if found.level == 0 else None


def alike(one: FoundColumn, other: FoundColumn) -> bool:
    """Whether two columns are compared by PostgreSQL's own equality without a cast that matters."""
    types = {one.column.type, other.column.type}
    return types <= INTEGERS or (len(types) == 1 and types <= KNOWN_TYPES)


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
    if found.level or found.regrouped or found.column.type not in KNOWN_TYPES:
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
                found = _local(scope, one)
                if found is None or found.entry.name in besides:
                    continue
                if only and found.entry.name not in {entry.name for entry in only}:
                    continue
                if _is_fixed(scope, found, other, known):
                    known.add((found.entry.name, found.column.name))
        for place, entry in enumerate(scope.entries):
            if entry.name in rows or entry.name in besides:
                continue
            if _is_determined(scope, place, known, rows):
                rows.add(entry.name)
                known |= {(entry.name, column.name) for column in entry.columns or ()}
        grew = (len(known), len(rows)) != before
    return rows


def _is_determined(scope: Scope, place: int, known: set[Name], rows: set[str]) -> bool:
    """Whether an entry has one row, given the columns and rows that are known."""
    entry = scope.entries[place]
    keys = _groups(entry, scope.facts) if entry.table is None else key_columns(entry.table, nulls=False)
    if not any({(entry.name, name) for name in key} <= known for key in keys):
        return False
    if entry.table is not None or not (entry.lateral or entry.nullable):
        return True
    # A LATERAL subquery has a row for each of those before it, and LEFT JOIN leaves it out beside some.
    kinds = {one.jointype for item in items(scope.select.fromClause) for one in joins(item)}
    in_order = kinds <= {JoinType.JOIN_INNER, JoinType.JOIN_LEFT}
    return in_order and {one.name for one in scope.entries[:place]} <= rows


def _groups(entry: Entry, facts: SchemaFacts) -> Iterator[tuple[str, ...]]:
    """The output columns that tell a subquery's rows apart: none where it has one row at most, or its
    groups."""
    select = entry.select
    if select is None:
        return
    if has_one_row(select, facts):
        yield ()
    groups = items(select.groupClause)
    values = [meaning(one.val) for one in items(select.targetList) if isinstance(one, ast.ResTarget)]
    # A star has several columns; a number is the place of one.
    aligned = entry.columns is not None and len(values) == len(entry.columns)
    plain = not any(isinstance(one, ast.A_Const | ast.GroupingSet) for one in groups)
    shown = all(meaning(one) in values for one in groups)
    if groups and aligned and plain and shown and not returns_sets(select, facts):
        yield tuple((entry.columns or ())[values.index(meaning(one))].name for one in groups)


def has_one_row(select: ast.SelectStmt, facts: SchemaFacts) -> bool:
    """Whether a SELECT has one row at most: an aggregate of all its rows, LIMIT 1, or no FROM."""
    if constant(select.limitCount) == 1 and select.limitOption == LimitOption.LIMIT_OPTION_COUNT:
        return True
    if select.op != SetOperation.SETOP_NONE or select.valuesLists or returns_sets(select, facts):
        return False
    return not select.groupClause and (has_aggregates(select) or not select.fromClause)


def _local(scope: Scope, node: ast.Node) -> FoundColumn | None:
    found = resolved(scope, node)
    if found is None or found.column.type not in KNOWN_TYPES or not found.column.deterministic:
        return None
    return found


def _is_fixed(scope: Scope, one: FoundColumn, node: ast.Node, known: set[Name]) -> bool:
    """Whether what `one` is equal to leaves it a single value; a float is equal to several integers."""
    if isinstance(node, ast.ColumnRef):
        found = scope.resolve(node)
        exact = compared_exactly({one.column.type, found.column.type})
        if not exact or not found.column.deterministic:
            return False
        return found.level > 0 or (found.entry.name, found.column.name) in known
    return constant(node) is not None or isinstance(node, ast.ParamRef)


def same_value(scope: Scope, one: ast.Node, other: ast.Node) -> bool:
    """Whether two expressions are the same: the same text, or names of one column."""
    if isinstance(one, ast.ColumnRef) and isinstance(other, ast.ColumnRef):
        left, right = scope.resolve(one), scope.resolve(other)
        return left.entry is right.entry and left.column.name == right.column.name
    return meaning(one) == meaning(other)
