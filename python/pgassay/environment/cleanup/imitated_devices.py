"""Ending a file system that a process of pgassay's own serves, whatever state that process is in.

The kernel's way out is the connection's file `abort` (Documentation/filesystems/fuse of Linux): all requests
that wait then fail, and whoever hung on them goes on. A killed server does the same, unless it hangs itself.
"""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from pgassay.environment.cleanup.removal import is_ours
from pgassay.environment.linux.mounts import Mount, mounted_at
from pgassay.errors import MeasurementError, UsageError

FILE_SYSTEM = "fuse.pgassay"
_SOURCE = re.compile(r"pgassay-volume:(\d+)")
_CONNECTIONS = Path("/sys/fs/fuse/connections")
_TIMEOUT_S = 10.0
_POLL_S = 0.05


def end_volume(folder: Path) -> bool:
    """Abort, end and unmount what is served at the folder, and remove that; False when nothing is there.

    Raises UsageError for a mount that is not pgassay's, MeasurementError for one that can't be unmounted.
    """
    found = stop_serving(folder)
    deadline = time.monotonic() + _TIMEOUT_S
    while mounted_at(folder):
        # Not lazily: a loop device on it would still be attached then, and nobody would find its file again.
        done = subprocess.run(["umount", str(folder)], capture_output=True, text=True)
        if done.returncode != 0 and mounted_at(folder):
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"The volume at {folder} can't be unmounted ({done.stderr.strip()}): "
                    f"see losetup -l for what is on it, and type umount {folder}."
                )
            time.sleep(_POLL_S)
    with contextlib.suppress(OSError):
        folder.rmdir()
    return found


def stop_serving(folder: Path) -> bool:
    """Let every request fail that waits there or comes; False when nothing is there.

    Before anything above it is stopped or unmounted: that would wait for a server that hangs. Raises
    UsageError for a mount that is not pgassay's.
    """
    found = mounted_at(folder)
    for mount in found:
        if mount.kind != FILE_SYSTEM or not is_ours(folder):
            raise UsageError(f"{mount.source} at {folder} is not a volume of pgassay's, so it is left alone.")
        _kill_server(mount)
        _abort(mount)
    return bool(found)


def _kill_server(mount: Mount) -> None:
    named = _SOURCE.fullmatch(mount.source)
    if named is None:
        return
    pid = int(named[1])
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return
    # The number may be another process's by now.
    if Path(os.fsdecode(words[0])).name == "pgassay-native" and words[1:2] == [b"volume"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _abort(mount: Mount) -> None:
    """By the control file system, mounted where it is not yet; without it the killed server must suffice."""
    if not any(each.kind == "fusectl" for each in mounted_at(_CONNECTIONS)):
        subprocess.run(["mount", "-t", "fusectl", "fusectl", str(_CONNECTIONS)], capture_output=True)
    number = mount.device.partition(":")[2]
    with contextlib.suppress(OSError):
        (_CONNECTIONS / number / "abort").write_text("1")
