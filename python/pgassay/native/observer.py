"""A server's threads and wait events, sampled by the native binary's command `observe`.

The native process samples by itself, on CLOCK_MONOTONIC, over a connection of its own, at moments drawn
within each sample's slot, so that nothing periodic keeps step with it. It puts out windows: what it saw
between two outputs. Here they are taken up as they come.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypedDict

from pgassay.errors import MeasurementError
from pgassay.native.process import NativeProcess

# A server that starts while all processors are busy; an edge is answered within a millisecond otherwise.
READY_TIMEOUT_S = 20.0
EDGE_TIMEOUT_S = 2.0

Value = int | str | bool
Row = Sequence[Value]


class ObservedServer(TypedDict):
    """What is to be sampled.

    `connect`: the parameters of a session of the observer's own; None: /proc alone is read.
    `postmaster_pid`: the server's first process on this machine; None: pg_stat_activity alone is asked.
    """

    connect: Mapping[str, object] | None
    postmaster_pid: int | None


@dataclass(frozen=True)
class Ready:
    """What can be sampled here: pg_stat_activity, the threads of /proc, the bytes that each of them moves.

    `backend_pid`: the process that serves the observer's own session, None without one. `reasons`: a sentence
    for each thing that can't be sampled. The columns name the values of a window's rows.
    """

    activity: bool
    threads: bool
    io: bool
    backend_pid: int | None
    reasons: Sequence[str]
    thread_columns: Sequence[str]
    wait_columns: Sequence[str]
    aio_columns: Sequence[str]


@dataclass(frozen=True)
class ObserverWindow:
    """Everything between two outputs, in CLOCK_MONOTONIC nanoseconds.

    `edge`: whether it was asked for. `samples`: readings of states and wait events; `missed` those left out
    because the one before took too long. `threads`: cumulative counters at the end; `waits`: how often a
    thread was seen in which state; `aios`: handles of asynchronous reads and writes in use at the end.
    """

    from_ns: int
    clock_ns: int
    edge: bool
    samples: int
    missed: int
    threads: Sequence[Row] = field(repr=False)
    waits: Sequence[Row] = field(repr=False)
    aios: Sequence[Row] = field(repr=False)


def named(rows: Iterable[Row], columns: Sequence[str]) -> list[dict[str, Value]]:
    """Rows of a window with the names of their columns."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


class Observer:
    """Samples one server from `__enter__` to `__exit__`.

    Once it is entered, `ready` says what can be sampled, and the counters at the beginning are in the first
    window. Whatever fails from then on ends the sampling and nothing else: `failure` says why, and what was
    seen before stays. `cpu_s` are the CPU seconds of the native process, known once it has ended.

    Args:
        server: what is to be sampled.
        rate_hz: readings of states and wait events per second, 0.1 to 1000.
        output_s: how often counters are read and put out without being asked for, 0.01 to 60.

    Raises:
        UsageError: there is no native binary of this version.
    """

    def __init__(self, server: ObservedServer, rate_hz: float, output_s: float) -> None:
        self._document = {**server, "rate_hz": rate_hz, "output_s": output_s}
        self._process: NativeProcess | None = None
        # On a thread: an answer may come at any time, the pipe must not fill up meanwhile, and nobody may
        # wait for a process that has stopped.
        self._reader = threading.Thread(target=self._read, name="observer", daemon=True)
        self._received = threading.Condition()
        self._windows: list[ObserverWindow] = []
        self._reasons: list[str] = []
        self._readies = 0
        self._edges = 0
        self._has_ended = False
        self._is_closing = False
        self.ready: Ready | None = None
        self.failure: str | None = None
        self.cpu_s = 0.0

    def __enter__(self) -> Self:
        self._process = NativeProcess("observe")
        try:
            if self._send(self._document):
                self._reader.start()
                self._wait(lambda: self._readies > 0 and self._edges > 0, READY_TIMEOUT_S)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *details: object) -> None:
        self._is_closing = True
        self._send({"end": {}})
        self._wait(lambda: self._has_ended, EDGE_TIMEOUT_S)
        with self._received:
            process, self._process = self._process, None
        if process is not None:
            if self._has_ended:
                process.end()
            else:
                process.kill()
        if self._reader.is_alive():
            self._reader.join(EDGE_TIMEOUT_S)

    @property
    def windows(self) -> Sequence[ObserverWindow]:
        """The windows so far that were not taken, the oldest first."""
        return self._windows

    def take(self) -> list[ObserverWindow]:
        """The windows since the last call, which are kept here no longer."""
        with self._received:
            taken, self._windows = self._windows, []
        return taken

    @property
    def warnings(self) -> list[str]:
        """A sentence for each thing that could not be sampled."""
        found = [f"not all is observed: {reason}" for reason in self._reasons]
        if self.failure is not None:
            found.append(f"the server's threads and waits are no longer observed: {self.failure}")
        return found

    def edge(self, timeout_s: float = EDGE_TIMEOUT_S) -> bool:
        """Have all counters read and put out now; returns when that is done, False when it was not."""
        before = self._edges
        return self._send({"edge": {}}) and self._wait(lambda: self._edges > before, timeout_s)

    def follow(self, server: ObservedServer) -> bool:
        """Go on with a server that was started again; returns when it is sampled, False when it is not."""
        before = self._readies
        return self._send({"server": server}) and self._wait(lambda: self._readies > before, READY_TIMEOUT_S)

    def _send(self, command: Mapping[str, object]) -> bool:
        process = self._process
        if process is None:
            return False
        try:
            process.send(command)
        except (MeasurementError, OSError, ValueError) as error:
            self._fail(str(error))
            return False
        return True

    def _wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        with self._received:
            self._received.wait_for(lambda: condition() or self._process is None, timeout_s)
            return condition()

    def _fail(self, reason: str) -> None:
        with self._received:
            process, self._process = self._process, None
            if process is not None and not self._is_closing:
                self.failure = reason
            self._received.notify_all()
        if process is not None:
            process.kill()

    def _read(self) -> None:
        while not self._has_ended:
            process = self._process
            if process is None:
                return
            try:
                document = process.receive()
            except (MeasurementError, OSError, ValueError) as error:
                self._fail(str(error))
                return
            with self._received:
                self._take_up(document)
                self._received.notify_all()

    def _take_up(self, document: Mapping[str, Any]) -> None:
        if "window" in document:
            window = ObserverWindow(**document["window"])
            self._windows.append(window)
            self._edges += window.edge
        elif "ready" in document:
            self.ready = Ready(**document["ready"])
            self._readies += 1
            self._reasons += self.ready.reasons
        elif "ended" in document:
            self._has_ended = True
            self.cpu_s = document["ended"]["observer_cpu_ns"] / 1e9
