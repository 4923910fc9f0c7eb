"""apply.sql and undo.sql: what is recommended, in order, with as few locks as PostgreSQL needs for it.

Each is for `psql -f`, statement by statement outside of a transaction: CREATE INDEX CONCURRENTLY and ALTER
SYSTEM refuse to run in one. What must not be seen half done is in a transaction of its own.
"""

from collections.abc import Iterator, Mapping, Sequence

from pglast import ast, enums

from pgassay.sql_text import identifier, qualified
from pgassay.tune.answer.beside_partitioning import by_hand, with_partitions
from pgassay.tune.answer.concurrently import (
    LIMITED,
    made_concurrently,
    reindexed,
    text_of,
    unlimited,
    whole_or_warned,
)
from pgassay.tune.answer.locks import (
    A_MOMENT,
    HALF_DROPPED,
    INVALID,
    LOCKED_OUT,
    NOT_DROPPED,
    comment,
    ended,
    locks,
    parsed,
    together,
)
from pgassay.tune.answer.settings_scripts import (
    KEPT_DROPPED,
    settings_applied,
    settings_told,
    settings_undone,
)
from pgassay.tune.answer.side_costs import is_writing_anew
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import SchemaFacts, TableFacts
from pgassay.tune.names import bounded

_HEAD = (
    "-- Run with: psql -f {name}",
    "\\set ON_ERROR_STOP on",
    "-- A statement that waits for a lock longer than this gives up, so that nobody queues behind it.",
    LIMITED,
    "-- Timeouts of the role or the database would cancel long statements.",
    "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings "
    "WHERE name IN ('statement_timeout', 'transaction_timeout');",
)
_PATH = "-- Names without a schema, as those of types, mean what they meant when this was tried."
# What a session finds that nobody configured otherwise.
_USUAL_PATHS = ((), ("public",))
# initdb has them by default (src/bin/initdb/initdb.c), and pg_upgrade wants both clusters alike.
_CHECKSUMS_SINCE = 18
_CHECKSUMS = (
    "-- Its initdb turns data checksums on, and pg_upgrade refuses a cluster that differs in them. Where the",
    "-- old server's SHOW data_checksums says off, give initdb --no-data-checksums, or stop the old server",
    "-- and run pg_checksums --enable first.",
)
# pg_get_indexdef leaves them out (src/backend/utils/adt/ruleutils.c).
_NOT_KEPT = (
    "-- It comes back in the default tablespace and without its comment: note these first if it has any."
)


def apply_script(
    fixes: Sequence[Candidate],
    facts: SchemaFacts | None,
    measured_on: str = "",
    heads: Mapping[str, str] | None = None,
) -> str:
    """The statements that apply these fixes; '' for none.

    measured_on: the machine in words, where nothing is known of that of the server: then settings, which
    follow from it, are comments. heads: by id what stands above each fix, else its title.
    """
    ordered, known = _in_order(fixes), with_partitions(fixes, facts)
    given = _given(ordered)
    parts = [by_hand(fix, facts, known) or _applying(fix, known, measured_on, given) for fix in ordered]
    return _script("apply.sql", ordered, parts, heads, _path(facts))


def undo_script(
    fixes: Sequence[Candidate],
    facts: SchemaFacts | None,
    measured_on: str = "",
    heads: Mapping[str, str] | None = None,
) -> str:
    """The statements that take them back, the last one first; what can't be taken back is said."""
    backwards, known = _in_order(fixes)[::-1], with_partitions(fixes, facts)
    given = _given(backwards)
    parts = [
        by_hand(fix, facts, known, is_undo=True) or _undoing(fix, known, measured_on, given)
        for fix in backwards
    ]
    script = _script("undo.sql", backwards, parts, heads, _path(facts))
    has_settings = not measured_on and any(fix.settings for fix in fixes)
    return script + (f"\n{KEPT_DROPPED}\n" if has_settings else "")


def _given(fixes: Sequence[Candidate]) -> list[tuple[str, str]]:
    return [pair for fix in fixes for pair in fix.settings.items()]


def _in_order(fixes: Sequence[Candidate]) -> list[Candidate]:
    """What puts another table in a table's place comes first: an index made before would be the old one's.

    Settings come last: where a provider refuses ALTER SYSTEM, the script ends there.
    """
    return sorted(fixes, key=lambda fix: (not fix.at_once, bool(fix.settings)))


def _path(facts: SchemaFacts | None) -> list[str]:
    """What gives a session the search path by which the server printed conditions and definitions."""
    if facts is None or facts.search_path in _USUAL_PATHS:
        return []
    return [_PATH, f"SET search_path = {', '.join(map(identifier, facts.search_path))};"]


