"""The conversation with the native binary's command `probe`: one request, its answer, what may go wrong."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NotRequired, Self, TypedDict

from pgassay.errors import MeasurementError
from pgassay.model.probe import CellRun, CellSpec, ChecksumSpeed, Window
from pgassay.native.process import NativeProcess

# Fixed, so that two probes read the same pages in the same order.
SEED = 1


class MakeProgress(TypedDict):
    """How much of a file has been written."""

    bytes: int


class MadeFile(TypedDict):
    """A file that was written durably: its size, the time it took, 10⁶ bytes a second."""

    bytes: int
    elapsed_s: float
    mb_s: float


class FileFacts(TypedDict):
    """A file's size, its file system, whether it can be read past the page cache, and its part of that."""

    bytes: int
    file_system: str
    direct_io: bool | None
    resident_bytes: int


class WindowAnswer(TypedDict):
    """One of a cell's stretches of time: the fields of `model.probe.Window`."""

    start_s: float
    mb_s: float
    operations: int
    length_s: float


class CellAnswer(TypedDict):
    """What a read cell's measurement gives (`Record` of crates/probe/src/cell/record.rs).

    `time_s` holds the consumers' seconds by what they went to, and under "workers" those of I/O workers and
    helpers likewise. `path` are the decisions of the engine that takes any.
    """

    elapsed_s: float
    bytes: int
    operations: int
    mb_s: float
    iops: float
    latency_us: dict[str, float]
    cpu_s: dict[str, float]
    cpu_s_per_gb: NotRequired[float | None]
    time_s: dict[str, float | dict[str, float]]
    windows: list[WindowAnswer]
    verify_failures: int
    resident_bytes_before: NotRequired[int | None]
    device_read_bytes: NotRequired[int | None]
    synchronous_fallbacks: NotRequired[int | None]
    path: NotRequired[list[dict[str, object]]]


class WriteAnswer(TypedDict):
    """What a cell of durable writes gives: `per_s` writes a second, each acknowledged by the device."""

    elapsed_s: float
    operations: int
    mb_s: float
    per_s: float
    latency_us: dict[str, float]


OnProgress = Callable[[MakeProgress], None]


class ProbeError(MeasurementError):
    """The native side refused or failed; `code` says how (no-space, io-uring-refused, direct-refused, eio,
    short-read, too-many-files, or '' for anything else), `errno` is the system's number where there is
    one."""

    def __init__(self, message: str, code: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.errno = errno


class NativeProbe:
    """The native process for the length of a `with` block; it goes on after an error.

    Raises UsageError when there is no native binary of this version.
    """

    def __init__(self) -> None:
        self._process = NativeProcess("probe")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A cell that is running would otherwise be waited for.
        if kind is None:
            self._process.end()
        else:
            self._process.kill()

    def _ask(self, name: str, document: Mapping[str, object], progress: OnProgress | None = None) -> Any:
        """Send one request and return its answer; raises ProbeError, MeasurementError for a crash."""
        self._process.send({name: dict(document)})
        while True:
            answer = self._process.receive_line()
            if "error" in answer:
                failure = answer["error"]
                raise ProbeError(
                    str(failure["message"]), str(failure.get("code") or ""), failure.get("errno")
                )
            if "progress" not in answer:
                ((_, value),) = answer.items()
                assert isinstance(value, dict)
                return value
            if progress is not None:
                progress(answer["progress"])

    def make(self, file: Path, size_bytes: int, progress: OnProgress | None = None) -> MadeFile:
        """Write a file of valid pages that must not exist yet, durably."""
        made: MadeFile = self._ask("make", {"file": str(file), "bytes": size_bytes, "seed": SEED}, progress)
        return made

    def facts(self, file: Path) -> FileFacts:
        """What is known of a file."""
        facts: FileFacts = self._ask("facts", {"file": str(file)})
        return facts

    def evict(self, file: Path) -> int:
        """Drop a file from the page cache; returns the bytes that stayed."""
        return int(self._ask("evict", {"file": str(file)})["resident_bytes"])

    def warm(self, file: Path, size_bytes: int) -> int:
        """Read the start of a file into the page cache; returns the bytes that are there."""
        return int(self._ask("warm", {"file": str(file), "bytes": size_bytes})["resident_bytes"])

    def checksum(self, size_bytes: int) -> ChecksumSpeed:
        """How fast one core verifies pages in its cache, and reads memory."""
        answer = self._ask("checksum", {"bytes": size_bytes})
        return ChecksumSpeed(**{name: answer[name] for name in ChecksumSpeed.model_fields})

    def cell(self, spec: CellSpec, request: Mapping[str, object]) -> CellAnswer:
        """Run a read cell; `request` holds what the specification does not: file, duration_s, blocks, …"""
        answer: CellAnswer = self._ask(
            "cell",
            {
                "engine": spec.engine,
                "direct": spec.cache == "direct",
                "pattern": spec.pattern,
                "request_bytes": spec.request_bytes,
                "depth": spec.depth,
                "consumers": spec.consumers,
                "workers": spec.workers,
                "verify": spec.verify,
                "advise": spec.advise,
                "execute_ns_per_page": spec.execute_ns_per_page,
                "competing_cpus": spec.competing_cpus,
                "seed": SEED,
                **_unusual(spec),
                **request,
            },
        )
        return answer

    def write(self, folder: Path, spec: CellSpec, duration_s: float) -> WriteAnswer:
        """Run a cell of durable writes in a folder; what it writes is removed again."""
        answer: WriteAnswer = self._ask(
            "write",
            {
                "folder": str(folder),
                "kind": spec.pattern,
                "request_bytes": spec.request_bytes,
                "duration_s": duration_s,
                "method": "fdatasync",
            },
        )
        return answer


def _unusual(spec: CellSpec) -> dict[str, object]:
    """What most cells leave as it is."""
    asked = {"workers_min": spec.workers_min, "pins": spec.pins, "found": spec.found or None}
    return {name: value for name, value in asked.items() if value is not None}


def run_of(answer: CellAnswer, started_s: float) -> CellRun:
    """A read cell's answer as a run."""
    times = answer["time_s"]
    workers = times.get("workers")
    read = {name: value for name, value in answer.items() if name in CellRun.model_fields}
    made = {
        "started_s": started_s,
        "latency_us": _numbers(answer["latency_us"]),
        "cpu_s": _numbers(answer["cpu_s"]),
        "time_s": _numbers(times),
        "worker_time_s": _numbers(workers) if isinstance(workers, dict) else {},
        "windows": _whole_windows(answer["windows"]),
        "synchronous_fallbacks": answer.get("synchronous_fallbacks") or 0,
    }
    return CellRun.model_validate(read | made)


def _whole_windows(documents: Sequence[WindowAnswer]) -> tuple[Window, ...]:
    """The windows without a last one that was cut short."""
    windows = [Window(**document) for document in documents]
    longest = max((window.length_s for window in windows), default=0.0)
    return tuple(window for window in windows if window.length_s >= longest / 2)


def write_run_of(answer: WriteAnswer, started_s: float, request_bytes: int) -> CellRun:
    """A durable write's answer as a run."""
    return CellRun(
        started_s=started_s,
        elapsed_s=answer["elapsed_s"],
        bytes=answer["operations"] * request_bytes,
        operations=answer["operations"],
        mb_s=answer["mb_s"],
        iops=answer["per_s"],
        latency_us=_numbers(answer["latency_us"]),
    )


def _numbers(document: Mapping[str, object]) -> dict[str, float]:
    return {name: float(value) for name, value in document.items() if isinstance(value, int | float)}
