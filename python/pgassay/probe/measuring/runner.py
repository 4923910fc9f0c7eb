"""Runs single cells: brings the caches and the device into the state that a cell asks for, then measures."""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from pgassay.environment.cleanup import registry
from pgassay.environment.linux import device as devices
from pgassay.errors import MeasurementError
from pgassay.model.base import PAGE_BYTES
from pgassay.model.probe import BITMAP_FRACTION, FIRST_MAJOR, SCAN_BYTES, CellRun, CellSpec, MeasuredCell
from pgassay.native.probe import NativeProbe, ProbeError, run_of, write_run_of
from pgassay.probe.measuring.probe_files import MB, Files
from pgassay.probe.measuring.probe_location import ProbeLocation

# A cold cell that found more than this share of its file in the page cache was not cold.
_RESIDENT_FRACTION_MAX = 0.01
# A cached cell that found less than this share of its file there was not cached.
_CACHED_FRACTION_MIN = 0.99
# How much of a file may be read through the page cache before pages come back that are no longer cold.
_COLD_SHARE = defaultdict(lambda: 1.0, {"gaps": BITMAP_FRACTION, "random": 0.1, "dependent": 0.1})
_WARM_RUNS_MAX = 2
# PGAIO_SUBMIT_BATCH_SIZE.
_SUBMIT_BATCH = 32
# A cell is judged after its first 50 ms. A pool of workers that grows does in these what a server's does in a
# second, which starts one every 100 ms and keeps it for a minute after its last use (io_worker_idle_timeout).
_LAUNCH_INTERVAL_MS = 5
_GONE = ("short-read", "eio")


class Runner:
    """Keeps every run of every cell, in the order in which cells were first run."""

    def __init__(
        self, native: NativeProbe, files: Files, place: ProbeLocation, cell_s: float, major: int = FIRST_MAJOR
    ) -> None:
        self._native = native
        self._files = files
        self._place = place
        self.cell_s = cell_s
        self._major = major
        self._started = time.monotonic()
        self._runs: dict[CellSpec, list[CellRun]] = defaultdict(list)
        self.warnings: dict[str, None] = {}
        self.refused: set[CellSpec] = set()
        self._warm_runs: Counter[CellSpec] = Counter()

    @property
    def cells(self) -> tuple[MeasuredCell, ...]:
        """Each cell that was run, with its runs in their order."""
        return tuple(MeasuredCell(spec=spec, runs=tuple(runs)) for spec, runs in self._runs.items())

    @property
    def measured(self) -> Collection[CellSpec]:
        """The cells that have a run."""
        return self._runs.keys()

    def run(self, spec: CellSpec) -> None:
        """Run a cell once; a cell that can't be run is remembered in `refused`, with a warning.

        Raises MeasurementError when the device or the file fails, since no other cell would do better.
        """
        try:
            made = self._write(spec) if spec.engine == "write" else self._read(spec)
        except ProbeError as error:
            if error.code in _GONE:
                raise MeasurementError(_failure(error, self._files)) from error
            self.refused.add(spec)
            self.warnings[f"Cells of {spec.engine} could not all be run: {error}"] = None
            return
        if made is not None:
            self._runs[spec].append(made)

    def _write(self, spec: CellSpec) -> CellRun:
        assert self._place.folder is not None
        started_s = time.monotonic() - self._started
        answer = self._native.write(self._files.cold.parent, spec, self.cell_s)
        return write_run_of(answer, started_s, spec.request_bytes)

    def _read(self, spec: CellSpec) -> CellRun | None:
        if not self._set_up_cache(spec):
            return None
        with self._read_ahead(spec.read_ahead_kb):
            started_s = time.monotonic() - self._started
            answer = self._native.cell(spec, self._request(spec))
        made = run_of(answer, started_s)
        if spec.cache == "cold" and self._was_warm(made):
            self.warnings[
                "Some cold cells found their file in the page cache and were left out: another process reads "
                "it."
            ] = None
            # Once more may help; a file that others keep reading never gets cold.
            self._warm_runs[spec] += 1
            if self._warm_runs[spec] >= _WARM_RUNS_MAX:
                self.refused.add(spec)
            return None
        if made.verify_failures and self._place.folder is not None:
            raise MeasurementError(
                f"{made.verify_failures} pages came back from {self._place.path} with wrong checksums: this "
                "device does not return what was written to it."
            )
        return made

    def _set_up_cache(self, spec: CellSpec) -> bool:
        """Make the cache's state; False, with a warning, where the file does not stay in the page cache."""
        if spec.engine == "null":
            return True
        if spec.cache != "cached":
            # Direct reads of pages that lie in the cache are slower than those of a device alone.
            self._native.evict(self._files.cold)
            return True
        resident_bytes = self._native.warm(self._files.cached, self._files.cached_bytes)
        # A file system with a cache of its own (ZFS) has nothing in the kernel's.
        if not resident_bytes or resident_bytes >= self._files.cached_bytes * _CACHED_FRACTION_MIN:
            return True
        self.refused.add(spec)
        self.warnings[
            "Cached reads are left out: the page cache does not keep the "
            f"{self._files.cached_bytes // MB} MB that they read; give the probe more memory."
        ] = None
        return False

    def _was_warm(self, made: CellRun) -> bool:
        limit = self._files.cold_bytes * _RESIDENT_FRACTION_MAX
        return made.resident_bytes_before is not None and made.resident_bytes_before > limit

    def _request(self, spec: CellSpec) -> dict[str, object]:
        is_cached = spec.cache == "cached"
        file = self._files.cached if is_cached else self._files.cold
        size_bytes = self._files.cached_bytes if is_cached else self._files.cold_bytes
        # A device's random reads are taken as they come, and asked for as benchmarks of devices do.
        as_benchmark = spec.pattern == "random"
        request: dict[str, object] = {
            "file": str(file),
            "first_block": 0,
            "blocks": size_bytes // PAGE_BYTES,
            "duration_s": self.cell_s,
            "bytes_max": int(size_bytes * _COLD_SHARE[spec.pattern]) if spec.cache == "cold" else None,
            "in_order": not as_benchmark,
            "defer_completions": as_benchmark,
            "submit_batch": 1 if as_benchmark else _SUBMIT_BATCH,
            "major": self._major,
        }
        if spec.pattern == "gaps":
            request["gap"] = BITMAP_FRACTION
        if spec.pattern == "parallel":
            request["table_blocks"] = SCAN_BYTES // PAGE_BYTES
        if spec.workers_min is not None:
            request["launch_interval_ms"] = _LAUNCH_INTERVAL_MS
        return request

    @contextmanager
    def _read_ahead(self, value_kb: int | None) -> Iterator[None]:
        """The device's read-ahead at a value for one cell; registered, so that a crash does not leave it."""
        device = self._place.device
        before_kb = None if value_kb is None else devices.read_ahead_kb(device)
        if value_kb is None or before_kb == value_kb:
            yield
            return
        disk = devices.disk_of(device).name
        assert before_kb is not None
        token = registry.register("read_ahead", disk=disk, value_kb=before_kb)
        try:
            devices.set_read_ahead_kb(device, value_kb)
            yield
        finally:
            devices.set_read_ahead_kb(device, before_kb)
            registry.forget(token)


def _failure(error: ProbeError, files: Files) -> str:
    if error.code == "short-read":
        return (
            f"{files.cold} became shorter while it was read: let the probe make a file of its own, or name "
            "one that nobody changes."
        )
    return f"The device failed while it was read ({str(error).rstrip('.')}): check the kernel's log (dmesg)."
