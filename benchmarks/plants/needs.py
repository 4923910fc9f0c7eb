"""What plants need of the machine: each answers why it can't be had, or ''."""

import os
from collections.abc import Callable
from pathlib import Path

from pgassay.environment.cgroup.group import Ability, capabilities
from pgassay.storage.imitated_device import why_not
from pgassay.storage.registry import KINDS

_MEMORY_DISK = Path("/dev/shm")
_MEMORY_DISK_BYTES = 3 << 30


def _loop() -> str:
    return KINDS["loop"].capability() or ""


def _group(ability: Ability) -> Callable[[], str]:
    def why() -> str:
        capability = capabilities()[ability]
        return "" if capability.is_available else capability.reason

    return why


def _memory_disk() -> str:
    if not _MEMORY_DISK.is_dir():
        return f"there is no {_MEMORY_DISK}"
    found = os.statvfs(_MEMORY_DISK)
    free = found.f_bavail * found.f_frsize
    return "" if free >= _MEMORY_DISK_BYTES else f"{_MEMORY_DISK} has only {free >> 20} MB free"


def _late_disk() -> str:
    return why_not() or ""


def _imitated_volume() -> str:
    return why_not() or ""


def _version_1() -> str:
    other = next((each for each in capabilities().values() if each.version != 1), None)
    return "" if other is None else "the groups around the command are made for version 1"


_NEEDS: dict[str, Callable[[], str]] = {
    "loop": _loop,
    "rate-limits": _group("io"),
    "cpu-quota": _group("cpu_quota"),
    "memory-cap": _group("memory"),
    "memory-disk": _memory_disk,
    "late-disk": _late_disk,
    "imitated-volume": _imitated_volume,
    "groups-of-version-1": _version_1,
}


def missing(names: tuple[str, ...]) -> str:
    """The first of these capabilities that is missing, with the reason; '' when all are there."""
    for name in names:
        if reason := _NEEDS[name]():
            return f"{name}: {reason}"
    return ""


def free_memory_disk() -> None:
    """Remove the image that plants left in memory: pgassay keeps it for a later experiment."""
    for image in _MEMORY_DISK.glob("pgassay-loop-1280MB.xfs"):
        image.unlink()
