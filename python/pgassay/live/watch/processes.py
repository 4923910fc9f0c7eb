"""One server's threads and waits: the native observer's readings, interval by interval."""

from types import TracebackType
from typing import Any, Self

from pgassay.live.watch.observer import WindowReader
from pgassay.live.watch.windows import Row, aios, states, thread_use, waits
from pgassay.model.live.watch import AioHandles, ThreadUse, Wait

AIO_MAJOR_MIN = 18


class ProcessWatch:
    """A context manager around the observer of one server; `target` as `WindowReader` has it."""

    def __init__(self, target: dict[str, Any], rate_hz: float) -> None:
        self._reader = WindowReader(target, rate_hz)
        self._threads: list[Row] = []
        self._window: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._reader.__enter__()
        self._window = self._reader.first
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.__exit__(kind, value, trace)

    def read(self) -> None:
        """Take what was seen since the last time; raises MeasurementError when nobody looks any more."""
        self._threads = self._window.get("threads", [])
        self._window = self._reader.read()

    @property
    def sees(self) -> dict[str, Any]:
        """What the observer can see: "activity", "threads", "io", and "reasons" for what not."""
        return self._reader.ready

    @property
    def states(self) -> dict[str, float] | None:
        """Client connections by state; None when PostgreSQL is not asked, or nobody looked meanwhile."""
        if not self.sees["activity"] or not self._window["samples"]:
            return None
        return states(self._window["waits"], self._window["samples"])

    @property
    def waits(self) -> tuple[Wait, ...] | None:
        """What threads were at; None when nobody looked meanwhile."""
        if not self._window["samples"]:
            return None
        return waits(self._window["waits"], self._window["samples"])

    @property
    def threads(self) -> tuple[ThreadUse, ...] | None:
        """What threads used; None when they can't be read."""
        if not self.sees["threads"]:
            return None
        return thread_use(
            self._threads,
            self._window["threads"],
            self._window["from_ns"],
            self._window["clock_ns"],
            has_bytes=bool(self.sees["io"]),
        )

    def aios(self, major: int) -> tuple[AioHandles, ...] | None:
        """Asynchronous reads and writes under way; None where this version has none, or nobody is asked."""
        return aios(self._window["aios"]) if self.sees["activity"] and major >= AIO_MAJOR_MIN else None
