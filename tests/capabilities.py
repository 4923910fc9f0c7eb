"""What this machine can do, found out by doing it: each probe returns '' or why it cannot."""

import ctypes
import importlib.util
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from pgassay.environment.builds.io_uring_gates import io_uring_gate
from pgassay.environment.builds.registry import resolve
from pgassay.environment.debian import has_apt, tool
from pgassay.environment.home import home
from pgassay.environment.linux.perf import find_perf
from pgassay.environment.server.enclosure import why_not_enclosed
from pgassay.environment.source_builds.build_tools import find_tools
from pgassay.environment.upgraded.programs import upgrade_programs
from pgassay.errors import PgassayError, UsageError
from pgassay.factors import version
from pgassay.storage.imitated_device import why_not
from steps.browser import why_no_browser
from steps.project import SetupError
from steps.wheel import provide_linker

# (controller, file of the group, what is written to it)
Control = tuple[str, str, str]
_CGROUP = Path("/sys/fs/cgroup")
_PROBE_BYTES = 1 << 20


@cache
def missing(capability: str) -> str:
    """Return '' when the machine has the capability, else the reason it has not."""
    try:
        return PROBES[capability]()
    except PgassayError as error:
        return str(error)


def _server() -> str:
    return "" if resolve() else "no PostgreSQL build"


def _io_uring() -> str:
    build = resolve("18")
    gate = io_uring_gate(build)
    return "" if gate is None else f"{gate.name}: {gate.reason}"


