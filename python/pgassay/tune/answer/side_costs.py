"""What a fix costs beside time and space: WAL that standbys replay, locks they take, updates no longer HOT.

An update is heap-only (HOT) where it sets no column of an index that is not summarising, and its page has
room (src/backend/access/heap/README.HOT); from 16 on BRIN indexes do not end it. Locks: an ACCESS EXCLUSIVE
lock is in the WAL and taken by standbys too, and what VACUUM removes may be seen there still
(src/backend/storage/ipc/standby.c), so that max_standby_streaming_delay decides who waits for whom.
"""

from collections.abc import Iterator, Sequence

from pglast import ast, parse_sql
from pglast.parser import ParseError

from pgassay.tune.answer.locks import is_beside_writes
from pgassay.tune.candidate import Candidate, TunedStatement
from pgassay.tune.facts.schema import SchemaFacts, TableFacts
from pgassay.tune.finders.evidence.conditions import walk
from pgassay.tune.finders.evidence.sql_text import SqlText
from pgassay.tune.rewrites.tree import names_of

_MEGABYTE = 1_000_000
# Below that nobody has to plan for it.
_WAL_BYTES_MIN = _MEGABYTE
_SUMMARISING = "brin"
# A third of a page less its header (BTMaxItemSize of src/include/access/nbtree.h), and how wide values of a
# type without a limit are on average where one of that size is to be reckoned with.
_BTREE_ROW_BYTES_MAX, _WIDE_BYTES = 2704, 64
_UNLIMITED = frozenset({"text", "character varying", "bytea", "jsonb", "numeric", "citext"})
_OF_CHARACTERS = frozenset({"character varying", "character"})
# Settings of which every sort or hash of every session may take as much as they say.
MEMORY_OF_EACH = frozenset({"work_mem", "hash_mem_multiplier"})
_WRITING = (ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt, ast.MergeStmt)


def side_costs(
    candidate: Candidate,
    wal_bytes: int | None,
    statements: Sequence[TunedStatement],
    facts: SchemaFacts | None,
) -> str:
    """The clauses that a user should know before applying it, '' for none.

    `wal_bytes`: what applying it wrote on the copy.
    """
    said = [*_memory(candidate), *_standbys(candidate, wal_bytes)]
    if any(map(is_writing_anew, candidate.in_order(candidate.sql))):
        said.append("the table is locked against reads and writes while it is rewritten")
    if facts is not None:
        for root in _parsed(candidate.sql):
            if isinstance(root, ast.IndexStmt):
                said += _hot(root, statements, facts)
                said += _refusing(root, facts)
    return "; ".join(dict.fromkeys(said))


def writing_elsewhere(
    candidate: Candidate, statements: Sequence[TunedStatement], facts: SchemaFacts | None
) -> frozenset[str]:
    """The names of statements that write, and write none of the tables that a candidate makes indexes on.

    By their text and the schema: what a trigger, a rule or a function may write can't be told from these. A
    row that goes, or whose key changes, is looked for in the tables that refer to it, and may go there too.
    """
    roots = [root for root in _parsed(candidate.sql) if not isinstance(root, ast.VacuumStmt)]
    indexed = {
        str(root.relation.relname)
        for root in roots
        if isinstance(root, ast.IndexStmt) and root.relation is not None
    }
    has_others = any(not isinstance(root, ast.IndexStmt | ast.CreateExtensionStmt) for root in roots)
    if facts is None or has_others or not indexed or candidate.settings or candidate.rewrites:
        return frozenset()
    found = set()
    for statement in statements:
        written = _reached(statement, facts) if statement.writes else None
        if written is not None and not written & indexed:
            found.add(statement.name)
    return frozenset(found)


