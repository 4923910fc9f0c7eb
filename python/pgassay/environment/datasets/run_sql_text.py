"""Running SQL text on a server statement by statement, with COPY … FROM stdin and its data."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from pgassay.environment.datasets.base import OnStage
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.program_errors import without_literal
from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import UsageError, first_line
from pgassay.model.redaction import without_secrets
from pgassay.sql_text import COPY_IN, next_statement, strip_comments

SHOWN_CHARACTERS = 200
COPY_CHUNK_CHARACTERS = 1 << 20
_BLANKS = re.compile(r"(?:\s+|--[^\n]*(?:\n|$))*")
_META_COMMAND = re.compile(r"\\(\w+)[^\n]*")
# pg_dump writes these two around a dump, so that psql takes no command from its data.
_HARMLESS = ("restrict", "unrestrict")
_COPY_END = re.compile(r"^\\\.\r?$", re.MULTILINE)
_COUNTING = ("vacuum", "analyze", "analyse")
# Not the statement's fault: resources, an operator's hand, the system, the server itself.
_NOT_THE_USERS = ("53", "57", "58", "XX")


@contextmanager
def refused_statement(server: Server, where: str, statement: str) -> Iterator[None]:
    """Turn the server's refusal of a statement into a UsageError that says where it stands."""
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if not server.is_running() or state[:2] in _NOT_THE_USERS:
            raise
        message = error.diag.message_primary or first_line(error)
        if without_secrets(statement) != statement:
            message = without_literal(message)
        raise UsageError(
            f"{where} '{shown(statement)}' failed ({message}): correct it and run again"
        ) from error


def shown(statement: str) -> str:
    """A statement on one line, without passwords, cut where it gets long."""
    text = " ".join(without_secrets(statement[: 4 * SHOWN_CHARACTERS]).split())
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + " …"


def run_statement(session: ControlSession, statement: str) -> None:
    """Execute one statement; what the session has changed is counted before a VACUUM or ANALYZE counts anew.

    A session reports its changes once a second at most, and VACUUM and ANALYZE at once: rows deleted just
    before would be subtracted after all were counted
    (src/backend/utils/activity/pgstat.c, pgstat_report_stat).
    """
    words = strip_comments(statement).split(maxsplit=1)
    is_idle = session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    if is_idle and words and words[0].lower() in _COUNTING:
        session.execute(b"SELECT pg_stat_force_next_flush()")
    session.execute(statement.encode())


def run_text(server: Server, session: ControlSession, text: str, source: str, on_progress: OnStage) -> None:
    """Run all statements of `text` in one session; `source` is named in messages.

    Raises UsageError for a statement that the server refuses and for a command of psql.
    """
    position, line, counted = 0, 1, 0
    while position < len(text):
        blanks = _BLANKS.match(text, position)
        begin = blanks.end() if blanks else position
        line += text.count("\n", counted, begin)
        counted = begin
        command = _META_COMMAND.match(text, begin)
        if command:
            if command.group(1) not in _HARMLESS:
                raise UsageError(
                    f"{source}, line {line}: \\{command.group(1)} is a psql command, not SQL: "
                    "write SQL statements only"
                )
            position = command.end()
            continue
        statement, position = next_statement(text, begin, source)
        if statement is None:
            continue
        on_progress(f"running {source}", position / len(text))
        with refused_statement(server, f"{source}, line {line}:", statement):
            if _takes_data(statement):
                position = _copy(session, statement, text, position)
            else:
                run_statement(session, statement)


def _takes_data(statement: str) -> bool:
    # A comment of the other kind may stand before it. Others needn't be looked through.
    may_copy = statement[:4].lower() == "copy" or statement.startswith("/*")
    return may_copy and COPY_IN.match(strip_comments(statement)) is not None


def _copy(session: ControlSession, statement: str, text: str, position: int) -> int:
    """Feed the lines after the statement up to `\\.`; the position after them."""
    newline = text.find("\n", position)
    begin = len(text) if newline < 0 else newline + 1
    end = _COPY_END.search(text, begin)
    last = end.start() if end else len(text)
    with session.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for start in range(begin, last, COPY_CHUNK_CHARACTERS):
            copy.write(text[start : min(last, start + COPY_CHUNK_CHARACTERS)].encode())
    return end.end() if end else len(text)
