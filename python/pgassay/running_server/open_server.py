"""Opening a server that runs already, to look at it: what this role and this machine can see of it."""

import time
from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgassay.environment.remote.read_only import ReadOnlyServer, open_read_only
from pgassay.native.observer import ObservedServer
from pgassay.running_server.local_server import LocalServer, NotLocal, find_server

_SESSION = """
SELECT pid, extract(epoch FROM clock_timestamp() - backend_start)::float8,
    (SELECT setting FROM pg_settings WHERE name = 'data_directory')
FROM pg_stat_activity WHERE pid = pg_backend_pid()"""


@dataclass(frozen=True)
class OpenServer(ReadOnlyServer):
    """A server that has answered, and how far it can be seen.

    `local`: its processes, when they are on this machine. `missing`: a sentence for each kind of evidence
    that can't be had, with what mends it.
    """

    local: LocalServer | None
    missing: tuple[str, ...]

    def observed(self, application_name: str) -> ObservedServer:
        """All that the native observer can sample of it."""
        pid = self.local.postmaster_pid if self.local else None
        return {"connect": self.parameters(application_name), "postmaster_pid": pid}


def open_target(connection_string: str, what: str, application_name: str) -> OpenServer:
    """Open a running server by libpq's rules and find out how far it can be seen.

    what: the argument's name in messages; application_name: of the session, begins with "pgassay ".
    Raises UsageError, in one sentence without any secret, when it can't be reached or is too old.
    """
    opened = open_read_only(connection_string, what, application_name, needs_database=False)
    with opened.session(application_name) as session:
        server = _find(session)
    missing = []
    if not opened.reads_all_stats:
        missing.append(
            f"what sessions of other roles do and wait for, and their statements: "
            f"GRANT pg_monitor TO {sql.Identifier(opened.role).as_string(None)}"
        )
    if isinstance(server, NotLocal):
        missing.append(
            f"the server's processes, its device and its processors: {server.reason}; run pgassay on the "
            "same machine"
        )
    elif server.device.name is None:
        missing.append(
            "the device below its data: none that the kernel counts for, or it is hidden from this account"
        )
    local = server if isinstance(server, LocalServer) else None
    return OpenServer(**vars(opened), local=local, missing=tuple(missing))


def _find(session: psycopg.Connection) -> LocalServer | NotLocal:
    began = time.monotonic()
    row = session.execute(_SESSION).fetchone()
    if row is None:
        return NotLocal("it does not say which process serves this session")
    return find_server(int(row[0]), float(row[1]), row[2], slack_s=time.monotonic() - began)