def _script(
    name: str,
    fixes: Sequence[Candidate],
    parts: Sequence[list[str]],
    heads: Mapping[str, str] | None,
    path: Sequence[str],
) -> str:
    if not fixes:
        return ""
    lines = [_HEAD[0].format(name=name), *_HEAD[1:], *path]
    for fix, part in zip(fixes, parts, strict=True):
        lines += ["", *comment((heads or {}).get(fix.id, fix.title)), *_why(fix), *part]
    return "\n".join(lines) + "\n"


def _why(fix: Candidate) -> list[str]:
    """Of what takes something away why, and how it comes back: whoever runs the script is to read both."""
    if fix.kind != "unneeded-index":
        return []
    again = [*comment(f"To undo it: {'; '.join(fix.undo)}"), _NOT_KEPT] if fix.undo else []
    return [*comment(fix.reason), *again]


def _applying(
    fix: Candidate, facts: SchemaFacts | None, measured_on: str, given: Sequence[tuple[str, str]]
) -> list[str]:
    if fix.at_once:
        lines = together(fix, fix.sql)
    else:
        lines = [line for statement in fix.in_order(fix.sql) for line in online(statement, facts)]
    lines = [*(f"-- {each}" for each in fix.comments), *lines]
    if fix.settings:
        told = settings_told(fix.settings, measured_on) if measured_on else None
        lines += told or settings_applied(fix.settings, given)
    if fix.restart:
        lines.append("-- It takes effect at the next restart of the server.")
    if fix.build is not None:
        lines.append(
            f"-- Manually: pg_upgrade to PostgreSQL {fix.build.major}, then ANALYZE of the whole database."
        )
        if fix.build.major >= _CHECKSUMS_SINCE:
            lines += _CHECKSUMS
    if fix.storage is not None:
        lines.append("-- Manually: order the volume from the provider; the data need not be loaded again.")
    for rewrite in fix.rewrites:
        lines += comment(f"Replace the statement {rewrite.statement} in the application by:")
        lines += comment(rewrite.sql)
        lines += comment(f"It returns the same rows as long as this is true: {rewrite.condition}")
    return lines


def _undoing(
    fix: Candidate, facts: SchemaFacts | None, measured_on: str, given: Sequence[tuple[str, str]]
) -> list[str]:
    if fix.at_once:
        lines = together(fix, fix.undo, is_undo=True)
    else:
        made = list(_made_of_partitions(fix, facts))
        lines = [
            line
            for statement in fix.undo
            for line in online(statement, facts, is_undo=True, is_partitioned=bool(made))
        ]
        # Those that were attached have gone with the index above them.
        lines += [
            line
            for index, is_parted in made
            for line in online(f"DROP INDEX {index}", facts, is_undo=True, is_partitioned=is_parted)
        ]
    if fix.sql and not (fix.undoable and fix.undo):
        lines.append("-- This can't be undone, and need not be: it changed no row that a query returns.")
    for extension in _extensions(fix):
        lines += comment(f"{extension} stays: others may use it by now.")
    if fix.settings and not measured_on:
        lines += settings_undone(fix.settings, given)
    if fix.restart:
        lines.append("-- It takes effect at the next restart of the server.")
    if fix.build is not None:
        lines.append("-- An upgrade can't be undone: the old server needs a dump of the data.")
    if fix.storage is not None:
        lines.append(
            "-- Manually: order the previous volume; some providers allow a change only every few hours."
        )
    for each in fix.rewrites:
        lines += comment(f"Restore the original statement {each.statement}.")
    return lines


def _extensions(fix: Candidate) -> Iterator[str]:
    for root in map(parsed, fix.sql):
        if isinstance(root, ast.CreateExtensionStmt):
            yield f"The extension {root.extname}"


def online(
    statement: str, facts: SchemaFacts | None, *, is_undo: bool = False, is_partitioned: bool = False
) -> list[str]:
    """One statement as it is run beside an application: CONCURRENTLY where PostgreSQL can.

    An index of a partitioned table is made partition by partition, since there it can't. What is made may be
    there, and what is dropped may not be: a script that broke off is run again. `is_undo`: what apply.sql
    dropped may be there, since that went no further. `is_partitioned`:
    what it drops is the index of a partitioned table, which the facts don't know yet.
    """
    warned = [LOCKED_OUT] if is_writing_anew(statement) else []
    root = parsed(statement)
    if root is None:  # of a newer grammar than the parser's: as it was given
        return [*warned, ended(statement)]
    if isinstance(root, ast.IndexStmt):
        table = _table(root.relation, facts)
        if table is not None and table.kind == "partitioned" and facts is not None:
            return list(_by_partition(root, table, facts))
        return made_concurrently(root, NOT_DROPPED if is_undo else INVALID)
    if isinstance(root, ast.DropStmt):
        root.missing_ok = True
        if root.removeType == enums.ObjectType.OBJECT_INDEX and len(root.objects or ()) == 1:
            root.concurrent = not is_partitioned and not _drops_of_partitioned(root, facts)
            if root.concurrent:
                return unlimited(HALF_DROPPED, [text_of(root)])
    if isinstance(root, ast.ReindexStmt) and "concurrently" in {each.defname for each in root.params or ()}:
        return reindexed(root)
    if isinstance(root, ast.CreateStatsStmt):
        root.if_not_exists = True
    return [*warned, *locks(root), text_of(root)]