def _cold_cache() -> str:
    """Write a file where the data lives, evict it, and ask the kernel what is still in memory."""
    with tempfile.TemporaryDirectory(dir=home() / "data", prefix="probe-") as folder:
        path = Path(folder) / "pages"
        path.write_bytes(os.urandom(_PROBE_BYTES))
        with path.open("r+b") as stream:
            os.fsync(stream.fileno())
            before = _resident_pages(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            after = _resident_pages(stream.fileno())
    if before and not after:
        return ""
    return f"of {before} cached pages {after} stayed in memory after POSIX_FADV_DONTNEED"


def _resident_pages(descriptor: int) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    pages = _PROBE_BYTES // mmap.PAGESIZE
    vector = (ctypes.c_ubyte * pages)()
    with mmap.mmap(descriptor, _PROBE_BYTES) as mapping:
        # The exported buffer must be gone before the mapping closes.
        anchor = ctypes.c_char.from_buffer(mapping)
        address = ctypes.c_void_p(ctypes.addressof(anchor))
        failed = library.mincore(address, ctypes.c_size_t(_PROBE_BYTES), vector)
        del anchor
    return -1 if failed else sum(value & 1 for value in vector)


def _loop() -> str:
    """Attach an image with direct I/O, make XFS on it, mount it, write a file, take all away."""
    if os.geteuid() != 0:
        return "only root can attach loop devices"
    with tempfile.TemporaryDirectory(dir=home(), prefix="probe-") as folder:
        image, mount_point = Path(folder) / "image", Path(folder) / "mount"
        mount_point.mkdir()
        with image.open("wb") as stream:
            stream.truncate(512 << 20)
        device, complaint = _run(["losetup", "--find", "--show", "--direct-io=on", str(image)])
        if complaint:
            return complaint
        try:
            for step in (
                [str(tool("mkfs.xfs")), "-q", device],
                ["mount", "-t", "xfs", device, str(mount_point)],
            ):
                _, complaint = _run(step)
                if complaint:
                    return complaint
            (mount_point / "file").write_text("written")
            return _run(["umount", str(mount_point)])[1]
        finally:
            _run(["losetup", "--detach", device])


def _fuse() -> str:
    return why_not() or ""


def _cgroup_limits() -> str:
    """Limit what a group may read from a real device."""
    device = next((path for path in sorted(Path("/sys/block").iterdir()) if (path / "dev").is_file()), None)
    if device is None:
        return "there is no block device"
    number = (device / "dev").read_text().strip()
    return _try_control(
        ("blkio", "blkio.throttle.read_bps_device", f"{number} 1048576"),
        ("io", "io.max", f"{number} rbps=1048576"),
    )


def _cgroup_cpu() -> str:
    """Cap the CPU of a group at half a core."""
    return _try_control(("cpu", "cpu.cfs_quota_us", "50000"), ("cpu", "cpu.max", "50000 100000"))


def _cgroup_memory() -> str:
    """Cap the memory of a group at 64 MB."""
    size = str(64 << 20)
    return _try_control(("memory", "memory.limit_in_bytes", size), ("memory", "memory.max", size))


def _try_control(version_1: Control, version_2: Control) -> str:
    """Make a group and write a limit, by version 1 where it has the controller, else by version 2."""
    if os.geteuid() != 0:
        return "only root can make control groups"
    controller, setting, value = version_1
    if (_CGROUP / controller / "cgroup.procs").is_file():
        return _try_limit(_CGROUP / controller, setting, value)
    missing_here = f"neither cgroup v1 {controller} nor the controller {version_2[0]} of cgroup v2 is mounted"
    controller, setting, value = version_2
    controllers = _CGROUP / "cgroup.controllers"
    if not controllers.is_file() or controller not in controllers.read_text().split():
        return missing_here
    (_CGROUP / "cgroup.subtree_control").write_text(f"+{controller}")
    return _try_limit(_CGROUP, setting, value)


def _try_limit(parent: Path, setting: str, value: str) -> str:
    group = parent / f"pgassay-probe-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        return f"{group} cannot be made: {error.strerror}"
    try:
        (group / setting).write_text(value)
    except OSError as error:
        return f"{setting} cannot be set: {error.strerror}"
    finally:
        group.rmdir()
    return ""


def _apt() -> str:
    return "" if has_apt() else "there is no apt"


def _sysbench() -> str:
    """Whether sysbench runs, with the driver for PostgreSQL and its OLTP scripts."""
    output, complaint = _run(["sysbench", "oltp_read_only", "--db-driver=pgsql", "help"])
    return complaint if complaint or "--range_size" in output else "sysbench has no oltp_read_only"


def _npm() -> str:
    return "" if shutil.which("npm") else "there is no npm"


def _wheel() -> str:
    return "" if importlib.util.find_spec("pip") else "this Python has no pip"


def _versions(*levels: str) -> str:
    """These versions of one builder are at hand (bind raises with what is missing)."""
    return "" if version.bind("version", levels).builds else "no builds"


def _version_19() -> str:
    try:
        resolve("19")
    except UsageError as error:
        return str(error)
    return ""


def _upgrade_from_16() -> str:
    """Whether pg_upgrade can bring data of 16 to 18: it needs programs of both, which npm's builds lack."""
    upgrade_programs(16, resolve("18"))
    return ""


def _perf() -> str:
    """perf samples a process of this account."""
    find_perf()
    return ""


def _root() -> str:
    return "" if os.geteuid() == 0 else "this needs root"


def _run(command: list[str]) -> tuple[str, str]:
    """Return (output, why it failed or '')."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return "", f"{command[0]}: {error.strerror}"
    complaint = result.stderr.strip() or f"{command[0]} failed"
    return result.stdout.strip(), "" if result.returncode == 0 else complaint


def _wheel_linker() -> str:
    try:
        provide_linker()
    except SetupError as error:
        return str(error)
    return ""


def _program(name: str) -> str:
    return "" if shutil.which(name) else f"{name} is not installed"


def _source_tools() -> str:
    find_tools(lambda *_: None)
    return ""


PROBES: dict[str, Callable[[], str]] = {
    "server": _server,
    # The same for tests that plan with a build and start none.
    "build": _server,
    "io_uring": _io_uring,
    "cold-cache": _cold_cache,
    "loop": _loop,
    "fuse": _fuse,
    "cgroup-limits": _cgroup_limits,
    "cgroup-cpu": _cgroup_cpu,
    "cgroup-memory": _cgroup_memory,
    "chromium": why_no_browser,
    "apt": _apt,
    "root": _root,
    "enclosure": why_not_enclosed,
    "npm": _npm,
    "wheel": _wheel,
    "versions-17-18": lambda: _versions("17", "18"),
    "versions-16-17-18": lambda: _versions("16", "17", "18"),
    "version-19": _version_19,
    "upgrade-from-16": _upgrade_from_16,
    "sysbench": _sysbench,
    "source-tools": _source_tools,
    "perf": _perf,
    "wheel-linker": _wheel_linker,
    "bash": lambda: _program("bash"),
    "zsh": lambda: _program("zsh"),
    "fish": lambda: _program("fish"),
    "groff": lambda: _program("groff"),
}
