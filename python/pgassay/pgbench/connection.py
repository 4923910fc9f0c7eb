"""Connecting as pgbench does: by libpq, its environment, its files; what the server is set to."""

import getpass
import os
import pwd
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypedDict

import psycopg
from psycopg import conninfo

from pgassay.environment.remote.connection_parameters import (
    connection_complaint,
    holds_an_ended_password,
    resolved_from,
)
from pgassay.environment.server.sessions import ConnectionParameters, ControlSession
from pgassay.environment.server.settings import storable_value
from pgassay.errors import UsageError
from pgassay.pgbench.messages import PgbenchError, say, write
from pgassay.pgbench.options import PgbenchOptions

APPLICATION = "pgbench"
# What the load generator speaks.
MAJOR_MIN = 10
_NO_PASSWORD = "no password supplied"
# Where and in which language, and not how fast.
_OF_NO_SPEED = (
    "DateStyle",
    "TimeZone",
    "application_name",
    "client_encoding",
    "cluster_name",
    "default_text_search_config",
    "dynamic_shared_memory_type",
    "event_source",
    "listen_addresses",
    "log_timezone",
    "port",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
)
_QUERY = """
select name, pg_catalog.current_setting(name) from pg_catalog.pg_settings
where source not in ('default', 'override', 'client') and setting is distinct from boot_val
  and context <> 'internal' and name <> all(%s)
  and name !~ '^(lc_|ssl_.*_file|unix_socket|.*_directory$|.*_file$|log_)'
order by name"""


@dataclass(frozen=True)
class Server:
    """A server that has answered, and how the load generator reaches it; `parameters` hold the password."""

    session: ControlSession
    version: str
    parameters: ConnectionParameters = field(repr=False)

    @property
    def number(self) -> int:
        """The version as libpq numbers it, e.g. 180004."""
        return self.session.info.server_version

    @property
    def dbname(self) -> str:
        """The database."""
        return self.session.info.dbname


def connect(chosen: PgbenchOptions, purpose: str) -> Server:
    """Opens a session; purpose: "setup" or "initialization". Raises PgbenchError."""
    given: dict[str, str] = {}
    try:
        given = parameters_of(chosen, os.environ)
        session = _open(given)
    except psycopg.Error as error:
        if _NO_PASSWORD not in str(error) or not sys.stdin.isatty():
            raise _refused(error, purpose) from None
        try:
            session = _open({**given, "password": getpass.getpass("Password: ")})
        except psycopg.Error as again:
            raise _refused(again, purpose) from None
    session.add_notice_handler(_print_notice)
    try:
        resolved = resolved_from(session, "the connection", MAJOR_MIN)
    except UsageError as error:
        # 2 would say that a client was aborted.
        session.close()
        raise PgbenchError(str(error)) from error
    name = session.info.parameter_status("application_name") or APPLICATION
    parameters = {**resolved.parameters, "application_name": name}
    version = session.info.parameter_status("server_version") or resolved.server.version
    return Server(session, version, parameters)


def parameters_of(chosen: PgbenchOptions, environment: Mapping[str, str]) -> dict[str, str]:
    """libpq's keywords of what was typed; a connection string in the database's place wins over options.

    Raises psycopg.Error for a string that is none.
    """
    typed = {"host": chosen.host, "port": chosen.port, "user": chosen.user}
    given = {name: value for name, value in typed.items() if value}
    dbname = chosen.dbname or environment.get("PGDATABASE") or environment.get("PGUSER") or _account()
    if "=" not in dbname and not dbname.startswith(("postgresql://", "postgres://")):
        return {**given, "dbname": dbname}
    read = conninfo.conninfo_to_dict(dbname)
    found = {name: str(value) for name, value in read.items() if value is not None}
    if holds_an_ended_password(dbname, found):
        # What follows would be a host, a port or a database, and be repeated by whoever does not find that.
        raise PgbenchError(
            "the connection string ends a password early: in a URI a %, @ or / within a value is %25, %40 "
            "or %2F"
        )
    return given | found


def _account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise PgbenchError(
            f"could not look up effective user ID {os.geteuid()}: user does not exist"
        ) from None


def _open(given: Mapping[str, str]) -> ControlSession:
    usual = {"fallback_application_name": APPLICATION, "client_encoding": "UTF8"}
    if "gssencmode" not in given and "PGGSSENCMODE" not in os.environ:
        # The load generator knows no Kerberos: what it would be refused is better found out here.
        usual["gssencmode"] = "disable"
    return psycopg.connect(conninfo.make_conninfo("", **{**usual, **given}), autocommit=True)


def _refused(error: psycopg.Error, purpose: str) -> PgbenchError:
    say(connection_complaint(error), "error")
    return PgbenchError(f"could not create connection for {purpose}")


def _print_notice(diagnostic: psycopg.errors.Diagnostic) -> None:
    write(f"{diagnostic.severity}:  {diagnostic.message_primary}")
    for name, value in (("DETAIL", diagnostic.message_detail), ("HINT", diagnostic.message_hint)):
        if value:
            write(f"{name}:  {value}")


def server_text(error: psycopg.Error) -> str:
    """What libpq says of an error."""
    result = error.pgresult
    return result.error_message.decode(errors="replace").rstrip() if result else str(error).strip()


@contextmanager
def errors_told() -> Iterator[None]:
    """Raises PgbenchError for a question that the server refuses to answer."""
    try:
        yield
    except psycopg.Error as error:
        raise PgbenchError(server_text(error)) from None


def execute(session: ControlSession, statement: str) -> None:
    """Runs a statement. Raises PgbenchError with it."""
    try:
        session.execute(statement.encode())
    except psycopg.Error as error:
        raise PgbenchError(f"query failed: {server_text(error)}", detail=f"Query was: {statement}") from None


def try_to_execute(session: ControlSession, statement: str) -> None:
    """Runs a statement; that it fails is told, and nothing more."""
    try:
        session.execute(statement.encode())
    except psycopg.Error as error:
        say(server_text(error), "error")
        say("(ignoring this error and continuing anyway)", "detail")


class ChangedSetting(TypedDict):
    """A setting with its value, as SHOW prints it."""

    name: str
    value: str


def changed_settings(session: ControlSession) -> list[ChangedSetting]:
    """Those that somebody set to another value than the default; none where they can't be read.

    A value that may hold a password, as that of primary_conninfo, is not among what is told of it.
    """
    try:
        rows = session.execute(_QUERY, [list(_OF_NO_SPEED)]).fetchall()
    except psycopg.Error:
        return []
    return [{"name": str(name), "value": storable_value(str(name), str(value))} for name, value in rows]
