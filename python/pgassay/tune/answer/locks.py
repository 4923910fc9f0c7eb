"""What a statement of apply.sql or undo.sql locks, and for whom, as comments; what is one transaction.

The levels are those of the manual's "Explicit Locking", and of AlterTableGetLockLevel in
src/backend/commands/tablecmds.c: storage parameters and statistics targets take SHARE UPDATE EXCLUSIVE, as
VACUUM, ANALYZE and CREATE STATISTICS do.
"""

from collections.abc import Sequence

from pglast import ast, enums, parse_sql
from pglast.parser import ParseError
from pglast.stream import RawStream

from pgassay.sql_text import constant, qualified
from pgassay.tune.candidate import Candidate

BESIDE_READS_AND_WRITES = (
    "-- Reads and writes of the table continue. VACUUM and DDL on it wait until this ends, and so does all "
    "that",
    "-- comes behind that DDL; this waits for transactions that are open now.",
)
INVALID = (
    "-- If this fails, it leaves an INVALID index: run this script again, which drops that first.",
    *BESIDE_READS_AND_WRITES,
)
INVALID_COPY = (
    "-- If this fails, it leaves an INVALID index whose name ends in _ccnew: run this script again, which "
    "drops that first.",
    *BESIDE_READS_AND_WRITES,
)
HALF_DROPPED = (
    "-- If this fails, the index may stay and be INVALID: run it again.",
    *BESIDE_READS_AND_WRITES,
)
NOT_DROPPED = ("-- An existing index stays; an INVALID one, left by a failed run, is dropped first.",)
LOCKED_OUT = "-- Choose the time: the table is locked against reads and writes until this is done."
AT_ONCE = "-- In one transaction: until its COMMIT the table is locked against reads and writes."
_REFERRED_LOCKED = "Towards its end so are the tables that its foreign keys refer to"
_BESIDE = "-- Reads and writes of the table continue; VACUUM and DDL on it wait until this is done."
_VACUUM = (
    _BESIDE,
    "-- At its end it may lock the table for a moment, to give empty pages back (vacuum_truncate).",
)
A_MOMENT = "-- The table is locked for a moment, against reads too where an index is attached or dropped."
_SHARED = frozenset(
    {
        enums.AlterTableType.AT_SetRelOptions,
        enums.AlterTableType.AT_ResetRelOptions,
        enums.AlterTableType.AT_SetStatistics,
    }
)
# A variable of psql that nobody else has.
_DONE = "pgassay_done"


def locks(root: ast.Node) -> tuple[str, ...]:
    """The comments for a statement that is run as it is; () for what locks nothing that others use.

    What writes a table anew, and what runs CONCURRENTLY, has comments of its own.
    """
    if isinstance(root, ast.VacuumStmt):
        options = {str(option.defname).lower() for option in root.options or ()}
        if "full" in options:
            return ()
        return _VACUUM if root.is_vacuumcmd else (_BESIDE,)
    if isinstance(root, ast.CreateStatsStmt | ast.AlterStatsStmt):
        return (_BESIDE,)
    if is_beside_writes(root):
        return (_BESIDE,)
    if isinstance(root, ast.DropStmt) and root.removeType == enums.ObjectType.OBJECT_INDEX:
        return (A_MOMENT,)
    return ()


def is_beside_writes(root: ast.Node) -> bool:
    """Whether an ALTER TABLE locks out neither reads nor writes; such a lock is not in the WAL either."""
    return isinstance(root, ast.AlterTableStmt) and {each.subtype for each in root.cmds or ()} <= _SHARED


def parsed(statement: str) -> ast.Node | None:
    """The statement's tree; None where the parser's grammar is older than it."""
    try:
        return parse_sql(statement)[0].stmt
    except ParseError:
        return None


def comment(text: str) -> list[str]:
    """A text as lines of comments, whatever names are in it."""
    return [f"-- {line}" for line in text.splitlines()]


def ended(statement: str) -> str:
    """The statement with one semicolon at its end."""
    return f"{statement.rstrip().rstrip(';')};"


def together(fix: Candidate, statements: Sequence[str], *, is_undo: bool = False) -> list[str]:
    """What must not be seen half done: its `sql` or `undo` in order, with BEGIN and COMMIT.

    Where the first one puts a table aside under another name, that name tells whether it was done: a script
    that broke off behind it is run again, and passes over it.
    """
    lines = [AT_ONCE, *_referred_locked(statements), *map(ended, fix.in_order(statements))]
    aside = _put_aside(fix)
    if not aside or not statements:
        return lines
    word = "IS NULL" if is_undo else "IS NOT NULL"
    return [
        f"SELECT pg_catalog.to_regclass({constant(aside)}) {word} AS {_DONE} \\gset",
        f"\\if :{_DONE}",
        f"\\echo {'taken back' if is_undo else 'applied'} already",
        "\\else",
        *lines,
        "\\endif",
    ]


def _referred_locked(statements: Sequence[str]) -> list[str]:
    """That the tables which foreign keys refer to are locked too: their triggers are made there, and dropped.

    ADD FOREIGN KEY takes SHARE ROW EXCLUSIVE on them, and dropping one ACCESS EXCLUSIVE (ATAddForeignKey-
    Constraint, ATExecDropConstraint, RemoveTriggerById).
    """
    added = [
        each.def_
        for root in map(parsed, statements)
        if isinstance(root, ast.AlterTableStmt)
        for each in root.cmds or ()
        if each.subtype == enums.AlterTableType.AT_AddConstraint
    ]
    names = sorted({str(RawStream()(each.pktable)) for each in added if each.pktable is not None})
    return comment(f"{_REFERRED_LOCKED}: {', '.join(names)}.") if names else []


def _put_aside(fix: Candidate) -> str:
    root = parsed(fix.sql[0]) if fix.sql else None
    if not isinstance(root, ast.RenameStmt) or root.renameType != enums.ObjectType.OBJECT_TABLE:
        return ""
    return "" if root.relation is None else qualified(root.relation.schemaname, str(root.newname))
