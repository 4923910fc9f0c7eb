"""Equal parts of one host for several workers: whole cores with their hyperthreads, and memory."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.cgroup.group import capabilities
from pgassay.errors import UsageError

_TOPOLOGY = Path("/sys/devices/system/cpu")
# For the workers themselves, the scheduler and whoever uses the machine.
_KEPT_FOR_OTHERS = 0.1


@dataclass(frozen=True)
class Share:
    """A worker's part: its processors' numbers, and its memory; None where nothing can limit that."""

    cores: tuple[int, ...]
    memory_bytes: int | None


def divide_host(count: int) -> list[Share]:
    """What each of `count` workers gets, all alike; one gets the whole host.

    Raises UsageError where the host can't be divided so.
    """
    if count == 1:
        return [Share((), None)]
    if os.geteuid() != 0:
        raise UsageError(
            f"--local {count}: workers that share a machine need a network namespace each, for a lock of "
            "their own, which only root can make: run as root, or use --local 1"
        )
    siblings = [_siblings(cpu) for cpu in sorted(os.sched_getaffinity(0))]
    parts = divide_cores(siblings, count)
    memory = capabilities()["memory"]
    size = int(usable_memory_bytes() * (1 - _KEPT_FOR_OTHERS)) // count
    # In version 2 root's servers stand in groups beside ours, not below it, so a cap of ours would not hold.
    return [Share(part, size if memory.version == 1 else None) for part in parts]


def divide_cores(siblings: Sequence[Collection[int]], count: int) -> list[tuple[int, ...]]:
    """Parts of equally many whole cores; those that are over belong to nobody.

    siblings: for each processor that may be used, those of its core. Two workers on one core's hyperthreads
    would slow each other down. Raises UsageError where there are fewer cores than workers.
    """
    usable = {cpu for cores in siblings for cpu in cores}
    cores = sorted({tuple(sorted(usable & set(each))) for each in siblings})
    each = len(cores) // count
    if each == 0:
        raise UsageError(
            f"--local {count}: this machine has {len(cores)} cores: a worker needs one of its own"
        )
    return [
        tuple(sorted(cpu for core in cores[part * each : (part + 1) * each] for cpu in core))
        for part in range(count)
    ]


def _siblings(cpu: int) -> tuple[int, ...]:
    """The processors of one core (Documentation/admin-guide/cputopology.rst of Linux), this one included."""
    try:
        text = (_TOPOLOGY / f"cpu{cpu}" / "topology/thread_siblings_list").read_text("ascii").strip()
    except OSError:
        return (cpu,)
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)
