"""Who runs an experiment now: its process holds a lock on the results folder itself.

The kernel lets go of it whatever happens to its holder, and nothing is written. It keeps nobody from reading.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TRIES = 20
_PAUSE_S = 0.01
_LOCKS = Path("/proc/locks")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Show for the length of the `with` block that this process runs the folder's experiment.

    Where the file system knows no locks the block runs all the same: nothing but `pgassay watch` asks.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(_TRIES):
            if _locked(descriptor, fcntl.LOCK_EX):
                break
            # Somebody asks whether it is held, which takes microseconds.
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(descriptor)


def is_held(folder: Path) -> bool:
    """Whether a process runs the folder's experiment; False where that can't be found out."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def holder(folder: Path) -> int | None:
    """The process that runs the folder's experiment, by the kernel's list of locks; None when it isn't there.

    Lines as "1: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF" (proc(5)). The device's number is left aside:
    some file systems (btrfs) answer stat() with another one.
    """
    try:
        inode, lines = folder.stat().st_ino, _LOCKS.read_text("ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if words[1:4] == ["FLOCK", "ADVISORY", "WRITE"] and words[5].rpartition(":")[2] == str(inode):
            return int(words[4]) if int(words[4]) > 0 else None
    return None


def _locked(descriptor: int, kind: int) -> bool:
    """Whether the lock was taken, or can't be had on this file system at all."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
