"""Statements that the copy's server refuses, or that do not end in their time: what is said of them.

What a candidate is made of is applied here, in no more than the time that a search has left.
"""

import contextlib
import math
import time
from collections.abc import Iterator, Sequence

import psycopg

from pgassay.environment.server.enclosure import is_enclosing
from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import UsageError, first_line
from pgassay.words import duration

QUERY_CANCELED = "57014"
_SETTING_MAX = 2**31 - 1
_NO_TABLE = "42P01"
_READ_ONLY = "25006"
# undefined_file, external_routine_exception (a program that failed), no connection to another server.
_OUTSIDE = ("58P01", "38000", "08001")


class TooLongError(UsageError):
    """A statement did not end in its time."""


def refused(name: str, reason: str, sqlstate: str | None) -> UsageError:
    """The sentence for a statement that fails."""
    if sqlstate in _OUTSIDE and is_enclosing():
        reason += "; the copy's server sees no file, program or server of this machine"
    if sqlstate == _NO_TABLE and "." not in reason:
        reason += "; if another schema has it, --set search_path=SCHEMA finds it"
    if sqlstate == _READ_ONLY:  # what writes by its own text is executed in a transaction that may
        return UsageError(f"statement {name} fails ({reason}): a function that it calls writes, leave it out")
    return UsageError(f"statement {name} fails ({reason}): correct its SQL, or leave it out")


def apply_within(session: ControlSession, statements: Sequence[str], limit_s: float = math.inf) -> float:
    """Run these statements, each on its own; the seconds that they took together.

    Raises UsageError with the server's words, TooLongError where they take longer than `limit_s` together:
    what the last of them began may be left behind then (of CREATE INDEX CONCURRENTLY an invalid index).
    """
    begun = time.monotonic()
    for statement in statements:
        left_s = limit_s - (time.monotonic() - begun)
        try:
            with _timeout(session, left_s):
                session.execute(statement.encode(), prepare=False)
        except psycopg.Error as error:
            if error.sqlstate == QUERY_CANCELED and time.monotonic() - begun >= limit_s:
                raise TooLongError(
                    f"'{statement}' did not finish on the copy in the {duration(limit_s)} that were left"
                ) from error
            raise UsageError(f"'{statement}' failed on the copy: {first_line(error)}") from error
    return time.monotonic() - begun


@contextlib.contextmanager
def _timeout(session: ControlSession, seconds: float) -> Iterator[None]:
    """Have one statement of a session stopped after so many seconds; infinite: as the session has it.

    Of the session, and not of a transaction: VACUUM and CREATE INDEX CONCURRENTLY run in none.
    """
    if math.isinf(seconds):
        yield
        return
    # 0 is without a limit, and more than a setting holds is none.
    limit_ms = min(max(math.ceil(1000 * seconds), 1), _SETTING_MAX)
    session.execute(f"SET statement_timeout = '{limit_ms}ms'".encode())
    try:
        yield
    finally:
        # A session that was lost is opened again without it.
        if not session.closed:
            session.execute("RESET statement_timeout")
