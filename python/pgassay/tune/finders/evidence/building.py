"""Candidates of indexes: names, SQL, and whether an index that is there already does the same."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pglast import ast, parse_sql
from pglast.parser import ParseError
from pglast.stream import RawStream

from pgassay.sql_text import identifier
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import IndexFacts, IndexKey, TableFacts
from pgassay.tune.finders.base import ExpectedSaving, FinderOffer
from pgassay.tune.finders.evidence.conditions import normalised
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan
from pgassay.tune.finders.evidence.work import btree_bytes
from pgassay.tune.names import NAME_BYTES_MAX, digest, shortened
from pgassay.tune.rewrites.tree import readable_expression, short_casts


@dataclass(frozen=True)
class Key:
    """A key of an index to be: a column or an expression, its direction and operator class."""

    text: str
    is_expression: bool = False
    descending: bool = False
    nulls_first: bool | None = None
    opclass: str = ""

    @property
    def name(self) -> str:
        """Its part of the index's name: of an expression its words."""
        if self.is_expression:
            return re.sub(r"[^a-z0-9]+", "_", readable_expression(self.text).lower()).strip("_")
        return "".join(c if c.isalnum() else "_" for c in self.text)

    @property
    def sql(self) -> str:
        """The key as CREATE INDEX has it."""
        words = [f"({self.text})" if self.is_expression else identifier(self.text)]
        words += [self.opclass] if self.opclass else []
        words += ["DESC"] if self.descending else []
        if self.nulls_first is not None and self.nulls_first != self.descending:
            words.append("NULLS FIRST" if self.nulls_first else "NULLS LAST")
        return " ".join(words)


@dataclass(frozen=True)
class NewIndex:
    """An index to be made. `beside`: the id of one that is made with it, which gives it a name of its own."""

    table: TableFacts
    keys: tuple[Key, ...]
    method: str = "btree"
    included: tuple[str, ...] = ()
    predicate: str = ""
    options: str = ""
    beside: str = ""

    @property
    def id(self) -> str:
        """The candidate's id: the same whenever the same index is meant."""
        method = "" if self.method == "btree" else f"{self.method}:"
        return f"index:{method}{self._where}"

    @property
    def title(self) -> str:
        """What it is in words."""
        kind = "Index" if self.method == "btree" else f"{self.method.upper()} index"
        return f"{kind} on {readable_expression(self._where)}"

    @property
    def _where(self) -> str:
        """The table, the keys, and what follows them."""
        keys = ",".join(key.sql for key in self.keys)
        tail = (f" include({','.join(self.included)})" if self.included else "") + (
            f" where {self.predicate}" if self.predicate else ""
        )
        return f"{_place(self.table)}({keys}){tail}"

    @property
    def name(self) -> str:
        """Its name: the table's and the keys', cut to what PostgreSQL keeps, with a hash of all of it."""
        words = [self.table.name, *(key.name for key in self.keys)]
        return f"{shortened('_'.join(words), NAME_BYTES_MAX - 11)}_pga{digest(self.id + self.beside)}"

    @property
    def sql(self) -> str:
        """CREATE INDEX."""
        keys = ", ".join(key.sql for key in self.keys)
        method = "" if self.method == "btree" else f" USING {self.method}"
        words = f"CREATE INDEX {identifier(self.name)} ON {place(self.table)}{method} ({keys})"
        if self.included:
            words += f" INCLUDE ({', '.join(identifier(name) for name in self.included)})"
        if self.options:
            words += f" WITH ({self.options})"
        return short_casts(words + (f" WHERE {self.predicate}" if self.predicate else ""))

    @property
    def undo(self) -> str:
        """DROP INDEX."""
        return f"DROP INDEX {identifier(self.table.schema_)}.{identifier(self.name)}"


def place(table: TableFacts) -> str:
    """A table's name with its schema, as SQL has it."""
    return f"{identifier(table.schema_)}.{identifier(table.name)}"


def shown(one: TableFacts | IndexFacts) -> str:
    """A name for a reader: with its schema where that is not the usual one, as others may have the name."""
    return one.name if one.schema_ == "public" else f"{one.schema_}.{one.name}"


def defined_anew(definition: str, *, name: str | None = None) -> str:
    """pg_get_indexdef's statement as one for the whole table, partitions included, under this name or none.

    Parsed, since whoever made the data may have put SQL into the name. What a newer grammar has is left.
    """
    try:
        root = parse_sql(definition)[0].stmt
    except ParseError:
        return definition
    if not isinstance(root, ast.IndexStmt) or root.relation is None:
        return definition
    root.idxname, root.relation.inh = name, True
    return index_sql(root)


def index_sql(root: ast.IndexStmt) -> str:
    """CREATE INDEX as SQL. A collation with its schema goes into the key's expression, which means the same.

    RawStream writes the parts of its name with a comma, as two keys; the server strips a COLLATE from an
    expression (ComputeIndexAttrs of src/backend/commands/indexcmds.c).
    """
    for key in root.indexParams or ():
        if len(key.collation or ()) > 1:
            column = ast.ColumnRef(fields=(ast.String(sval=key.name),)) if key.name else key.expr
            key.expr = ast.CollateClause(arg=column, collname=key.collation)
            key.name, key.collation = None, None
    return str(RawStream()(root))


