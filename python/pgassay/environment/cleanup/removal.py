"""Removing temporary resources, each only after checking that it is what it should be.

Every function may be called for something that is gone already: then it does nothing. They raise
MeasurementError when something of pgassay's could not be removed, and UsageError for something
that they must not touch.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from pgassay.environment.home import account, home_path
from pgassay.environment.linux.mounts import mounted_at, mounts
from pgassay.environment.server import server_processes
from pgassay.errors import MeasurementError, UsageError

CGROUP_PREFIX = "pgassay-"
# A scratch folder stands where $TMPDIR said, which may be anywhere: by its name it is one.
SCRATCH_PREFIX = "pgassay-"
_SCRATCH_NAME = re.compile(re.escape(SCRATCH_PREFIX) + r"[0-9a-f]{8}")
# A probe's folder stands wherever its user points, so its name and what is in it must tell that it is one.
PROBE_PREFIX = "pgassay-probe-"
_QUIT_TIMEOUT_S = 5.0
_KILL_TIMEOUT_S = 10.0
_BUSY_TIMEOUT_S = 10.0
_POLL_S = 0.05
_SYS_BLOCK = Path("/sys/block")
_PROBE_NAME = re.compile(re.escape(PROBE_PREFIX) + r"[0-9a-f]{16}")
_DISK_NAME = re.compile(r"[A-Za-z0-9_-]+")


def is_ours(path: Path) -> bool:
    """Whether `path`, links resolved, lies strictly below home() or in a folder /tmp/pgassay-*."""
    if not path.is_absolute() or ".." in path.parts:
        return False
    resolved = path.parent.resolve() / path.name
    home = home_path().resolve()
    if resolved != home and resolved.is_relative_to(home):
        return True
    temporary = Path("/tmp").resolve()
    return (
        resolved.is_relative_to(temporary)
        and resolved != temporary
        and resolved.relative_to(temporary).parts[0].startswith("pgassay-")
    )


def kill_server(data_directory: Path) -> bool:
    """End every PostgreSQL process that works in the data directory; False when there was none.

    The postmaster first gets SIGQUIT (an immediate shutdown takes its children and its shared memory
    along), then whatever is left SIGKILL. A process counts only when the kernel says that its
    program is `postgres` and that the directory is its working folder, so a reused pid in a stale
    postmaster.pid harms nobody.
    """
    pids = server_processes.processes_of(data_directory)
    if not pids:
        return False
    lines = _postmaster_lines(data_directory)
    segments = server_processes.mapped_segments(pids)
    postmaster = next((pid for pid in pids if lines and lines[0] == str(pid)), pids[0])
    server_processes.send(postmaster, signal.SIGQUIT)
    if not server_processes.wait_until_gone(data_directory, _QUIT_TIMEOUT_S):
        left = server_processes.kill_and_wait(data_directory, _KILL_TIMEOUT_S)
        if left:
            raise MeasurementError(
                f"The server processes {', '.join(map(str, left))} in {data_directory} do not "
                "end: check the kernel's log; they may hang in a failing device."
            )
        server_processes.remove_segments(segments)
        # Line 7 of postmaster.pid is the key and the id of the System V segment (miscadmin.h).
        words = lines[6].split() if len(lines) > 6 else []
        if len(words) == 2 and words[1].isdigit():
            server_processes.remove_system_v_segment(int(words[1]))
    return True


def end_pooler(folder: Path) -> bool:
    """End PgBouncer in its folder and remove that; False when neither was there. Raises MeasurementError."""
    was_running = bool(server_processes.processes_of(folder, "pgbouncer"))
    left = server_processes.kill_and_wait(folder, _KILL_TIMEOUT_S, "pgbouncer")
    if left:
        raise MeasurementError(
            f"PgBouncer (process {left[0]}) in {folder} does not end: see the kernel's log."
        )
    return remove_folder(folder) or was_running


def _postmaster_lines(data_directory: Path) -> list[str]:
    try:
        return (data_directory / "postmaster.pid").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def unmount(point: Path) -> bool:
    """Unmount everything mounted at `point`; False when nothing is.

    Only a loop device's file system is touched that lies below pgassay's own folders, or whose image does.
    """
    if not mounted_at(point):
        return False
    for mount in mounted_at(point):
        if not is_ours(point) and not _has_image_of_ours(mount.source):
            raise UsageError(f"{point} is not below {home_path()}, so pgassay does not unmount it.")
        if not mount.source.startswith("/dev/loop"):
            raise UsageError(
                f"{mount.source} at {point} is not a loop device, so pgassay does not unmount it."
            )
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while mounted_at(point):
        done = subprocess.run(["umount", str(point)], capture_output=True, text=True)
        if done.returncode != 0:
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"{point} can't be unmounted ({done.stderr.strip()}): "
                    f"end what uses it (fuser -vm {point}) and type umount {point}."
                )
            time.sleep(_POLL_S)
    return True


def _has_image_of_ours(source: str) -> bool:
    try:
        file = (_SYS_BLOCK / Path(source).name / "loop/backing_file").read_text("utf-8", "surrogateescape")
    except OSError:
        return False
    return is_ours(Path(file.rstrip("\n").removesuffix(" (deleted)")))


def loop_devices_of(backing_file: Path) -> list[str]:
    """The loop devices (e.g. 'loop0') attached to the file, also when it has been deleted since."""
    wanted = (str(backing_file), f"{backing_file} (deleted)")
    found = []
    for folder in sorted(_SYS_BLOCK.glob("loop*")):
        try:
            attached_to = (folder / "loop/backing_file").read_text("utf-8", "surrogateescape").rstrip("\n")
        except OSError:
            continue
        if attached_to in wanted:
            found.append(folder.name)
    return found


def detach_loop(backing_file: Path) -> bool:
    """Detach every loop device of the file; False when there is none."""
    names = loop_devices_of(backing_file)
    for name in names:
        if any(mount.source == f"/dev/{name}" for mount in mounts()):
            raise MeasurementError(
                f"/dev/{name} is still mounted, so it can't be detached from {backing_file}: "
                f"unmount it with umount /dev/{name}."
            )
        done = subprocess.run(["losetup", "--detach", f"/dev/{name}"], capture_output=True, text=True)
        if done.returncode != 0 and name in loop_devices_of(backing_file):
            raise MeasurementError(f"/dev/{name} can't be detached ({done.stderr.strip()}): run as root.")
    # The kernel detaches when the last one who has the device open closes it.
    if names and not _wait_until(lambda: not loop_devices_of(backing_file)):
        raise MeasurementError(
            f"{backing_file} is still attached to a loop device: see losetup -l for who holds it."
        )
    return bool(names)


def remove_cgroup(folder: Path) -> bool:
    """Kill what is left in the cgroup and remove it; False when it is gone already."""
    if not folder.is_dir():
        return False
    groups = [mount.point for mount in mounts() if mount.kind in ("cgroup", "cgroup2")]
    if not folder.name.startswith(CGROUP_PREFIX) or not any(folder.is_relative_to(root) for root in groups):
        raise UsageError(f"{folder} is not a cgroup of pgassay's, so it is left alone.")

    def emptied_and_removed() -> bool:
        for pid in map(int, _read_words(folder / "cgroup.procs")):
            # One of another pid namespace is listed as 0, which kill(2) takes for our own process group.
            if pid:
                server_processes.send(pid, signal.SIGKILL)
        return remove_empty_cgroup(folder)

    if not _wait_until(emptied_and_removed):
        raise MeasurementError(
            f"The cgroup {folder} can't be removed: see its cgroup.procs for who is in it."
        )
    return True


def remove_empty_cgroup(folder: Path) -> bool:
    """Try once to remove a cgroup; False while processes are in it."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_folder(folder: Path) -> bool:
    """Remove a folder and all below it; False when it is gone already.

    Refuses what is not pgassay's, home() and the folders directly below it, another account's folder, and a
    folder with a mount in it. A scratch folder is pgassay's wherever it stands.
    """
    if not os.path.lexists(folder):
        return False
    home = home_path().resolve()
    holds_home = home.is_relative_to(folder.resolve()) or folder.parent.resolve() == home
    is_one = is_ours(folder) or _SCRATCH_NAME.fullmatch(folder.name) is not None
    if not is_one or folder.is_symlink() or holds_home:
        raise UsageError(f"{folder} is not a temporary folder of pgassay's, so it is left alone.")
    resolved = folder.resolve()
    inside = [mount.point for mount in mounts() if mount.point.is_relative_to(resolved)]
    if inside:
        raise MeasurementError(f"{inside[0]} is mounted, so {folder} can't be removed: unmount it first.")
    owner = account()
    if folder.lstat().st_uid not in {os.geteuid(), owner.uid if owner else os.geteuid()}:
        raise UsageError(f"{folder} belongs to another account, so it is left alone.")
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise MeasurementError(f"{folder} can't be removed: {error.strerror} ({error.filename}).") from error
    return True


