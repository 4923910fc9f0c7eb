"""What a server's threads do and wait for, over one trial, by the native binary's command `observe`.

The native process samples by itself, on CLOCK_MONOTONIC, over a connection of its own; here its windows are
collected and become files. Whatever fails in it costs these files and nothing else.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from pgassay.errors import MeasurementError
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import Protocol as TrialProtocol
from pgassay.native import Child
from pgassay.record.columns import Column, to_parquet

THREADS_FILE = "threads.parquet"
WAITS_FILE = "waits.parquet"
AIOS_FILE = "aios.parquet"
VERSION = 1
# A statement is short and its server has few processes; a load lasts, and every connection is sampled.
STATEMENTS_RATE_HZ = 50.0
LOAD_RATE_HZ = 20.0
FAST_FACTOR = 2.0
# A server that starts while all processors are busy; an edge is answered within a millisecond otherwise.
_READY_TIMEOUT_S = 20.0
_EDGE_TIMEOUT_S = 2.0
_TEXTS = frozenset(
    {"kind", "activity", "wait_event_type", "wait_event", "scheduler_state", "state", "operation"}
)
_COLUMNS = (
    (THREADS_FILE, "threads", "thread_columns"),
    (WAITS_FILE, "waits", "wait_columns"),
    (AIOS_FILE, "aios", "aio_columns"),
)


class Observed(Protocol):
    """A server that can be observed; it calls back at a statement's edges and after a restart."""

    on_edge: Callable[[], None] | None
    on_restart: Callable[[], None] | None

    def observed(self) -> dict[str, Any]:
        """`connect`, the parameters of a session (null: /proc alone is read), and `postmaster_pid`."""


def rate_hz(spec: ArmSpec, protocol: TrialProtocol) -> float:
    """Readings per second for a trial of this arm; 0 when nothing is to be observed."""
    usual = LOAD_RATE_HZ if spec.workload.kind == "load" else STATEMENTS_RATE_HZ
    return {"off": 0.0, "normal": 1.0, "fast": FAST_FACTOR}[protocol.observe] * usual


