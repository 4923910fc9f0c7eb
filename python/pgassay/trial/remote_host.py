"""What a trial may touch of remote servers: sessions, and nothing else."""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pgassay.environment.remote.resolve import Resolved
from pgassay.environment.remote.session_settings import session_parameters
from pgassay.environment.server.sessions import connect
from pgassay.model.arm import Arm

if TYPE_CHECKING:
    import psycopg


class RemoteSession:
    """A remote server as a trial sees it: how to connect, and one control session with the arm's settings."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        """Connect to nothing yet; `parameters` hold the password."""
        self._parameters = dict(parameters)
        self._control: psycopg.Connection[Any] | None = None

    def parameters(self) -> dict[str, Any]:
        """Connection parameters with the arm's session settings."""
        return dict(self._parameters)

    @property
    def control(self) -> "psycopg.Connection[Any]":
        """The control session, opened when first used and again after it was lost."""
        if self._control is None or self._control.closed:
            self._control = connect({**self._parameters, "application_name": "pgassay control"})
        return self._control

    def close(self) -> None:
        """Close the control session; the next use opens another."""
        if self._control is not None:
            self._control.close()
            self._control = None


class RemoteHost:
    """The remote servers of an experiment, by their names; sessions are kept from trial to trial."""

    def __init__(self, servers: Mapping[str, Resolved]) -> None:
        """Connect to nothing yet."""
        self._servers = servers
        self._sessions: dict[tuple[str, str], RemoteSession] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_sessions()

    def session(self, arm: Arm) -> RemoteSession:
        """The session of an arm's server with its settings."""
        if arm.spec.server is None:
            raise AssertionError("an arm of a remote experiment has a server")
        parameters = session_parameters(self._servers[arm.spec.server.name], arm.spec.settings)
        key = (arm.spec.server.name, str(parameters["options"]))
        if key not in self._sessions:
            self._sessions[key] = RemoteSession(parameters)
        return self._sessions[key]

    def close_sessions(self) -> None:
        """Close every control session: after a failure, and before servers are restarted by others."""
        for session in self._sessions.values():
            session.close()
