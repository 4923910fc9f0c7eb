"""What a server's threads do and wait for, over one trial: the native observer's windows as files.

Whatever fails in it costs these files and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self

from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import Protocol as TrialProtocol
from pgassay.native.observer import ObservedServer, Observer, ObserverWindow, Ready, Row, Value
from pgassay.record.columns import Column, to_parquet

THREADS_FILE = "threads.parquet"
WAITS_FILE = "waits.parquet"
AIOS_FILE = "aios.parquet"
VERSION = 1
# A statement is short and its server has few processes; a load lasts, and every connection is sampled.
STATEMENTS_RATE_HZ = 50.0
LOAD_RATE_HZ = 20.0
FAST_FACTOR = 2.0
_TEXTS = frozenset(
    {"kind", "activity", "wait_event_type", "wait_event", "scheduler_state", "state", "operation"}
)


class Restartable(Protocol):
    """A server that can be observed; it calls back at a statement's edges and after a restart."""

    on_edge: Callable[[], None] | None
    on_restart: Callable[[], None] | None

    def observed(self) -> ObservedServer:
        """How it is sampled now; after a restart this may have changed."""


def rate_hz(spec: ArmSpec, protocol: TrialProtocol) -> float:
    """Readings per second for a trial of this arm; 0 when nothing is to be observed."""
    usual = LOAD_RATE_HZ if spec.workload.kind == "load" else STATEMENTS_RATE_HZ
    return {"off": 0.0, "normal": 1.0, "fast": FAST_FACTOR}[protocol.observe] * usual


class ServerObserver:
    """Samples one server from `__enter__` to `__exit__`; a rate of 0 does nothing at all.

    `rate_hz`: readings of states and wait events per second; `output_s`: how often counters are written
    down. While it is active `server.mark()` writes them down at that very moment.
    """

    def __init__(self, server: Restartable, rate_hz: float, output_s: float) -> None:
        self._server = server
        self._rate_hz = rate_hz
        self._output_s = output_s
        self._observer: Observer | None = None
        self._over = "unix"

    def __enter__(self) -> Self:
        if self._rate_hz <= 0:
            return self
        observed = self._server.observed()
        host = str((observed["connect"] or {}).get("host", ""))
        self._over = "unix" if host.startswith("/") else "tcp"
        self._observer = Observer(observed, self._rate_hz, self._output_s)
        self._observer.__enter__()
        self._server.on_edge, self._server.on_restart = self._mark, self._follow
        return self

    def __exit__(self, *details: object) -> None:
        self._server.on_edge = self._server.on_restart = None
        if self._observer is not None:
            self._observer.__exit__(*details)

    def _mark(self) -> None:
        if self._observer is not None:
            self._observer.edge()

    def _follow(self) -> None:
        if self._observer is not None:
            self._observer.follow(self._server.observed())

    @property
    def warnings(self) -> list[str]:
        """A sentence for each thing that could not be observed."""
        return self._observer.warnings if self._observer else []

    @property
    def own_cpu_s(self) -> float:
        """CPU seconds that the server spent on answering the samples."""
        if self._observer is None or self._observer.ready is None:
            return 0.0
        # Of the last session, where the server was started again meanwhile.
        ready = self._observer.ready
        used_ns = ready.thread_columns.index("run_ns")
        rows = (row for window in self._observer.windows for row in window.threads)
        seen = [int(row[used_ns]) for row in rows if row[0] == ready.backend_pid]
        return (max(seen) - min(seen)) / 1e9 if seen else 0.0

    @property
    def facts(self) -> dict[str, Value | float]:
        """What could be sampled here and what the sampling cost; {} when nothing was."""
        if self._observer is None or self._observer.ready is None:
            return {}
        ready = self._observer.ready
        return {
            "activity": ready.activity,
            "threads": ready.threads,
            "io": ready.io,
            "over": self._over,
            "rate_hz": self._rate_hz,
            "samples": sum(window.samples for window in self._observer.windows),
            "missed": sum(window.missed for window in self._observer.windows),
            "observer_cpu_s": self._observer.cpu_s,
            "server_cpu_s": self.own_cpu_s,
        }

    def files(self) -> dict[str, bytes]:
        """The files: name → content; {} when nothing was sampled."""
        if self._observer is None or self._observer.ready is None:
            return {}
        return window_files(self._observer.ready, self._observer.windows)


def window_files(ready: Ready, windows: Sequence[ObserverWindow]) -> dict[str, bytes]:
    """Windows as Parquet files of threads, waits and asynchronous I/O, those that have any row."""
    tables: tuple[tuple[str, Sequence[str], Callable[[ObserverWindow], Sequence[Row]]], ...] = (
        (THREADS_FILE, ready.thread_columns, lambda window: window.threads),
        (WAITS_FILE, ready.wait_columns, lambda window: window.waits),
        (AIOS_FILE, ready.aio_columns, lambda window: window.aios),
    )
    files = {}
    for name, columns, rows_of in tables:
        if any(rows_of(window) for window in windows):
            table = _columns([(window, rows_of(window)) for window in windows], columns)
            files[name] = to_parquet(table, sampler=name.removesuffix(".parquet"), version=VERSION)
    return files


def _columns(
    windows: Sequence[tuple[ObserverWindow, Sequence[Row]]], names: Sequence[str]
) -> Mapping[str, Column]:
    """The rows of all windows as columns, with the window's clock readings before them."""
    columns: dict[str, list[Value]] = {name: [] for name in ("from_ns", "clock_ns", "edge", *names)}
    for window, rows in windows:
        columns["from_ns"] += [window.from_ns] * len(rows)
        columns["clock_ns"] += [window.clock_ns] * len(rows)
        columns["edge"] += [window.edge] * len(rows)
        for name, values in zip(names, zip(*rows, strict=True), strict=False):
            columns[name] += values
    return {
        name: [str(value) for value in values] if name in _TEXTS else [int(value) for value in values]
        for name, values in columns.items()
    }
