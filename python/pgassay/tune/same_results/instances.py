"""Small instances of the tables that a statement reads, in temporary tables that are gone with the
transaction.

A temporary table is found before any other of its name (src/backend/catalog/namespace.c), so the statements
run as they are. It has the original's columns, NOT NULL, checks and those keys that are valid, enforced and
checked at once: whatever the catalog does not forbid may come.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from pglast import ast
from psycopg import pq
from psycopg.pq.abc import PGconn

from pgassay.sql_text import identifier
from pgassay.tune.facts.schema import ColumnFacts, IndexFacts, SchemaFacts, TableFacts
from pgassay.tune.rewrites.names.data_types import base_type
from pgassay.tune.rewrites.names.tree_scopes import table_columns
from pgassay.tune.rewrites.tree import RefusedError, changed, names_of, substitute, walk
from pgassay.tune.same_results.rows import CommandError, command
from pgassay.tune.same_results.values import candidates

ROWS = (0, 1, 2, 3, 3, 4, 5, 6, 8)
NULL_SHARES = (0.0, 0.0, 0.3, 0.6)
COPY_SHARE = 0.35
SAMPLED_ROWS = 8
QUOTE = "$pgassay_instance$"


@dataclass(frozen=True)
class SmallInstance:
    """Rows by table, each as INSERT, in the order in which they are tried."""

    number: int
    inserts: tuple[str, ...]


def read_tables(trees: tuple[ast.Node, ...], facts: SchemaFacts) -> tuple[TableFacts, ...]:
    """The tables that the statements read. Raises `RefusedError` for what can't be made anew (views …)."""
    found: dict[str, TableFacts] = {}
    for tree in trees:
        common = {str(node.ctename) for node in walk(tree) if isinstance(node, ast.CommonTableExpr)}
        for node in walk(tree):
            if not isinstance(node, ast.RangeVar):
                continue
            if node.schemaname is not None and node.relname in common:
                raise RefusedError(f"{node.relname} is the name of a table and of a CTE")
            table = facts.table(str(node.relname), node.schemaname)
            if table is None and node.schemaname is None and node.relname in common:
                continue
            if table is None or table.kind in ("view", "foreign"):
                raise RefusedError(f"{node.relname} is not a table that can be created")
            if found.setdefault(table.name, table).schema_ != table.schema_:
                raise RefusedError(f"two tables have the name {table.name}")
    return tuple(found.values())


def without_schemas(tree: ast.Node, tables: tuple[TableFacts, ...]) -> ast.Node:
    """The statement with its tables by name alone, so that it reads the temporary ones."""
    schemas = {(table.schema_, table.name) for table in tables}
    replaced: dict[int, ast.Node] = {}
    for node in walk(tree):
        if isinstance(node, ast.RangeVar) and (node.schemaname, node.relname) in schemas:
            replaced[id(node)] = changed(node, schemaname=None)
        elif isinstance(node, ast.ColumnRef) and names_of(node)[:2] in schemas and len(names_of(node)) == 3:
            replaced[id(node)] = changed(node, fields=tuple(node.fields or ())[1:])
    return substitute(tree, replaced) if replaced else tree


