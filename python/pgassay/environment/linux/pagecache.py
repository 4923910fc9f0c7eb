"""The operating system's page cache, file by file: evict, ask, fill.

Works the same for root and for the owner of the files. What a hypervisor or a disk array caches
below this kernel is out of sight, hence the word "guest-cold".
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from pgassay.environment.linux import libc
from pgassay.errors import MeasurementError

_READ_BYTES = 1 << 20
_EVICT_ATTEMPTS = 3
# A relation's file: relfilenode, optional fork, optional segment (storage/smgr/md.c and
# common/relpath.c); relations of temporary tables carry "tBACKEND_" in front.
_RELATION_FILE = re.compile(r"(?:t\d+_)?\d+(?:_(?:fsm|vm|init))?(?:\.\d+)?")


@cache
def _has_cachestat() -> bool:
    return libc.has_cachestat()


def can_verify() -> bool:
    """Whether this system tells which pages of a file are resident (cachestat(2) or mincore(2))."""
    return _has_cachestat() or libc.has_mincore()


def evict(files: Iterable[Path]) -> None:
    """Write the files to their device and drop them from the page cache.

    Dirty pages can't be dropped, hence the fsync first. A page that somebody holds at that moment
    stays: ask `resident_bytes` afterwards. Raises MeasurementError naming a file that can't be
    opened.
    """
    if not hasattr(os, "posix_fadvise"):
        raise MeasurementError(
            "This system can't evict single files from its page cache (no posix_fadvise): "
            "use --cache as-is or run on Linux."
        )
    for file in files:
        with _opened(file) as descriptor:
            os.fsync(descriptor)
            for _ in range(_EVICT_ATTEMPTS):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                if not can_verify() or _resident_bytes(descriptor, file) == 0:
                    break


def resident_bytes(files: Iterable[Path]) -> int:
    """Bytes of the files in the page cache, in whole pages (so the last page counts in full).

    Raises MeasurementError when the kernel does not tell (see `can_verify`) or a file can't be opened.
    """
    total = 0
    for file in files:
        with _opened(file) as descriptor:
            total += _resident_bytes(descriptor, file)
    return total


def load(files: Iterable[Path]) -> int:
    """Read the files through, so that they become resident; return the bytes read.

    The kernel may evict some of them at once; `resident_bytes` tells what stayed.
    """
    read = 0
    buffer = bytearray(_READ_BYTES)
    for file in files:
        with _opened(file) as descriptor:
            while count := os.readv(descriptor, [buffer]):
                read += count
    return read


def relation_files(data_directory: Path, databases: Sequence[int] | None = None) -> list[Path]:
    """Every relation's file (all forks and segments) of a data directory, in the order of their paths.

    `databases` restricts them to the databases with these OIDs (shared catalogs are then left out).
    Tablespaces are followed.
    """
    folders = sorted((data_directory / "base").glob("*"))
    folders += sorted((data_directory / "pg_tblspc").glob("*/*/*"))
    if databases is not None:
        wanted = {str(oid) for oid in databases}
        folders = [folder for folder in folders if folder.name in wanted]
    else:
        folders.append(data_directory / "global")
    return sorted(file for folder in folders for file in _relation_files_in(folder))


def wal_files(data_directory: Path) -> list[Path]:
    """The segments of the write-ahead log that lie in a data directory."""
    return sorted(file for file in (data_directory / "pg_wal").glob("*") if file.is_file())


def files_of_relation(data_directory: Path, relative_path: str) -> list[Path]:
    """All forks and segments of one relation; `relative_path` is what pg_relation_filepath() answers."""
    first = data_directory / relative_path
    pattern = re.compile(re.escape(first.name) + r"(?:_(?:fsm|vm|init))?(?:\.\d+)?")
    return sorted(file for file in _relation_files_in(first.parent) if pattern.fullmatch(file.name))


def _relation_files_in(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if _RELATION_FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _resident_bytes(descriptor: int, file: Path) -> int:
    if not can_verify():
        raise MeasurementError(
            "This system does not show what is in its page cache (neither cachestat nor mincore): "
            "use --cache as-is or run on Linux."
        )
    if not _has_cachestat():
        return libc.mincore_bytes(descriptor, os.fstat(descriptor).st_size)
    try:
        return libc.cachestat_bytes(descriptor)
    except OSError as error:
        if error.errno == errno.EPERM:
            raise MeasurementError(
                f"The kernel does not show this account how much of {file} is in the page cache: "
                "run as the owner of the file or as root."
            ) from error
        if error.errno == errno.EOPNOTSUPP:  # hugetlbfs
            return 0
        raise MeasurementError(f"cachestat failed on {file}: {error.strerror}.") from error


class _opened:  # noqa: N801 - used as a function
    """A read-only descriptor of a file; an error to open it becomes one sentence."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __enter__(self) -> int:
        try:
            self.descriptor = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise MeasurementError(
                f"Can't open {self.file} to look after its page cache: {error.strerror}; "
                "run as the owner of the data directory or as root."
            ) from error
        return self.descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)