def _reached(statement: TunedStatement, facts: SchemaFacts) -> set[str] | None:
    """The tables that a statement writes, and looks for references in; None where that can't be told."""
    roots = tuple(_parsed((statement.sql,)))
    writing = [node for node in walk(roots) if isinstance(node, _WRITING)]
    waiting = [str(node.relation.relname) for node in writing]
    if not waiting:
        return None
    changed = {
        name: _changed([node for node in writing if node.relation.relname == name]) for name in waiting
    }
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        mine = [table for table in facts.tables if table.name == name]
        if not mine or any(
            table.triggers or table.has_rules or table.kind not in ("table", "partitioned") for table in mine
        ):
            return None
        waiting += [table.parent for table in mine if table.parent is not None]
        for table in facts.tables:
            refers = any(
                each.referenced_table == name and _may_change(each.referenced_columns, changed.get(name))
                for each in table.constraints
            )
            if refers or table.parent == name:
                waiting.append(table.name)
    return reached


def _changed(writing: Sequence[ast.Node]) -> frozenset[str] | None:
    """The columns of a table whose values these give rows that are there; None: rows may go as well."""
    found: set[str] = set()
    for node in writing:
        if isinstance(node, ast.UpdateStmt):
            targets = node.targetList
        elif isinstance(node, ast.InsertStmt):
            targets = node.onConflictClause.targetList if node.onConflictClause is not None else ()
        else:
            return None
        found.update(str(each.name) for each in targets or ())
    return frozenset(found)


def _may_change(key: Sequence[str], changed: frozenset[str] | None) -> bool:
    return changed is None or not changed.isdisjoint(key)


def _parsed(texts: Sequence[str]) -> Iterator[ast.Node]:
    for text in texts:
        try:
            root = parse_sql(text)[0].stmt
        except (ParseError, IndexError):  # of a newer grammar than the parser's
            continue
        if root is not None:
            yield root


def is_writing_anew(statement: str) -> bool:
    """Whether it writes a table anew, and locks everybody out of it meanwhile."""
    words = statement.upper().replace("(", " ( ").replace(",", " , ").replace(")", " ) ").split()
    options = words[: words.index(")")] if ")" in words else words[:2]
    if words[:1] in (["REPACK"], ["CLUSTER"]):
        return "CONCURRENTLY" not in options
    return words[:1] == ["VACUUM"] and "FULL" in options


def _memory(candidate: Candidate) -> Iterator[str]:
    given = [name for name in candidate.settings if name in MEMORY_OF_EACH]
    if given:
        yield (
            f"{' and '.join(given)} applies to every sort and hash of every session: multiplied by the "
            "number that run at the same time it must fit into memory; ALTER ROLE … SET limits it to one "
            "role"
        )


def _standbys(candidate: Candidate, wal_bytes: int | None) -> Iterator[str]:
    # What is done on the copy alone wrote most of its WAL.
    is_known = bool(candidate.sql) and not candidate.on_copy
    if is_known and wal_bytes is not None and wal_bytes >= _WAL_BYTES_MIN:
        yield f"it writes {wal_bytes / _MEGABYTE:,.0f} MB of WAL, which every standby receives and replays"
    for root in _parsed(candidate.in_order(candidate.sql)):
        if isinstance(root, ast.VacuumStmt) and root.is_vacuumcmd:
            options = {str(option.defname).lower() for option in root.options or ()}
            yield (
                "a standby's queries wait for its exclusive lock, or are cancelled after "
                "max_standby_streaming_delay"
                if "full" in options
                else "on a standby, queries that still see what it removes are cancelled after "
                "max_standby_streaming_delay, unless hot_standby_feedback is on"
            )
        elif isinstance(root, ast.DropStmt | ast.AlterTableStmt) and not is_beside_writes(root):
            yield "a standby replays its exclusive lock: queries on that table wait for it there too"


