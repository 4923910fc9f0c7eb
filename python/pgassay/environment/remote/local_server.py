"""Whether a session's server runs on this machine, and which process is its first one.

A process number alone proves nothing: a container or another machine has processes of the same numbers. The
session's own process must be here under its number, by the name of PostgreSQL's program, in this namespace of
process numbers, and be as old as the server says that the session is.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.linux.device import BlockDevice, device_of
from pgassay.environment.linux.processes import PROC, TICKS_PER_SECOND, process_stat
from pgassay.environment.server.sessions import ControlSession

# The program's name, and the one under which some distributions start its first process.
_NAMES = frozenset({"postgres", "postmaster"})
# The kernel counts a process's start in ticks of 10 ms, and the answer was under way for a moment.
_AGE_TOLERANCE_S = 0.25
_SESSION = """
SELECT pid, extract(epoch FROM pg_catalog.clock_timestamp() - backend_start)::float8,
    (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory')
FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()"""


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


def server_of(session: ControlSession) -> LocalServer | NotLocal:
    """The server that answers a session."""
    began = time.monotonic()
    row = session.execute(_SESSION).fetchone()
    if row is None:
        return NotLocal("it does not say which process serves this session")
    return find_server(int(row[0]), float(row[1]), row[2], slack_s=time.monotonic() - began)


def find_server(
    backend_pid: int, age_s: float, data_directory: str | None, *, slack_s: float = 0.0, proc: Path = PROC
) -> LocalServer | NotLocal:
    """The server of the session that `backend_pid` serves, which the server says is `age_s` seconds old.

    data_directory: the server's own answer, where the role may ask. slack_s: how long the answer took.
    """
    elsewhere = NotLocal("it runs on another machine, in a container, or hidden from this account")
    if _name(backend_pid, proc) not in _NAMES or not _is_in_this_namespace(backend_pid, proc):
        return elsewhere
    stat = process_stat(backend_pid, proc)
    if stat is None:
        return elsewhere
    here_s = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.started_ticks / TICKS_PER_SECOND
    if abs(here_s - age_s) > _AGE_TOLERANCE_S + slack_s or _name(stat.parent, proc) not in _NAMES:
        return elsewhere
    return LocalServer(stat.parent, *_data(stat.parent, data_directory, proc))


def _data(postmaster: int, data_directory: str | None, proc: Path) -> tuple[Path | None, BlockDevice]:
    """The data directory and its device: by the process's working folder, which leads there through any mount
    namespace (src/backend/utils/init/miscinit.c, ChangeToDataDir), else by what the server says."""
    working_folder = proc / str(postmaster) / "cwd"
    folder = Path(data_directory) if data_directory else None
    try:
        folder = folder or working_folder.readlink()
        return folder, device_of(working_folder)
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
