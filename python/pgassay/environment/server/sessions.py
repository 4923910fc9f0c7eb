"""Control connections: for assertions and views, never for anything that is timed."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import psycopg
from psycopg.rows import TupleRow

CONTROL_NAME = "pgassay control"
CONNECT_TIMEOUT_S = 15
_environment_lock = threading.Lock()
# Explicit parameters of a connection, by libpq's names; None where there is none.
ConnectionParameters = Mapping[str, str | int | None]
ControlSession = psycopg.Connection[TupleRow]
# Its parameters go by name: a type checker can't tell those of libpq from its own.
_connect: Callable[..., ControlSession] = psycopg.connect


class Connectable(Protocol):
    """Anything that can say how to connect to it."""

    def connection_parameters(self, options: str = "", dbname: str = "postgres") -> ConnectionParameters:
        """Return host, port, user, password, dbname, options and application_name."""


def control(server: Connectable, dbname: str = "postgres") -> ControlSession:
    """Open a control connection in autocommit mode; close it with `with` or `close()`.

    Raises psycopg.OperationalError when the server does not answer.
    """
    return connect({**server.connection_parameters(dbname=dbname), "application_name": CONTROL_NAME})


def connect(parameters: ConnectionParameters) -> ControlSession:
    """Connect by exactly these parameters: nothing is taken from the user's PG* variables."""
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    given.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
    with _no_libpq_variables():
        # In a SQL_ASCII database text would otherwise arrive as bytes.
        return _connect(autocommit=True, client_encoding="UTF8", **given)


def startup_options(settings: Mapping[str, str]) -> str:
    """Settings of a session in libpq's notation of `options`: a backslash before spaces and backslashes."""
    words = []
    for name, value in sorted(settings.items()):
        escaped = value.replace("\\", "\\\\").replace(" ", "\\ ")
        words.append(f"-c {name}={escaped}")
    return " ".join(words)


@contextmanager
def _no_libpq_variables() -> Iterator[None]:
    """Hide PG* from libpq, which would read PGSERVICE, PGOPTIONS and others for what is not given."""
    with _environment_lock:
        hidden = {name: os.environ.pop(name) for name in list(os.environ) if _is_libpq_variable(name)}
        try:
            yield
        finally:
            os.environ.update(hidden)


def _is_libpq_variable(name: str) -> bool:
    return name.startswith("PG") and not name.startswith("PGASSAY")
