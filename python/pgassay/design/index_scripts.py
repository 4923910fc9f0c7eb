"""SQL that makes indexes and nothing else, so that a running server can have them and be without them.

Its statements are read by PostgreSQL's own parser. What stays when an index is hidden must change nothing by
itself: an extension, a setting that only indexes are built with, a transaction's edges, a comment.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pglast import ast, enums, parse_sql
from pglast.parser import ParseError, scan

from pgassay.sql_text import qualified

_EDGES = (enums.TransactionStmtKind.TRANS_STMT_BEGIN, enums.TransactionStmtKind.TRANS_STMT_COMMIT)
_BEGINNING = (enums.TransactionStmtKind.TRANS_STMT_BEGIN, enums.TransactionStmtKind.TRANS_STMT_START)
_ENDING = (enums.TransactionStmtKind.TRANS_STMT_COMMIT, enums.TransactionStmtKind.TRANS_STMT_ROLLBACK)
# Wherever it is: a function or a DO block may set it as well.
_NAMES = re.compile(r"\bsearch_path\b|\bset_config\s*\(", re.IGNORECASE)
_BUILDING = frozenset(
    {
        "client_min_messages",
        "lock_timeout",
        "maintenance_work_mem",
        "max_parallel_maintenance_workers",
        "statement_timeout",
    }
)
# Of NAMEDATALEN's 63 bytes, what a name that is made here keeps of the table's and the columns' names.
_NAME_BYTES = 48
_WORDS_SHOWN = 2


class OtherSqlError(Exception):
    """A statement does more than make an index; the message is its first words, as `ALTER TABLE`."""


@dataclass
class IndexScript:
    """What SQL comes to that makes indexes alone.

    before: what is to be run once before them; indexes: by its qualified name the statement that makes each;
    analysed: its ANALYZE, as typed. unique: names of those that refuse rows; named_here: of those that had
    none; unsure: of those that are only made where none of the name is there.
    """

    before: list[str] = field(default_factory=list)
    indexes: dict[str, str] = field(default_factory=dict)
    analysed: list[str] = field(default_factory=list)
    unique: list[str] = field(default_factory=list)
    named_here: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)


def read_index_script(statements: Sequence[str]) -> IndexScript:
    """Read statements, each of which may be several; raises OtherSqlError for the first of another kind."""
    script = IndexScript()
    for text in statements:
        try:
            parsed: Sequence[ast.RawStmt] = parse_sql(text)
        except ParseError as error:
            raise OtherSqlError(first_words(text)) from error
        for raw in parsed:
            start = raw.stmt_location or 0
            end = start + raw.stmt_len if raw.stmt_len else None
            _add(script, text[start:end].strip(), raw.stmt)
    return script


def moves_names(statements: Sequence[str]) -> str:
    """The first words of a statement after which a name may mean something else; '' where there is none.

    Of settings only those are known to move none that indexes are built with.
    """
    for text in statements:
        try:
            parsed: Sequence[ast.RawStmt] = parse_sql(text)
        except ParseError:
            parsed = ()
        for raw in parsed:
            made = raw.stmt
            if isinstance(made, ast.VariableSetStmt) and (made.name or "").lower() not in _BUILDING:
                start = raw.stmt_location or 0
                return first_words(text[start:])
        if _NAMES.search(text):
            return first_words(text)
    return ""


def closed_beginning(statements: Sequence[str]) -> int:
    """How many of the first statements end outside a transaction that one of them began."""
    is_open, closed = False, 0
    for place, text in enumerate(statements, 1):
        try:
            parsed: Sequence[ast.RawStmt] = parse_sql(text)
        except ParseError:
            parsed = ()
        for raw in parsed:
            if isinstance(raw.stmt, ast.TransactionStmt):
                kind = raw.stmt.kind
                is_open = kind in _BEGINNING or (is_open and kind not in _ENDING)
        closed = closed if is_open else place
    return closed


def first_words(sql: str) -> str:
    """The words that a statement begins with, without comments, in capitals."""
    words = []
    try:
        for token in scan(sql):
            if "COMMENT" not in token.name:
                words.append(sql[token.start : token.end + 1].upper())
            if len(words) == _WORDS_SHOWN:
                break
    except ParseError:
        words = sql.upper().split()[:_WORDS_SHOWN]
    return " ".join(words)


def _add(script: IndexScript, sql: str, made: ast.Node) -> None:
    match made:
        case ast.IndexStmt():
            _add_index(script, sql, made)
        case ast.CreateExtensionStmt():
            script.before.append(sql)
        case ast.VacuumStmt(is_vacuumcmd=False):
            script.analysed.append(" ".join(sql.split()))
        case ast.VariableSetStmt() if (made.name or "").lower() in _BUILDING:
            script.before.append(sql)
        case ast.TransactionStmt() if made.kind in _EDGES:
            pass
        case ast.CommentStmt() if made.objtype == enums.ObjectType.OBJECT_INDEX:
            pass
        case _:
            raise OtherSqlError(first_words(sql))


def _add_index(script: IndexScript, sql: str, made: ast.IndexStmt) -> None:
    relation = made.relation
    if relation is None:
        raise OtherSqlError(first_words(sql))
    name = made.idxname
    if not name:
        name = _name_for(made, sql)
        on = next(token for token in scan(sql) if token.name == "ON")
        sql = f"{sql[: on.start]}{qualified(None, name)} {sql[on.start :]}"
    key = qualified(relation.schemaname, name)
    script.indexes[key] = sql
    script.unique += [key] if made.unique else []
    script.named_here += [] if made.idxname else [key]
    script.unsure += [key] if made.if_not_exists else []


def _name_for(made: ast.IndexStmt, sql: str) -> str:
    """As PostgreSQL names an index (ChooseIndexName, src/backend/commands/indexcmds.c), with digits.

    With these no other index of the data has its name, and two that differ in anything have two.
    """
    columns = [each.name or "expr" for each in made.indexParams or ()]
    text = "_".join([made.relation.relname, *columns]).encode()[:_NAME_BYTES].decode(errors="ignore")
    digits = hashlib.sha256(" ".join(sql.split()).encode()).hexdigest()[:6]
    return f"{text}_idx_{digits}"
