"""A block device's file that answers as a volume's model says: the native binary's command `volume`.

One process serves one volume, or several that may share the limits of an instance, each by its own thread.

Its figures come each second, asked for or not, so a thread reads them. Nothing here waits for the volume
itself: who hangs on it must not keep its server from going on.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypedDict

from pgassay.errors import MeasurementError
from pgassay.native.process import NativeProcess, StatementError

_ANSWER_TIMEOUT_S = 20.0
# So many looks in a row that find nothing new: a machine that stood still for a moment has missed one.
_SILENT_LOOKS = 4
# Above the least of the real-time ones: a client that has that one doesn't keep its volume waiting.
_PRIORITY = 2


class Delay(TypedDict):
    """How much later than the model says answers were sent, in microseconds."""

    mean: float
    p50: float
    p99: float
    max: float


class CreditLevel(TypedDict):
    """What is left of a limiter's credits; `emptied_ns`: when none were left, from the model's time 0."""

    limiter: str
    volume: int | None
    unit: str
    credits: int
    capacity: int
    emptied_ns: int | None


class Second(TypedDict):
    """The figures of a second (`Second` of crates/fuse/src/figures.rs).

    `reads`, `writes` and `flushes` were answered, `late` of them later than the model says by more than a
    twentieth of their latency; `operations` as the volume counts them, bytes, and the sums
    `queued_ms` (by limits) and `latency_ms` (without them) are of requests that arrived. `failed`: those that
    the image could not serve, with the number of the first one's `error`. `cpu_s` is what serving took;
    `overhead_us` is what was taken from the latency of a small request for its way through the kernel.
    """

    clock_ns: int
    elapsed_s: float
    reads: int
    writes: int
    flushes: int
    operations: int
    bytes_read: int
    bytes_written: int
    queued_ms: float
    latency_ms: float
    overhead_us: float
    in_flight: int
    own_delay_us: Delay
    late: int
    failed: int
    error: int
    cpu_s: float
    credits: list[CreditLevel]


class Traced(TypedDict):
    """What became of a trace's file (`Traced` of crates/fuse/src/trace.rs); `error`: why it ends early."""

    requests: int
    lost: int
    bytes: int
    error: str | None


class Overhead(TypedDict):
    """What the way to a block device and back takes in ns (`Overhead` of crates/fuse/src/overhead.rs).

    Of small reads: the lower quartile of the medians of several rounds, the 99th percentile of all, and the
    least and the largest median of a round.
    """

    p50_ns: int
    p99_ns: int
    low_ns: int
    high_ns: int


# The figures of a second that are one number.
Counted = Literal[
    "elapsed_s",
    "reads",
    "writes",
    "flushes",
    "operations",
    "bytes_read",
    "bytes_written",
    "queued_ms",
    "latency_ms",
    "overhead_us",
    "in_flight",
    "late",
    "failed",
    "cpu_s",
]


class _Process:
    """The native process, which may serve several volumes: its lines go to who they are for.

    `members`: by name, those that are served; the first one has none.
    """

    def __init__(self) -> None:
        # The next start finds who served by the mount, so nothing need be known before it is there.
        self.native = NativeProcess("volume")
        self.members: dict[str, VolumeServer] = {}
        self.reader = threading.Thread(target=self._read, name="volume", daemon=True)
        self._sending = threading.Lock()

    def send(self, document: Mapping[str, object]) -> None:
        """One line, whole; raises MeasurementError or OSError where nobody reads it."""
        with self._sending:
            self.native.send(document)

    def begin_reading(self) -> None:
        """Hand out lines until the process ends."""
        self.reader.start()

    def _read(self) -> None:
        with contextlib.suppress(MeasurementError, ValueError, OSError):
            while True:
                document = self.native.receive_line()
                named = document.get("of")
                member = self.members.get("" if named is None else named["name"])
                if member is not None:
                    member.take(document if named is None else named["line"])
        for member in list(self.members.values()):
            member.take({"ended": {}})