class Scratch:
    """Temporary tables in the place of `tables`, inside an open transaction. Raises `CommandError`."""

    def __init__(self, session: PGconn, tables: tuple[TableFacts, ...], said: tuple[str, ...]) -> None:
        self.session = session
        self.tables = self._referenced_first(tables)
        self.pools: dict[tuple[str, str], tuple[str, ...]] = {}
        for table in self.tables:
            self._read_values(table, said)
        for table in self.tables:
            self._create(table)
        for table in self.tables:
            self._constrain(table)

    def _referenced_first(self, tables: tuple[TableFacts, ...]) -> tuple[TableFacts, ...]:
        """Tables before those that refer to them, as far as they don't refer to each other."""
        placed: list[TableFacts] = []
        waiting = list(tables)
        while waiting:
            names = {table.name for table in waiting}
            free = [table for table in waiting if not (self._refers(table) - {table.name}) & names]
            chosen = free[0] if free else waiting[0]
            placed.append(chosen)
            waiting.remove(chosen)
        return tuple(placed)

    def _refers(self, table: TableFacts) -> set[str]:
        return {one.referenced_table or "" for one in table.constraints if one.kind == "foreign"}

    def _read_values(self, table: TableFacts, said: tuple[str, ...]) -> None:
        """What the columns may hold: values of the statement, of the data's first rows, and an enum's
        labels."""
        place = f"{identifier(table.schema_)}.{identifier(table.name)}"
        columns = ", ".join(f"{identifier(column.name)}::text" for column in table.columns)
        sampled = (
            command(self.session, f"SELECT {columns} FROM {place} LIMIT {SAMPLED_ROWS}") if columns else []
        )
        labels = command(
            self.session,
            "SELECT a.attname, e.enumlabel FROM pg_catalog.pg_enum e JOIN pg_catalog.pg_attribute a "
            f"ON a.atttypid = e.enumtypid WHERE a.attrelid = {self._literal(place)}::pg_catalog.regclass "
            "ORDER BY e.enumsortorder",
        )
        for number, column in enumerate(table.columns):
            known = [label for name, label in labels if name == column.name]
            known += [*(row[number] for row in sampled), *column.common[:4]]
            values = tuple(value for value in known if value is not None)
            self.pools[table.name, column.name] = candidates(column, said, values)

    def _create(self, table: TableFacts) -> None:
        name = identifier(table.name)
        place = f"{identifier(table.schema_)}.{name}"
        command(self.session, f"CREATE TEMPORARY TABLE {name} (LIKE {place} INCLUDING GENERATED)")
        for column in table.columns:
            if not column.not_null:
                # Before 18 a NOT NULL is always valid; one that is not was copied as if it were.
                self._try(f"ALTER TABLE pg_temp.{name} ALTER COLUMN {identifier(column.name)} DROP NOT NULL")

    def _constrain(self, table: TableFacts) -> None:
        name = f"pg_temp.{identifier(table.name)}"
        for constraint in table.constraints:
            if constraint.kind == "not null" and not (constraint.valid and constraint.enforced):
                for column in constraint.columns:
                    self._try(f"ALTER TABLE {name} ALTER COLUMN {identifier(column)} DROP NOT NULL")
            if constraint.kind == "check" and constraint.valid and constraint.enforced:
                self._try(f"ALTER TABLE {name} ADD {constraint.definition}")
        for index in table.indexes:
            if index.unique and index.valid and index.immediate:
                self._try(_unique_index(name, table, index))
        for constraint in table.constraints:
            if constraint.kind != "foreign" or constraint.of_partition:
                continue
            if constraint.valid and constraint.enforced:
                columns = ", ".join(identifier(one) for one in constraint.columns)
                others = ", ".join(identifier(one) for one in constraint.referenced_columns)
                if constraint.referenced_table in {one.name for one in self.tables}:
                    other = f"pg_temp.{identifier(str(constraint.referenced_table))}"
                    self._try(f"ALTER TABLE {name} ADD FOREIGN KEY ({columns}) REFERENCES {other} ({others})")

    def _try(self, sql: str) -> None:
        """A constraint that can't be made makes instances harsher, not wrong."""
        command(self.session, "SAVEPOINT pgassay_constraint")
        try:
            command(self.session, sql)
        except CommandError:
            command(self.session, "ROLLBACK TO SAVEPOINT pgassay_constraint")

    def instance(self, number: int, seed: int) -> SmallInstance:
        """The instance of that number; the same for the same seed. The first has no row at all."""
        chance = random.Random(f"{seed}/{number}")
        if number == 0:
            return SmallInstance(0, ())
        inserts: list[str] = []
        narrow: dict[str, list[str]] = {}
        for table in self.tables:
            rows: list[dict[str, str | None]] = []
            keyed = {key.column for index in table.indexes if index.unique for key in index.keys}
            filled = {column.name for column in table_columns(table) if column.not_null}
            shares = {
                column.name: 0.0 if column.name in filled else chance.choice(NULL_SHARES)
                for column in table.columns
            }
            for _ in range(chance.choice(ROWS)):
                rows.append(self._row(table, chance, narrow, keyed, shares, rows))
            inserts += [self._insert(table, row) for row in rows]
        return SmallInstance(number, tuple(inserts))

    def _row(
        self,
        table: TableFacts,
        chance: random.Random,
        narrow: dict[str, list[str]],
        keyed: set[str | None],
        shares: dict[str, float],
        before: list[dict[str, str | None]],
    ) -> dict[str, str | None]:
        """A row: a copy of an earlier one but for its keys, or of few values for each type, so that joins
        match."""
        copied = chance.choice(before) if before and chance.random() < COPY_SHARE else None
        row: dict[str, str | None] = {}
        for column in table.columns:
            if column.generated:
                continue
            pool = self.pools[table.name, column.name]
            if copied is not None and column.name not in keyed:
                row[column.name] = copied[column.name]
            elif not pool or chance.random() < shares[column.name]:
                row[column.name] = None
            else:
                few = self._few(column, pool, chance, narrow)
                row[column.name] = chance.choice(
                    [*few, *few, *few, *pool[:10]] if column.name in keyed else few
                )
        return row

    def _few(
        self, column: ColumnFacts, pool: tuple[str, ...], chance: random.Random, narrow: dict[str, list[str]]
    ) -> list[str]:
        """Two to four values for all columns of the type in this instance, most often those of the
        statement."""
        kind = base_type(column.type)
        kind = "integer" if kind in ("smallint", "bigint") else kind
        if kind not in narrow:
            count = chance.choice((2, 3, 4))
            first = pool[: max(6, len(pool) // 2)]
            narrow[kind] = [chance.choice(first if chance.random() < 0.75 else pool) for _ in range(count)]
        fitting = [value for value in narrow[kind] if value in pool]
        # Now and then one more, so that two columns of a type are not always of the same values.
        return [*fitting, chance.choice(pool)] if not fitting or chance.random() < 0.3 else fitting

    def _insert(self, table: TableFacts, row: dict[str, str | None]) -> str:
        names = ", ".join(identifier(name) for name in row)
        values = ", ".join("NULL" if value is None else self._literal(value) for value in row.values())
        overriding = " OVERRIDING SYSTEM VALUE" if any(one.identity for one in table.columns) else ""
        return f"INSERT INTO pg_temp.{identifier(table.name)} ({names}){overriding} VALUES ({values})"

    def fill(self, instance: SmallInstance) -> None:
        """Put the instance's rows in; what the table's constraints refuse stays out."""
        blocks = [
            f"BEGIN {sql}; EXCEPTION WHEN OTHERS THEN NULL; END;"
            for sql in instance.inserts
            if QUOTE not in sql
        ]
        if blocks:
            command(self.session, f"DO LANGUAGE plpgsql {QUOTE}BEGIN {' '.join(blocks)} END{QUOTE}")

    def content(self) -> Iterator[str]:
        """What is in the tables now, for a counterexample."""
        for table in self.tables:
            for row in command(
                self.session, f"SELECT t::text FROM pg_temp.{identifier(table.name)} t LIMIT 20"
            ):
                yield f"{table.name} {row[0]}"

    def _literal(self, value: str) -> str:
        made = pq.Escaping(self.session).escape_literal(value.encode())
        return bytes(made).decode()


def _unique_index(name: str, table: TableFacts, index: IndexFacts) -> str:
    own = {column.name: column.collation for column in table.columns}
    keys = []
    for key in index.keys:
        said = identifier(key.column) if key.column else f"({key.expression})"
        if key.column and key.collation not in ("", own.get(key.column, "")):
            said += f" COLLATE {identifier(key.collation)}"
        keys.append(said if key.default_opclass or not key.opclass else f"{said} {identifier(key.opclass)}")
    nulls = " NULLS NOT DISTINCT" if index.nulls_not_distinct else ""
    where = f" WHERE {index.predicate}" if index.predicate else ""
    return f"CREATE UNIQUE INDEX ON {name} USING {identifier(index.method)} ({', '.join(keys)}){nulls}{where}"
