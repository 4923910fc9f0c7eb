"""Writing what must survive a crash of the machine: flushed to the device, names included."""

import os
from pathlib import Path
from typing import IO


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the device; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush(file: IO[bytes] | IO[str]) -> None:
    """Flush what was written to an open file to the device; raises OSError."""
    file.flush()
    os.fsync(file.fileno())


def replace_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace `path` by `content`: it is there whole or not at all, whatever happens meanwhile.

    A temporary name beside it, fsync, rename, fsync of the folder. `mode` is narrowed by the umask. Raises
    OSError when the file system is full or refuses; the old file stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(opened, "wb") as file:
            file.write(content)
            flush(file)
        temporary.replace(path)
        sync(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
