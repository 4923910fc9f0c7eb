"""A server as a trial sees it: how to connect to it, and one control session."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from pgassay.environment.server.reads import ServerReads, reads_of
from pgassay.environment.server.server import Server
from pgassay.environment.server.sessions import ConnectionParameters, ControlSession, connect, startup_options
from pgassay.native.observer import ObservedServer

DATABASE = "postgres"
# Nothing of the arm's own settings may reach the session that observes, nor the session anything else.
_OBSERVER_OPTIONS = (
    "-c work_mem=16MB -c statement_timeout=10s -c log_min_duration_statement=-1 -c log_statement=none"
)


class ServerSession(ABC):
    """How to connect to a server with an arm's session settings, and one control session that has them too.

    The control session has the same session settings as the measured ones, so what it asserts holds for
    them; it is opened when first used, and again after it was lost or closed.
    """

    def __init__(self) -> None:
        # Settings of pgassay's own sessions beside the arm's, for those opened while they stand here.
        self.own_settings: dict[str, str] = {}
        self._control: ControlSession | None = None
        # Who observes the server hears of a statement's edges and of a restart; nobody does otherwise.
        self.on_edge: Callable[[], None] | None = None
        self.on_restart: Callable[[], None] | None = None

    @abstractmethod
    def parameters(self) -> ConnectionParameters:
        """Connection parameters with the arm's session settings."""

    @abstractmethod
    def observed(self) -> ObservedServer:
        """What the native observer needs to sample the server now; after a restart it may be another."""

    def connect_to_look(self, application_name: str) -> ControlSession:
        """A session for views alone; the caller closes it."""
        return self.connect_another(application_name)

    @property
    def control(self) -> ControlSession:
        if self._control is None or self._control.closed:
            self._control = self.connect_another("pgassay control")
        return self._control

    def connect_another(self, application_name: str) -> ControlSession:
        """A further control session, for a thread of its own; the caller closes it."""
        return connect({**self._own_parameters(), "application_name": application_name})

    def close_control(self) -> None:
        """Close the control session; the next use opens another."""
        if self._control is not None:
            self._control.close()
            self._control = None

    def _own_parameters(self) -> ConnectionParameters:
        parameters = self.parameters()
        given = [str(parameters["options"] or ""), startup_options(self.own_settings)]
        return {**parameters, "options": " ".join(filter(None, given))}


class RunningServer(ServerSession):
    """A started server with the arm's session settings; its control session is dropped over a restart."""

    def __init__(self, server: Server, session_settings: dict[str, str], database: str = DATABASE) -> None:
        """Wrap a started server; `session_settings` go to every session as startup options.

        `database` is the one that holds the data.
        """
        super().__init__()
        self.server = server
        self.session_settings = session_settings
        self.database = database

    def parameters(self) -> ConnectionParameters:
        """Connection parameters with the arm's session settings."""
        return self.server.connection_parameters(
            options=startup_options(self.session_settings), dbname=self.database
        )

    def observed(self) -> ObservedServer:
        """What the native observer needs: the parameters of a session of its own, and the first process."""
        options = f"{_OBSERVER_OPTIONS} {startup_options(self.own_settings)}".strip()
        changed = {"options": options, "application_name": "pgassay observer"}
        return {"connect": {**self.parameters(), **changed}, "postmaster_pid": self.server.pid}

    def restart(self) -> None:
        """Stop and start the server with the same settings: shared buffers are empty afterwards."""
        self.close_control()
        self.server.stop()
        self.server.start()
        if self.on_restart is not None:
            self.on_restart()

    def mark(self) -> None:
        """Say that something measured begins or has ended; whoever observes the server reads its counters."""
        if self.on_edge is not None:
            self.on_edge()

    def cpu_seconds(self) -> float:
        """CPU seconds of all the server's processes so far."""
        return self.server.server_cpu_seconds()

    def device_reads(self) -> ServerReads | None:
        """What all the server's processes have had the device read so far; None where that is hidden."""
        return reads_of(self.server.pid)
