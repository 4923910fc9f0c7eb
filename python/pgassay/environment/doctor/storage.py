"""The page cache, the home's file system and device, loop devices, and room on the disks."""

import os
import tempfile
from pathlib import Path

from pgassay.environment.debian import find_tool
from pgassay.environment.doctor.base import missing, ok, warning
from pgassay.environment.home import home
from pgassay.environment.linux import device, pagecache
from pgassay.environment.linux.mounts import mount_of
from pgassay.errors import MeasurementError, PgassayError
from pgassay.model.machines.doctor import Finding
from pgassay.storage.file_copies import copy_reflink, free_bytes
from pgassay.storage.registry import KINDS
from pgassay.storage.storage_options import readable_bytes

GROUP = "storage"
_TEST_FILE_BYTES = 1 << 20
_FREE_BYTES_MIN = 5 << 30
READ_AHEAD_KB_USUAL = 1024
RESULTS_FOLDER = "pgassay-results"


def page_cache() -> list[Finding]:
    """Write a file where the data live, evict it, and ask what is still in memory."""
    with tempfile.TemporaryDirectory(dir=home() / "data", prefix="doctor-") as folder:
        file = Path(folder) / "pages"
        file.write_bytes(os.urandom(_TEST_FILE_BYTES))
        try:
            before = pagecache.resident_bytes([file])
            pagecache.evict([file])
            after = pagecache.resident_bytes([file])
        except MeasurementError as error:
            remedy = "use --cache as-is, or Linux 6.5 or newer"
            return [missing(GROUP, "cold-cache", f"dropping and verifying the cache: {error}", remedy)]
    if before < _TEST_FILE_BYTES or after:
        text = f"dropping the cache: {after} of {before} cached bytes stayed after being dropped"
        remedy = "use --cache as-is, or put the data on another file system (--storage loop)"
        return [missing(GROUP, "cold-cache", text, remedy)]
    return [
        ok(
            GROUP,
            "cold-cache",
            "dropping and verifying the cache: a file was evicted, and verified to be gone",
        )
    ]


def reflink() -> list[Finding]:
    """Whether copies in the home can share blocks; a loop device has it whatever the home has."""
    kind = mount.kind if (mount := mount_of(home())) else "unknown"
    with tempfile.TemporaryDirectory(dir=home() / "data", prefix="doctor-") as folder:
        source = Path(folder) / "source"
        source.write_bytes(os.urandom(_TEST_FILE_BYTES))
        try:
            copy_reflink(source, Path(folder) / "copy")
        except (OSError, PgassayError):
            text = f"reflink in the home: {kind} has none, so working copies on host storage are full copies"
            remedy = _loop_remedy("use --storage loop, whose XFS has it")
            return [warning(GROUP, "reflink", text, remedy, file_system=kind)]
    return [ok(GROUP, "reflink", f"reflink in the home: {kind} has it", file_system=kind)]


def loop() -> list[Finding]:
    """Loop devices and the maker of their file system."""
    reason = KINDS["loop"].capability()
    program = find_tool("mkfs.xfs")
    found = ok(GROUP, "loop", "loop devices with XFS: can be created") if reason is None else _no_loop(reason)
    findings = [found]
    if program is None:
        remedy = "apt fetches it when first needed; elsewhere install xfsprogs"
        findings.append(warning(GROUP, "mkfs.xfs", "mkfs.xfs: not installed", remedy))
    else:
        findings.append(ok(GROUP, "mkfs.xfs", f"mkfs.xfs: {program}"))
    return findings


def _no_loop(reason: str) -> Finding:
    """The sentence of the storage kind, whose end after the colon is the remedy."""
    what, _, remedy = reason.rstrip(".").partition(": ")
    return missing(GROUP, "loop", f"loop devices: {what}", remedy)


def _loop_remedy(remedy: str) -> str:
    """A remedy by loop devices, which may themselves be missing."""
    return remedy if KINDS["loop"].capability() is None else f"{remedy} (not possible here, see loop devices)"


def free_space() -> list[Finding]:
    """Room for datasets and for results."""
    return [_free("disk-home", "home", home()), _free("disk-results", "results", _results_parent())]


def _results_parent() -> Path:
    folder = Path.cwd() / RESULTS_FOLDER
    return folder if folder.is_dir() else Path.cwd()


def _free(name: str, what: str, folder: Path) -> Finding:
    free = free_bytes(folder)
    text = f"disk free for the {what}: {readable_bytes(free)} at {folder}"
    if free >= _FREE_BYTES_MIN:
        return ok(GROUP, name, text, free_bytes=free)
    remedy = "free some space: an experiment at scale 100 takes about 5 GB"
    return warning(GROUP, name, text, remedy, free_bytes=free)


def home_device() -> list[Finding]:
    """The device below the home: its read-ahead decides what a scan of files looks like."""
    block = device.device_of(home())
    if block.name is None:
        text = "device of the home: none that the kernel shows (tmpfs, overlay or network)"
        remedy = "reads can't be counted: point PGASSAY_HOME or --storage host:path=… at a folder on a disk"
        return [warning(GROUP, "read-ahead", text, remedy)]
    read_ahead_kb = device.read_ahead_kb(block)
    facts = device.facts(block)
    text = f"device of the home: {block.name}, read-ahead {read_ahead_kb} kB, scheduler {facts['scheduler']}"
    if read_ahead_kb > READ_AHEAD_KB_USUAL:
        remedy = _loop_remedy(
            "a large one hides asynchronous I/O, and most hosts have 128 kB: --storage loop has its own"
        )
        return [warning(GROUP, "read-ahead", text, remedy, read_ahead_kb=read_ahead_kb)]
    return [ok(GROUP, "read-ahead", text, read_ahead_kb=read_ahead_kb)]
