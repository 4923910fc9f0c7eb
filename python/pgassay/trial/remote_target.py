"""Servers that run already, as trials use them: sessions, and nothing else.

Nothing is restored, started or stopped there: `machine` of such a target is None.
"""

from collections.abc import Mapping
from typing import Self

from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.environment.remote.session_settings import session_parameters
from pgassay.environment.server.sessions import ConnectionParameters, ControlSession, connect
from pgassay.model.arm import Arm
from pgassay.native.observer import ObservedServer
from pgassay.trial.target import ServerSession

# What any role may set for its session: it looks, and never for long.
_OBSERVER_SETTINGS = {"default_transaction_read_only": "on", "statement_timeout": "10s"}


class RemoteSession(ServerSession):
    """A remote server with the arm's session settings."""

    def __init__(self, parameters: ConnectionParameters, looking: ConnectionParameters) -> None:
        """Connect to nothing yet; both hold the password. `looking`: without the arm's settings."""
        super().__init__()
        self._parameters = parameters
        self._looking = looking

    def parameters(self) -> ConnectionParameters:
        """Connection parameters with the arm's session settings."""
        return self._parameters

    def observed(self) -> ObservedServer:
        """What the native observer can sample: sessions, over one of its own."""
        return {
            "connect": {**self._looking, "application_name": "pgassay observer"},
            "postmaster_pid": None,
        }

    def connect_to_look(self, application_name: str) -> ControlSession:
        """A session for views alone, without the arm's settings; the caller closes it."""
        return connect({**self._looking, "application_name": application_name})


class RemoteTarget:
    """The remote servers of an experiment, by their names; sessions are kept from trial to trial."""

    machine = None

    def __init__(self, servers: Mapping[str, Resolved]) -> None:
        self._servers = servers
        self._sessions: dict[tuple[str, str], RemoteSession] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.abandon()

    def session(self, arm: Arm) -> RemoteSession:
        """The session of an arm's server with its settings."""
        if arm.spec.server is None:
            raise AssertionError("an arm of a remote experiment has a server")
        server = self._servers[arm.spec.server.name]
        parameters = session_parameters(server, arm.spec.settings)
        # One for each set of settings: arms of one server may differ in nothing else.
        key = (arm.spec.server.name, str(parameters["options"]))
        if key not in self._sessions:
            looking = session_parameters(server, _OBSERVER_SETTINGS)
            self._sessions[key] = RemoteSession(parameters, looking)
        return self._sessions[key]

    def abandon(self) -> None:
        """Close every control session: after a failure, and before servers are restarted by others."""
        for session in self._sessions.values():
            session.close_control()
