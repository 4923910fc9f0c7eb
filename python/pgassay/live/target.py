"""Opening a server that runs already, to look at it: what this role and this machine can see of it.

Sessions are read-only, wait for no lock and end by themselves; their names begin with "pgassay ", by which
every sampler knows them for sessions that are no part of the server's work.
"""

import time
from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgassay.environment.remote.resolve import Resolved, resolve
from pgassay.environment.remote.session_settings import SILENT, session_parameters
from pgassay.environment.server.sessions import ConnectionParameters, connect
from pgassay.errors import UsageError, first_line
from pgassay.live.local import LocalServer, NotLocal, find_server
from pgassay.native.observer import ObservedServer

# The oldest major that PostgreSQL's project still mends.
MAJOR_MIN = 14
_READ_ONLY = {
    "default_transaction_read_only": "on",
    "statement_timeout": "5s",
    "lock_timeout": "1s",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}
_WHO = """
SELECT current_user::text, rolsuper, pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       (SELECT setting FROM pg_settings WHERE name = 'data_directory'), pg_is_in_recovery()
FROM pg_roles WHERE rolname = current_user"""
_SESSION = """
SELECT pid, extract(epoch FROM clock_timestamp() - backend_start)::float8
FROM pg_stat_activity WHERE pid = pg_backend_pid()"""


@dataclass(frozen=True)
class Target:
    """A server that has answered, and how far it can be seen.

    `reads_all_stats`: whether the role may read what other roles' sessions do. `local`: its processes, when
    they are on this machine. `missing`: a sentence for each kind of evidence that can't be had, with what
    mends it. `is_standby`: whether it replays another server's WAL.
    """

    resolved: Resolved
    role: str
    is_superuser: bool
    reads_all_stats: bool
    is_standby: bool
    local: LocalServer | None
    missing: tuple[str, ...]

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

    def parameters(self, application_name: str) -> ConnectionParameters:
        """Connection parameters of a session for looking, for libpq and the native binary alike.

        application_name: must begin with "pgassay ". They hold the password.
        """
        return _parameters(self.resolved, application_name, is_superuser=self.is_superuser)

    def session(self, application_name: str) -> psycopg.Connection:
        """Open a read-only session in autocommit mode; the caller closes it. Raises UsageError."""
        return _open(self.resolved, self.parameters(application_name))

    def observed(self, application_name: str) -> ObservedServer:
        """All that the native observer can sample of it."""
        pid = self.local.postmaster_pid if self.local else None
        return {"connect": self.parameters(application_name), "postmaster_pid": pid}


def open_target(connection_string: str, what: str, application_name: str) -> Target:
    """Open a running server by libpq's rules and find out how far it can be seen.

    what: the argument's name in messages; application_name: of the session, begins with "pgassay ".
    Raises UsageError, in one sentence without any secret, when it can't be reached or is too old.
    """
    resolved = resolve(connection_string, what, major_min=MAJOR_MIN, needs_database=False)
    with _open(resolved, _parameters(resolved, application_name, is_superuser=False)) as session:
        row = session.execute(_WHO).fetchone()
        assert row is not None, "every session has a role"
        role, is_superuser, reads_all_stats, data_directory, is_standby = row
        server = _find(session, data_directory)
    missing = []
    if not (is_superuser or reads_all_stats):
        missing.append(
            f"what sessions of other roles do and wait for, and their statements: "
            f"GRANT pg_monitor TO {sql.Identifier(role).as_string(None)}"
        )
    if isinstance(server, NotLocal):
        missing.append(
            f"the server's processes, its device and its processors: {server.reason}; run pgassay beside it"
        )
    elif server.device.name is None:
        missing.append(
            "the device below its data: none that the kernel counts for, or it is hidden from this account"
        )
    return Target(
        resolved=resolved,
        role=role,
        is_superuser=is_superuser,
        reads_all_stats=is_superuser or reads_all_stats,
        is_standby=is_standby,
        local=server if isinstance(server, LocalServer) else None,
        missing=tuple(missing),
    )


def _parameters(resolved: Resolved, application_name: str, *, is_superuser: bool) -> ConnectionParameters:
    settings = _READ_ONLY | (SILENT if is_superuser else {})
    return {**session_parameters(resolved, settings), "application_name": application_name}


def _open(resolved: Resolved, parameters: ConnectionParameters) -> psycopg.Connection:
    try:
        return connect(parameters)
    except psycopg.Error as error:
        raise UsageError(
            f"{resolved.server.name} refuses a read-only session: {first_line(error)}: "
            "name the server itself and not a pooler"
        ) from None


def _find(session: psycopg.Connection, data_directory: str | None) -> LocalServer | NotLocal:
    began = time.monotonic()
    row = session.execute(_SESSION).fetchone()
    if row is None:
        return NotLocal("it does not say which process serves this session")
    return find_server(int(row[0]), float(row[1]), data_directory, slack_s=time.monotonic() - began)
