"""One probe from its start to its record: place → files → what works → rounds of cells → record."""

import random
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pgassay import __version__
from pgassay.environment import lock
from pgassay.environment.builds.registry import resolve
from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.cleanup import registry
from pgassay.environment.linux import machine
from pgassay.environment.linux.free_memory import reporting_balloons
from pgassay.errors import UsageError
from pgassay.model.probe import FIRST_MAJOR, ChecksumSpeed, ExecutorCost, ProbeRecord
from pgassay.native.probe import NativeProbe, ProbeError
from pgassay.probe.analysis.cell_order import Course
from pgassay.probe.measuring import probe_location as places
from pgassay.probe.measuring.executor import executor_cost
from pgassay.probe.measuring.facilities import try_facilities
from pgassay.probe.measuring.probe_files import SMALLEST_BYTES, Files, Notify, given_file, make_files
from pgassay.probe.measuring.runner import Runner

SECONDS_MIN = 3.0
_CELLS_AFFORDED = 200
_CELL_S_MIN, _CELL_S_MAX = 0.1, 2.0
# Preparing a cell's caches and starting its threads.
_OVERHEAD_S = 0.05
_CHECKSUM_BYTES = 64 << 20


@dataclass(frozen=True)
class ProbeRequest:
    """What the user asked for: `file` is read instead of one that the probe makes; `build` as `--pg` says."""

    path: Path
    file: Path | None = None
    seconds: float = 60.0
    build: str | None = None
    vary_read_ahead: bool = True
    seed: int | None = None


def run_probe(request: ProbeRequest, notify: Notify, *, wait: bool) -> ProbeRecord:
    """Measure; raises UsageError before anything is, MeasurementError when the device or the file fails.

    Nothing is left on the disk, whatever ends it; what a killed probe left goes first.
    """
    _check(request)
    place = places.check_file(request.file) if request.file else _folder_with_space(request.path)
    build = resolve(request.build) if request.build else None
    with _exclusive_host(notify, wait=wait):
        started = time.monotonic()
        notify("measuring the executor's time per page", None)
        cost, major = executor_cost(build)
        with ExitStack() as stack:
            # The native process ends before its folder goes: it may be making a file there.
            folder = None if request.file else stack.enter_context(places.own_folder(request.path))
            native = stack.enter_context(NativeProbe())
            files = _files(request, native, folder, notify)
            return _measure(request, place, files, native, (cost, major), notify, started)


def _folder_with_space(path: Path) -> places.ProbeLocation:
    """The folder, with room for the smallest files: no time is spent before it turns out too small."""
    place = places.check_folder(path)
    places.check_space(path, SMALLEST_BYTES)
    return place


def _check(request: ProbeRequest) -> None:
    if request.seconds < SECONDS_MIN:
        raise UsageError(
            f"--seconds {request.seconds:g} is too short to measure: give at least {SECONDS_MIN:g}"
        )


@contextmanager
def _exclusive_host(notify: Notify, *, wait: bool) -> Iterator[None]:
    def waiting(holder: int | None) -> None:
        notify(
            f"waiting: {f'process {holder}' if holder else 'another process'} is measuring on this host", None
        )

    with lock.acquire(wait, waiting):
        for sentence in registry.sweep():
            notify(sentence, None)
        yield


def _files(request: ProbeRequest, native: NativeProbe, folder: Path | None, notify: Notify) -> Files:
    if request.file is not None:
        return given_file(request.file)
    assert folder is not None
    return make_files(native, folder, request.seconds, notify)


def _measure(
    request: ProbeRequest,
    place: places.ProbeLocation,
    files: Files,
    native: NativeProbe,
    executor: tuple[ExecutorCost, int],
    notify: Notify,
    started: float,
) -> ProbeRecord:
    cost, build_major = executor
    major = max(FIRST_MAJOR, build_major)
    have, missing = try_facilities(
        native,
        files,
        place,
        execute_ns=round(cost.ns_per_page),
        vary_read_ahead=request.vary_read_ahead and request.file is None,
        major=major,
    )
    checksum = _checksum(native, missing)
    seed = request.seed if request.seed is not None else secrets.randbelow(2**31)
    cell_s = min(_CELL_S_MAX, max(_CELL_S_MIN, request.seconds / _CELLS_AFFORDED))
    runner = Runner(native, files, place, cell_s, major)
    _rounds(runner, Course(have, random.Random(seed)), started + request.seconds, notify)
    return ProbeRecord(
        pgassay_version=__version__,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        path=str(place.path),
        seconds=time.monotonic() - started,
        cores=have.cores,
        device=places.device_facts(place),
        machine=dict(machine.facts()),
        file={
            "bytes": files.cold_bytes,
            "cached_bytes": files.cached_bytes,
            "made": request.file is None,
            "seed": seed,
            "cell_s": cell_s,
        },
        executor=cost,
        checksum=checksum,
        missing=missing,
        cells=runner.cells,
        warnings=(*_version_warnings(build_major), *_memory_warnings(), *runner.warnings),
        major=major,
    )


def _version_warnings(build_major: int) -> list[str]:
    if build_major >= FIRST_MAJOR:
        return []
    return [
        f"PostgreSQL {build_major} has no io_method: reads follow the rules of {FIRST_MAJOR}, as after an "
        f"upgrade to it, and only the executor's cost is that of {build_major}."
    ]


def _memory_warnings() -> list[str]:
    """Whether what buffered reads cost depends on what was done with the memory before."""
    balloons = reporting_balloons()
    if not balloons or usable_memory_bytes() < machine.memory_bytes():
        return []
    return [
        f"The hypervisor takes free memory back ({balloons[0]}): a cold buffered read costs more the longer "
        "the memory was free that it goes into. A cap on the probe's memory (systemd-run --scope -p "
        "MemoryMax=256M, with --seconds 240) makes these figures steady."
    ]


def _checksum(native: NativeProbe, missing: dict[str, str]) -> ChecksumSpeed | None:
    try:
        return native.checksum(_CHECKSUM_BYTES)
    except ProbeError as error:
        missing["checksum"] = f"The checksum's speed could not be measured: {error}"
        return None


def _rounds(runner: Runner, course: Course, deadline: float, notify: Notify) -> None:
    """Rounds until the time is used; a cell that would end after it is not begun.

    The cells without which there is nothing to say are run in any case.
    """
    first = time.monotonic()
    while cells := course.next_cells(runner.cells, runner.refused):
        for spec in cells:
            left = deadline - time.monotonic()
            is_owed = spec in course.always and spec not in runner.measured
            if left < runner.cell_s + _OVERHEAD_S and not is_owed:
                return
            done = 1 - left / max(deadline - first, 1e-9)
            notify(f"measuring cell {sum(len(cell.runs) for cell in runner.cells) + 1}", done)
            runner.run(spec)
