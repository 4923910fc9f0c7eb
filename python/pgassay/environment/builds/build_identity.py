"""Whether a build is still the one that an experiment was planned with.

A package's upgrade or a `make install` puts another server at the same path. Its figures are another build's,
and it may write what the planned one can't read. Asked before each start of a server, so it must be cheap: a
binary is read again only when what the file system says of it has changed.
"""

import hashlib
import os
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.build import Build

# As many digits of a hash as tell two binaries apart in a sentence.
_DIGITS_SHOWN = 12
FileIdentity = tuple[str, int, int, int, int, int]
_hashes: dict[FileIdentity, str] = {}


class ChangedBuildError(UsageError):
    """The binary of a planned build is gone, or is another one now."""


def file_identity(path: Path) -> FileIdentity:
    """What tells that a file was replaced or written: path, device, inode, size, times of change in ns.

    The inode's own time counts as well, since a copy may keep the times of its original. Raises OSError.
    """
    status = path.stat()
    return (
        str(path),
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def binary_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal; read once in a process while it does not change.

    Raises OSError.
    """
    identity = file_identity(path)
    if identity not in _hashes:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
            # What was replaced while it was read is not what the identity says.
            if os.fstat(stream.fileno()).st_ino != identity[2] or file_identity(path) != identity:
                return found
        _hashes[identity] = found
    return _hashes[identity]


def refuse_changed(build: Build) -> None:
    """Raise ChangedBuildError when the `postgres` binary of `build` is gone, or not what it was.

    A build without a recorded hash is taken as it is.
    """
    if not build.binary_sha256:
        return
    path = Path(build.bin_directory) / "postgres"
    try:
        found = binary_sha256(path)
    except OSError as error:
        raise ChangedBuildError(
            f"{path}, the server that the experiment was planned with (PostgreSQL {build.version}), can no "
            f"longer be read ({error.strerror}): put it back and type 'pgassay resume', or start a new "
            "experiment"
        ) from error
    if found != build.binary_sha256:
        raise ChangedBuildError(
            f"{path} is a different binary now (sha256 {found[:_DIGITS_SHOWN]}…) than when the experiment "
            f"was planned (PostgreSQL {build.version}, {build.binary_sha256[:_DIGITS_SHOWN]}…): put that "
            "one back and type 'pgassay resume', or start a new experiment"
        )
