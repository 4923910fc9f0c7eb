"""What a name in a statement means: tables, columns and output columns, by PostgreSQL's own rules of scope.

Where a name can't be resolved without a doubt (a merged column of NATURAL, a whole row, a system column, a
table that the facts do not have) `RefusedError` is raised, and nothing is rewritten.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pglast import ast
from pglast.enums import JoinType, SetOperation

from pgassay.tune.facts.schema import ColumnFacts, SchemaFacts, TableFacts
from pgassay.tune.rewrites.outputs import output_name
from pgassay.tune.rewrites.tree import RefusedError, has_grouping_sets, items, names_of, references

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
    """One thing in FROM. `columns` is None where they are not known; `nullable`: an outer join may empty
    it."""

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
    """What a reference means. `level`: 0 for the SELECT it stands in, 1 for the one around that …"""

    entry: Entry
    column: Column
    level: int

    @property
    def not_null(self) -> bool:
        """Never NULL where it stands."""
        return self.column.not_null and not self.entry.nullable


@dataclass
class Scope:
    """The names that one SELECT sees. `blind`: a subquery in FROM, which does not see what stands beside
    it."""

    select: ast.SelectStmt
    facts: SchemaFacts
    parent: "Scope | None" = None
    blind: bool = False
    ctes: Mapping[str, ast.CommonTableExpr] = field(default_factory=dict)
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
                return Found(*found, level)
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
    ctes: Mapping[str, ast.CommonTableExpr] | None = None,
    blind: bool = False,
) -> Scope:
    """The scope of one SELECT that is no set operation. Raises `RefusedError`."""
    visible = dict(ctes or {})
    if select.withClause is not None:
        for expression in items(select.withClause.ctes):
            assert isinstance(expression, ast.CommonTableExpr)
            visible[str(expression.ctename)] = expression
    scope = Scope(select, facts, parent, blind, visible)
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
        name = str(alias.aliasname) if isinstance(alias, ast.Alias) else ""
        scope.entries.append(Entry(name, node, nullable=nullable, lateral=True))


def _add_join(scope: Scope, node: ast.JoinExpr, nullable: bool) -> None:
    if node.alias is not None or node.join_using_alias is not None:
        raise RefusedError("a join has a name of its own")
    kind = node.jointype
    assert isinstance(node.larg, ast.Node) and isinstance(node.rarg, ast.Node)
    first = len(scope.entries)
    _add(scope, node.larg, nullable or kind in (JoinType.JOIN_RIGHT, JoinType.JOIN_FULL))
    left = scope.entries[first:]
    _add(scope, node.rarg, nullable or kind in (JoinType.JOIN_LEFT, JoinType.JOIN_FULL))
    for reference in references(node.quals):
        scope.visible[id(reference)] = scope.entries[first:]
    if node.isNatural:
        for entry in scope.entries[first:]:
            scope.merged.update({column.name: None for column in entry.columns or ()})
    for word in names_of(node.usingClause):
        owners = [entry for entry in left if entry.column(word)]
        # Of columns of two types it has the type of both, and is not the left one.
        types = {one.type for entry in scope.entries[first:] if (one := entry.column(word))}
        sure = len(owners) == 1 == len(types) and kind in (JoinType.JOIN_INNER, JoinType.JOIN_LEFT)
        scope.merged[word] = owners[0] if sure else None


def _table(scope: Scope, node: ast.RangeVar, nullable: bool) -> Entry:
    name = str(node.relname)
    alias = node.alias
    called = str(alias.aliasname) if alias is not None else name
    if alias is not None and alias.colnames:
        raise RefusedError(f"the columns of {called} are renamed")
    if node.catalogname:
        raise RefusedError(f"{name} is named with its database")
    if node.schemaname is None and name in scope.ctes:
        query = scope.ctes[name].ctequery
        renamed = names_of(scope.ctes[name].aliascolnames)
        columns = _output(scope, query, renamed, recursive=True)
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
            base_type(column.type),
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
    scope: Scope, query: object, renamed: tuple[str, ...], recursive: bool = False
) -> tuple[Column, ...] | None:
    """The output columns of a subquery: names, and types where they are plain columns; None: not known."""
    if not isinstance(query, ast.SelectStmt) or query.valuesLists or query.op != SetOperation.SETOP_NONE:
        return None
    ctes = {name: node for name, node in scope.ctes.items() if not (recursive and node.ctequery is query)}
    try:
        inner = scope_of(query, scope.facts, None if recursive else scope, ctes, blind=True)
    except RefusedError:
        return None
    columns = []
    for node in items(query.targetList):
        assert isinstance(node, ast.ResTarget)
        if isinstance(node.val, ast.ColumnRef) and "*" in names_of(node.val):
            if inner.merged or any(entry.columns is None for entry in inner.entries):
                return None
            words = names_of(node.val)
            chosen = [entry for entry in inner.entries if len(words) == 1 or entry.name == words[-2]]
            columns += [
                Column(one.name, one.type, one.not_null and not entry.nullable, one.deterministic, one.source)
                for entry in chosen
                for one in entry.columns or ()
            ]
            continue
        columns.append(_output_column(inner, node, bool(query.groupClause)))
    if len({column.name for column in columns[len(renamed) :]} | set(renamed)) != len(columns):
        return None
    return tuple(
        replace(one, name=renamed[number]) if number < len(renamed) else one
        for number, one in enumerate(columns)
    )


def _output_column(inner: Scope, node: ast.ResTarget, grouped: bool) -> Column:
    name = output_name(node)
    if isinstance(node.val, ast.ColumnRef):
        try:
            found = inner.resolve(node.val)
        except RefusedError:
            return Column(name, "", False, False)
        # ROLLUP and its kin put NULL in place of a column's value.
        sure = found.not_null and not (grouped and has_grouping_sets(inner.select))
        return Column(name, found.column.type, sure, found.column.deterministic, found.column.source)
    if isinstance(node.val, ast.FuncCall) and node.val.over is None:
        kind = _aggregate_type(inner, node.val)
        return Column(name, kind, False, kind not in ("text", "character varying", "character", ""))
    return Column(name, "", False, False)


def _aggregate_type(inner: Scope, call: ast.FuncCall) -> str:
    """The type of count, sum, avg, min or max of a plain column; '' of anything else."""
    function, args = names_of(call.funcname)[-1], items(call.args)
    if function == "count":
        return "bigint"
    try:
        kind = (
            inner.resolve(args[0]).column.type
            if len(args) == 1 and isinstance(args[0], ast.ColumnRef)
            else ""
        )
    except RefusedError:
        return ""
    if function in ("min", "max"):
        return kind
    if function == "sum" and kind in ("smallint", "integer"):
        return "bigint"
    return "numeric" if function in ("sum", "avg") and kind in (*INTEGERS, "numeric") else ""


def scoped_selects(
    node: object,
    facts: SchemaFacts,
    parent: Scope | None = None,
    ctes: Mapping[str, ast.CommonTableExpr] | None = None,
    blind: bool = False,
) -> Iterator[Scope | RefusedError]:
    """The scope of every SELECT in the tree, or why a SELECT (and all below it) has none."""
    if not isinstance(node, ast.SelectStmt):
        yield from _below(node, facts, parent, ctes or {}, blind)
        return
    visible = dict(ctes or {})
    for expression in items(node.withClause.ctes) if node.withClause is not None else ():
        assert isinstance(expression, ast.CommonTableExpr)
        yield from scoped_selects(expression.ctequery, facts, parent, visible, blind)
        visible[str(expression.ctename)] = expression
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
    ctes: Mapping[str, ast.CommonTableExpr],
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
