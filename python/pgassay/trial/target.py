"""The contract between a trial and the servers that it runs on, and a server as the trial sees it.

A trial asks one question of a target: is the server's machine this one? Where it is, `machine` restores
the data, starts and stops the server, tells its device and control group (so that caches can be created and
samplers run), and has its log. Where it is somebody else's, `machine` is None: all that can be had are
sessions, with settings of their own. Of a server a trial has the way to connect and one control session.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import psycopg

from pgassay.environment.cgroup.caps import NO_CAPS, Caps
from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.linux.device import BlockDevice
from pgassay.environment.server.device_reads import ServerReads, reads_of
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import ConnectionParameters, ControlSession, connect, startup_options
from pgassay.model.arm import Arm
from pgassay.native.observer import ObservedServer
from pgassay.storage.base import Delivered

DATABASE = "postgres"
# Between two attempts to reach a server that starts.
_RETRY_S = 0.5
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

    def reopen_control(self, within_s: float) -> bool:
        """Whether the server ended the control session, as a restart does; it is then opened anew.

        Raises psycopg.Error where the server does not take connections within the time.
        """
        try:
            self.control.execute(b"SELECT 1")
        except psycopg.Error:
            self.close_control()
        else:
            return False
        ends_at = time.monotonic() + within_s
        while self._control is None:
            try:
                self.control.execute(b"SELECT 1")
            except psycopg.Error:
                self.close_control()
                if time.monotonic() > ends_at:
                    raise
                time.sleep(_RETRY_S)
        return True

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


@dataclass(frozen=True)
class LocalTrialServer:
    """A server on this machine, started for a trial, and where its data lie.

    `is_fresh`: it was started just now. `device` has no name where the file system has no block device;
    `group` is the server's control group, `capped_group` the same where the arm is capped, None elsewhere.
    `inherited`: caps of groups above it that are tighter than the arm's own.
    """

    running: RunningServer
    is_fresh: bool
    device: BlockDevice
    group: Cgroup | None
    capped_group: Cgroup | None
    inherited: Caps = NO_CAPS


class TrialMachine(Protocol):
    """What a trial may do below a server on this machine."""

    @property
    def log(self) -> Path:
        """The log of all its servers; a trial takes the part that it caused."""

    @property
    def group(self) -> Cgroup | None:
        """The control group of the running server; None without one."""

    def replace_copies(self, arms: Sequence[Arm]) -> None:
        """Make the copies of the data that these arms run on, and remove all others of the same data."""

    def restore(self, arm: Arm) -> bool:
        """Give the arm's data their original content; True when something had to be copied."""

    def start_server(self, arm: Arm, *, fresh: bool) -> LocalTrialServer:
        """A running server for the arm: with `fresh` a new one. Raises MeasurementError."""

    def stop_server(self) -> None:
        """Stop the running server, if any."""

    def taint(self) -> None:
        """Say that the data in use are no longer as they were (written to, or crashed)."""

    def data_folder(self, arm: Arm) -> Path:
        """A folder on the storage of the arm's data, beside its working copies."""

    def storage_facts(self, arm: Arm) -> Mapping[str, object]:
        """What the arm's storage is, for the record."""

    def measured(self, arm: Arm) -> AbstractContextManager[Delivered | None]:
        """Entered while the arm is measured: what its volume imposes, it imposes meanwhile."""


class Target(Protocol):
    """The servers of an experiment as its trials use them; a context manager around all of them."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *details: object) -> None: ...

    @property
    def machine(self) -> TrialMachine | None:
        """The servers' machine where it is this one; None where sessions are all that can be had."""

    def session(self, arm: Arm) -> ServerSession:
        """Sessions with the arm's settings on its server, which is started first where that is needed."""

    def abandon(self) -> None:
        """Let go of the server after a failure: nothing of it is used again as it is."""
