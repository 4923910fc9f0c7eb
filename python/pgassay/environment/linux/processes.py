"""What the kernel says of processes: the numbers of all, and /proc/PID/stat of one (proc(5)).

Our own reader and not psutil: every command that looks for what a crash left would import that, 30 ms at the
least, for one line of /proc; and it gives no ticks, which with the number name a process for good.
"""

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessStat:
    """One process. Its CPU seconds, and those of its children that have ended and were waited for."""

    name: str
    state: str
    parent: int
    cpu_s: float
    ended_children_cpu_s: float
    # Clock ticks since the machine started; with the number it names a process for good.
    started_ticks: int

    @property
    def has_ended(self) -> bool:
        """Whether only its entry is left, for its parent to read."""
        return self.state in "ZX"


def process_ids(proc: Path = PROC) -> list[int]:
    """The numbers of all processes that this account can see, in rising order; [] without /proc."""
    if not proc.is_dir():
        return []
    return sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())


def process_stat(pid: int | str, proc: Path = PROC) -> ProcessStat | None:
    """What the kernel says of a process; None when there is none of that number."""
    try:
        text = (proc / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The command, in parentheses, may itself hold blanks and parentheses.
    before, _, after = text.rpartition(")")
    fields = after.split()
    user, system, ended_user, ended_system = (int(field) for field in fields[11:15])
    return ProcessStat(
        name=before.partition("(")[2],
        state=fields[0],
        parent=int(fields[1]),
        cpu_s=(user + system) / TICKS_PER_SECOND,
        ended_children_cpu_s=(ended_user + ended_system) / TICKS_PER_SECOND,
        started_ticks=int(fields[19]),
    )


def children_of(pid: int, proc: Path = PROC) -> list[int]:
    """A process's children, those included that have ended and were not yet waited for, in rising order.

    From the lists of its threads where the kernel has them (CONFIG_PROC_CHILDREN), which cost nothing beside
    a walk through all processes. A child that ends meanwhile can hide another from them (proc(5)): who
    must miss none reads twice.
    """
    lists = list((proc / str(pid) / "task").glob("*/children"))
    if lists:
        return sorted(child for file in lists for child in _numbers_in(file))
    stats = ((child, process_stat(child, proc)) for child in process_ids(proc))
    return [child for child, stat in stats if stat is not None and stat.parent == pid]


def _numbers_in(file: Path) -> list[int]:
    try:
        return [int(word) for word in file.read_text("ascii").split()]
    except OSError:  # the thread has ended
        return []
