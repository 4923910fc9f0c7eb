"""Opening a server that runs already, to look at it: what this role and this machine can see of it."""

from dataclasses import dataclass

from psycopg import sql

from pgassay.environment.remote.local_server import LocalServer, NotLocal, server_of
from pgassay.environment.remote.read_only import ReadOnlyServer, open_read_only
from pgassay.native.observer import ObservedServer


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
        server = server_of(session)
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
