"""Servers that run already, as trials use them: sessions, and nothing else.

Nothing is restored, started or stopped there: `machine` of such a target is None.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from pgassay.environment.remote.resolve import Resolved
from pgassay.environment.remote.session_settings import session_parameters
from pgassay.environment.server.sessions import ConnectionParameters
from pgassay.model.arm import Arm
from pgassay.trial.running import ServerSession


class RemoteSession(ServerSession):
    """A remote server with the arm's session settings."""

    def __init__(self, parameters: ConnectionParameters) -> None:
        """Connect to nothing yet; `parameters` hold the password."""
        super().__init__()
        self._parameters = parameters

    def parameters(self) -> ConnectionParameters:
        """Connection parameters with the arm's session settings."""
        return self._parameters


class RemoteTarget:
    """The remote servers of an experiment, by their names; sessions are kept from trial to trial."""

    machine = None

    def __init__(self, servers: Mapping[str, Resolved]) -> None:
        self._servers = servers
        self._sessions: dict[tuple[str, str], RemoteSession] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()

    def session(self, arm: Arm) -> RemoteSession:
        """The session of an arm's server with its settings."""
        if arm.spec.server is None:
            raise AssertionError("an arm of a remote experiment has a server")
        parameters = session_parameters(self._servers[arm.spec.server.name], arm.spec.settings)
        # One for each set of settings: arms of one server may differ in nothing else.
        key = (arm.spec.server.name, str(parameters["options"]))
        if key not in self._sessions:
            self._sessions[key] = RemoteSession(parameters)
        return self._sessions[key]

    def abandon(self) -> None:
        """Close every control session: after a failure, and before servers are restarted by others."""
        for session in self._sessions.values():
            session.close_control()
