"""The scopes of a statement's SELECTs, read from its tree: what stands in FROM, with columns and types.

Where something in FROM is not known, `RefusedError` is raised, or its columns are None.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pglast import ast
from pglast.enums import JoinType, SetOperation

from pgassay.tune.facts.schema import SchemaFacts, TableFacts
from pgassay.tune.rewrites.functions import AGGREGATE_TYPES
from pgassay.tune.rewrites.names.data_types import base_type
from pgassay.tune.rewrites.names.outputs import output_name
from pgassay.tune.rewrites.names.scope import Cte, Entry, FoundColumn, Scope, ScopeColumn
from pgassay.tune.rewrites.tree import RefusedError, has_grouping_sets, items, names_of, references, walk


def scope_of(
    select: ast.SelectStmt,
    facts: SchemaFacts,
    parent: Scope | None = None,
    ctes: Mapping[str, Cte] | None = None,
    blind: bool = False,
) -> Scope:
    """The scope of one SELECT that is no set operation. Raises `RefusedError`."""
    scope = Scope(select, facts, parent, blind, ctes_of(select, ctes or {}))
    for node in items(select.fromClause):
        _add(scope, node, nullable=False)
    names = [entry.name for entry in scope.entries]
    if len(set(names)) != len(names):
        raise RefusedError("one name stands for two tables")
    return scope


def _add(scope: Scope, node: ast.Node, nullable: bool) -> None:
    if isinstance(node, ast.RangeVar):
        scope.entries.append(_table(scope, node, nullable))
    elif isinstance(node, ast.RangeSubselect):
        if node.lateral:
            scope.visible.update({id(one): list(scope.entries) for one in references(node)})
        scope.entries.append(_subselect(scope, node, nullable))
    elif isinstance(node, ast.JoinExpr):
        _add_join(scope, node, nullable)
    else:
        alias = getattr(node, "alias", None)
        # A function in FROM has its own name where it has no other.
        call = next((one for one in walk(node) if isinstance(one, ast.FuncCall)), None)
        name = names_of(call.funcname)[-1] if call is not None else ""
        name = str(alias.aliasname) if isinstance(alias, ast.Alias) else name
        scope.entries.append(Entry(name, node, nullable=nullable, lateral=True))


def _add_join(scope: Scope, node: ast.JoinExpr, nullable: bool) -> None:
    if node.alias is not None or node.join_using_alias is not None:
        raise RefusedError("a join has a name of its own")
    kind = node.jointype
    assert isinstance(node.larg, ast.Node) and isinstance(node.rarg, ast.Node)
    first = len(scope.entries)
    _add(scope, node.larg, nullable or kind in (JoinType.JOIN_RIGHT, JoinType.JOIN_FULL))
    middle = len(scope.entries)
    _add(scope, node.rarg, nullable or kind in (JoinType.JOIN_LEFT, JoinType.JOIN_FULL))
    for reference in references(node.quals):
        scope.visible[id(reference)] = scope.entries[first:]
    if node.isNatural:
        for entry in scope.entries[first:]:
            scope.merged.update({column.name: None for column in entry.columns or ()})
    for word in names_of(node.usingClause):
        left = [entry for entry in scope.entries[first:middle] if entry.column(word)]
        types = {one.type for entry in scope.entries[first:] if (one := entry.column(word))}
        # Columns of two types are merged in a third: a bigint and a float in a float.
        sure = len(left) == 1 and len(types) == 1 and kind in (JoinType.JOIN_INNER, JoinType.JOIN_LEFT)
        scope.merged[word] = left[0] if sure and types != {""} else None


def _table(scope: Scope, node: ast.RangeVar, nullable: bool) -> Entry:
    name = str(node.relname)
    alias = node.alias
    called = str(alias.aliasname) if alias is not None else name
    if alias is not None and alias.colnames:
        raise RefusedError(f"the columns of {called} are renamed")
    if node.catalogname:
        raise RefusedError(f"{name} is named with its database")
    if node.schemaname is None and name in scope.ctes:
        cte = scope.ctes[name]
        columns = _output(scope, cte.node.ctequery, names_of(cte.node.aliascolnames), cte.before)
        return Entry(called, node, columns=columns, nullable=nullable)
    if node.schemaname is None and name.startswith("pg_"):
        raise RefusedError(f"{name} may be a table of the system")
    table = scope.facts.table(name, node.schemaname)
    if table is None:
        raise RefusedError(f"the facts have no table {name}")
    return Entry(called, node, table=table, columns=table_columns(table), nullable=nullable)


def table_columns(table: TableFacts) -> tuple[ScopeColumn, ...]:
    """A table's columns as its readers see them; a NOT NULL that was never validated proves nothing."""
    doubtful = {
        name
        for constraint in table.constraints
        if constraint.kind == "not null" and not (constraint.valid and constraint.enforced)
        for name in constraint.columns
    }
    return tuple(
        ScopeColumn(
            column.name,
            # Reading what is computed then may fail, as with types that are not known.
            "" if column.computed else base_type(column.type),
            column.not_null and column.name not in doubtful,
            column.deterministic,
            column,
        )
        for column in table.columns
    )


def _subselect(scope: Scope, node: ast.RangeSubselect, nullable: bool) -> Entry:
    alias = node.alias
    renamed = names_of(alias.colnames) if alias is not None else ()
    name = str(alias.aliasname) if alias is not None else ""
    select = node.subquery if isinstance(node.subquery, ast.SelectStmt) else None
    columns = _output(scope, node.subquery, renamed)
    return Entry(name, node, None, columns, nullable, select, bool(node.lateral))


