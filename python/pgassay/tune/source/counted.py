"""The statements of one database that are worth tuning, as pg_stat_statements counted them.

The view's columns differ by the extension's version, and a server that was upgraded may have an older one
than its own: they are looked up (contrib/pg_stat_statements/pg_stat_statements--*.sql). Its counters are
never reset.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import psycopg
from pglast import ast
from psycopg import sql

from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import UsageError, first_line
from pgassay.tune.rewrites.tree import RefusedError, inserts_values, names_of, read, walk
from pgassay.tune.source.source_server import SourceServer

LIBRARY = "pg_stat_statements"
HIDDEN_TEXT = "<insufficient privilege>"
# Where other roles' statements took more than that, those that took most can't be told.
HIDDEN_SHARE_MAX = 0.5
UTILITY, CATALOG, NESTED = "utility statements", "statements of catalogs", "statements within functions"
HIDDEN, UNREADABLE = "statements of other roles", "statements that can't be read"
# An index has nothing to find for them, so what can be improved has its places first.
VALUES = "INSERTs of values, which search no table"
# What took less of the time gains nobody anything, and a copy can hardly time it.
TINY_SHARE = 1e-5
TINY = "statements with less than 0.001 % of the time"
# A statement that ran once may be somebody's own look at the data: it counts by its total alone.
CALLS_MIN = 2
_PLANNED = (ast.SelectStmt, ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt, ast.MergeStmt)
_SYSTEM_SCHEMAS = ("pg_catalog", "information_schema", "pg_toast")
# Views of statistics that an extension makes, in whatever schema.
_SYSTEM_VIEWS = ("pg_stat_statements", "pg_stat_statements_info")
# pg_dump reads each sequence by these (src/bin/pg_dump/pg_dump.c, dumpSequenceData).
_OF_A_SEQUENCE = ["last_value", "is_called"]
_NOT_LOADED = "55000"

_FIND = """
SELECT n.nspname::text, ARRAY(
    SELECT a.attname::text FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = n.oid AND c.relname = 'pg_stat_statements'),
    EXISTS (SELECT FROM pg_catalog.pg_class c
        WHERE c.relnamespace = n.oid AND c.relname = 'pg_stat_statements_info')
FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_stat_statements'"""
_COUNTED = """
SELECT s.queryid::text, pg_catalog.max(s.query), pg_catalog.sum(s.calls)::float8,
    pg_catalog.sum(s.total_exec_time)::float8, pg_catalog.sum(s.rows)::float8, {top},
    pg_catalog.sum(s.shared_blks_hit + s.shared_blks_read)::float8
FROM {schema}.pg_stat_statements(true) s JOIN pg_catalog.pg_database d ON d.oid = s.dbid
WHERE d.datname = pg_catalog.current_database()
GROUP BY s.queryid, {top}
ORDER BY 4 DESC"""
_SINCE = """
SELECT pg_catalog.date_trunc('second', stats_reset)::text,
    EXTRACT(epoch FROM pg_catalog.clock_timestamp() - stats_reset)::float8
FROM {schema}.pg_stat_statements_info"""


@dataclass(frozen=True)
class SourceStatement:
    """A statement as the server counted it since its counters began.

    `sql` has its constants as $1, $2 …; `total_ms` is the time of all its calls, `share` its part of the time
    of all statements of the database, `rows` those that it returned or changed.
    """

    name: str
    query_id: str
    sql: str
    calls: float
    total_ms: float
    rows: float
    share: float

    @property
    def mean_ms(self) -> float:
        """The mean time of a call."""
        return self.total_ms / self.calls if self.calls else 0.0


@dataclass(frozen=True)
class SourceCounts:
    """The statements that were chosen, and what was passed over; `total_ms` and `statements` are of all.

    `since`, `since_s`: when counting began, and how many seconds ago; '' and None where it is not known.
    """

    chosen: tuple[SourceStatement, ...]
    ignored: dict[str, int] = field(default_factory=dict)
    total_ms: float = 0.0
    statements: int = 0
    since: str = ""
    hidden_share: float = 0.0
    since_s: float | None = None


@dataclass(frozen=True)
class CountedRow:
    """A row of the view, of all roles together; `query_id` is None where the role may not see the text.

    `blocks`: those that it looked at, in shared buffers or not.
    """

    query_id: str | None
    query: str
    calls: float
    total_ms: float
    rows: float
    is_top: bool = True
    blocks: float = 0.0