class ServerObserver:
    """Samples one server from `__enter__` to `__exit__`; a rate of 0 does nothing at all.

    `rate_hz`: readings of states and wait events per second; `output_s`: how often counters are written
    down. While it is active `server.mark()` writes them down at that very moment.
    """

    def __init__(self, server: Observed, rate_hz: float, output_s: float) -> None:
        self._server = server
        self._rate_hz = rate_hz
        self._output_s = output_s
        self._child: Child | None = None
        self._reader: threading.Thread | None = None
        self._heard = threading.Condition()
        self._ready: dict[str, Any] | None = None
        self._ended: dict[str, Any] | None = None
        self._edges = 0
        self._readies = 0
        self._windows: list[dict[str, Any]] = []
        self._closing = False
        self._over = "unix"
        self.warnings: list[str] = []

    def __enter__(self) -> Self:
        if self._rate_hz <= 0:
            return self
        observed = self._server.observed()
        host = str((observed["connect"] or {}).get("host", ""))
        self._over = "unix" if host.startswith("/") else "tcp"
        self._child = Child("observe", None)
        # On a thread: an answer may come at any time, and nobody may wait for a process that has stopped.
        self._reader = threading.Thread(target=self._read, name="observer", daemon=True)
        try:
            self._child.send({**observed, "rate_hz": self._rate_hz, "output_s": self._output_s})
        except MeasurementError as error:
            self._lost(str(error))
            return self
        self._reader.start()
        self._wait(lambda: self._readies > 0 and self._edges > 0, _READY_TIMEOUT_S)
        self._server.on_edge, self._server.on_restart = self.mark, self._restarted
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.on_edge = self._server.on_restart = None
        if self._child is None:
            return
        self._closing = True
        self._send({"end": {}})
        self._wait(lambda: self._ended is not None, _EDGE_TIMEOUT_S)
        child, self._child = self._child, None
        if child is not None:
            if self._ended is None:
                child.kill()
            else:
                child.end()
        if self._reader is not None and self._reader.is_alive():
            self._reader.join(_EDGE_TIMEOUT_S)

    def mark(self) -> None:
        """Have all counters read and written down now; returns when that is done."""
        before = self._edges
        self._send({"edge": {}})
        self._wait(lambda: self._edges > before, _EDGE_TIMEOUT_S)

    @property
    def own_cpu_s(self) -> float:
        """CPU seconds that the server spent on answering the samples."""
        pid = (self._ready or {}).get("backend_pid")
        place = self._names("thread_columns").index("run_ns") if self._ready else 0
        seen = [row[place] for window in self._windows for row in window["threads"] if row[0] == pid]
        return (max(seen) - min(seen)) / 1e9 if seen else 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """What could be sampled here and what the sampling cost; {} when nothing was."""
        if self._ready is None:
            return {}
        facts = {name: self._ready[name] for name in ("activity", "threads", "io")}
        return {
            **facts,
            "over": self._over,
            "rate_hz": self._rate_hz,
            "samples": sum(window["samples"] for window in self._windows),
            "missed": sum(window["missed"] for window in self._windows),
            "observer_cpu_s": (self._ended or {}).get("observer_cpu_ns", 0) / 1e9,
            "server_cpu_s": self.own_cpu_s,
        }

    def files(self) -> dict[str, bytes]:
        """The files: name → content; {} when nothing was sampled."""
        files = {}
        for name, key, names in _COLUMNS:
            if any(window.get(key) for window in self._windows):
                columns = _columns(self._windows, key, self._names(names))
                files[name] = to_parquet(columns, sampler=name.removesuffix(".parquet"), version=VERSION)
        return files

    def _names(self, key: str) -> list[str]:
        return list(self._ready.get(key, [])) if self._ready else []

    def _restarted(self) -> None:
        before = self._readies
        self._send({"server": self._server.observed()})
        self._wait(lambda: self._readies > before, _READY_TIMEOUT_S)

    def _send(self, command: dict[str, Any]) -> None:
        if self._child is None:
            return
        try:
            self._child.send(command)
        except (MeasurementError, OSError, ValueError) as error:
            self._lost(str(error))

    def _wait(self, condition: Any, timeout_s: float) -> None:
        with self._heard:
            self._heard.wait_for(lambda: condition() or self._child is None, timeout_s)

    def _lost(self, reason: str) -> None:
        with self._heard:
            child, self._child = self._child, None
            if not self._closing:
                self.warnings.append(f"the server's threads and waits are not observed any more: {reason}")
            self._heard.notify_all()
        if child is not None:
            child.kill()

    def _read(self) -> None:
        while self._ended is None:
            child = self._child
            if child is None:
                return
            try:
                document = child.receive()
            except (MeasurementError, OSError, ValueError) as error:
                self._lost(str(error))
                return
            with self._heard:
                self._take(document)
                self._heard.notify_all()

    def _take(self, document: dict[str, Any]) -> None:
        if "window" in document:
            window = document["window"]
            self._windows.append(window)
            self._edges += window["edge"]
        elif "ready" in document:
            self._ready = document["ready"]
            self._readies += 1
            self.warnings += [f"not all is observed: {reason}" for reason in self._ready["reasons"]]
        elif "ended" in document:
            self._ended = document["ended"]


def _columns(windows: list[dict[str, Any]], key: str, names: list[str]) -> dict[str, Column]:
    """The rows of all windows as columns, with the window's clock readings before them."""
    columns: dict[str, list[Any]] = {name: [] for name in ("from_ns", "clock_ns", "edge", *names)}
    for window in windows:
        rows = window.get(key, [])
        columns["from_ns"] += [window["from_ns"]] * len(rows)
        columns["clock_ns"] += [window["clock_ns"]] * len(rows)
        columns["edge"] += [window["edge"]] * len(rows)
        for name, values in zip(names, zip(*rows, strict=True), strict=False):
            columns[name] += values
    return {
        name: [str(value) for value in values] if name in _TEXTS else [int(value) for value in values]
        for name, values in columns.items()
    }
