"""The machine's own speed at the moment of a trial, as fixed tasks take it: processor, memory, disk.

They are the same whatever the arm, so a declared covariate may take out of the trials what they tell. Memory
and disk are read before the arm's server starts: what the arm does can't move them. A machine has two speeds
of memory where a hypervisor takes free pages back, which are then slow to touch once more, and two of its
disk where credits for bursts come to an end.
"""

import hashlib
import mmap
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgassay.environment.linux import pagecache
from pgassay.errors import MeasurementError

DISK_FILE = "pgassay-disk-reading"
DISK_BYTES = 32 * 1024 * 1024
MEMORY_BYTES = 64 * 1024 * 1024
_REQUEST_BYTES = 1024 * 1024
_CANARY_BLOCK = bytes(range(256)) * 4096  # 1 MB
_CANARY_BLOCKS = 64


def canary_s() -> float:
    """Seconds to hash 64 MB: one core, no I/O, no server."""
    begin = time.perf_counter()
    digest = hashlib.sha256()
    for _ in range(_CANARY_BLOCKS):
        digest.update(_CANARY_BLOCK)
    digest.digest()
    return time.perf_counter() - begin


def memory_s() -> float:
    """Seconds to touch every page of 64 MB of fresh anonymous memory, in small pages, and to give it back."""
    touches = bytes(MEMORY_BYTES // mmap.PAGESIZE)
    begin = time.perf_counter()
    with mmap.mmap(-1, MEMORY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            # Whether the kernel has a huge page at hand would be a third thing that is measured.
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory[:: mmap.PAGESIZE] = touches
    return time.perf_counter() - begin


def disk_s(folder: Path) -> float:
    """Seconds to read 32 MB from the device below `folder`, past the page cache, 1 MB at a time.

    The file is made there when it is missing, and stays for the next trial. Raises MeasurementError when it
    can't be made or read.
    """
    file = folder / DISK_FILE
    try:
        if not file.exists() or file.stat().st_size != DISK_BYTES:
            _make(file)
        return _read_s(file)
    except OSError as error:
        raise MeasurementError(
            f"Could not read {file} to measure the disk's speed: {error.strerror}; free some space there, "
            "or use another covariate."
        ) from error


def _make(file: Path) -> None:
    made = file.with_name(f"{file.name}.new")
    with made.open("wb") as out:
        # What the device could compress, or hold as zeros, would be read faster than data.
        out.write(secrets.token_bytes(DISK_BYTES))
        out.flush()
        os.fsync(out.fileno())
    made.replace(file)


def _read_s(file: Path) -> float:
    # An anonymous mapping begins at a page, as direct reads want their buffers.
    with _past_the_page_cache(file) as descriptor, mmap.mmap(-1, _REQUEST_BYTES) as buffer:
        begin = time.perf_counter()
        for offset in range(0, DISK_BYTES, _REQUEST_BYTES):
            os.preadv(descriptor, [buffer], offset)
        return time.perf_counter() - begin


@contextmanager
def _past_the_page_cache(file: Path) -> Iterator[int]:
    """The file open for direct reads; where its file system has none, evicted from the page cache."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECT", 0))
    except OSError:
        pagecache.evict([file])
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
