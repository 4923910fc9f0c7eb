"""The conversation with `pgassay-native probe`: one request, its answer, and what may go wrong."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pgassay.errors import MeasurementError
from pgassay.model.probe import CellRun, CellSpec, ChecksumSpeed, Window
from pgassay.native import Child

# Fixed, so that two probes read the same pages in the same order.
SEED = 1
Progress = Callable[[Mapping[str, Any]], None]


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
        self._child = Child("probe", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A cell that is running would otherwise be waited for.
        if kind is None:
            self._child.end()
        else:
            self._child.kill()

    def ask(self, name: str, document: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """Send one request and return its answer; raises ProbeError, MeasurementError for a crash."""
        self._child.send({name: dict(document)})
        while True:
            answer = self._child.receive_line()
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

    def make(self, file: Path, size_bytes: int, progress: Progress | None = None) -> dict[str, Any]:
        """Write a file of valid pages that must not exist yet, durably; returns bytes, elapsed_s, mb_s."""
        return self.ask("make", {"file": str(file), "bytes": size_bytes, "seed": SEED}, progress)

    def facts(self, file: Path) -> dict[str, Any]:
        """bytes, file_system, direct_io, resident_bytes of a file."""
        return self.ask("facts", {"file": str(file)})

    def evict(self, file: Path) -> int:
        """Drop a file from the page cache; returns the bytes that stayed."""
        return int(self.ask("evict", {"file": str(file)})["resident_bytes"])

    def warm(self, file: Path, size_bytes: int) -> int:
        """Read the start of a file into the page cache; returns the bytes that are there."""
        return int(self.ask("warm", {"file": str(file), "bytes": size_bytes})["resident_bytes"])

    def checksum(self, size_bytes: int) -> ChecksumSpeed:
        """How fast one core verifies pages in its cache, and reads memory."""
        answer = self.ask("checksum", {"bytes": size_bytes})
        return ChecksumSpeed(**{name: answer[name] for name in ChecksumSpeed.model_fields})

    def cell(self, spec: CellSpec, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run a read cell; `request` holds what the specification does not: file, duration_s, blocks, …"""
        return self.ask(
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
                **request,
            },
        )

    def write(self, folder: Path, spec: CellSpec, duration_s: float) -> dict[str, Any]:
        """Run a cell of durable writes in a folder; what it writes is removed again."""
        return self.ask(
            "write",
            {
                "folder": str(folder),
                "kind": spec.pattern,
                "request_bytes": spec.request_bytes,
                "duration_s": duration_s,
                "method": "fdatasync",
            },
        )


def run_of(answer: Mapping[str, Any], started_s: float) -> CellRun:
    """A read cell's answer as a run."""
    times = dict(answer["time_s"])
    workers = times.pop("workers", None) or {}
    return CellRun(
        started_s=started_s,
        elapsed_s=answer["elapsed_s"],
        bytes=answer["bytes"],
        operations=answer["operations"],
        mb_s=answer["mb_s"],
        iops=answer["iops"],
        latency_us=_numbers(answer["latency_us"]),
        cpu_s=_numbers(answer["cpu_s"]),
        cpu_s_per_gb=answer.get("cpu_s_per_gb"),
        time_s=_numbers(times),
        worker_time_s=_numbers(workers),
        windows=_whole_windows(answer["windows"]),
        verify_failures=answer["verify_failures"],
        resident_bytes_before=answer.get("resident_bytes_before"),
        device_read_bytes=answer.get("device_read_bytes"),
        synchronous_fallbacks=answer.get("synchronous_fallbacks") or 0,
        path=answer.get("path"),
    )


def _whole_windows(documents: Sequence[Mapping[str, Any]]) -> tuple[Window, ...]:
    """The windows without a last one that was cut short."""
    windows = [Window(**document) for document in documents]
    longest = max((window.length_s for window in windows), default=0.0)
    return tuple(window for window in windows if window.length_s >= longest / 2)


def write_run_of(answer: Mapping[str, Any], started_s: float, request_bytes: int) -> CellRun:
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


def _numbers(document: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in document.items() if isinstance(value, int | float)}
