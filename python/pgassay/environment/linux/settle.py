"""Getting to a quiet start: everything written is on the device before a trial begins."""

import os
import stat
import threading
import time
from pathlib import Path

from pgassay.environment.linux import libc
from pgassay.errors import MeasurementError

# Logs and the like dirty a few hundred kB at any moment on a quiet machine; a scan of a table is
# thousands of times more, so this much can't be seen in a measurement.
SETTLED_BYTES = 1024 * 1024
_POLL_S = 0.1
_MEMINFO = Path("/proc/meminfo")


def sync_tree(path: Path) -> None:
    """Make every file and directory below `path` durable.

    On Linux by one syncfs(2) of its file system, which writes with deep queues and flushes the
    device once; a thousand fsyncs of files that are clean by then would flush it a thousand times
    (PostgreSQL offers the same choice as recovery_init_sync_method). Elsewhere file by file, without
    following symbolic links. Raises MeasurementError naming what could not be written.
    """
    try:
        if libc.has_syncfs():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                libc.syncfs(descriptor)
            finally:
                os.close(descriptor)
        else:
            _fsync_each(path)
    except OSError as error:
        where = error.filename or path
        raise MeasurementError(
            f"Could not write {where} to its device: {error.strerror}; "
            "check the free space and the kernel's log for I/O errors."
        ) from error


def wait_until_settled(timeout_s: float) -> str | None:
    """Wait until the kernel has nearly nothing left to write (Dirty + Writeback at most 1 MB).

    Asks for the write-back itself, since the kernel would leave dirty pages alone for up to 30 s.
    Returns None when settled, and a sentence for the record's warnings when the time is over:
    another process may dirty pages for ever, and that is no reason not to measure. On a system
    without /proc/meminfo it syncs once and returns None.
    """
    deadline = time.monotonic() + timeout_s
    sync = _start_sync()
    if not _MEMINFO.exists():
        sync.join(timeout_s)
        return None
    while (unwritten := unwritten_bytes()) > SETTLED_BYTES:
        if time.monotonic() >= deadline:
            return (
                f"{unwritten // 1024} kB were still waiting to be written when the trial began "
                f"(waited {timeout_s:g} s): something else on this machine writes."
            )
        time.sleep(min(_POLL_S, max(0.0, deadline - time.monotonic())))
        if not sync.is_alive():
            sync = _start_sync()
    return None


def unwritten_bytes() -> int:
    """Dirty + Writeback of /proc/meminfo, in bytes."""
    values = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
    return sum(int(values[name].split()[0]) for name in ("Dirty", "Writeback")) * 1024


def _start_sync() -> threading.Thread:
    # In a thread, because sync(2) may block for longer than the time-out allows.
    thread = threading.Thread(target=os.sync, daemon=True)
    thread.start()
    return thread


def _fsync_each(path: Path) -> None:
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            _fsync(Path(folder, name))
        _fsync(Path(folder))


def _fsync(path: Path) -> None:
    mode = path.lstat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)
