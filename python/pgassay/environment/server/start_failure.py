"""Why a server did not start, in one sentence with a remedy, from its own log."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MESSAGE = re.compile(r"\b(FATAL|PANIC|ERROR|LOG|HINT|DETAIL):\s+(.*)")
_COMPLAINT = re.compile(
    r"invalid value for parameter|is outside the valid range|unrecognized configuration parameter"
    r"|cannot be changed|requires a (numeric|Boolean) value|syntax error in file"
)
_PARAMETER = re.compile(r'parameter "([^"]+)"')
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


@dataclass(frozen=True)
class StartFailure:
    """What a server said before it gave up.

    `message` is its own complaint, `hint` the HINT or DETAIL that came with it ('' when none),
    `setting` the setting it names (None when none), `remedy` what to do ('' when unknown).
    """

    message: str
    hint: str
    setting: str | None
    remedy: str

    def sentence(self) -> str:
        """Return the complaint, the server's hint and the remedy as one line."""
        parts = [self.message.rstrip(".")]
        if self.hint:
            parts.append(f"({self.hint.rstrip('.')})")
        text = " ".join(parts)
        return f"{text}: {self.remedy}" if self.remedy else f"{text}."


_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"could not setup io_uring queue.*(Too many open files|open file|Cannot allocate)"
        r"|could not setup io_uring queue: .*(EMFILE|ENOMEM)",
        "raise the limits of the account that runs pgassay (ulimit -n, ulimit -l) or lower max_connections.",
    ),
    (
        r"could not setup io_uring queue",
        "set kernel.io_uring_disabled to 0 (sysctl) and leave any container that forbids io_uring, "
        "or use io_method=worker.",
    ),
    (
        r"Cannot allocate memory|could not map anonymous shared memory|could not resize shared memory",
        "lower shared_buffers or max_connections, or set huge_pages=off.",
    ),
    (
        r"lock file \"postmaster.pid\" already exists|pre-existing shared memory block",
        "another server uses this data directory; stop it, or wait for it to end.",
    ),
    (
        r"could not bind Unix address|Address already in use|lock file .* already exists",
        "another server uses the same address; stop it and try again.",
    ),
    (r"No space left on device", "free some space, or name a folder with more space by PGASSAY_HOME."),
    (
        r"could not access file|could not load library",
        "install the extension for this build or take it out of shared_preload_libraries.",
    ),
    (
        r"incompatible with server|not compatible with this version|was initialized by PostgreSQL version",
        "the data directory belongs to another major version; choose that build with --pg.",
    ),
    (
        r"has invalid permissions|has wrong ownership",
        "the data directory must be 0700 and owned by the account that runs the server.",
    ),
    (r"too many open files|Too many open files", "raise the limit of open files (ulimit -n)."),
)


def explain(log: str, settings: Mapping[str, str]) -> StartFailure:
    """Read the log of a start that failed; `settings` are those the server was started with."""
    messages = [(match[1], match[2].strip()) for match in map(_MESSAGE.search, log.splitlines()) if match]
    index = _decisive(messages)
    if index is None:
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        first = lines[0] if lines else "it wrote nothing to its log"
        return StartFailure(message=first, hint="", setting=None, remedy=_remedy(first))
    message = messages[index][1]
    following = messages[index + 1 : index + 3]
    hint = next((text for kind, text in following if kind == "HINT"), "")
    hint = hint or next((text for kind, text in following if kind == "DETAIL"), "")
    named = _PARAMETER.search(message)
    setting = named[1] if named else next((name for name in settings if f'"{name}"' in message), None)
    return StartFailure(message=message, hint=_shorten(hint), setting=setting, remedy=_remedy(message, hint))


def _decisive(messages: list[tuple[str, str]]) -> int | None:
    """Return the place of the first complaint about a setting, else of the first FATAL or PANIC."""
    for index, (_, text) in enumerate(messages):
        if _COMPLAINT.search(text):
            return index
    for index, (kind, _) in enumerate(messages):
        if kind in ("FATAL", "PANIC"):
            return index
    return None


def _remedy(*texts: str) -> str:
    joined = " ".join(texts)
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, joined)), "")


def _shorten(hint: str) -> str:
    return hint if len(hint) <= 160 else hint[:157] + "…"