def remove_probe_folder(folder: Path) -> bool:
    """Remove a probe's folder and its files; False when it is gone already.

    Refuses a folder that has not a probe's name, is a link or another account's, or holds anything but files.
    """
    if not os.path.lexists(folder):
        return False
    is_named = _PROBE_NAME.fullmatch(folder.name) is not None
    if not is_named or folder.is_symlink() or folder.lstat().st_uid != os.geteuid():
        raise UsageError(f"{folder} is not a folder of a probe's, so it is left alone.")
    files = list(folder.iterdir())
    odd = next((file for file in files if file.is_symlink() or not file.is_file()), None)
    if odd is not None:
        raise UsageError(f"{odd} is not one of a probe's files, so {folder} is left alone.")
    try:
        for file in files:
            file.unlink()
        folder.rmdir()
    except OSError as error:
        raise MeasurementError(f"{folder} can't be removed: {error.strerror} ({error.filename}).") from error
    return True


def restore_read_ahead(disk: str, value_kb: int) -> bool:
    """Give a disk its read-ahead back; False when the disk is gone or has it already."""
    file = _SYS_BLOCK / disk / "queue/read_ahead_kb"
    if not _DISK_NAME.fullmatch(disk) or not file.exists() or file.read_text().strip() == str(value_kb):
        return False
    try:
        file.write_text(str(value_kb))
    except OSError as error:
        raise MeasurementError(
            f"The read-ahead of {disk} can't be set back to {value_kb} kB: {error.strerror}; run as root."
        ) from error
    return True


def _wait_until(done: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _read_words(file: Path) -> Iterable[str]:
    try:
        return file.read_text().split()
    except OSError:
        return ()
