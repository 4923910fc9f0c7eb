"""What a machine of a fleet says of itself: gathered there, in a process of its own.

A process of its own, because its answers are those of the home folder and the namespaces in which the
experiment will run, and because a check that hangs must not hang who asked. How fast it is, by fixed tasks
and cells of the probe, is read several times each, in turn, so that what the readings differ by says how far
another machine's may be from them by chance.
"""

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from pydantic import JsonValue

from pgassay import __version__
from pgassay.environment import lock
from pgassay.environment.builds.registry import ORIGINS
from pgassay.environment.cleanup import registry
from pgassay.environment.doctor.registry import examine
from pgassay.environment.home import home
from pgassay.environment.linux import machine
from pgassay.errors import MeasurementError, PgassayError
from pgassay.model.base import PAGE_BYTES
from pgassay.model.probe import CellSpec
from pgassay.native.binary import build_id
from pgassay.native.probe import NativeProbe
from pgassay.probe.analysis.estimates import rate_of
from pgassay.probe.analysis.probe_plan import fdatasync_cell, random_ceiling, sequential_ceiling
from pgassay.probe.measuring import probe_location as places
from pgassay.probe.measuring.facilities import try_facilities
from pgassay.probe.measuring.probe_files import make_files
from pgassay.probe.measuring.runner import Runner
from pgassay.trial.snapshots import machine_speed

ROUNDS = 5
_CELL_S = 0.2
# The files of the probe are as large as a probe of so many seconds makes them.
_FILES_OF_S = 3.0
_DEPTH = 32
_MEGABYTE = 1e6


def gather(*, noise_s: float, with_speed: bool, with_storage: bool = False) -> dict[str, JsonValue]:
    """The document. noise_s: how long the doctor watches the noise; with_speed: read the machine's speeds,
    with_storage: and those of the disk below its home, which takes some seconds more.

    Raises UsageError when pgassay's home can't be used here.
    """
    found = machine.facts()
    document: dict[str, JsonValue] = {
        "host": machine.host_identity(),
        "machine": json.loads(json.dumps(found)),
        "pgassay": __version__,
        "native": _native(),
        "home": str(home()),
        "disk_free_bytes": shutil.disk_usage(home()).free,
        "doctor": examine(noise_s).model_dump(mode="json", by_alias=True),
        "builds": [
            {
                "origin": build.origin,
                "version": build.version,
                "bin_directory": build.bin_directory,
                "binary_sha256": build.binary_sha256,
            }
            for origin in ORIGINS
            for build in origin.builds()
        ],
    }
    if with_speed:
        document |= take(with_storage=with_storage)
    return document


def _native() -> str:
    """The checksum of the native binary's sources; '' where none works, which the doctor says."""
    try:
        return build_id()
    except PgassayError:
        return ""


def take(*, with_storage: bool) -> dict[str, JsonValue]:
    """`readings` by what was read, in the unit that its name ends with; `missing`: why something is not.

    While another experiment measures here nothing is read: that would disturb it.
    """
    readings: dict[str, JsonValue] = {}
    missing: list[str] = []
    with ExitStack() as stack:
        try:
            stack.enter_context(lock.acquire(wait=False, on_wait=lambda _holder: None))
        except PgassayError as error:
            return {"readings": {}, "missing": str(error)}
        registry.sweep()
        tasks = dict(_TASKS)
        if with_storage:
            try:
                tasks |= stack.enter_context(_Storage()).tasks()
            except PgassayError as error:
                missing.append(str(error))
        taken: dict[str, list[JsonValue]] = {name: [] for name in tasks}
        for _ in range(ROUNDS):
            for name, task in list(tasks.items()):
                try:
                    taken[name].append(task())
                except PgassayError as error:
                    missing.append(str(error))
                    del tasks[name]
        readings = {name: taken[name] for name in tasks}
    return {"readings": readings, "missing": "; ".join(missing)}


class _Storage:
    """The disk below the home, by cells of the probe; a context manager, which leaves nothing."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> "_Storage":
        # The native process ends before its folder goes: it may be making a file there.
        place = places.check_folder(home())
        folder = self._stack.enter_context(places.own_folder(home()))
        native = self._stack.enter_context(NativeProbe())
        files = make_files(native, folder, _FILES_OF_S, lambda *_: None)
        made = places.ProbeLocation(place.path, folder, place.device, place.file_system)
        have, _ = try_facilities(native, files, made, execute_ns=0, vary_read_ahead=False)
        self._runner = Runner(native, files, made, _CELL_S)
        self._cells: dict[str, CellSpec] = {
            "sequential_read_mb_s": sequential_ceiling(have),
            "random_read_per_s": random_ceiling(have, 1),
            "deep_random_read_per_s": random_ceiling(have, _DEPTH),
            "fdatasync_per_s": fdatasync_cell(),
        }
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def tasks(self) -> dict[str, Callable[[], float]]:
        """What reads each cell once."""
        return {name: partial(self._read, name) for name in self._cells}

    def _read(self, name: str) -> float:
        """Raises MeasurementError for a cell that can't be run here."""
        spec = self._cells[name]
        self._runner.run(spec)
        runs = next((cell.runs for cell in self._runner.cells if cell.spec == spec), ())
        if spec in self._runner.refused or not runs:
            raise MeasurementError(
                f"{name.replace('_', ' ')} can't be measured: run pgassay probe there to see why"
            )
        rate = rate_of(spec, runs[-1])
        return rate * _MEGABYTE / PAGE_BYTES if name.endswith("read_per_s") else rate


_TASKS: dict[str, Callable[[], float]] = {
    "processor_s": machine_speed.canary_s,
    "memory_s": machine_speed.memory_s,
    "disk_s": lambda: machine_speed.disk_s(home()),
}
