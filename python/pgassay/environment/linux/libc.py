"""System calls that Python does not wrap, by ctypes on the C library.

Everything here is Linux; `has_*` tells what this kernel and C library offer.
"""

import ctypes
import errno
import mmap
import os
import sys

# The number is the same on every architecture whose system calls were unified (all but alpha).
_CACHESTAT_NUMBER = 451
_PAGE_BYTES = mmap.PAGESIZE
_PROT_READ = 1
_MAP_SHARED = 1
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)


class _CachestatRange(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Cachestat(ctypes.Structure):
    _fields_ = (
        ("pages_cached", ctypes.c_uint64),
        ("pages_dirty", ctypes.c_uint64),
        ("pages_writeback", ctypes.c_uint64),
        ("pages_evicted", ctypes.c_uint64),
        ("pages_recently_evicted", ctypes.c_uint64),
    )


def _raise_errno(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")


def cachestat_bytes(descriptor: int) -> int:
    """Bytes of the open file in the page cache, by cachestat(2) (Linux 6.5 and later).

    Raises OSError: ENOSYS on an older kernel, EPERM for a file of another account.
    """
    whole_file = _CachestatRange(0, 0)
    answer = _Cachestat()
    result = _libc.syscall(
        ctypes.c_long(_CACHESTAT_NUMBER),
        ctypes.c_long(descriptor),
        ctypes.byref(whole_file),
        ctypes.byref(answer),
        ctypes.c_long(0),
    )
    if result != 0:
        _raise_errno("cachestat")
    return int(answer.pages_cached) * _PAGE_BYTES


def mincore_bytes(descriptor: int, size_bytes: int) -> int:
    """Bytes of the open file in the page cache, by mincore(2) on a mapping of it.

    The kernel answers "all resident" for a file that the caller may neither write nor own.
    """
    if size_bytes == 0:
        return 0
    _libc.mmap.restype = ctypes.c_void_p
    address = _libc.mmap(
        None, ctypes.c_size_t(size_bytes), _PROT_READ, _MAP_SHARED, descriptor, ctypes.c_long(0)
    )
    if address == _MAP_FAILED:
        _raise_errno("mmap")
    try:
        pages = (size_bytes + _PAGE_BYTES - 1) // _PAGE_BYTES
        resident = (ctypes.c_ubyte * pages)()
        if _libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), resident) != 0:
            _raise_errno("mincore")
        return sum(flag & 1 for flag in bytes(resident)) * _PAGE_BYTES
    finally:
        _libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes))


def has_cachestat() -> bool:
    """Whether cachestat(2) exists here (a sandbox may hide it, so it is tried, not guessed)."""
    if sys.platform != "linux":
        return False
    descriptor = os.open("/proc/self/exe", os.O_RDONLY)
    try:
        cachestat_bytes(descriptor)
    except OSError as error:
        return error.errno != errno.ENOSYS
    finally:
        os.close(descriptor)
    return True


def has_mincore() -> bool:
    """Whether mincore(2) can be called through the C library."""
    return sys.platform == "linux" and hasattr(_libc, "mincore")


def has_syncfs() -> bool:
    """Whether the C library has syncfs(2)."""
    return hasattr(_libc, "syncfs")


def syncfs(descriptor: int) -> None:
    """Write the whole file system of the open file to its device; raises OSError on an I/O error."""
    if _libc.syncfs(ctypes.c_int(descriptor)) != 0:
        _raise_errno("syncfs")
