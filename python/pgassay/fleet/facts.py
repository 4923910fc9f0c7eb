"""What a machine of a fleet says of itself: gathered there, in a process of its own.

A process of its own, because its answers are those of the home folder and the namespaces in which the
experiment will run, and because a check that hangs must not hang who asked.
"""

import json
import shutil
from collections.abc import Callable

from pydantic import JsonValue

from pgassay import __version__
from pgassay.environment.builds.registry import ORIGINS
from pgassay.environment.doctor.registry import examine
from pgassay.environment.home import home
from pgassay.environment.linux import machine
from pgassay.errors import PgassayError
from pgassay.native.binary import build_id
from pgassay.trial.before_and_after import machine_speed

# The least of a few readings: what the machine can do while nobody else is at it.
_SPEED_READINGS = 3


def gather(*, noise_s: float, with_speed: bool) -> dict[str, JsonValue]:
    """The document. noise_s: how long the doctor watches the noise; with_speed: read the machine's speeds.

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
        document["speed"] = speeds()
    return document


def speeds() -> dict[str, JsonValue]:
    """Seconds of the tasks of `trial.before_and_after.machine_speed`, the least of three; a second in all."""
    tasks: dict[str, Callable[[], float]] = {
        "processor_s": machine_speed.canary_s,
        "memory_s": machine_speed.memory_s,
        "disk_s": lambda: machine_speed.disk_s(home()),
    }
    return {name: min(task() for _ in range(_SPEED_READINGS)) for name, task in tasks.items()}


def _native() -> str:
    """The checksum of the native binary's sources; '' where none works, which the doctor says."""
    try:
        return build_id()
    except PgassayError:
        return ""
