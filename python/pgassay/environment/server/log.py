"""The part of a log file that one start of a server wrote."""

import os
from pathlib import Path
from typing import BinaryIO

READ_BYTES_MAX = 65536


class ServerLog:
    """A log file that servers append to; remembers where this start began and what it said last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset_bytes = 0
        self._last = ""

    def open(self) -> BinaryIO:
        """Open the file for appending and note its length; never through a symbolic link."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        file = os.fdopen(os.open(self.path, flags, 0o600), "wb")
        self._offset_bytes = file.seek(0, os.SEEK_END)
        self._last = ""
        return file

    def read(self) -> str:
        """Return what this start wrote, at most its last 64 kB; also after the file is gone."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(self._offset_bytes, size - READ_BYTES_MAX))
                self._last = file.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return self._last
        return self._last

    def tail(self, lines: int) -> str:
        """Return the last lines of what this start wrote."""
        return "\n".join(self.read().splitlines()[-lines:])
