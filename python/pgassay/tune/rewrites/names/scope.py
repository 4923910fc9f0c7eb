"""What a name in a SELECT means: tables and columns, by PostgreSQL's own rules of scope.

Where a name can't be resolved without a doubt (a merged column of NATURAL, a whole row, a system column, a
table that the facts do not have) `RefusedError` is raised, and nothing is rewritten.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pglast import ast

from pgassay.tune.facts.schema import ColumnFacts, SchemaFacts, TableFacts
from pgassay.tune.rewrites.tree import RefusedError, has_grouping_sets, names_of, references

SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})


@dataclass(frozen=True)
class ScopeColumn:
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
    columns: tuple[ScopeColumn, ...] | None = None
    nullable: bool = False
    select: ast.SelectStmt | None = None
    lateral: bool = False

    def column(self, name: str) -> ScopeColumn | None:
        """The column of that name."""
        return next((column for column in self.columns or () if column.name == name), None)


@dataclass
class FoundColumn:
    """What a reference means. `level`: 0 for the SELECT it stands in, 1 for the one around that …

    `regrouped`: that SELECT has ROLLUP or its kin, which put NULL in place of the column's value.
    """

    entry: Entry
    column: ScopeColumn
    level: int
    regrouped: bool = False

    @property
    def not_null(self) -> bool:
        """Never NULL where it stands."""
        return self.column.not_null and not self.entry.nullable and not self.regrouped


@dataclass(frozen=True)
class Cte:
    """A CTE, and those that its own query sees: not itself, and none that stands behind it."""

    node: ast.CommonTableExpr
    before: Mapping[str, "Cte"]


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

    def resolve(self, reference: ast.ColumnRef) -> FoundColumn:
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
                return FoundColumn(*found, level, has_grouping_sets(scope.select))
            hidden = scope.blind
            scope, level = scope.parent, level + 1
        raise RefusedError(f"{'.'.join(words)} is not a column of the tables that are known")

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

    def look_up(self, words: tuple[str, ...]) -> tuple[Entry, ScopeColumn] | None:
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
                raise RefusedError(f"{'.'.join(words)} is not a column that is known")
            return entry, column
        if any(entry.column(words[0]) for entry in self.entries if entry.columns):
            raise RefusedError(f"{'.'.join(words)} may be a field of a composite value")
        return None

    def unqualified(self, name: str) -> tuple[Entry, ScopeColumn] | None:
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
