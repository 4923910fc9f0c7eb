"""A server's processes as the kernel shows them, and the shared memory they may leave behind.

Works from /proc. A PostgreSQL process has its data directory as its working folder
(src/backend/utils/init/miscinit.c, ChangeToDataDir) and every child starts a session of its own,
so neither the process group nor the parent finds what outlives a killed postmaster.
"""

import array
import ctypes
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from pgassay.environment.linux.processes import children_of, process_ids, process_stat

SHARED_MEMORY_FOLDER = "/dev/shm/"
SHARED_MEMORY_PREFIX = "/dev/shm/PostgreSQL."
CONTROL_SEGMENT_MAGIC = 0x9A503D32
CONTROL_ITEM_WORDS = 10
IPC_RMID = 0
CONSISTENT_READS_MAX = 5


def processes_of(folder: Path, program: str = "postgres") -> list[int]:
    """Return the ids of all processes of the program that work in `folder`, in rising order."""
    wanted = os.path.realpath(folder)
    return [pid for pid in process_ids() if _is_in(pid, wanted, program)]


def _is_in(pid: int, folder: str, program: str) -> bool:
    try:
        if str(Path(f"/proc/{pid}/cwd").readlink()).removesuffix(" (deleted)") != folder:
            return False
        return Path(f"/proc/{pid}/exe").readlink().name.removesuffix(" (deleted)") == program
    except OSError:
        return False


def kill_and_wait(folder: Path, timeout_s: float, program: str = "postgres") -> list[int]:
    """SIGKILL every process of the program in a folder; return those that still exist after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while left := processes_of(folder, program):
        for pid in left:
            send(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return left
        time.sleep(0.02)
    return []


def wait_until_gone(data_directory: Path, timeout_s: float) -> bool:
    """Wait for the processes of the data directory to end by themselves."""
    deadline = time.monotonic() + timeout_s
    while processes_of(data_directory):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal; a process that has ended meanwhile is no error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def cpu_seconds(postmaster: int) -> float:
    """Return the CPU time in seconds (user + system) of a postmaster and its children, dead and alive.

    Dead children are in the postmaster's cutime and cstime (proc(5)). Read again when a child ended
    between the two readings, which would count it twice or not at all.
    """
    total = 0.0
    for _ in range(CONSISTENT_READS_MAX):
        children = children_of(postmaster)
        first = process_stat(postmaster)
        total = first.cpu_s + first.ended_children_cpu_s if first else 0.0
        total += sum(stat.cpu_s for stat in map(process_stat, children) if stat)
        if children == children_of(postmaster):
            break
    return total


def mapped_segments(pids: Iterable[int]) -> set[str]:
    """Return the paths of PostgreSQL's POSIX shared-memory segments that the processes have mapped."""
    found: set[str] = set()
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        found.update(
            line[line.index(SHARED_MEMORY_FOLDER) :]
            for line in lines
            if SHARED_MEMORY_PREFIX in line and not line.endswith(" (deleted)")
        )
    return found


def remove_segments(paths: Iterable[str]) -> None:
    """Remove POSIX shared-memory segments that a server killed by force could not remove itself.

    With its control segment among them, also those that it made after anybody looked.
    """
    mapped = {path for path in paths if path.startswith(SHARED_MEMORY_PREFIX)}
    listed = {found for path in mapped for found in _listed_segments(path)}
    for path in mapped | listed:
        Path(path).unlink(missing_ok=True)


def _listed_segments(path: str) -> set[str]:
    """Return the segments named in a control segment, {} for any other segment.

    src/backend/storage/ipc/dsm.c, dsm_control_header: magic, number of items, their limit, then the
    items, each with its handle in a 32-bit word. A word counts as a handle when the file is there.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return set()
    words = array.array("I", content[: len(content) // 4 * 4])
    if len(words) < 2 or words[0] != CONTROL_SEGMENT_MAGIC:
        return set()
    items = words[2 : 2 + (words[1] + 1) * CONTROL_ITEM_WORDS]
    return {name for handle in items if handle and Path(name := f"{SHARED_MEMORY_PREFIX}{handle}").exists()}


def remove_system_v_segment(identifier: int) -> None:
    """Remove a System V shared-memory segment; one that is gone already is no error."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmctl(ctypes.c_int(identifier), ctypes.c_int(IPC_RMID), None)
