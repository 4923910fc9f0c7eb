"""A server that runs already and is only read: whose role the sessions have, and what that may see.

The sessions can't write, wait for no lock longer than a moment, and end by themselves what takes long. Their
names begin with "pgassay ", by which every sampler knows them for sessions that are no part of the work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg

from pgassay.environment.remote.connection_parameters import Resolved, resolve
from pgassay.environment.remote.session_settings import READ_ONLY, SILENT, session_parameters
from pgassay.environment.server.sessions import ConnectionParameters, ControlSession, connect
from pgassay.errors import UsageError, first_line

# The oldest major that PostgreSQL's project still mends, and whose catalogs are read as they are here.
MAJOR_MIN = 14
# Of sessions that read statistics again and again.
LOOKING = {
    "statement_timeout": "5s",
    "lock_timeout": "1s",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}
# Of sessions that read catalogs and plans: no setting that decides a plan is changed, so that EXPLAIN shows
# the plans of the server's own sessions. Texts are written for the grammar that reads them, to which a
# backslash in '' is a character as any other: where it escaped, a value that ends with one would not end
# there, and what follows would be SQL.
READING = {
    "statement_timeout": "30s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "60s",
    "standard_conforming_strings": "on",
}
_ROLE = """
SELECT current_user::text, r.rolsuper,
    r.rolsuper OR pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
    pg_catalog.pg_is_in_recovery()
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user"""


@dataclass(frozen=True)
class ReadOnlyServer:
    """A server that has answered.

    reads_all_stats: whether the role may read what other roles' sessions do. is_standby: whether it replays
    another server's WAL.
    """

    resolved: Resolved = field(repr=False)
    role: str
    is_superuser: bool
    reads_all_stats: bool
    is_standby: bool

    @property
    def name(self) -> str:
        """How reports call it: HOST:PORT/DATABASE."""
        return self.resolved.server.name

    @property
    def version(self) -> str:
        """The server's version, as '18.4'."""
        return self.resolved.server.version

    @property
    def major(self) -> int:
        """The server's major version."""
        return self.resolved.server.major

    def parameters(self, application: str, limits: Mapping[str, str] = LOOKING) -> ConnectionParameters:
        """Connection parameters of such a session, for libpq and the native binary alike.

        application: its name, begins with "pgassay ". They hold the password.
        """
        return _parameters(self.resolved, application, limits, is_superuser=self.is_superuser)

    def session(self, application: str, limits: Mapping[str, str] = LOOKING) -> ControlSession:
        """Open one, in autocommit mode; the caller closes it. Raises UsageError."""
        return _open(self.resolved, self.parameters(application, limits))


def open_read_only(
    connection_string: str,
    what: str,
    application: str,
    *,
    needs_database: bool = True,
    major_min: int = MAJOR_MIN,
) -> ReadOnlyServer:
    """Connect by libpq's rules, and ask for what the role may see.

    what: the argument's name in messages; major_min: the oldest that is good for the purpose. Raises
    UsageError, in one sentence without any secret, for a server that can't be reached or is too old, and for
    a role that may not read its catalogs.
    """
    resolved = resolve(connection_string, what, major_min=major_min, needs_database=needs_database)
    try:
        with _open(resolved, _parameters(resolved, application, READING, is_superuser=False)) as session:
            found = session.execute(_ROLE).fetchone()
    except psycopg.Error as error:
        raise unreadable(resolved, error) from None
    assert found is not None, "every session has a role"
    role, is_superuser, reads_all_stats, is_standby = found
    return ReadOnlyServer(resolved, str(role), bool(is_superuser), bool(reads_all_stats), bool(is_standby))


class NotReadOnlyError(Exception):
    """Where a session had to be read-only: what the server did instead, in words that follow its name."""


def connect_guarded(parameters: ConnectionParameters) -> ControlSession:
    """Connect with parameters that hold READ_ONLY, and see that the session has it. Raises NotReadOnlyError.

    PgBouncer refuses startup options that it doesn't know, or drops them (ignore_startup_parameters). SET is
    no way out: where transactions share connections it would hold for those of other clients.
    """
    try:
        session = connect(parameters)
    except psycopg.Error as error:
        raise NotReadOnlyError(f"refuses a read-only session ({first_line(error)})") from None
    try:
        found = session.execute("SHOW default_transaction_read_only").fetchone()
    except psycopg.Error as error:
        session.close()
        raise NotReadOnlyError(f"refuses a read-only session ({first_line(error)})") from None
    if found is None or found[0] != "on":
        session.close()
        raise NotReadOnlyError("ignores that a session should be read-only")
    return session


def unreadable(resolved: Resolved, error: psycopg.Error) -> UsageError:
    """The sentence for catalogs that gave no answer."""
    return UsageError(
        f"{resolved.server.name}: its catalogs can't be read ({first_line(error)}): try again, or "
        f"correct the rights of {resolved.server.user}"
    )


def _parameters(
    resolved: Resolved, application: str, limits: Mapping[str, str], *, is_superuser: bool
) -> ConnectionParameters:
    settings = {**READ_ONLY, **limits, **(SILENT if is_superuser else {})}
    return {**session_parameters(resolved, settings), "application_name": application}


def _open(resolved: Resolved, parameters: ConnectionParameters) -> ControlSession:
    try:
        return connect_guarded(parameters)
    except NotReadOnlyError as error:
        raise UsageError(f"{resolved.server.name} {error}: name the server itself and not a pooler") from None
