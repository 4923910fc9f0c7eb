"""One server's threads and waits, interval by interval, by the native observer."""

from typing import Self

from pgassay.errors import MeasurementError
from pgassay.model.running_server.watch import AioHandles, ThreadUse, Wait
from pgassay.native.observer import ObservedServer, Observer, Ready
from pgassay.watch.reading.window_figures import SeenThreads, aios, seen, states, thread_use, waits

AIO_MAJOR_MIN = 18
_EDGE_TIMEOUT_S = 5.0
# Windows that nobody asked for come this often; between two readings there may be many of them.
_OUTPUT_S = 10.0
_NO_MORE = "the server's threads and waits are no longer observed"


class ProcessWatch:
    """A context manager around the observer of one server; `rate_hz`: samples per second.

    Entering raises MeasurementError when the observer does not answer. Once it is entered, `sees` says what
    can be sampled.
    """

    def __init__(self, server: ObservedServer, rate_hz: float) -> None:
        self._observer = Observer(server, rate_hz, _OUTPUT_S)
        self._before: SeenThreads | None = None

    def __enter__(self) -> Self:
        self._observer.__enter__()
        try:
            if self._observer.ready is None:
                reason = self._observer.failure or "no answer in time"
                raise MeasurementError(f"the server's threads and waits can't be observed: {reason}")
            self.sees: Ready = self._observer.ready
            self._now = self._seen()
        except BaseException:
            self._observer.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *details: object) -> None:
        self._observer.__exit__(*details)

    def read(self) -> None:
        """Take what was seen since the last time; raises MeasurementError when there is no more."""
        if not self._observer.edge(_EDGE_TIMEOUT_S):
            reason = self._observer.failure
            raise MeasurementError(f"{_NO_MORE}: {reason}" if reason else _NO_MORE)
        self._before, self._now = self._now, self._seen()

    def _seen(self) -> SeenThreads:
        windows = self._observer.take()
        if not windows:
            raise MeasurementError(_NO_MORE)
        return seen(self.sees, windows)

    @property
    def states(self) -> dict[str, float] | None:
        """Client connections by state; None when PostgreSQL is not asked, or without a sample."""
        if not self.sees.activity or not self._now.samples:
            return None
        return states(self._now.waits, self._now.samples)

    @property
    def waits(self) -> tuple[Wait, ...] | None:
        """What threads were at; None without a sample."""
        return waits(self._now.waits, self._now.samples) if self._now.samples else None

    @property
    def threads(self) -> tuple[ThreadUse, ...] | None:
        """What threads used; None when they can't be read."""
        if not self.sees.threads:
            return None
        before = self._before.threads if self._before else ()
        return thread_use(
            before, self._now.threads, self._now.from_ns, self._now.clock_ns, has_bytes=self.sees.io
        )

    def aios(self, major: int) -> tuple[AioHandles, ...] | None:
        """Asynchronous reads and writes under way; None where this version has none, or nobody is asked."""
        return aios(self._now.aios) if self.sees.activity and major >= AIO_MAJOR_MIN else None