def read_counted(
    source: SourceServer, session: ControlSession, wanted: int, only: Collection[str] = ()
) -> SourceCounts:
    """The `wanted` statements that `choose` takes; of those with the numbers of `only`, where it names any.

    Raises UsageError, with what to type on the server, where the extension is missing or can't be read,
    where nothing was counted, and for a number that no statement has.
    """
    found = session.execute(_FIND).fetchone()
    if found is None:
        raise UsageError(
            f"{source.name} has no {LIBRARY}, which counts statements: add it to shared_preload_libraries, "
            f"restart the server, and type CREATE EXTENSION {LIBRARY} in {source.resolved.server.dbname}; or "
            "give the statements with --workload sql:FILE"
        )
    schema, columns, has_info = found
    top = sql.SQL("s.toplevel" if "toplevel" in columns else "(s.dbid IS NOT NULL)")
    names = {"schema": sql.Identifier(schema), "top": top}
    try:
        rows = session.execute(sql.SQL(_COUNTED).format(**names)).fetchall()
        since = session.execute(sql.SQL(_SINCE).format(**names)).fetchone() if has_info else None
    except psycopg.Error as error:
        raise UsageError(_unreadable(source, error)) from None
    read_rows = [
        CountedRow(query_id, str(query or ""), calls, total_ms, count, bool(is_top), blocks)
        for query_id, query, calls, total_ms, count, is_top, blocks in rows
    ]
    missing = [number for number in only if all(row.query_id != number for row in read_rows)]
    if missing:
        raise UsageError(
            f"{source.name}: {LIBRARY} has no statement {missing[0]} of {source.resolved.server.dbname}: "
            f"name a queryid that SELECT queryid, query FROM {LIBRARY} shows there"
        )
    counted = choose(read_rows, wanted, str(since[0]) if since and since[0] else "", frozenset(only))
    counted = replace(counted, since_s=since[1] if since and since[1] and since[1] > 0 else None)
    if counted.hidden_share > HIDDEN_SHARE_MAX or (counted.hidden_share and not counted.chosen):
        role = sql.Identifier(source.role).as_string(None)
        raise UsageError(
            f"{source.name}: the role {source.role} may not read other roles' statements, which took "
            f"{counted.hidden_share:.0%} of the time: type GRANT pg_read_all_stats TO {role} there"
        )
    if not counted.chosen:
        raise UsageError(
            f"{source.name}: {LIBRARY} has no query, INSERT, UPDATE, DELETE or MERGE of "
            f"{source.resolved.server.dbname} yet{_only(counted.ignored)}: let its load run for a while"
        )
    return counted


def _unreadable(source: SourceServer, error: psycopg.Error) -> str:
    reason = first_line(error)
    if error.sqlstate == _NOT_LOADED:
        remedy = "add it to shared_preload_libraries and restart the server"
        return f"{source.name} has not loaded {LIBRARY}: {remedy}"
    return f"{source.name}: {LIBRARY} can't be read ({reason}): correct the privileges of {source.role}"


def _only(ignored: dict[str, int]) -> str:
    words = ", ".join(f"{count} {kind}" for kind, count in ignored.items())
    return f" (only {words})" if words else ""


def choose(
    rows: Sequence[CountedRow], wanted: int, since: str = "", only: frozenset[str] = frozenset()
) -> SourceCounts:
    """The statements that took most in all, for a call, or for a row that they return. Pure.

    The three take turns, so that neither a report nor what is called often crowds out the rest. INSERTs of
    values have the places that others leave. Each has a name. Passed over, and counted by their kind: what
    has no plan, what reads catalogs alone (pgassay's own reading, that of other monitoring, pg_dump's of
    sequences), what runs within functions (its time is that of the call as well), what took next to no time,
    and what the role may not see. `only`: the numbers of those that are asked for; () for any.
    """
    ignored: Counter[str] = Counter()
    top = [row for row in rows if row.is_top]
    ignored[NESTED] = len(rows) - len(top)
    total_ms = sum(row.total_ms for row in top)
    hidden = [row for row in top if row.query_id is None or row.query == HIDDEN_TEXT]
    ignored[HIDDEN] = len(hidden)
    able: list[tuple[CountedRow, ast.Node]] = []
    inserts: list[tuple[CountedRow, ast.Node]] = []
    shown = (row for row in top if row.query_id is not None and row.query != HIDDEN_TEXT)
    for row in _by_text(row for row in shown if not only or row.query_id in only):
        if row.calls <= 0:
            continue
        if not only and row.total_ms < TINY_SHARE * total_ms:
            ignored[TINY] += 1
            continue
        try:
            tree = read(row.query)
        except RefusedError:
            ignored[UNREADABLE] += 1
            continue
        kind = kind_of(tree)
        if kind:
            ignored[kind] += 1
        else:
            (inserts if inserts_values(tree) else able).append((row, tree))
    taken = _in_turns([row for row, _ in able], wanted)
    left = max(wanted - len(taken), 0)
    ignored[VALUES] = len(inserts[left:])
    places = [(row, tree) for row, tree in able if row.query_id in taken] + inserts[:left]
    chosen: list[SourceStatement] = []
    for row, tree in sorted(places, key=lambda place: -place[0].total_ms):
        query_id = str(row.query_id)
        name = _name(tree, query_id, (each.name for each in chosen))
        share = row.total_ms / total_ms if total_ms else 0.0
        chosen.append(SourceStatement(name, query_id, row.query, row.calls, row.total_ms, row.rows, share))
    return SourceCounts(
        tuple(chosen),
        {kind: count for kind, count in ignored.items() if count},
        total_ms,
        len(rows),
        since,
        sum(row.total_ms for row in hidden) / total_ms if total_ms else 0.0,
    )


