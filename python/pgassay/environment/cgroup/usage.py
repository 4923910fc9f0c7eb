"""What a server's group was capped at and what it used, read back from the kernel.

Sources: Documentation/admin-guide/cgroup-v1/memory.rst, Documentation/scheduler/sched-bwc.rst and
Documentation/admin-guide/cgroup-v2.rst of Linux.
"""

from collections.abc import Mapping
from pathlib import Path

from pgassay.environment.cgroup.group import Cgroup

# Version 1's word for "no limit" is the largest number of pages, in bytes.
_UNLIMITED_BYTES_MIN = 1 << 62
_MEMORY_STATISTICS = ("pgmajfault", "workingset_refault_file")


def limits_in_force(group: Cgroup) -> dict[str, float | None]:
    """The caps that hold now: `memory_bytes` and `cpus`, None without one; only for what was capped."""
    facts: dict[str, float | None] = {}
    memory = group.folder("memory")
    if memory is not None:
        facts["memory_bytes"] = memory_cap_bytes(memory)
        facts["memory_used_bytes"] = _first(memory, "memory.current", "memory.usage_in_bytes")
    cpu = group.folder("cpu_quota")
    if cpu is not None:
        facts["cpus"] = cpu_cap(cpu)
    return facts


def peaks(group: Cgroup) -> dict[str, int | None]:
    """`memory_peak_bytes`: the most memory the group held since it was made, page cache included.

    {} for a group whose memory is not capped; None before Linux 5.19 on version 2.
    """
    memory = group.folder("memory")
    if memory is None:
        return {}
    return {"memory_peak_bytes": _first(memory, "memory.peak", "memory.max_usage_in_bytes")}


def counters(group: Cgroup) -> dict[str, float]:
    """Cumulative counters of what the caps did; take differences.

    `nr_periods`, `nr_throttled`: periods of 100 ms with something to run, and those in which the group
    used up its share; `throttled_s` the time that its processors were held back, summed.
    `memory_limit_hits`: allocations that found the cap reached and had to free pages first, `oom_kills`
    processes killed for it; `pgmajfault` and `workingset_refault_file` pages that had to be read, the
    latter ones that the cache had held before.
    """
    values: dict[str, float] = {}
    cpu = group.folder("cpu_quota")
    if cpu is not None:
        values |= throttling(cpu)
    memory = group.folder("memory")
    if memory is not None:
        events = table(memory / "memory.events") or table(memory / "memory.oom_control")
        hits = events.get("max")
        values["memory_limit_hits"] = hits if hits is not None else _first(memory, "memory.failcnt") or 0.0
        values["oom_kills"] = events.get("oom_kill", 0.0)
        values |= pages_read(memory)
    return values


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was counted between two readings."""
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def throttling(folder: Path) -> dict[str, float]:
    """`nr_periods`, `nr_throttled` and `throttled_s` of `counters`, of a group of the cpu controller."""
    stat = table(folder / "cpu.stat")
    usec = stat.get("throttled_usec")
    return {
        **{name: stat.get(name, 0.0) for name in ("nr_periods", "nr_throttled")},
        "throttled_s": stat.get("throttled_time", 0.0) / 1e9 if usec is None else usec / 1e6,
    }


def pages_read(folder: Path) -> dict[str, float]:
    """`pgmajfault` and `workingset_refault_file` of a group of the memory controller, where it has them."""
    stat = table(folder / "memory.stat")
    return {name: stat[name] for name in _MEMORY_STATISTICS if name in stat}


def cpu_cap(folder: Path) -> float | None:
    """The cap of a group of the cpu controller, in processors; None without one."""
    words = read_text(folder / "cpu.max").split()
    if not words:
        words = [read_text(folder / "cpu.cfs_quota_us"), read_text(folder / "cpu.cfs_period_us")]
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0].isdigit() else None


def memory_cap_bytes(folder: Path) -> int | None:
    """The cap of a group of the memory controller; None without one."""
    text = read_text(folder / "memory.max") or read_text(folder / "memory.limit_in_bytes")
    return int(text) if text.isdigit() and int(text) < _UNLIMITED_BYTES_MIN else None


def table(file: Path) -> dict[str, float]:
    """The lines `NAME NUMBER` of a controller's file; {} of one that isn't there."""
    pairs = (line.split() for line in read_text(file).splitlines())
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2}


def read_text(file: Path) -> str:
    """The content of a controller's file; "" of one that isn't there or may not be read."""
    try:
        return file.read_text("ascii").strip()
    except OSError:
        return ""


def _first(folder: Path, *names: str) -> int | None:
    for name in names:
        text = read_text(folder / name)
        if text.isdigit():
            return int(text)
    return None
