"""What a machine of a fleet says of itself: gathered there, in a process of its own.

A process of its own, because its answers are those of the home folder and the namespaces in which the
experiment will run, and because a check that hangs must not hang who asked.
"""

import json
import shutil

from pydantic import JsonValue

from pgassay import __version__
from pgassay.environment.builds.registry import ORIGINS
from pgassay.environment.doctor.registry import examine
from pgassay.environment.home import home
from pgassay.environment.linux import machine
from pgassay.errors import PgassayError
from pgassay.fleet import readings
from pgassay.native.binary import build_id


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
        document |= readings.take(with_storage=with_storage)
    return document


def _native() -> str:
    """The checksum of the native binary's sources; '' where none works, which the doctor says."""
    try:
        return build_id()
    except PgassayError:
        return ""