def _by_text(rows: Iterable[CountedRow]) -> list[CountedRow]:
    """One row for each text, the one that took most first, with the number of that which took most of it.

    A driver that sends 7 as smallint and 70000 as integer has two statements of one text.
    """
    alike: dict[str, list[CountedRow]] = {}
    for row in sorted(rows, key=lambda row: -row.total_ms):
        alike.setdefault(row.query, []).append(row)
    found = [
        replace(
            same[0],
            calls=sum(row.calls for row in same),
            total_ms=sum(row.total_ms for row in same),
            rows=sum(row.rows for row in same),
            blocks=sum(row.blocks for row in same),
        )
        for same in alike.values()
    ]
    return sorted(found, key=lambda row: -row.total_ms)


def _in_turns(rows: Sequence[CountedRow], wanted: int) -> set[str | None]:
    """The numbers of the first `wanted` rows by total time, mean time and blocks for a row, in turns."""
    often = [row for row in rows if row.calls >= CALLS_MIN]
    orders = (
        sorted(rows, key=lambda row: -row.total_ms),
        sorted(often, key=lambda row: -row.total_ms / row.calls),
        sorted(often, key=lambda row: -row.blocks / max(row.rows, row.calls)),
    )
    taken: set[str | None] = set()
    while len(taken) < min(wanted, len(rows)):
        for order in orders:
            following = next((row.query_id for row in order if row.query_id not in taken), None)
            if following is not None and len(taken) < wanted:
                taken.add(following)
    return taken


def kind_of(tree: ast.Node) -> str:
    """Why a statement is passed over; '' for one that is tuned."""
    if not isinstance(tree, _PLANNED) or (isinstance(tree, ast.SelectStmt) and tree.intoClause):
        return UTILITY
    named = {str(node.ctename) for node in walk(tree) if isinstance(node, ast.CommonTableExpr)}
    tables = [
        node for node in walk(tree) if isinstance(node, ast.RangeVar) and str(node.relname) not in named
    ]
    if tables:
        is_catalog = all(map(_is_of_the_system, tables)) or _reads_a_sequence(tree)
        return CATALOG if is_catalog else ""
    calls = [names_of(node.funcname) for node in walk(tree) if isinstance(node, ast.FuncCall)]
    of_the_system = all(
        words[0] in _SYSTEM_SCHEMAS or words[-1].startswith("pg_") for words in calls if words
    )
    return CATALOG if calls and of_the_system else ""


def _is_of_the_system(table: ast.RangeVar) -> bool:
    if table.schemaname and table.relname not in _SYSTEM_VIEWS:
        return str(table.schemaname) in _SYSTEM_SCHEMAS
    return str(table.relname).startswith("pg_")


def _reads_a_sequence(tree: ast.Node) -> bool:
    """Whether it is `SELECT last_value, is_called FROM name` and no more."""
    if not isinstance(tree, ast.SelectStmt) or len(tree.fromClause or ()) != 1 or tree.whereClause:
        return False
    values = [target.val for target in tree.targetList or ()]
    return [
        names_of(each)[-1] if isinstance(each, ast.ColumnRef) else "" for each in values
    ] == _OF_A_SEQUENCE


def _name(tree: ast.Node, query_id: str, taken: Iterable[str]) -> str:
    """A name that says what it does and to which table; the same whenever the server gives it this number."""
    tables = [str(node.relname) for node in walk(tree) if isinstance(node, ast.RangeVar)]
    verb = type(tree).__name__.removesuffix("Stmt").lower()
    # One line whatever the table is called: it stands in comments of scripts.
    stem = " ".join(f"{verb}-{tables[0]}".split()) if tables else verb
    digest = hashlib.sha256(query_id.encode()).hexdigest()
    known = set(taken)
    return next(
        name for length in range(4, len(digest)) if (name := f"{stem}-{digest[:length]}") not in known
    )
