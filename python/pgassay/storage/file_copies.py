"""Copying files for real, sharing their blocks, and counting their extents."""

import errno
import fcntl
import io
import os
import shutil
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pgassay.environment.home import SystemAccount
from pgassay.errors import MeasurementError

CopyFile = Callable[[Path, Path], None]
_BUFFER_BYTES = 4 << 20
_FICLONE = 0x40049409  # linux/fs.h
_FS_IOC_FIEMAP = 0xC020660B  # linux/fs.h
_FIEMAP_HEADER = struct.Struct("=QQLLLL")  # start, length, flags, mapped extents, extent count, reserved
_FIEMAP_SYNC = 1
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def copy_real(source: Path, destination: Path) -> None:
    """Copy a file's bytes by reading and writing them, so that the two never share a block.

    copy_file_range(2), which most copying tools use, would share blocks on XFS and Btrfs. The
    destination is laid out in one piece where the file system can.
    """
    with source.open("rb", buffering=0) as reading, _create(destination) as writing:
        size_bytes = os.fstat(reading.fileno()).st_size
        if size_bytes and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(writing.fileno(), 0, size_bytes)
        buffer = memoryview(bytearray(min(_BUFFER_BYTES, max(size_bytes, 1))))
        while count := reading.readinto(buffer):
            rest = buffer[:count]
            while rest:
                rest = rest[writing.write(rest) :]
        if hasattr(os, "posix_fadvise"):
            # The source is not what is measured: it needn't push other pages out of memory.
            os.posix_fadvise(reading.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def copy_reflink(source: Path, destination: Path) -> None:
    """Make `destination` share the blocks of `source` (FICLONE); both on one XFS or Btrfs.

    Raises OSError (EOPNOTSUPP, EXDEV) where the file system can't.
    """
    with source.open("rb", buffering=0) as reading, _create(destination) as writing:
        fcntl.ioctl(writing.fileno(), _FICLONE, reading.fileno())


def tree(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every entry below `root` as (relative path, lstat), a folder before what is in it."""
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(root / folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                relative = f"{folder}/{entry.name}" if folder else entry.name
                status = entry.stat(follow_symlinks=False)
                yield relative, status
                if stat.S_ISDIR(status.st_mode):
                    pending.append(relative)


def tree_bytes(root: Path) -> int:
    """The sum of the sizes of all files below `root`; 0 when it does not exist."""
    return (
        sum(status.st_size for _, status in tree(root) if stat.S_ISREG(status.st_mode))
        if root.is_dir()
        else 0
    )


def extents(file: Path) -> int | None:
    """In how many pieces the file lies on its device (FIEMAP); None where the file system can't tell."""
    request = bytearray(_FIEMAP_HEADER.pack(0, 2**64 - 1, _FIEMAP_SYNC, 0, 0, 0))
    with file.open("rb", buffering=0) as opened:
        try:
            fcntl.ioctl(opened.fileno(), _FS_IOC_FIEMAP, request)
        except OSError:
            return None
    return int(_FIEMAP_HEADER.unpack(request)[3])


def free_bytes(folder: Path) -> int:
    """What an unprivileged account may still write to the file system of `folder`."""
    return shutil.disk_usage(folder).free


def make_folder(folder: Path, owner: SystemAccount | None, mode: int = 0o700) -> None:
    """Make a folder where it is missing, and give it to the servers' account."""
    folder.mkdir(exist_ok=True)
    if folder.is_symlink():
        raise MeasurementError(f"{folder} is a symbolic link where pgassay keeps a folder: remove it.")
    folder.chmod(mode)
    if owner is not None:
        os.chown(folder, owner.uid, owner.gid)


def give(path: Path, owner: SystemAccount | None, mode: int) -> None:
    """Set a file's mode, and its owner to the servers' account."""
    path.chmod(mode)
    if owner is not None:
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)


def _create(destination: Path) -> io.FileIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(destination, flags, 0o600), "wb", buffering=0)


def extents_of_largest(folders: Iterable[Path]) -> dict[str, dict[str, object]]:
    """For each data directory, named "KEY/copy-N": its largest file below base/, its bytes and extents."""
    found = {}
    for folder in folders:
        if not (folder / "base").is_dir():
            continue
        sizes = {
            relative: status.st_size for relative, status in tree(folder / "base") if status.st_nlink == 1
        }
        if sizes:
            largest = max(sizes, key=lambda relative: sizes[relative])
            file = folder / "base" / largest
            found["/".join(folder.parts[-2:])] = {
                "file": f"base/{largest}",
                "bytes": sizes[largest],
                "extents": extents(file),
            }
    return found
