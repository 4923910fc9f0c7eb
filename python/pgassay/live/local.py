"""Whether a session's server runs on this machine, and which process is its first one.

A process number alone proves nothing: a container or another machine has processes of the same numbers. The
session's own process must be here under its number, by the name of PostgreSQL's program, in this namespace of
process numbers, and be as old as the server says that the session is.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.linux.device import device_of
from pgassay.environment.storage.base import BlockDevice

PROC = Path("/proc")
# The program's name, and the one under which some distributions start its first process.
_NAMES = frozenset({"postgres", "postmaster"})
# The kernel counts a process's start in ticks of 10 ms, and the answer was under way for a moment.
_AGE_TOLERANCE_S = 0.25
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class LocalServer:
    """A server on this machine: its first process, and the device below its data (`name` None: not seen).

    `data_directory`: where it is; None where neither the server nor the kernel says it to this account.
    """

    postmaster_pid: int
    data_directory: Path | None
    device: BlockDevice


@dataclass(frozen=True)
class NotLocal:
    """Why the server's processes can't be looked at, in words that follow 'the server's processes: '."""

    reason: str


def find_server(
    backend_pid: int, age_s: float, data_directory: str | None, *, slack_s: float = 0.0, proc: Path = PROC
) -> LocalServer | NotLocal:
    """The server of the session that `backend_pid` serves, which the server says is `age_s` seconds old.

    data_directory: the server's own answer, where the role may ask. slack_s: how long the answer took.
    """
    elsewhere = NotLocal("it runs on another machine, in a container, or hidden from this account")
    if _name(backend_pid, proc) not in _NAMES or not _is_in_this_namespace(backend_pid, proc):
        return elsewhere
    fields = _stat(backend_pid, proc)
    if fields is None:
        return elsewhere
    # Fields 4 and 22 of proc(5), counted after the name.
    parent, begun_s = int(fields[1]), int(fields[19]) / _TICKS_PER_S
    here_s = time.clock_gettime(time.CLOCK_BOOTTIME) - begun_s
    if abs(here_s - age_s) > _AGE_TOLERANCE_S + slack_s or _name(parent, proc) not in _NAMES:
        return elsewhere
    return LocalServer(parent, *_data(parent, data_directory, proc))


def _data(postmaster: int, told: str | None, proc: Path) -> tuple[Path | None, BlockDevice]:
    """The data directory and its device: by the process's working folder, which leads there through any mount
    namespace (src/backend/utils/init/miscinit.c, ChangeToDataDir), else by what the server says."""
    place = proc / str(postmaster) / "cwd"
    folder = Path(told) if told else None
    try:
        folder = folder or place.readlink()
        return folder, device_of(place)
    except OSError:
        pass
    try:
        return folder, device_of(folder) if folder else BlockDevice(None, 0, 0)
    except OSError:
        return folder, BlockDevice(None, 0, 0)


def _name(pid: int, proc: Path) -> str:
    try:
        return (proc / str(pid) / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _stat(pid: int, proc: Path) -> list[str] | None:
    try:
        text = (proc / str(pid) / "stat").read_text("ascii", "replace")
    except OSError:
        return None
    # The command, in parentheses, may itself hold blanks and parentheses.
    return text.rpartition(")")[2].split()


def _is_in_this_namespace(pid: int, proc: Path) -> bool:
    """Whether the process knows itself by this number (NSpid of proc(5): its number in each namespace)."""
    numbers, own = _numbers(pid, proc), _numbers("self", proc)
    return bool(numbers) and len(numbers) == len(own) and numbers[-1] == str(pid)


def _numbers(pid: int | str, proc: Path) -> list[str]:
    try:
        text = (proc / str(pid) / "status").read_text("utf-8", "replace")
    except OSError:
        return []
    line = next((line for line in text.splitlines() if line.startswith("NSpid:")), "")
    return line.split()[1:]