def _table(relation: ast.RangeVar | None, facts: SchemaFacts | None) -> TableFacts | None:
    if facts is None or relation is None or not relation.relname:
        return None
    return facts.table(relation.relname, relation.schemaname)


def _drops_of_partitioned(root: ast.DropStmt, facts: SchemaFacts | None) -> bool:
    """Whether the index is one of a partitioned table, which can't be dropped CONCURRENTLY."""
    *schema, name = (str(part.sval) for part in root.objects[0])
    return any(
        index.name == name and (not schema or index.schema_ == schema[-1])
        for table in (facts.tables if facts is not None else ())
        if table.kind == "partitioned"
        for index in table.indexes
    )


def _made_of_partitions(fix: Candidate, facts: SchemaFacts | None) -> Iterator[tuple[str, bool]]:
    """The indexes that are made for it on the partitions of a table, and attached one by one.

    With whether it is that of a partition that is partitioned itself, which comes before those below it.
    """
    for root in map(parsed, fix.sql):
        if not isinstance(root, ast.IndexStmt) or facts is None:
            continue
        table = _table(root.relation, facts)
        if table is not None and table.kind == "partitioned":
            for part in _all_below(table, facts):
                name = _of_partition(part, str(root.idxname))
                yield qualified(part.schema_, name), part.kind == "partitioned"


def _partitions(table: TableFacts, facts: SchemaFacts) -> list[TableFacts]:
    return [each for each in facts.tables if each.is_partition_of(table)]


def _all_below(table: TableFacts, facts: SchemaFacts) -> Iterator[TableFacts]:
    """Its partitions, each before its own."""
    for part in _partitions(table, facts):
        yield part
        yield from _all_below(part, facts)


def _of_partition(part: TableFacts, name: str) -> str:
    """The name of a partition's index; that of the index above it alone would be the same for all."""
    return bounded(f"{part.name}_{name}")


def _by_partition(root: ast.IndexStmt, table: TableFacts, facts: SchemaFacts) -> Iterator[str]:
    """ON ONLY the parent, which takes no time, then each partition CONCURRENTLY, and attached.

    Only where all leaves are tables that are known: without an index on each of its partitions the parent's
    would stay INVALID.
    """
    parted = [table, *(each for each in _all_below(table, facts) if each.kind == "partitioned")]
    parts = [part for each in parted for part in _partitions(each, facts)]
    is_whole = all(_partitions(each, facts) for each in parted)
    name, relation = root.idxname, root.relation
    if (
        not name
        or relation is None
        or not is_whole
        or {each.kind for each in parts} - {"table", "partitioned"}
    ):
        yield "-- Not all of its partitions are tables, so that this locks it against writes meanwhile."
        if relation is not None:
            relation.inh = True
        root.if_not_exists = bool(name)
        yield text_of(root)
        return
    relation.inh, root.if_not_exists = False, True
    yield A_MOMENT
    yield text_of(root)
    yield from _on_parts(root, table, name, facts, name)
    yield whole_or_warned(qualified(table.schema_, name), qualified(table.schema_, table.name))


def _on_parts(
    root: ast.IndexStmt, table: TableFacts, index: str, facts: SchemaFacts, name: str
) -> Iterator[str]:
    """The index on each of a table's partitions, and below them; `index`: the table's own, there already."""
    for part in _partitions(table, facts):
        own, is_parted = _of_partition(part, name), part.kind == "partitioned"
        root.idxname, root.concurrent, root.if_not_exists = own, not is_parted, True
        root.relation = ast.RangeVar(
            schemaname=part.schema_, relname=part.name, inh=not is_parted, relpersistence="p"
        )
        if is_parted:
            yield text_of(root)
            yield from _on_parts(root, part, own, facts, name)
        else:
            yield from made_concurrently(root, INVALID)
        above, attached = qualified(table.schema_, index), qualified(part.schema_, own)
        yield f"ALTER INDEX {above} ATTACH PARTITION {attached};"