def _hot(root: ast.IndexStmt, statements: Sequence[TunedStatement], facts: SchemaFacts) -> Iterator[str]:
    """Which updates an index ends HOT for: those that set one of its columns, and no other index's."""
    relation = root.relation
    table = facts.table(relation.relname, relation.schemaname) if relation is not None else None
    if table is None or root.accessMethod == _SUMMARISING:
        return
    added = _columns(root, table) - _indexed(table)
    if not added:
        return
    share = ""
    if table.updated and table.hot_updated is not None:
        share = f" ({table.hot_updated / table.updated:.0%} of {table.updated:,} updates of it were, so far)"
    found = False
    for statement in statements:
        text = SqlText(statement.sql)
        names = text.updated_columns
        if text.target == table.name and names & added and not names & _indexed(table):
            found = True
            yield (
                f"{statement.name} sets {', '.join(sorted(names & added))}, so its updates "
                f"are no longer HOT{share}: each writes to every index"
            )
    if not found and table.hot_updated:
        yield (
            f"updates of {table.name} that set {' or '.join(sorted(added))} are no longer HOT{share}; "
            "the workload has none"
        )


def _refusing(root: ast.IndexStmt, facts: SchemaFacts) -> Iterator[str]:
    """Rows that can't be written any more: a B-tree has no place for a long value, whatever its table has."""
    relation = root.relation
    table = facts.table(relation.relname, relation.schemaname) if relation is not None else None
    if table is None or root.accessMethod not in (None, "btree"):
        return
    named = [*(root.indexParams or ()), *(root.indexIncludingParams or ())]
    names = {str(each.name) for each in named if each.name} | {_of_same_width(each.expr) for each in named}
    wide = [
        column.name
        for column in table.columns
        if column.name in names and _is_unlimited(column.own_type) and (column.width or 0) >= _WIDE_BYTES
    ]
    if wide:
        yield (
            f"once it is there, rows are refused if {' and '.join(wide)} "
            f"{'takes' if len(wide) == 1 else 'take'} more than {_BTREE_ROW_BYTES_MAX:,} bytes, compressed"
        )


def _is_unlimited(kind: str) -> bool:
    """Whether a value of a type, as format_type names it, may be wider than a B-tree has place for."""
    name, _, length = kind.partition("(")
    is_long = length.rstrip(")").isdigit() and int(length.rstrip(")")) > _BTREE_ROW_BYTES_MAX
    return kind in _UNLIMITED or kind.endswith("[]") or (name in _OF_CHARACTERS and is_long)


def _of_same_width(expression: ast.Node | None) -> str | None:
    """The column that an expression has all bytes of; None where it is of another width."""
    if not isinstance(expression, ast.FuncCall) or names_of(expression.funcname)[-1] not in (
        "lower",
        "upper",
    ):
        return None
    inner: object = (expression.args or (None,))[0]
    while isinstance(inner, ast.TypeCast):
        inner = inner.arg
    return names_of(inner)[-1] if isinstance(inner, ast.ColumnRef) else None


def _columns(root: ast.IndexStmt, table: TableFacts) -> frozenset[str]:
    """The columns that an index to be made has: as keys, included, in expressions, in its predicate."""
    names = {column.name for column in table.columns}
    found: set[str] = set()
    waiting: list[object] = [root.indexParams, root.indexIncludingParams, root.whereClause]
    while waiting:
        place = waiting.pop()
        if isinstance(place, tuple | list):
            waiting.extend(place)
        elif isinstance(place, ast.ColumnRef):
            found |= {str(part.sval) for part in place.fields if isinstance(part, ast.String)}
        elif isinstance(place, ast.Node):
            if isinstance(place, ast.IndexElem) and place.name:
                found.add(str(place.name))
            waiting.extend(getattr(place, name) for name in place)
    return frozenset(found & names)


def _indexed(table: TableFacts) -> frozenset[str]:
    """The columns that an index of the table has already, wherever it has them."""
    found: set[str] = set()
    for index in table.indexes:
        if index.method == _SUMMARISING or not index.valid:
            continue
        found |= {key.column for key in index.keys if key.column is not None} | set(index.included)
        texts = [key.expression or "" for key in index.keys] + [index.predicate or ""]
        found |= {column.name for column in table.columns for text in texts if column.name in text}
    return frozenset(found)
