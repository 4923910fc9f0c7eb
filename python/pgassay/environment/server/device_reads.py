"""What a server's own processes had the device read, whoever else reads from it meanwhile.

From /proc/PID/io: `read_bytes` counts what a process, its kernel threads of io_uring included, made the
block layer fetch (Linux, Documentation/filesystems/proc.rst). A child that has ended is in its parent's
figure once that has waited for it (kernel/exit.c, wait_task_zombie), so the postmaster and its living
children together are the whole server, parallel workers that came and went included.
"""

from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.linux.processes import children_of

CONSISTENT_READS_MAX = 5


@dataclass(frozen=True)
class ServerReads:
    """Bytes fetched from devices for the server of one postmaster since it began."""

    postmaster: int
    read_bytes: int


def reads_of(postmaster: int) -> ServerReads | None:
    """Return what the server has had read so far; None where this account may not know.

    Read again when a child ended between the readings, which would count it twice or not at all.
    """
    total = None
    for _ in range(CONSISTENT_READS_MAX):
        children = children_of(postmaster)
        try:
            total = sum(_read_bytes(pid) for pid in (postmaster, *children))
        except (FileNotFoundError, ProcessLookupError):
            if not Path(f"/proc/{postmaster}/io").exists():
                return None
            continue
        except OSError:
            return None
        if children == children_of(postmaster):
            break
    return None if total is None else ServerReads(postmaster, total)


def reads_between(before: ServerReads | None, after: ServerReads | None) -> int | None:
    """Return the bytes between two readings; None without both, or when the server was restarted."""
    if before is None or after is None or before.postmaster != after.postmaster:
        return None
    return after.read_bytes - before.read_bytes


def _read_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "read_bytes":
            return int(value)
    raise FileNotFoundError(f"/proc/{pid}/io")