class VolumeServer:
    """A volume that is served; a context manager that ends and unmounts it.

    Args:
        folder: where its file system is mounted; it has one file, `file`.
        size_bytes: the size of an image in memory.
        image: a file that is the image, in place of `size_bytes`.
        on_hung: called, on a thread of its own, when the process says nothing under a model any more although
            it lives. All who use the volume wait then, and nobody else would end that.
        look_s: how often that is looked for; it takes four looks.
        beside: another volume, whose process serves this one too: both can share the limits of an instance.
        name: what this one is called there.

    Raises:
        StatementError: FUSE or the image is refused.
        UsageError: there is no native binary of this version.
    """

    def __init__(
        self,
        folder: Path,
        *,
        size_bytes: int | None = None,
        image: Path | None = None,
        on_hung: Callable[[], object] | None = None,
        look_s: float = 5.0,
        beside: "VolumeServer | None" = None,
        name: str = "",
    ) -> None:
        self._name = "" if beside is None else name
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._seconds: queue.SimpleQueue[Second] = queue.SimpleQueue()
        self._has_ended = threading.Event()
        self._has_spoken = threading.Event()
        self._is_imposed = False
        self._is_tracing = False
        self.traced: Traced | None = None
        image_path = None if image is None else str(image.absolute())
        document = {"folder": str(folder), "bytes": size_bytes, "path": image_path}
        if beside is None:
            self._process = _Process()
            ready = self._begun(document)
        else:
            self._process = beside._process
            self._process.members[name] = self
            try:
                self._process.send({"serve": {"name": name, "volume": document}})
                ready = self._answer("ready")
            except MeasurementError as error:
                del self._process.members[name]
                raise StatementError(str(error), None) from error
        self.file = Path(ready["file"])
        self.is_locked = bool(ready["locked"])
        self.is_flusher = bool(ready["io_flusher"])
        _run_first(int(ready["thread"]))
        if on_hung is not None:
            threading.Thread(
                target=self._watch, args=(on_hung, look_s), name="volume-watch", daemon=True
            ).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The serving process."""
        return self._process.native.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone: then every request of the block device fails."""
        return self._has_ended.is_set()

    def impose(
        self,
        model: Mapping[str, object],
        seed: int,
        trace: Path | None = None,
        instance: Mapping[str, object] | None = None,
    ) -> int:
        """Answer as the model says, from its credits at the beginning; returns its time 0 (monotonic).

        `trace`: a new file in which the requests are recorded until `release`. `instance`: a model of limits
        that are shared with all volumes of the process on which the same are imposed meanwhile.
        """
        while not self._seconds.empty():
            self._seconds.get()
        path = None if trace is None else str(trace.absolute())
        told = {"model": model, "seed": seed, "trace": path, "instance": instance}
        clock_ns = self._ask({"impose": told}, "imposed")["clock_ns"]
        self._is_imposed = True
        self._is_tracing, self.traced = trace is not None, None
        return int(clock_ns)

    def release(self) -> list[Second]:
        """Answer at once again; returns the figures since the last call of `seconds`.

        Where requests were recorded, their file is whole on return, and `traced` says what became of it.
        """
        self._is_imposed = False
        last: Second = self._ask({"release": {}}, "released")
        if self._is_tracing:
            self._is_tracing = False
            self.traced = self._answer("traced")
        return [*self.seconds(), last]

    def seconds(self) -> list[Second]:
        """The figures that have come since the last call, the oldest first."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._seconds.get_nowait())
        return found

    def next_second(self, timeout_s: float) -> Second | None:
        """Wait for the next figures; None when the time is over or the process has ended."""
        try:
            return self._seconds.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def measure_overhead(self, device: Path) -> Overhead:
        """What the way to the block device takes, which is taken from every latency from now on, and of large
        requests what they take more; while a model holds, what the device's own counters say of it."""
        found: Overhead = self._ask({"measure_overhead": {"device": str(device)}}, "overhead")
        return found

    def measure_ceiling(self, device: Path) -> tuple[float, float]:
        """The most that is answered here: random reads of 8 kB, and bytes in sequence, a second."""
        found = self._ask({"measure_ceiling": {"device": str(device)}}, "ceiling")
        return float(found["random_reads_per_s"]), float(found["bytes_per_s"])

    def end(self) -> None:
        """Unmount and end; may be called for one that has ended."""
        with contextlib.suppress(MeasurementError, OSError, ValueError):
            self._tell({"end": {}})
        members = self._process.members
        if members == {self._name: self}:
            self._process.native.end()
            self._process.reader.join(_ANSWER_TIMEOUT_S)
        else:
            # Others are still served by the process.
            self._has_ended.wait(_ANSWER_TIMEOUT_S)
        members.pop(self._name, None)

    def _begun(self, document: Mapping[str, object]) -> dict[str, Any]:
        """Start the process with this volume as its first."""
        process = self._process
        try:
            process.send(document)
            ready: dict[str, Any] = process.native.receive()["ready"]
        except BaseException:
            process.native.kill()
            raise
        process.members[self._name] = self
        process.begin_reading()
        return ready

    def _tell(self, document: Mapping[str, object]) -> None:
        self._process.send({"to": {"name": self._name, "told": document}} if self._name else document)

    def _ask(self, document: Mapping[str, object], key: str) -> Any:
        self._tell(document)
        return self._answer(key)

    def _answer(self, key: str) -> Any:
        try:
            answer = self._answers.get(timeout=_ANSWER_TIMEOUT_S)
        except queue.Empty:
            raise MeasurementError(
                f"The server of the volume did not answer within {_ANSWER_TIMEOUT_S:.0f} s: "
                "end what else keeps this machine busy."
            ) from None
        if key in answer:
            return answer[key]
        failure = answer.get("error", {"message": "it has ended"})
        raise MeasurementError(f"The server of the volume failed: {failure['message']}.")

    def take(self, line: dict[str, Any]) -> None:
        """A line of the process that is for this volume; called by the thread that reads them."""
        self._has_spoken.set()
        if "second" in line:
            self._seconds.put(line["second"])
        elif "ended" in line:
            self._has_ended.set()
            self._answers.put({})
        else:
            self._answers.put(line)

    def _watch(self, on_hung: Callable[[], object], look_s: float) -> None:
        silent = 0
        while not self._has_ended.wait(look_s):
            silent = 0 if self._has_spoken.is_set() or not self._is_imposed else silent + 1
            self._has_spoken.clear()
            if silent >= _SILENT_LOOKS:
                on_hung()
                return


def _run_first(thread: int) -> None:
    """Let it run before others: a delay of its own would be one of the volume's."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(_PRIORITY))
