"""What a name in a statement means: tables, columns and output columns, by PostgreSQL's own rules of scope.

Where a name can't be resolved without a doubt (a merged column of NATURAL, a whole row, a system column, a
table that the facts do not have) `RefusedError` is raised, and nothing is rewritten.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pglast import ast
from pglast.enums import JoinType, SetOperation

from pgassay.tune.facts.schema import ColumnFacts, SchemaFacts, TableFacts
from pgassay.tune.rewrites.functions import AGGREGATE_TYPES
from pgassay.tune.rewrites.outputs import output_name
from pgassay.tune.rewrites.tree import (
    Cte,
    RefusedError,
    ctes_of,
    has_grouping_sets,
    items,
    names_of,
    references,
    walk,
)

SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
INTEGERS = frozenset({"smallint", "integer", "bigint"})
FLOATS = frozenset({"real", "double precision"})
# Types whose equality and order are PostgreSQL's own; what an extension's operators do is not known here.
KNOWN_TYPES = INTEGERS | FLOATS | {
    "numeric", "text", "character varying", "character", "boolean", "date", "timestamp without time zone",
    "timestamp with time zone", "time without time zone", "interval", "uuid", "bytea",
}  # fmt: skip
# Equal values of these can't be told apart: no 1.0 and 1.00, no 0 and -0, no "24 hours" and "1 day".
IDENTITY_TYPES = KNOWN_TYPES - FLOATS - {"numeric", "interval", "character"}


def base_type(name: str) -> str:
    """format_type's name without length or precision: "numeric(10,2)" is "numeric"."""
    head, bracket, rest = name.partition("(")
    return (head.strip() + rest.partition(")")[2]) if bracket else name


@dataclass(frozen=True)
class Column:
    """A column of something in FROM. `type` has no length; '' where it is not known."""

    name: str
    type: str
    not_null: bool
    deterministic: bool = True
    source: ColumnFacts | None = None


@dataclass
class Entry:
    """One thing in FROM. `columns` is None where not known; `nullable`: an outer join may empty it."""

    name: str
    node: ast.Node
    table: TableFacts | None = None
    columns: tuple[Column, ...] | None = None
    nullable: bool = False
    select: ast.SelectStmt | None = None
    lateral: bool = False

    def column(self, name: str) -> Column | None:
        """The column of that name."""
        return next((column for column in self.columns or () if column.name == name), None)


@dataclass
class Found:
    """What a reference means. `level`: 0 for the SELECT it stands in, 1 for the one around that …

    `regrouped`: that SELECT has ROLLUP or its kin, which put NULL in place of the column's value.
    """

    entry: Entry
    column: Column
    level: int
    regrouped: bool = False

    @property
    def not_null(self) -> bool:
        """Never NULL where it stands."""
        return self.column.not_null and not self.entry.nullable and not self.regrouped


