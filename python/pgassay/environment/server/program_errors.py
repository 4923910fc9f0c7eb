"""What a program of PostgreSQL said when it failed: its error, and never the text of a command."""

import re
from collections.abc import Sequence

from pgassay.model.redaction import without_secrets

LINES_MAX = 3
_ERROR = re.compile(r"\b(?:error|ERROR|FATAL|PANIC):\s")
# pg_restore's and pg_dump's words before the SQL that failed, which may hold a password or a row.
_COMMAND = re.compile(r"\s*(?:Command was|query was|detail: Query was):", re.IGNORECASE)
# psql quotes a part of the statement, and marks a place in it.
_QUOTED = re.compile(r"LINE \d+:|\s*\^\s*$")
# The server's words for a literal that it did not expect (src/backend/parser/scan.l, scanner_yyerror).
_LITERAL_AT = re.compile(r"(?<= at or near \")(?:E|U&)?['$][^\"]*(?=\")", re.IGNORECASE)


def said_on_failure(output: str) -> str:
    """The first error with its DETAIL and HINT on one line, else the last lines; without secrets."""
    lines = output.splitlines()
    first = next((number for number, line in enumerate(lines) if _ERROR.search(line)), None)
    told = _told(lines)[-LINES_MAX:] if first is None else _told(lines[first:])[:LINES_MAX]
    return without_literal(without_secrets(" / ".join(told)))


def without_literal(message: str) -> str:
    """A syntax error without the literal that it names: of CREATE ROLE that is a password."""
    return _LITERAL_AT.sub("***", message)


def _told(lines: Sequence[str]) -> list[str]:
    """The lines up to the text of a command, without what is quoted of it."""
    end = next((number for number, line in enumerate(lines) if _COMMAND.match(line)), len(lines))
    return [line.strip() for line in lines[:end] if line.strip() and not _QUOTED.match(line)]
