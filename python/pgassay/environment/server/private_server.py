"""A private PostgreSQL server: one data directory, one Unix socket, one life.

Nobody but the user of pgassay and the servers' account can reach it: the socket's folder is 0700,
nothing listens on a network, and peer authentication maps exactly these two users to the superuser
`postgres`. Whatever ends it, `stop` leaves no process, folder or shared memory of it behind.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol, Self

import psycopg

from pgassay.environment.cleanup import registry
from pgassay.environment.home import account
from pgassay.environment.server import server_processes
from pgassay.environment.server.enclosure import enclosed_command, is_enclosing
from pgassay.environment.server.programs import file_limit_raised, identity, without_account
from pgassay.environment.server.server_folder import PORT, SUPERUSER, ServerFolder, check_settings
from pgassay.environment.server.sessions import ConnectionParameters, ControlSession, control
from pgassay.environment.server.start_failure import ServerLog, StartFailure, explain
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.build import Build
from pgassay.storage.separate_wal import separate_wal

POLL_S = 0.005
STOP_TIMEOUT_S = 120.0
FORCED_STOP_TIMEOUT_S = 10.0
ORPHANS_TIMEOUT_S = 2.0
RELOAD_TIMEOUT_S = 10.0


class ServerGroup(Protocol):
    """The control group a server is started in (environment/cgroup/group.py)."""

    def join_command(self, uid: int | None = None, gid: int | None = None) -> list[str]:
        """Return the words to put before a command so that it runs inside the group, as that account."""

    def cpu_seconds(self) -> float:
        """Return the CPU time in seconds of everything that ever ran in the group."""


class ServerStartError(MeasurementError):
    """The server refused to start; `failure` holds what it said."""

    def __init__(self, message: str, failure: StartFailure) -> None:
        super().__init__(message)
        self.failure = failure


class Server:
    """A server on `data_directory`, running between `start` and `stop` (or inside `with`).

    `settings` are server settings by name; those in PINNED_SETTINGS belong to the server itself.
    `cgroup` is the group to start it in; `log_path` where its log is appended (when None, in the
    private folder: it goes with that, but `log_tail` still answers).
    """

    def __init__(
        self,
        build: Build,
        data_directory: Path,
        settings: Mapping[str, str],
        cgroup: ServerGroup | None = None,
        log_path: Path | None = None,
    ) -> None:
        self.build = build
        self.data_directory = Path(os.path.realpath(data_directory))
        self.settings = dict(settings)
        self.cgroup = cgroup
        self._folder = ServerFolder()
        self._log = ServerLog(log_path or self._folder.path / "server.log")
        self._process: subprocess.Popen[bytes] | None = None
        self._token: registry.CleanupToken | None = None
        self._is_enclosed = False
        self._shared_memory: set[str] = set()
        self._system_v_segment: int | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *details: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The postmaster's process id. Raises MeasurementError when the server was not started."""
        if self._process is None:
            raise MeasurementError(f"The server on {self.data_directory} is not running: start it first.")
        return self._process.pid

    @property
    def socket_directory(self) -> Path:
        """The private folder with the server's socket; exists while the server runs."""
        return self._folder.path

    @property
    def log_path(self) -> Path:
        """Where the server's log is written."""
        return self._log.path

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the server and return as soon as it accepts connections.

        Raises UsageError for a setting that pgassay keeps for itself, ServerStartError (a
        MeasurementError) with the server's own complaint when it refuses to start, and
        MeasurementError when it isn't ready after `timeout_s`. Nothing is left running then.
        """
        if self._process is not None:
            raise MeasurementError(f"The server on {self.data_directory} is running already: stop it first.")
        self._check_data_directory()
        try:
            self._folder.make(self.settings)
            self._token = registry.register("server", data_directory=str(self.data_directory))
            self._launch()
            self._wait_until_ready(timeout_s)
        except BaseException:
            self._clean_up()
            raise

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the server: fast, then immediate, then by SIGKILL; its processes are gone afterwards.

        Does nothing when it isn't running. Raises MeasurementError when a process cannot be killed.
        """
        if self._process is None:
            return
        try:
            self._ask_to_stop(signal.SIGINT, timeout_s)
            self._ask_to_stop(signal.SIGQUIT, FORCED_STOP_TIMEOUT_S)
        finally:
            self._clean_up()

    def kill(self) -> None:
        """End the server at once by SIGKILL, as a crash would; its data directory needs recovery."""
        if self._process is not None:
            self._note_shared_memory()
            self._process.kill()
            self._clean_up()

    def is_running(self) -> bool:
        """Whether the postmaster lives."""
        return self._process is not None and self._process.poll() is None

    def reload(self, settings: Mapping[str, str]) -> None:
        """Change settings that need no restart, and return when new connections see them.

        Settings not named keep their value. Raises UsageError when the server refuses a value or
        would need a restart for it; the old settings stay in force then.
        """
        check_settings(settings)
        before, self.settings = self.settings, {**self.settings, **settings}
        try:
            with control(self) as connection:
                loaded_at = _loaded_at(connection)
                self._folder.write_settings(self.settings)
                _refuse_bad_file(connection)
            server_processes.send(self.pid, signal.SIGHUP)
            self._wait_until_loaded(loaded_at)
        except psycopg.Error as error:
            raise MeasurementError(
                f"The server on {self.data_directory} did not answer while it reloaded its settings: {error}"
            ) from error
        except UsageError:
            self.settings = before
            self._folder.write_settings(before)
            raise

    def connection_parameters(self, options: str = "", dbname: str = "postgres") -> ConnectionParameters:
        """Return explicit connection parameters, complete for both the native binary and libpq."""
        return {
            "host": str(self.socket_directory),
            "port": PORT,
            "user": SUPERUSER,
            "password": None,
            "dbname": dbname,
            "options": options,
            "application_name": "pgassay",
        }

    def server_cpu_seconds(self) -> float:
        """Return the CPU time in seconds of the postmaster and all its children, dead and alive.

        From the control group's own account when there is one; take differences.
        """
        if self.cgroup is not None:
            return self.cgroup.cpu_seconds()
        return server_processes.cpu_seconds(self.pid)

    def process_ids(self) -> list[int]:
        """Return the ids of the server's living processes."""
        return server_processes.processes_of(self.data_directory)

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines that this start wrote to the log; available after the stop too."""
        return self._log.tail(lines)

    def _check_data_directory(self) -> None:
        try:
            major = (self.data_directory / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError as error:
            raise MeasurementError(
                f"{self.data_directory} is not a PostgreSQL data directory (it has no PG_VERSION): "
                "make the data again."
            ) from error
        if major != str(self.build.major):
            raise MeasurementError(
                f"The data in {self.data_directory} were made by PostgreSQL {major} and cannot be used by "
                f"{self.build.version}: choose a build of that major version with --pg."
            )
        # Another server's processes would be taken for this one's, and killed with it.
        others = server_processes.processes_of(self.data_directory)
        if others:
            raise MeasurementError(
                f"Another server (process {others[0]}) runs on {self.data_directory}: "
                "stop it, or wait until the run that owns it has ended."
            )

    def _launch(self) -> None:
        argv = [f"{self.build.bin_directory}/postgres", "-D", str(self.data_directory), *self._folder.options]
        arguments = identity()
        # Entering a group, and leaving the machine's files, take more rights than the servers' account has:
        # the last launcher becomes that account.
        owner = account()
        self._is_enclosed = is_enclosing()
        if self._is_enclosed:
            writable = [self.data_directory, self._folder.path]
            if (wal := separate_wal(self.data_directory)) is not None:
                writable.append(wal)
            argv = enclosed_command(argv, writable, settings=self.settings)
            owner = None
            arguments = without_account(arguments)
        if self.cgroup is not None:
            ids = (owner.uid, owner.gid) if owner else (None, None)
            argv = [*self.cgroup.join_command(*ids), *argv]
            arguments = without_account(arguments)
        with self._log.open() as log, file_limit_raised():
            try:
                self._process = subprocess.Popen(
                    argv, stdout=log, stderr=log, start_new_session=True, **arguments
                )
            except OSError as error:
                raise UsageError(
                    f"The server {self.build.bin_directory}/postgres cannot be run ({error.strerror}): "
                    "choose another build with --pg."
                ) from error

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._is_ready():
            if not self.is_running():
                failure = explain(self._log.read(), self.settings)
                raise ServerStartError(
                    f"PostgreSQL {self.build.version} did not start on {self.data_directory}: "
                    f"{failure.sentence()}",
                    failure,
                )
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"The server on {self.data_directory} was not ready after {timeout_s:g} s; "
                    f"its log ends with: {self.log_tail(1) or 'nothing'}"
                )
            time.sleep(POLL_S)
        self._note_shared_memory()

    def _is_ready(self) -> bool:
        """Read the postmaster's own status (src/include/utils/pidfile.h): line 1 pid, 7 key, 8 status."""
        try:
            lines = (self.data_directory / "postmaster.pid").read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return False
        if len(lines) < 8 or lines[0] != str(self.pid) or lines[7].strip() != "ready":
            return False
        key = lines[6].split()
        self._system_v_segment = int(key[1]) if len(key) == 2 else None
        return True

    def _wait_until_loaded(self, before: datetime) -> None:
        deadline = time.monotonic() + RELOAD_TIMEOUT_S
        while True:
            # A new connection inherits what the postmaster has loaded; an old one answers for itself.
            with control(self) as connection:
                if _loaded_at(connection) > before:
                    return
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"The server on {self.data_directory} did not reload its settings within "
                    f"{RELOAD_TIMEOUT_S:g} s; its log ends with: {self.log_tail(1) or 'nothing'}"
                )
            time.sleep(POLL_S)

    def _ask_to_stop(self, number: signal.Signals, timeout_s: float) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._note_shared_memory()
        server_processes.send(self._process.pid, number)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return

    def _note_shared_memory(self) -> None:
        """Remember what a server that dies by force could not remove; an enclosed one's goes with it."""
        if self._is_enclosed:
            return
        self._shared_memory |= server_processes.mapped_segments(self.process_ids())

    def _clean_up(self) -> None:
        """Reap the postmaster, end what outlived it, and remove all that belongs to this start.

        What was registered stays registered when a process cannot be killed.
        """
        self._log.read()
        left = self._end_processes() if self._process is not None else []
        self._process = None
        if left:
            raise MeasurementError(
                f"The processes {', '.join(map(str, left))} of the server on {self.data_directory} cannot be "
                "killed: they wait for the kernel; restart the machine if they stay."
            )
        self._folder.remove()
        if self._token is not None:
            registry.forget(self._token)
            self._token = None

    def _end_processes(self) -> list[int]:
        assert self._process is not None
        was_killed = self._process.poll() is None
        if was_killed:
            self._process.kill()
        else:
            # Children of a postmaster that died notice it and leave by themselves within moments.
            self._note_shared_memory()
            server_processes.wait_until_gone(self.data_directory, ORPHANS_TIMEOUT_S)
        left = server_processes.kill_and_wait(self.data_directory, FORCED_STOP_TIMEOUT_S)
        if not left and self._process.wait() != 0:
            server_processes.remove_segments(self._shared_memory)
            if self._system_v_segment is not None:
                server_processes.remove_system_v_segment(self._system_v_segment)
        self._shared_memory, self._system_v_segment = set(), None
        if was_killed and not left:
            _remove_empty_lock_file(self.data_directory)
        return left


def _remove_empty_lock_file(data_directory: Path) -> None:
    """Remove what a postmaster left that was killed between making its lock file and writing it.

    PostgreSQL refuses every later start then, as it can't tell it from a server that is just starting
    (src/backend/utils/init/miscinit.c, CreateLockFile). Here no process is left that could be one.
    """
    lock_file = data_directory / "postmaster.pid"
    with contextlib.suppress(FileNotFoundError):
        if lock_file.stat().st_size == 0:
            lock_file.unlink()


def _refuse_bad_file(connection: ControlSession) -> None:
    refused = connection.execute(
        "SELECT name, setting, error FROM pg_file_settings WHERE error IS NOT NULL ORDER BY seqno LIMIT 1"
    ).fetchone()
    if refused is not None:
        name, value, complaint = refused
        raise UsageError(
            f"The running server refuses {name} = {value} ({complaint}): choose another value, "
            "or restart the server for it."
        )


def _loaded_at(connection: ControlSession) -> datetime:
    row = connection.execute("SELECT pg_conf_load_time()").fetchone()
    assert row is not None
    loaded_at: datetime = row[0]
    return loaded_at
