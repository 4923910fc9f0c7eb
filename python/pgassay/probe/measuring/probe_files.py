"""The files a probe reads: one for reads from the device, one small enough to stay in the page cache."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.base import PAGE_BYTES
from pgassay.native.probe import NativeProbe, ProbeError
from pgassay.probe.measuring import probe_location

MB = 1 << 20
CACHED_BYTES = 192 * MB
CACHED_BYTES_MIN = 32 * MB
COLD_BYTES_MAX = 1024 * MB
COLD_BYTES_MIN = 64 * MB
# The share of a probe's time that writing its files may take.
_MAKING_SHARE = 0.08
_FIRST_BYTES = 8 * MB
SMALLEST_BYTES = COLD_BYTES_MIN + CACHED_BYTES_MIN + probe_location.WRITES_BYTES
Notify = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Files:
    """`cold` is evicted before it is read buffered, `cached` is read into the page cache first.

    With a file of the user's both are that one file. `cached_bytes`: how much of the cached file is read.
    """

    cold: Path
    cold_bytes: int
    cached: Path
    cached_bytes: int


def make_files(native: NativeProbe, folder: Path, seconds: float, notify: Notify) -> Files:
    """Write both files, as large as the time and the space allow.

    Raises UsageError when there is no space, MeasurementError when writing fails.
    """
    probe_location.check_space(folder, SMALLEST_BYTES)
    # A slow disk must not spend the probe's time on writing.
    first = folder / "first"
    bytes_per_s = _make(native, first, _FIRST_BYTES, notify) * 1e6
    first.unlink()
    room = probe_location.usable_bytes(folder)
    cached, cold = folder / "cached", folder / "cold"
    affordable = int(bytes_per_s * seconds * _MAKING_SHARE / 2)
    wanted = min(CACHED_BYTES, room // 4 + COLD_BYTES_MIN // 2, usable_memory_bytes() // 8)
    cached_bytes = _pages(max(CACHED_BYTES_MIN, min(wanted, affordable)))
    bytes_per_s = _make(native, cached, cached_bytes, notify) * 1e6
    affordable = int(bytes_per_s * seconds * _MAKING_SHARE)
    cold_bytes = _pages(max(COLD_BYTES_MIN, min(COLD_BYTES_MAX, room, affordable)))
    _make(native, cold, cold_bytes, notify)
    return Files(cold, cold_bytes, cached, cached_bytes)


def given_file(file: Path) -> Files:
    """The user's file in both roles, in whole pages; only its start is read into the page cache."""
    size_bytes = _pages(file.stat().st_size)
    cached_bytes = _pages(min(size_bytes, CACHED_BYTES, usable_memory_bytes() // 8))
    return Files(file, min(size_bytes, 4 * COLD_BYTES_MAX), file, cached_bytes)


def _pages(size_bytes: int) -> int:
    """As many whole megabytes as fit, so that requests of every size divide it."""
    return max(MB, size_bytes // MB * MB) // PAGE_BYTES * PAGE_BYTES


def _make(native: NativeProbe, file: Path, size_bytes: int, notify: Notify) -> float:
    notify(f"writing a file of {size_bytes // MB} MB", None)

    def progress(done: object) -> None:
        if isinstance(done, dict) and "bytes" in done:
            notify(f"writing a file of {size_bytes // MB} MB", done["bytes"] / size_bytes)

    try:
        return float(native.make(file, size_bytes, progress)["mb_s"])
    except ProbeError as error:
        if error.code == "no-space" or error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UsageError(
                f"{file.parent.parent} has no space for a file of {size_bytes // MB} MB: free some, or name "
                "another folder"
            ) from error
        raise MeasurementError(f"The probe can't write its file in {file.parent.parent}: {error}") from error
