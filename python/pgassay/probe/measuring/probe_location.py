"""Where a probe reads and writes: a folder of its own in the folder it is given, or a file read-only.

It never writes to what it did not create. Its folder is registered before it is made, so that the next start
removes what a killed probe left.
"""

import os
import resource
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.cleanup import registry
from pgassay.environment.cleanup.removal import PROBE_PREFIX
from pgassay.environment.linux import device as devices
from pgassay.environment.linux.device import BlockDevice
from pgassay.environment.linux.mounts import mount_of
from pgassay.errors import MeasurementError, UsageError

MB = 1 << 20
# What a probe leaves free on the file system beside its own files.
SPARE_BYTES = 64 * MB
# The WAL segment of the durable writes, and the pages that a checkpoint would write.
WRITES_BYTES = 96 * MB
FILE_BYTES_MIN = 16 * MB
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")


@dataclass(frozen=True)
class ProbeLocation:
    """What is probed: `folder` None for a file of the user's, which is only read."""

    path: Path
    folder: Path | None
    device: BlockDevice
    file_system: str


def device_facts(place: ProbeLocation) -> dict[str, object]:
    """Name, disk, size, read-ahead, scheduler, model and file system of the device below."""
    found = dict(devices.facts(place.device))
    found["file_system"] = place.file_system
    found.setdefault("read_ahead_kb", None)
    if place.device.name is not None:
        disk = devices.disk_of(place.device).name
        model = Path(f"/sys/block/{disk}/device/model")
        if model.is_file():
            found["model"] = model.read_text("utf-8", "replace").strip()
    return found


def check_folder(path: Path) -> ProbeLocation:
    """Look at the folder that is to be probed; raises UsageError saying what is wrong with it."""
    if not path.exists():
        raise UsageError(f"{path} does not exist: name a folder on the disk to probe")
    if not path.is_dir():
        raise UsageError(
            f"{path} is not a folder: name one, or read an existing file with 'pgassay probe FOLDER --file "
            "FILE'"
        )
    place = _place(path, path)
    if place.file_system in _MEMORY_FILE_SYSTEMS:
        raise UsageError(
            f"{path} lies on {place.file_system}, which is in memory, so there is no disk to probe: "
            "name a folder on a disk"
        )
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise UsageError(
            f"{path} is mounted read-only, so the probe can't make its file there: name another folder, or "
            "read an existing file with --file FILE"
        )
    if not os.access(path, os.W_OK | os.X_OK):
        raise UsageError(
            f"{path} may not be written by this account: name another folder, or read an existing file with "
            "--file FILE"
        )
    return place


def check_file(file: Path) -> ProbeLocation:
    """Look at a file that is to be read; raises UsageError when it can't be."""
    if not file.is_file():
        raise UsageError(f"--file {file} is not a file: name a file of some hundred MB on the disk to probe")
    if not os.access(file, os.R_OK):
        raise UsageError(f"--file {file} may not be read by this account: name another, or run as its owner")
    if file.stat().st_size < FILE_BYTES_MIN:
        raise UsageError(
            f"--file {file} has {file.stat().st_size // MB} MB, too few to measure: name one of at least "
            f"{FILE_BYTES_MIN // MB} MB"
        )
    place = _place(file, None)
    if place.file_system in _MEMORY_FILE_SYSTEMS:
        raise UsageError(
            f"--file {file} lies on {place.file_system}, which is in memory: name a file on a disk"
        )
    return place


def _place(path: Path, folder: Path | None) -> ProbeLocation:
    mount = mount_of(path)
    return ProbeLocation(path.resolve(), folder, devices.device_of(path), mount.kind if mount else "unknown")


def check_space(folder: Path, size_bytes: int) -> None:
    """Raise UsageError unless the file system has the space, with some left over, and files may be large."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and limit < size_bytes:
        raise UsageError(
            f"The limit of a file's size ({limit // MB} MB) is too small for the probe's files of "
            f"{size_bytes // MB} MB: raise it with ulimit -f, or read an existing file with --file FILE"
        )
    free = shutil.disk_usage(folder).free
    if free < size_bytes + SPARE_BYTES:
        raise UsageError(
            f"{folder} has {free // MB} MB free and the probe's files take {size_bytes // MB} MB: free "
            f"{(size_bytes + SPARE_BYTES - free) // MB + 1} MB, or name another folder"
        )


def usable_bytes(folder: Path) -> int:
    """What the probe's data files may take: half of what is free, without the durable writes' share."""
    return max(0, (shutil.disk_usage(folder).free - SPARE_BYTES - WRITES_BYTES) // 2)


@contextmanager
def own_folder(parent: Path) -> Iterator[Path]:
    """Make a folder in `parent`, and remove it with all in it at the end, whatever ends it.

    Raises MeasurementError when it can't be made.
    """
    path = parent.resolve() / f"{PROBE_PREFIX}{secrets.token_hex(8)}"
    token = registry.register("probe", path=str(path))
    try:
        try:
            path.mkdir(mode=0o700)
        except OSError as error:
            raise MeasurementError(f"The probe can't make a folder in {parent}: {error.strerror}.") from error
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            registry.forget(token)
