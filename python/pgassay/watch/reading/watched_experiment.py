"""A stored experiment, interval by interval, with its server while that runs on this machine.

The measurement must not notice it: no session is opened on the measured server, its threads are sampled by
/proc alone once a second, and this process takes the lowest priority.
"""

import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pgassay.environment.linux.device import BlockDevice, device_of
from pgassay.environment.linux.processes import children_of
from pgassay.errors import MeasurementError
from pgassay.model.running_server.watch import (
    DeviceRates,
    ExperimentState,
    HostUse,
    ServerSample,
    WatchSample,
)
from pgassay.record.experiment_lock import holder
from pgassay.watch.reading.experiment_folder import REPORT_FILE, FolderWatch
from pgassay.watch.reading.machine_rates import MachineWatch
from pgassay.watch.reading.thread_windows import ProcessWatch

RATE_HZ = 1.0
_LOWEST_PRIORITY = 19
# A report of many arms takes seconds to write; whoever waits may always press Ctrl-C.
_REPORT_TIMEOUT_S = 120.0
_REPORT_POLL_S = 0.2
NO_SESSION = (
    "connections, wait events, throughput and statements: a session on a measured server would be part of "
    "what is measured; the report has them"
)
OTHER_ACCOUNT = (
    "the device, and bytes of threads: they are hidden from this account; run it as the experiment's"
)


def take_lowest_priority() -> None:
    """Let whoever measures go first, from now on; children inherit it."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _LOWEST_PRIORITY)


class ExperimentWatch:
    """A context manager around an experiment's folder; `sample` says what happened since the last call."""

    def __init__(self, folder: Path) -> None:
        self._folder = FolderWatch(folder.resolve())
        self._server: _MeasuredServer | None = None
        self._is_running = False
        self.runner: int | None = None

    def __enter__(self) -> Self:
        self._sampled_s = time.monotonic()
        self._follow(self._folder.state())
        return self

    def __exit__(self, *details: object) -> None:
        self._leave()

    @property
    def is_over(self) -> bool:
        """Whether nobody ran the experiment when it was last looked at."""
        return not self._is_running

    def wait(self, until_s: float) -> None:
        """Sleep until the clock (time.monotonic) says `until_s`."""
        time.sleep(max(0.0, until_s - time.monotonic()))

    def sample(self) -> WatchSample:
        """What happened since the last call, or since the beginning."""
        state = self._folder.state()
        seen: tuple[ServerSample | None, DeviceRates | None, HostUse | None] = (None, None, None)
        if self._server is not None:
            try:
                seen = self._server.sample()
            except MeasurementError:
                self._leave()
        now_s = time.monotonic()
        interval_s, self._sampled_s = now_s - self._sampled_s, now_s
        self._follow(state)
        server, device, host = seen
        return WatchSample(
            time=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            clock_ns=time.monotonic_ns(),
            interval_s=interval_s,
            experiment=state,
            server=server,
            device=device,
            host=host,
            missing=self._missing(state),
        )

    def finish(self) -> WatchSample:
        """The last sample, once the report is there that a run writes after it has let go of the folder.

        Returns at once when whoever ran the experiment is gone.
        """
        began = time.monotonic()
        sample = self.sample()
        while self._is_being_written(sample) and time.monotonic() - began < _REPORT_TIMEOUT_S:
            time.sleep(_REPORT_POLL_S)
            sample = self.sample()
        return sample

    def _is_being_written(self, sample: WatchSample) -> bool:
        """Whether the report is missing, or older than the end, and its writer lives."""
        state = sample.experiment
        if (
            state is None
            or state.is_running
            or self.runner is None
            or not Path(f"/proc/{self.runner}").exists()
        ):
            return False
        try:
            return (self._folder.folder / REPORT_FILE).stat().st_mtime < self._folder.ended_s()
        except OSError:
            return True

    def _missing(self, state: ExperimentState) -> tuple[str, ...]:
        if not state.is_running:
            return ()
        if self._folder.is_remote:
            return ("the servers: they run elsewhere, and a session of its own would be measured with them",)
        return (NO_SESSION, *(self._server.missing if self._server else ()))

    def _follow(self, state: ExperimentState) -> None:
        """Sample the server that runs now: it is another one after each restart."""
        found = None
        self._is_running = state.is_running
        if state.is_running and not self._folder.is_remote:
            self.runner = holder(self._folder.folder)
            found = self._find()
        if found == (self._server.pid if self._server else None):
            return
        self._leave()
        if found is not None:
            with suppress(MeasurementError):  # it has ended again
                self._server = _MeasuredServer(found)

    def _find(self) -> int | None:
        """The first process of the server that is measured now: a child of the process that measures."""
        postgres = [pid for pid in children_of(self.runner) if _is_postgres(pid)] if self.runner else []
        return min(postgres, default=None)

    def _leave(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


class _MeasuredServer:
    """A server that is being measured, by /proc alone."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # Its working folder is its data directory (src/backend/utils/init/miscinit.c, ChangeToDataDir).
        folder = Path(f"/proc/{pid}/cwd")
        device: BlockDevice | None = None
        self._name = f"process {pid}"
        self._version: str | None = None
        self.missing: tuple[str, ...] = (OTHER_ACCOUNT,)
        try:
            self._name, device = str(folder.readlink()), device_of(folder)
            self._version = (folder / "PG_VERSION").read_text("ascii").strip()
            self.missing = ()
        except PermissionError:
            pass  # what everybody may see of it is shown
        except OSError as error:
            raise MeasurementError(f"the server's process {pid} has gone") from error
        self._machine = MachineWatch(device)
        self._processes = ProcessWatch({"connect": None, "postmaster_pid": pid}, RATE_HZ)
        self._processes.__enter__()

    def close(self) -> None:
        """Stop sampling."""
        self._processes.__exit__(None, None, None)

    def sample(self) -> tuple[ServerSample, DeviceRates | None, HostUse | None]:
        """What happened since the last call; raises MeasurementError."""
        self._processes.read()
        server = ServerSample(
            name=self._name, version=self._version, pid=self.pid, connections=None,
            waits=self._processes.waits, threads=self._processes.threads, throughput=None, aios=None,
            statements=None,
        )  # fmt: skip
        return server, *self._machine.sample()


def _is_postgres(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip() == "postgres"
    except OSError:
        return False