def _output(
    scope: Scope, query: object, renamed: tuple[str, ...], before: Mapping[str, Cte] | None = None
) -> tuple[ScopeColumn, ...] | None:
    """The output columns of a subquery, or of a CTE that sees those `before` it; None: not known."""
    if not isinstance(query, ast.SelectStmt) or query.valuesLists or query.op != SetOperation.SETOP_NONE:
        return None
    parent, ctes = (scope, scope.ctes) if before is None else (None, before)
    try:
        inner = scope_of(query, scope.facts, parent, ctes, blind=True)
    except RefusedError:
        return None
    columns = []
    regrouped = has_grouping_sets(query)
    for node in items(query.targetList):
        assert isinstance(node, ast.ResTarget)
        if isinstance(node.val, ast.ColumnRef) and "*" in names_of(node.val):
            if inner.merged or any(entry.columns is None for entry in inner.entries):
                return None
            words = names_of(node.val)
            chosen = [entry for entry in inner.entries if len(words) == 1 or entry.name == words[-2]]
            columns += [
                replace(one, not_null=FoundColumn(entry, one, 0, regrouped).not_null)
                for entry in chosen
                for one in entry.columns or ()
            ]
            continue
        columns.append(_output_column(inner, node))
    if len({column.name for column in columns[len(renamed) :]} | set(renamed)) != len(columns):
        return None
    return tuple(
        replace(one, name=renamed[number]) if number < len(renamed) else one
        for number, one in enumerate(columns)
    )


def _output_column(inner: Scope, node: ast.ResTarget) -> ScopeColumn:
    name = output_name(node)
    if isinstance(node.val, ast.ColumnRef):
        try:
            found = inner.resolve(node.val)
        except RefusedError:
            return ScopeColumn(name, "", False, False)
        return replace(found.column, name=name, not_null=found.not_null)
    if isinstance(node.val, ast.FuncCall) and node.val.over is None:
        kind = _aggregate_type(inner, node.val)
        return ScopeColumn(name, kind, False, kind not in ("text", "character varying", "character", ""))
    return ScopeColumn(name, "", False, False)


def _aggregate_type(inner: Scope, call: ast.FuncCall) -> str:
    """The type of count, sum, avg, min or max of a plain column; '' of anything else."""
    function, args = names_of(call.funcname)[-1], items(call.args)
    if function == "count" or len(args) != 1 or not isinstance(args[0], ast.ColumnRef):
        return "bigint" if function == "count" else ""
    try:
        return AGGREGATE_TYPES.get(function, {}).get(inner.resolve(args[0]).column.type, "")
    except RefusedError:
        return ""


def ctes_of(select: ast.SelectStmt, around: Mapping[str, Cte]) -> dict[str, Cte]:
    """The CTEs that a SELECT sees: its own, and those around it whose names they don't hide."""
    visible = dict(around)
    for one in items(select.withClause.ctes) if select.withClause is not None else ():
        assert isinstance(one, ast.CommonTableExpr)
        visible[str(one.ctename)] = Cte(one, dict(visible))
    return visible


def scoped_selects(
    node: object,
    facts: SchemaFacts,
    parent: Scope | None = None,
    ctes: Mapping[str, Cte] | None = None,
    blind: bool = False,
) -> Iterator[Scope | RefusedError]:
    """The scope of every SELECT in the tree, or why a SELECT (and all below it) has none."""
    if not isinstance(node, ast.SelectStmt):
        yield from _below(node, facts, parent, ctes or {}, blind)
        return
    visible = ctes_of(node, ctes or {})
    for expression in items(node.withClause.ctes) if node.withClause is not None else ():
        assert isinstance(expression, ast.CommonTableExpr)
        before = visible[str(expression.ctename)].before
        yield from scoped_selects(expression.ctequery, facts, parent, before, blind)
    if node.op != SetOperation.SETOP_NONE:
        for side in (node.larg, node.rarg):
            yield from scoped_selects(side, facts, parent, visible, blind)
        return
    if node.valuesLists:
        return
    try:
        scope = scope_of(node, facts, parent, ctes, blind)
    except RefusedError as reason:
        yield reason
        return
    yield scope
    for name in node:
        if name != "withClause":
            yield from _below(getattr(node, name), facts, scope, visible, name == "fromClause")


def _below(
    node: object,
    facts: SchemaFacts,
    parent: Scope | None,
    ctes: Mapping[str, Cte],
    in_from: bool,
) -> Iterator[Scope | RefusedError]:
    if isinstance(node, ast.SelectStmt):
        yield from scoped_selects(node, facts, parent, ctes, in_from)
    elif isinstance(node, ast.RangeSubselect):
        yield from scoped_selects(node.subquery, facts, parent, ctes, not node.lateral)
    elif isinstance(node, ast.SubLink):
        for part in (node.testexpr, node.subselect):
            # A subquery of a condition sees everything, in ON as well.
            yield from _below(part, facts, parent, ctes, False)
    elif isinstance(node, ast.Node):
        for name in node:
            yield from _below(getattr(node, name), facts, parent, ctes, in_from)
    elif isinstance(node, tuple):
        for part in node:
            yield from _below(part, facts, parent, ctes, in_from)


def scopes_below(select: ast.SelectStmt, scope: Scope) -> Scope | None:
    """The scope of a SELECT in an expression of another."""
    made = next(iter(scoped_selects(select, scope.facts, scope, scope.ctes)), None)
    return made if isinstance(made, Scope) else None


def scopes_by_select(tree: ast.Node, facts: SchemaFacts) -> dict[int, Scope]:
    """The scope of each SELECT that has one, by the SELECT's id."""
    return {id(one.select): one for one in scoped_selects(tree, facts) if isinstance(one, Scope)}
