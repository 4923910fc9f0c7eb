"""CPU time of all processes of this machine, to name those that are not the server's."""

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_NAMED_MAX = 5
# Less than this share of a processor is not worth a name.
_SHARE_MIN = 0.02

# Process id and start → name, parent, CPU seconds.
Processes = dict[tuple[int, int], tuple[str, int, float]]


def snapshot(proc: Path = Path("/proc")) -> Processes:
    """All processes that this account sees; {} where there is no /proc."""
    found: Processes = {}
    if not proc.is_dir():
        return found
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text("utf-8", "replace")
        except OSError:
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        # Fields 4, 14, 15 and 22 of proc(5), counted after the name.
        fields = text.rpartition(")")[2].split()
        used_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
        found[int(folder.name), int(fields[19])] = (name, int(fields[1]), used_s)
    return found


def used_between(before: Processes, after: Processes, postmaster_pid: int) -> dict[int, tuple[str, float]]:
    """Name and CPU seconds of each process that is neither the server's nor pgassay's own.

    A process that began and ended between the two is not seen.
    """
    used: dict[int, tuple[str, float]] = {}
    own = os.getpid()
    for key, (name, parent, used_s) in after.items():
        if postmaster_pid not in (key[0], parent) and own not in (key[0], parent):
            used[key[0]] = name, used_s - before.get(key, (name, 0, 0.0))[2]
    return used


def children_of(postmaster_pid: int, processes: Processes) -> list[int]:
    """The server's other processes."""
    return [pid for (pid, _), (_, parent, _) in processes.items() if parent == postmaster_pid]


def named(used: dict[int, tuple[str, float]], seconds: float) -> dict[str, float]:
    """CPU seconds by name, the greatest first; those that matter."""
    sums: dict[str, float] = {}
    for name, used_s in used.values():
        sums[name] = sums.get(name, 0.0) + used_s
    chosen = sorted(sums, key=lambda name: -sums[name])[:_NAMED_MAX]
    return {name: sums[name] for name in chosen if sums[name] >= _SHARE_MIN * seconds}
