"""apply.sql and undo.sql: what is recommended, in order, with as few locks as PostgreSQL needs for it.

Each is for `psql -f`, statement by statement outside of a transaction: CREATE INDEX CONCURRENTLY and ALTER
SYSTEM refuse to run in one.
"""

from collections.abc import Iterator, Sequence

from pglast import ast, enums, parse_sql
from pglast.parser import ParseError
from pglast.stream import RawStream

from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import SchemaFacts, TableFacts

LOCK_TIMEOUT = "5s"
_HEAD = (
    "-- Run with: psql -v ON_ERROR_STOP=1 -f {name}",
    "-- A statement that waits for a lock longer than this gives up, so that nobody queues behind it.",
    f"SET lock_timeout = '{LOCK_TIMEOUT}';",
)
_INVALID = (
    "-- If this fails, it leaves an INVALID index: drop that with DROP INDEX CONCURRENTLY, and run it again."
)


def apply_script(fixes: Sequence[Candidate], facts: SchemaFacts | None) -> str:
    """The statements that apply these fixes; '' for none."""
    return _script("apply.sql", fixes, [_applying(fix, facts) for fix in fixes])


def undo_script(fixes: Sequence[Candidate], facts: SchemaFacts | None) -> str:
    """The statements that take them back, the last one first; what can't be taken back is said."""
    backwards = list(reversed(fixes))
    return _script("undo.sql", backwards, [_undoing(fix, facts) for fix in backwards])


def _script(name: str, fixes: Sequence[Candidate], parts: Sequence[list[str]]) -> str:
    if not fixes:
        return ""
    lines = [_HEAD[0].format(name=name), *_HEAD[1:]]
    for fix, part in zip(fixes, parts, strict=True):
        lines += ["", *_comment(fix.title), *part]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    return [f"-- {line}" for line in text.splitlines()]


def _applying(fix: Candidate, facts: SchemaFacts | None) -> list[str]:
    lines = [line for statement in fix.sql for line in online(statement, facts)]
    for name, value in fix.settings.items():
        lines.append(f"ALTER SYSTEM SET {name} = {_quoted(value)};")
    if fix.settings:
        lines.append("SELECT pg_reload_conf();")
    if fix.restart:
        lines.append("-- It takes effect at the next restart of the server.")
    if fix.build is not None:
        lines.append(
            f"-- By hand: pg_upgrade to PostgreSQL {fix.build.major}, then ANALYZE of the whole database."
        )
    if fix.storage is not None:
        lines.append("-- By hand: order the volume from the provider; the data need not be loaded anew.")
    for rewrite in fix.rewrites:
        lines += _comment(f"Replace the statement {rewrite.statement} in the application by:")
        lines += _comment(rewrite.sql)
    return lines


def _undoing(fix: Candidate, facts: SchemaFacts | None) -> list[str]:
    if _is_of_partitions(fix, facts):
        lines = [f"{statement.rstrip().rstrip(';')};" for statement in fix.undo]
    else:
        lines = [line for statement in fix.undo for line in online(statement, facts)]
    if fix.sql and not (fix.undoable and fix.undo):
        lines.append("-- This can't be taken back, and need not be: it changed no row that a query returns.")
    lines += [f"ALTER SYSTEM RESET {name};" for name in fix.settings]
    if fix.settings:
        lines.append("SELECT pg_reload_conf();")
    if fix.restart:
        lines.append("-- It takes effect at the next restart of the server.")
    if fix.build is not None:
        lines.append("-- An upgrade can't be taken back: the old server needs a dump of the data.")
    if fix.storage is not None:
        lines.append(
            "-- By hand: order the volume as it was; some providers let one change it once in hours."
        )
    for each in fix.rewrites:
        lines += _comment(f"Put the statement {each.statement} back as it was.")
    return lines


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def online(statement: str, facts: SchemaFacts | None) -> list[str]:
    """One statement as it is run beside an application: CONCURRENTLY where PostgreSQL can.

    An index of a partitioned table is made partition by partition, since there it can't.
    """
    try:
        root = parse_sql(statement)[0].stmt
    except ParseError:  # of a newer grammar than the parser's: as it was given
        return [f"{statement.rstrip().rstrip(';')};"]
    if isinstance(root, ast.IndexStmt):
        table = _table(root.relation, facts)
        if table is not None and table.kind == "partitioned" and facts is not None:
            return list(_by_partition(root, table, facts))
        root.concurrent = True
        return [_INVALID, _text(root)]
    if isinstance(root, ast.DropStmt) and root.removeType == enums.ObjectType.OBJECT_INDEX:
        root.concurrent = len(root.objects or ()) == 1
    return [_text(root)]


def _text(root: ast.Node | None) -> str:
    return f"{RawStream()(root)};"


def _table(relation: ast.RangeVar | None, facts: SchemaFacts | None) -> TableFacts | None:
    if facts is None or relation is None or not relation.relname:
        return None
    return facts.table(relation.relname, relation.schemaname)


def _is_of_partitions(fix: Candidate, facts: SchemaFacts | None) -> bool:
    """Whether it makes an index of a partitioned table, which can't be dropped CONCURRENTLY."""
    for statement in fix.sql:
        try:
            root = parse_sql(statement)[0].stmt
        except ParseError:
            continue
        table = _table(root.relation, facts) if isinstance(root, ast.IndexStmt) else None
        if table is not None and table.kind == "partitioned":
            return True
    return False


def _by_partition(root: ast.IndexStmt, table: TableFacts, facts: SchemaFacts) -> Iterator[str]:
    """ON ONLY the parent, which takes no time, then each partition CONCURRENTLY, and attached."""
    parts = [each for each in facts.tables if each.parent in (table.name, f"{table.schema_}.{table.name}")]
    name, relation = root.idxname, root.relation
    if not name or relation is None or not parts or any(each.kind != "table" for each in parts):
        yield "-- The table has partitions of partitions, so that this locks it against writes meanwhile."
        yield _text(root)
        return
    relation.inh = False
    yield _text(root)
    yield _INVALID
    for part in parts:
        root.idxname = f"{part.name}_{name}"[:63]
        root.relation = ast.RangeVar(
            schemaname=part.schema_, relname=part.name, inh=True, relpersistence=relation.relpersistence
        )
        root.concurrent = True
        yield _text(root)
        parent, attached = _qualified(table.schema_, name), _qualified(part.schema_, root.idxname)
        yield f"ALTER INDEX {parent} ATTACH PARTITION {attached};"


def _qualified(schema: str, name: str) -> str:
    """A name with its schema; whoever made the data may have put quotes into both."""
    return ".".join('"' + each.replace('"', '""') + '"' for each in (schema, name))
