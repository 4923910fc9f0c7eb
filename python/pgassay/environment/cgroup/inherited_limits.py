"""Limits around pgassay's own process, which its servers inherit: groups, processors, priority.

Sources: cgroups(7), cgroup_namespaces(7), Documentation/admin-guide/cgroup-v2.rst and sched_setaffinity(2) of
Linux. What lies above the root of a container's group namespace can't be seen from within.
"""

import os
from collections.abc import Collection
from pathlib import Path

from pgassay.environment.cgroup import usage
from pgassay.environment.cgroup.caps import caps_of, chain, limits_by_disk
from pgassay.environment.cgroup.group import capabilities
from pgassay.model.experiment import DiskLimits, InheritedLimits
from pgassay.storage.storage_options import readable_bytes, readable_rate

# The inode of the first group namespace: PROC_CGROUP_INIT_INO of include/linux/proc_ns.h.
_FIRST_NAMESPACE = 0xEFFFFFFB
_DISK_NAMES = {"rbps": "read_bytes", "wbps": "write_bytes", "riops": "reads", "wiops": "writes"}


def inherited_limits(pid: int | None = None) -> InheritedLimits:
    """The limits around a process, this one unless told: only what is limited is a key of the answer.

    Those of groups in which servers are not, since theirs is made elsewhere, are left out.
    """
    pid = os.getpid() if pid is None else pid
    left = _left_by_servers(pid)
    caps = caps_of(pid, beside=left)
    found: dict[str, object] = {}
    if caps.cpus is not None:
        found |= {"cpus": caps.cpus, "cpus_from": str(caps.cpu_folder)}
    if caps.memory_bytes is not None:
        found |= {"memory_bytes": caps.memory_bytes, "memory_from": str(caps.memory_folder)}
    found |= _memory_high(pid, left)
    processors = len(os.sched_getaffinity(pid))
    if processors < (os.cpu_count() or processors):
        found["processors"] = processors
    if niceness := os.getpriority(os.PRIO_PROCESS, pid):
        found["niceness"] = niceness
    disks = {
        _disk_name(number): DiskLimits.model_validate({_DISK_NAMES[name]: limits[name] for name in limits})
        for number, limits in limits_by_disk(pid, beside=left).items()
    }
    found |= {"disks": disks} if disks else {}
    return InheritedLimits.model_validate({**found, "is_whole": _sees_everything()})


def limit_sentences(limits: InheritedLimits) -> tuple[str, ...]:
    """What every report says of them; () where nothing is limited."""
    parts = []
    if limits.cpus is not None:
        parts.append(f"{limits.cpus:g} of its processors ({limits.cpus_from})")
    if limits.processors is not None:
        parts.append(f"{limits.processors} of its processors to run on (sched_setaffinity or a cpuset)")
    if limits.memory_bytes is not None:
        parts.append(f"{readable_bytes(int(limits.memory_bytes))} of memory ({limits.memory_from})")
    if limits.memory_high_bytes is not None:
        high = readable_bytes(int(limits.memory_high_bytes))
        parts.append(f"{high} of memory before the kernel takes pages back ({limits.memory_high_from})")
    parts += [_disk_words(disk, each) for disk, each in limits.disks.items()]
    sentences = []
    if parts:
        sentences.append(
            f"pgassay itself was started under limits, which apply to its servers too: {', '.join(parts)}"
        )
    if limits.niceness:
        sentences.append(f"pgassay and its servers run at nice {limits.niceness}: other processes go first")
    return tuple(sentences)


def limits_left_behind(pid: int | None = None) -> tuple[str, ...]:
    """That caps on this process do not hold for its servers, in a sentence; () where they do, or none is set.

    On version 2 a group in which processes are can't hand its controllers down, so that the servers' group is
    made elsewhere.
    """
    pid = os.getpid() if pid is None else pid
    left = _left_by_servers(pid)
    around = caps_of(pid)
    parts = []
    if around.memory_bytes is not None and around.memory_folder in left:
        parts.append(f"{readable_bytes(around.memory_bytes)} of memory ({around.memory_folder})")
    if around.cpus is not None and around.cpu_folder in left:
        parts.append(f"{around.cpus:g} processors ({around.cpu_folder})")
    if not parts:
        return ()
    return (
        f"pgassay itself was started under limits, which do not apply to its servers: {', '.join(parts)}. "
        "Give the servers their own (--memory, --cpus)",
    )


def _left_by_servers(pid: int) -> frozenset[Path]:
    """The groups of the process in which a server that it starts is not."""
    accounting = capabilities()["cpu_accounting"]
    parent = accounting.parent
    if accounting.version != 2 or parent is None:
        return frozenset()
    return frozenset(folder for folder in chain(pid, "memory") if not parent.is_relative_to(folder))


def _memory_high(pid: int, left: Collection[Path]) -> dict[str, object]:
    high = {
        folder: int(text)
        for folder in chain(pid, "memory")
        if folder not in left and (text := usage.read_text(folder / "memory.high")).isdigit()
    }
    folder = min(high, key=lambda each: high[each], default=None)
    return {} if folder is None else {"memory_high_bytes": high[folder], "memory_high_from": str(folder)}


def _disk_words(disk: str, limits: DiskLimits) -> str:
    words = []
    for verb, size_bytes, count in (
        ("read", limits.read_bytes, limits.reads),
        ("written", limits.write_bytes, limits.writes),
    ):
        if size_bytes is not None:
            words.append(f"{readable_rate(size_bytes)} {verb}")
        if count is not None:
            words.append(f"{count:g} requests a second {verb}")
    return f"{' and '.join(words)} on {disk}"


def _disk_name(number: str) -> str:
    link = Path(f"/sys/dev/block/{number}")
    return link.resolve().name if link.exists() else number


def _sees_everything() -> bool | None:
    try:
        return Path("/proc/self/ns/cgroup").stat().st_ino == _FIRST_NAMESPACE
    except OSError:
        return None
