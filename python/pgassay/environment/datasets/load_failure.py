"""What went wrong on a server while data were made, as one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import DISK_FULL_WORDS
from pgassay.errors import MeasurementError, first_line

DISK_FULL_STATE = "53100"


@contextmanager
def translated_errors(server: Server, purpose: str) -> Iterator[None]:
    """Turn a database error into a MeasurementError; `purpose` completes "The server failed while …"."""
    try:
        yield
    except psycopg.Error as error:
        raise MeasurementError(describe_failure(server, purpose, error)) from error


def describe_failure(server: Server, purpose: str, error: psycopg.Error) -> str:
    """Return the sentence for `error`: a full disk, a server that died, or the server's own words."""
    # A disk that fills while WAL is written ends the server, and only its log says why.
    if error.sqlstate == DISK_FULL_STATE or DISK_FULL_WORDS in f"{error}{server.log_tail(50)}":
        return (
            f"The disk of {server.data_directory} is full while {purpose}: free some space there, "
            "or name a folder with more space by PGASSAY_HOME."
        )
    message = error.diag.message_primary or first_line(error)
    if not server.is_running():
        last = server.log_tail(1) or "nothing"
        return f"The server on {server.data_directory} ended while {purpose}; its log ends with: {last}"
    return f"The server on {server.data_directory} failed while {purpose}: {message}"
