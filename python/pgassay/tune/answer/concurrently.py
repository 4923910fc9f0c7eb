"""What runs CONCURRENTLY in apply.sql and undo.sql, and what a run that broke off left of it.

lock_timeout is for what others queue behind. What runs CONCURRENTLY holds up no reads and no writes while it
waits, but waits for every older transaction, also by the lock manager (VirtualXactLock of
src/backend/storage/lmgr/lock.c): seconds would end it beside any long query, and leave an invalid index.
"""

from collections.abc import Sequence

from pglast import ast, enums
from pglast.stream import RawStream

from pgassay.sql_text import constant, dollar_mark, qualified
from pgassay.tune.answer.locks import INVALID_COPY
from pgassay.tune.finders.evidence.building import index_sql

LIMITED = "SET lock_timeout = '5s';"
# What a broken run left: CREATE INDEX IF NOT EXISTS would pass over it (\gexec runs what the query returns).
_INVALID_DROPPED = (
    "SELECT {drop} FROM pg_catalog.pg_index "
    "WHERE indexrelid = pg_catalog.to_regclass({name}) AND NOT indisvalid \\gexec"
)
# What a broken REINDEX left of an index: the new one before the swap, the old one after it. Digits follow
# where that name was taken, and a long name was cut for it (ChooseRelationName,
# src/backend/commands/indexcmds.c).
_INVALID_COPY_DROPPED = (
    "SELECT pg_catalog.format('DROP INDEX CONCURRENTLY IF EXISTS %s', c.oid::pg_catalog.regclass) "
    "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid, "
    "pg_catalog.regexp_replace(c.relname, '_cc(new|old)[0-9]*$', '') original (name) "
    "WHERE NOT i.indisvalid AND original.name <> c.relname "
    "AND i.indrelid = (SELECT indrelid FROM pg_catalog.pg_index "
    "WHERE indexrelid = pg_catalog.to_regclass({place})) "
    "AND pg_catalog.starts_with({name}, original.name) "
    "AND (original.name = {name} OR pg_catalog.octet_length(c.relname::pg_catalog.text) >= 60) \\gexec"
)


def made_concurrently(root: ast.IndexStmt, comments: Sequence[str]) -> list[str]:
    """An index that can be made again: one that a broken run left INVALID goes first, a whole one stays."""
    root.concurrent = True
    if not root.idxname or root.relation is None:
        return unlimited(comments, [text_of(root)])
    root.if_not_exists = True
    index = qualified(root.relation.schemaname, str(root.idxname))
    drop = constant(f"DROP INDEX CONCURRENTLY {index}")
    dropped = _INVALID_DROPPED.format(drop=drop, name=constant(index))
    return unlimited(comments, [dropped, text_of(root)])


def reindexed(root: ast.ReindexStmt) -> list[str]:
    """An index made anew beside its use: the copy that a broken run left goes first."""
    dropped = []
    if root.kind == enums.ReindexObjectType.REINDEX_OBJECT_INDEX and root.relation is not None:
        name = str(root.relation.relname)
        index = constant(qualified(root.relation.schemaname, name))
        dropped.append(_INVALID_COPY_DROPPED.format(place=index, name=constant(name)))
    return unlimited(INVALID_COPY, [*dropped, text_of(root)])


def unlimited(comments: Sequence[str], statements: Sequence[str]) -> list[str]:
    """What runs CONCURRENTLY waits for older transactions as long as they take."""
    return [*comments, "SET lock_timeout = 0;", *statements, LIMITED]


def whole_or_warned(index: str, table: str) -> str:
    """A warning where an index that was made partition by partition is not on all of them.

    Such as partitions that the table was given since the script was made: the index stays INVALID, and they
    go without it. `index`, `table`: names as SQL has them, with their schemas.
    """
    said = constant(f"the index {index} is not on all partitions of {table}, and INVALID")
    hint = constant("Partitions were added since this script was made: run pgassay tune again.")
    found = f"SELECT FROM pg_catalog.pg_index WHERE indexrelid = {constant(index)}::pg_catalog.regclass"
    mark = dollar_mark(index, table)
    return (
        f"DO {mark} BEGIN IF EXISTS ({found} AND NOT indisvalid) THEN "
        f"RAISE WARNING '%', {said} USING HINT = {hint}; END IF; END {mark};"
    )


def text_of(root: ast.Node | None) -> str:
    """The statement as it is run, with its semicolon."""
    return f"{index_sql(root) if isinstance(root, ast.IndexStmt) else RawStream()(root)};"