def _place(table: TableFacts) -> str:
    return identifier(table.name) if table.schema_ == "public" else place(table)


def serving(table: TableFacts, equal: Sequence[str], rest: Sequence[Key]) -> IndexFacts | None:
    """The B-tree that is there and finds rows by these columns, and gives the rest in this order; or None.

    The columns compared with one value may lead in any order; what follows must stand as asked, all in its
    direction or all reversed (a B-tree is read both ways). An operator class for LIKE finds equal values, and
    has neither the order nor the ranges of the type. An index of another collation than its column's is read
    for comparisons in that one alone (IndexCollMatchesExprColl of src/backend/optimizer/path/indxpath.c).
    """
    return next((each for each in table.indexes if _serves(table, each, equal, rest)), None)


def _serves(table: TableFacts, index: IndexFacts, equal: Sequence[str], rest: Sequence[Key]) -> bool:
    if index.method != "btree" or not index.valid or index.predicate is not None:
        return False
    keys = index.keys
    if {key.column for key in keys[: len(equal)]} != set(equal) or len(keys) < len(equal) + len(rest):
        return False
    if not all(_has_own_collation(table, key) for key in keys[: len(equal) + len(rest)]):
        return False
    following = keys[len(equal) : len(equal) + len(rest)]
    for have, want in zip(following, rest, strict=True):
        if _name(have) != want.text or not (have.default_opclass or have.opclass == want.opclass):
            return False
    turned = {_turned(have, want) for have, want in zip(following, rest, strict=True)}
    return len(turned) <= 1 and None not in turned


def _has_own_collation(table: TableFacts, key: IndexKey) -> bool:
    """Whether a key compares as its column does; of an expression it is taken to."""
    column = table.column(key.column) if key.column is not None else None
    return column is None or key.collation in ("", column.collation)


def _name(key: IndexKey) -> str | None:
    return key.column if key.column is not None else key.expression


def _turned(have: IndexKey, want: Key) -> bool | None:
    """False: the same direction; True: the opposite one, nulls too; None: neither."""
    nulls = want.descending if want.nulls_first is None else want.nulls_first
    if (have.descending, have.nulls_first) == (want.descending, nulls):
        return False
    return True if (have.descending, have.nulls_first) == (not want.descending, not nulls) else None


def finds_one(table: TableFacts, equal: Sequence[str]) -> bool:
    """Whether a unique index on some of the columns compared with one value finds at most one row already."""
    return any(
        index.unique and index.valid and not index.predicate
        and {key.column for key in index.keys} <= set(equal)
        and all(_has_own_collation(table, key) for key in index.keys)
        for index in table.indexes
    )  # fmt: skip


def is_there(index: NewIndex) -> bool:
    """Whether the table has a valid index of this method and predicate that begins with the keys."""
    wanted = [normalised(key.text) if key.is_expression else key.text for key in index.keys]
    for have in index.table.indexes:
        names = [key.column or normalised(key.expression or "") for key in have.keys]
        same_class = all(
            _has_own_collation(index.table, key) and (not want.opclass or key.opclass == want.opclass)
            for key, want in zip(have.keys, index.keys, strict=False)
        )
        predicate = normalised(have.predicate) if have.predicate else ""
        if (
            have.valid
            and have.method == index.method
            and names[: len(wanted)] == wanted
            and same_class
            and predicate == (normalised(index.predicate) if index.predicate else "")
            and set(index.included) <= {*have.included, *names}
        ):
            return True
    return False


def index_offer(
    evidence: FinderEvidence, kind: str, scan: TableScan, index: NewIndex, saved_ms: float, reason: str, *,
    size: float | None = None, before: Sequence[str] = (), analyze: bool = False, for_one_value: bool = False,
) -> Iterator[FinderOffer]:  # fmt: skip
    """The offer of an index that saves this much in the scan's plan; nothing where it saves nothing.

    `before`: SQL that it needs, as an extension. `analyze`: statistics of its expression are needed.
    `for_one_value` as the candidate's.
    """
    if saved_ms <= 0 or index.table.kind not in ("table", "partitioned", "materialized view"):
        return
    columns = [*(key.text for key in index.keys), *index.included]
    if size is None:
        size = btree_bytes(index.table, evidence.rows_of(index.table), columns, evidence.facts.block_bytes)
    after = (f"ANALYZE {place(index.table)}",) if analyze else ()
    yield FinderOffer(
        Candidate(
            id=index.id,
            layer="design",
            kind=kind,
            title=index.title,
            reason=reason,
            statements=(),
            sql=(*before, index.sql, *after),
            undo=(index.undo,),
            bytes=int(size),
            for_one_value=for_one_value,
        ),
        (ExpectedSaving(scan.statement.name, scan.plan_number, saved_ms),),
    )
