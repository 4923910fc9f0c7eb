"""The native observer, read as it goes: what it saw since the last time, whenever it is asked.

It looks at threads and wait events by itself, at moments drawn within each look's slot, so that nothing
periodic keeps step with it; here its windows are taken up when they come.
"""

import queue
import threading
import time
from types import TracebackType
from typing import Any, Self

from pgassay.errors import MeasurementError
from pgassay.live.watch.windows import named
from pgassay.native import Child

_READY_TIMEOUT_S = 20.0
_EDGE_TIMEOUT_S = 5.0
_END_TIMEOUT_S = 2.0
# Windows that nobody asked for come this often; between two readings there may be many of them.
_OUTPUT_S = 10.0


class WindowReader:
    """A context manager around one `pgassay-native observe`.

    `target`: "connect" and "postmaster_pid" of its document; `rate_hz`: looks per second. Once it is entered,
    `ready` is what it said of what it can see, and `first` the counters at the beginning, as `read` has them.
    Entering raises MeasurementError when it does not answer.
    """

    def __init__(self, target: dict[str, Any], rate_hz: float) -> None:
        self._document = {**target, "rate_hz": rate_hz, "output_s": _OUTPUT_S}
        self._heard: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._child: Child | None = None
        self._reader: threading.Thread | None = None
        self.ready: dict[str, Any] = {}
        self.first: dict[str, Any] = {}

    def __enter__(self) -> Self:
        child = self._child = Child("observe", None)
        # On a thread: a window may come at any time, and the pipe must not fill up meanwhile.
        self._reader = threading.Thread(target=self._read, args=(child,), name="observer", daemon=True)
        try:
            child.send(self._document)
            self._reader.start()
            first = self._next(time.monotonic() + _READY_TIMEOUT_S)
            if "ready" not in first:
                raise MeasurementError("the server's threads and waits can't be observed: no answer in time")
            self.ready = first["ready"]
            self.first = self._merged(self._until_edge())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        child, self._child = self._child, None
        if child is None or self._reader is None:
            return
        try:
            child.send({"end": {}})
        except (MeasurementError, OSError, ValueError):
            child.kill()
            return
        if self._reader.ident is not None:
            self._reader.join(_END_TIMEOUT_S)
        if self._reader.is_alive():
            child.kill()
        else:
            child.end()

    def read(self) -> dict[str, Any]:
        """What was seen since the last reading: "samples", "from_ns", "clock_ns", and the named rows of
        "threads", "waits" and "aios".

        Raises MeasurementError when the observer has ended or does not answer.
        """
        if self._child is None:
            raise MeasurementError("the server's threads and waits are not observed any more")
        self._child.send({"edge": {}})
        return self._merged(self._until_edge())

    def _until_edge(self) -> list[dict[str, Any]]:
        """The windows up to one that was asked for; the first of all is put out without being asked for."""
        deadline = time.monotonic() + _EDGE_TIMEOUT_S
        windows: list[dict[str, Any]] = []
        while not windows or not windows[-1]["edge"]:
            document = self._next(deadline)
            if "window" not in document:
                raise MeasurementError("the server's threads and waits are not observed any more")
            windows.append(document["window"])
        return windows

    def _merged(self, windows: list[dict[str, Any]]) -> dict[str, Any]:
        """One window of several in a row: a thread's last counters are in the last that has it."""
        threads = {}
        for window in windows:
            for row in named(window["threads"], self.ready["thread_columns"]):
                threads[row["pid"], row["thread"], row["start_ns"]] = row
        return {
            "from_ns": windows[0]["from_ns"],
            "clock_ns": windows[-1]["clock_ns"],
            "samples": sum(window["samples"] for window in windows),
            "threads": list(threads.values()),
            "waits": [
                row for window in windows for row in named(window["waits"], self.ready["wait_columns"])
            ],
            "aios": named(windows[-1]["aios"], self.ready["aio_columns"]),
        }

    def _next(self, deadline: float) -> dict[str, Any]:
        """The next document; {} when there is none by then, or no more."""
        try:
            return self._heard.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return {}

    def _read(self, child: Child) -> None:
        try:
            while True:
                document = child.receive()
                self._heard.put(document)
                if "ended" in document:
                    return
        except (MeasurementError, OSError, ValueError):
            self._heard.put({})
