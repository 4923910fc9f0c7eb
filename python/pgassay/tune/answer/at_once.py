"""What must not be seen half done, as one transaction of a script that may be run again."""

from collections.abc import Sequence

from pglast import ast, enums, parse_sql
from pglast.parser import ParseError

from pgassay.sql_text import constant, qualified
from pgassay.tune.answer.locks import AT_ONCE
from pgassay.tune.candidate import Candidate


def parsed(statement: str) -> ast.Node | None:
    """The statement's tree; None where the parser's grammar is older than it."""
    try:
        return parse_sql(statement)[0].stmt
    except ParseError:
        return None


def ended(statement: str) -> str:
    """The statement with one semicolon at its end."""
    return f"{statement.rstrip().rstrip(';')};"


def together(fix: Candidate, statements: Sequence[str], *, is_undo: bool = False) -> list[str]:
    """Its `sql` or `undo` in order, with BEGIN and COMMIT.

    Where the first one puts a table aside under another name, that name tells whether it was done: a script
    that broke off behind it is run again, and passes over it.
    """
    lines = [AT_ONCE, *map(ended, fix.in_order(statements))]
    aside = _put_aside(fix)
    if not aside or not statements:
        return lines
    word = "IS NULL" if is_undo else "IS NOT NULL"
    return [
        f"SELECT pg_catalog.to_regclass({constant(aside)}) {word} AS pgassay_done \\gset",
        "\\if :pgassay_done",
        f"\\echo {'taken back' if is_undo else 'applied'} already",
        "\\else",
        *lines,
        "\\endif",
    ]


def _put_aside(fix: Candidate) -> str:
    root = parsed(fix.sql[0]) if fix.sql else None
    if not isinstance(root, ast.RenameStmt) or root.renameType != enums.ObjectType.OBJECT_TABLE:
        return ""
    return "" if root.relation is None else qualified(root.relation.schemaname, str(root.newname))