@dataclass
class Scope:
    """The names that one SELECT sees. `blind`: a subquery in FROM that doesn't see what stands beside it."""

    select: ast.SelectStmt
    facts: SchemaFacts
    parent: "Scope | None" = None
    blind: bool = False
    ctes: Mapping[str, Cte] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    merged: dict[str, Entry | None] = field(default_factory=dict)
    # What a reference in ON or in a LATERAL subquery sees of this SELECT, by the reference's id.
    visible: dict[int, list[Entry]] = field(default_factory=dict)

    def resolve(self, reference: ast.ColumnRef) -> Found:
        """What the reference means. Raises `RefusedError` where that is not sure."""
        words = names_of(reference)
        if "*" in words or "?" in words or len(words) > 3:
            raise RefusedError(f"{'.'.join(words)} is not one column")
        scope: Scope | None = self
        level, hidden = 0, False
        while scope is not None:
            # A subquery in FROM sees of the SELECT around it only what LATERAL lets it see.
            found = None if hidden else scope.look_up(words)
            if found is not None:
                seen = scope.visible.get(id(reference))
                if seen is not None and not any(entry is found[0] for entry in seen):
                    raise RefusedError(f"{'.'.join(words)} stands where its table is not seen")
                return Found(*found, level, has_grouping_sets(scope.select))
            hidden = scope.blind
            scope, level = scope.parent, level + 1
        raise RefusedError(f"{'.'.join(words)} is no column of the tables that are known")

    @property
    def is_correlated(self) -> bool:
        """Whether it reads a column of the statement right around it."""
        for reference in references(self.select):
            try:
                if self.resolve(reference).level == 1:
                    return True
            except RefusedError:
                continue
        return False

    def look_up(self, words: tuple[str, ...]) -> tuple[Entry, Column] | None:
        """The column of this SELECT that the words mean, None where they mean none of it."""
        if len(words) == 1:
            return self.unqualified(words[0])
        for entry in self.entries:
            if entry.name != words[-2]:
                continue
            if len(words) == 3 and (entry.table is None or entry.table.schema_ != words[0]):
                continue
            if len(words) == 3 and isinstance(entry.node, ast.RangeVar) and entry.node.alias is not None:
                continue
            if entry.columns is None:
                raise RefusedError(f"the columns of {entry.name} are not known")
            column = entry.column(words[-1])
            if column is None:
                raise RefusedError(f"{'.'.join(words)} is no column that is known")
            return entry, column
        if any(entry.column(words[0]) for entry in self.entries if entry.columns):
            raise RefusedError(f"{'.'.join(words)} may be a field of a composite value")
        return None

    def unqualified(self, name: str) -> tuple[Entry, Column] | None:
        """The column that a bare name means."""
        if name in self.merged:
            entry = self.merged[name]
            if entry is None:
                raise RefusedError(f"{name} is a merged column of an outer or natural join")
            column = entry.column(name)
            return (entry, column) if column else None
        found = [(entry, column) for entry in self.entries if (column := entry.column(name))]
        if any(entry.columns is None for entry in self.entries):
            raise RefusedError(f"{name} may be a column of something whose columns are not known")
        if len(found) > 1:
            raise RefusedError(f"{name} is ambiguous")
        if not found and any(entry.name == name for entry in self.entries):
            raise RefusedError(f"{name} is a whole row")
        if not found and name in SYSTEM_COLUMNS:
            raise RefusedError(f"{name} is a system column")
        return found[0] if found else None

    def entry(self, name: str) -> Entry | None:
        """The thing in FROM of that name."""
        return next((entry for entry in self.entries if entry.name == name), None)


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


def table_columns(table: TableFacts) -> tuple[Column, ...]:
    """A table's columns as its readers see them; a NOT NULL that was never validated proves nothing."""
    doubtful = {
        name
        for constraint in table.constraints
        if constraint.kind == "not null" and not (constraint.valid and constraint.enforced)
        for name in constraint.columns
    }
    return tuple(
        Column(
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
) -> tuple[Column, ...] | None:
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
                Column(one.name, one.type, Found(entry, one, 0, regrouped).not_null, one.deterministic)
                for entry in chosen
                for one in entry.columns or ()
            ]
            continue
        columns.append(_output_column(inner, node))
    if len({column.name for column in columns[len(renamed) :]} | set(renamed)) != len(columns):
        return None
    return tuple(
        Column(renamed[number], one.type, one.not_null, one.deterministic) if number < len(renamed) else one
        for number, one in enumerate(columns)
    )


def _output_column(inner: Scope, node: ast.ResTarget) -> Column:
    name = output_name(node)
    if isinstance(node.val, ast.ColumnRef):
        try:
            found = inner.resolve(node.val)
        except RefusedError:
            return Column(name, "", False, False)
        return Column(name, found.column.type, found.not_null, found.column.deterministic)
    if isinstance(node.val, ast.FuncCall) and node.val.over is None:
        kind = _aggregate_type(inner, node.val)
        return Column(name, kind, False, kind not in ("text", "character varying", "character", ""))
    return Column(name, "", False, False)


def _aggregate_type(inner: Scope, call: ast.FuncCall) -> str:
    """The type of count, sum, avg, min or max of a plain column; '' of anything else."""
    function, args = names_of(call.funcname)[-1], items(call.args)
    if function == "count" or len(args) != 1 or not isinstance(args[0], ast.ColumnRef):
        return "bigint" if function == "count" else ""
    try:
        return AGGREGATE_TYPES.get(function, {}).get(inner.resolve(args[0]).column.type, "")
    except RefusedError:
        return ""


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
