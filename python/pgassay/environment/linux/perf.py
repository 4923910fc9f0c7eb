"""perf(1): whether it can sample here, one recording of some processes, and its text afterwards.

The clock of samples is CLOCK_MONOTONIC, the clock of everything that a trial measures. The event is
cpu-clock, a timer of the kernel that runs while a process runs: machines without hardware counters have it
too, and it counts time and not cycles, so that it means the same at any speed of the processor.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.errors import MeasurementError, UsageError, first_line

# How the callers of a sampled function are found: by frame pointers, by the stack's copy and the unwinding
# tables of the binaries, or not at all.
Stacks = Literal["frame pointers", "unwound", "none"]
STACK_BYTES = 8192
READY_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 60.0
_EVENT = "cpu-clock"
# Of the switches away from a process each so-manieth has its stack. A prime that no common transaction's
# number of round trips divides, so that each of its waits is met as often as the others.
SWITCH_PERIOD = 13
_SWITCHES = "context-switches"
_FIELDS = "pid,time,event,ip,sym,dso"
# No binary's symbols are asked for on the network, whatever this account has set.
_ENVIRONMENT = {"DEBUGINFOD_URLS": "", "LC_ALL": "C"}


@dataclass(frozen=True)
class Perf:
    """perf as it can be used here. has_kernel: whether the kernel's functions are sampled too.

    has_waits: whether it tells when a process leaves its processor and comes back.
    """

    path: str
    version: str
    has_kernel: bool
    has_waits: bool = False

    @property
    def event(self) -> str:
        """The event that is sampled; the suffix leaves the kernel out."""
        return _EVENT if self.has_kernel else f"{_EVENT}:u"


@cache
def find_perf() -> Perf:
    """perf, tried out on a process of its own; raises UsageError with what to install or to set."""
    path = shutil.which("perf")
    if path is None:
        raise UsageError(
            "--profile needs perf, which is not installed: install the package linux-perf (Debian) or "
            "linux-tools-generic (Ubuntu), or leave --profile out"
        )
    complaint = ""
    for has_kernel in (True, False):
        perf = Perf(path, "", has_kernel)
        complaint = _try(perf)
        if not complaint:
            # Processes are switched by the kernel, so who may not sample it sees none of it.
            has_waits = has_kernel and not _try(perf, waits=True)
            return Perf(path, _version(path), has_kernel, has_waits)
    raise UsageError(
        f"--profile: perf can't sample here ({complaint}): run as root, set kernel.perf_event_paranoid to 1 "
        "with sysctl, or leave --profile out"
    )


def _try(perf: Perf, *, waits: bool = False) -> str:
    """Sample a short process; '' where that works, else what perf says."""
    with tempfile.TemporaryDirectory(prefix="pgassay-perf-") as folder:
        command = [*_record(perf, 99, "none", Path(folder) / "data", waits=waits), "--", "true"]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, env=perf_environment(), timeout=30
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return first_line(error)
    return "" if done.returncode == 0 else _complaint(done.stderr)


def _complaint(stderr: bytes) -> str:
    """The first line with words of what perf wrote."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    return next((line.rstrip(":.") for line in lines if len(line.split()) > 1), "no error message")


def _version(path: str) -> str:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    return said.strip().removeprefix("perf version ")


def end_perf(process: "subprocess.Popen[Any]") -> None:
    """Let a perf that leads its own group write what it has; does nothing where it has ended."""
    if process.poll() is not None:
        return
    # Its whole group: on Debian `perf` is a script that runs the one of this kernel.
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def perf_environment() -> dict[str, str]:
    """The environment of every perf."""
    return {**os.environ, **_ENVIRONMENT}


def _record(perf: Perf, rate_hz: int, stacks: Stacks, file: Path, *, waits: bool) -> list[str]:
    """The command that records, without what it records."""
    events = ["-e", perf.event, "-F", str(rate_hz)]
    if waits:
        # Two events of which each has a rate of its own.
        name, _, suffix = perf.event.partition(":")
        events = ["-e", f"{name}/freq={rate_hz}/{suffix}", "-e", f"{_SWITCHES}/period={SWITCH_PERIOD}/"]
        events.append("--switch-events")
    # Without frame pointers the kernel's own callers are still told by them.
    graph = f"dwarf,{STACK_BYTES}" if stacks == "unwound" else "fp"
    return [
        *(perf.path, "record", *events, "-k", "CLOCK_MONOTONIC"),
        *("--call-graph", graph, "--no-buildid", "--no-buildid-cache", "-o", str(file)),
    ]


class PerfRecording:
    """perf samples some processes and whatever they fork, from `__enter__` to `__exit__`.

    waits: also when they leave their processors. Raises MeasurementError where perf does not begin, or ends
    by itself.
    """

    def __init__(
        self, perf: Perf, process_ids: Sequence[int], rate_hz: int, stacks: Stacks, *, waits: bool = False
    ) -> None:
        self._perf = perf
        self._waits = waits
        self._process_ids = process_ids
        self._rate_hz = rate_hz
        self._stacks = stacks
        # A recording may be large: the next start removes that of a killed process.
        self._kept = ExitStack()
        folder = self._kept.enter_context(scratch_folder())
        self._data, self._errors = folder / "data", folder / "errors"
        self._process: subprocess.Popen[bytes] | None = None
        # perf's commands and its answers; it fails where they are closed before it ends.
        self._control = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self) -> None:
        control_read, control_write = os.pipe()
        answer_read, answer_write = os.pipe()
        command = [
            *_record(self._perf, self._rate_hz, self._stacks, self._data, waits=self._waits),
            *("--delay", "-1", "--control", f"fd:{control_read},{answer_write}"),
            *("-p", ",".join(map(str, self._process_ids))),
        ]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env=perf_environment(),
                pass_fds=(control_read, answer_write),
                start_new_session=True,  # Ctrl-C is for us: what runs is stopped below
            )
        os.close(control_read)
        os.close(answer_write)
        control = self._control.enter_context(os.fdopen(control_write, "wb", buffering=0))
        answer = self._control.enter_context(os.fdopen(answer_read, "rb"))
        try:
            control.write(b"enable\n")
            # perf answers when it samples; if it ends instead, its end of the pipe is closed.
            if not answer.readline().startswith(b"ack"):
                raise self._failure()
        except BrokenPipeError as error:
            raise self._failure() from error

    def _failure(self) -> MeasurementError:
        said = self._errors.read_bytes() if self._errors.exists() else b""
        return MeasurementError(f"perf did not sample the server's processes: {_complaint(said)}")

    def __exit__(self, *details: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let perf write what it has; does nothing where it has ended."""
        if self._process is not None:
            end_perf(self._process)

    def lines(self) -> Iterator[str]:
        """What perf script writes of it, line by line; raises MeasurementError where that fails."""
        if not self._data.is_file():
            raise self._failure()
        command = [
            *(self._perf.path, "script", "-i", str(self._data), "-F", _FIELDS),
            *("--no-inline", "--no-demangle", "--show-lost-events"),
            *(["--show-switch-events"] if self._waits else []),
        ]
        with (
            self._errors.open("wb") as errors,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=perf_environment(),
            ) as process,
        ):
            if process.stdout is None:
                raise AssertionError("its output is a pipe")
            for line in process.stdout:
                yield line.decode("utf-8", "replace")
        if process.returncode:
            raise self._failure()

    def close(self) -> None:
        """Stop perf if it runs, and remove the recording."""
        self.stop()
        self._control.close()
        self._kept.close()
