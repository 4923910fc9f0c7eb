"""The caps on a running process's processors and memory, and what they did: by the groups it is in.

A cap of any group above holds as well, so the tightest of the chain counts. Groups beyond what a container's
mount shows are not seen. Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst and
cgroup-v1/memory.rst, Documentation/scheduler/sched-bwc.rst of Linux.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.cgroup import usage
from pgassay.environment.linux import machine
from pgassay.environment.linux.device import BlockDevice, disk_of
from pgassay.environment.linux.mounts import mounts

_PROC = Path("/proc")
_THROTTLE_V1 = {"rbps": "read_bps", "wbps": "write_bps", "riops": "read_iops", "wiops": "write_iops"}


@dataclass(frozen=True)
class Caps:
    """The tightest caps, None where there is none, with the folders of the groups that impose them."""

    cpus: float | None = None
    cpu_folder: Path | None = None
    memory_bytes: int | None = None
    memory_folder: Path | None = None


NO_CAPS = Caps()


def caps_of(pid: int, beside: Collection[Path] = ()) -> Caps:
    """The caps on a process, those of the groups `beside` left out; none for one that is there no more."""
    cpus = {
        folder: value
        for folder in chain(pid, "cpu")
        if folder not in beside and (value := usage.cpu_cap(folder)) is not None
    }
    memory = {
        folder: value
        for folder in chain(pid, "memory")
        if folder not in beside and (value := usage.memory_cap_bytes(folder)) is not None
    }
    cpu_folder = min(cpus, key=lambda folder: cpus[folder], default=None)
    memory_folder = min(memory, key=lambda folder: memory[folder], default=None)
    return Caps(
        cpus[cpu_folder] if cpu_folder else None,
        cpu_folder,
        memory[memory_folder] if memory_folder else None,
        memory_folder,
    )


def usable_memory_bytes() -> int:
    """What this process and those it starts may use: the machine's memory, or a cap of its groups below it.

    In a container the machine's memory says nothing: the cap is the container's.
    """
    capped = caps_of(os.getpid()).memory_bytes
    return machine.memory_bytes() if capped is None else min(machine.memory_bytes(), capped)


def usable_processors() -> float:
    """How many processors this process and those it starts may use at once, as `usable_memory_bytes`."""
    capped = caps_of(os.getpid()).cpus
    there = float(machine.cores_usable())
    return there if capped is None else min(there, capped)


def counters(caps: Caps) -> dict[str, float]:
    """Cumulative counters of what the caps did, by the names that a trial's record has; take differences."""
    found: dict[str, float] = {}
    if caps.cpu_folder is not None:
        found |= usage.throttling(caps.cpu_folder)
    if caps.memory_folder is not None:
        found |= usage.pages_read(caps.memory_folder)
    return found


def read_limits(pid: int, device: BlockDevice) -> tuple[float | None, float | None]:
    """The lowest limits on the process's reads from the device's disk: bytes and requests a second."""
    disk = disk_of(device)
    limits = limits_by_disk(pid).get(f"{disk.major}:{disk.minor}", {})
    return limits.get("rbps"), limits.get("riops")


def limits_by_disk(pid: int, beside: Collection[Path] = ()) -> dict[str, dict[str, float]]:
    """The lowest limits on the process's I/O by disk ("8:0"): `rbps`, `wbps`, `riops`, `wiops` where set.

    On version 1 a group's limits hold for its own processes alone, not for those of groups below it
    (Documentation/admin-guide/cgroup-v1/blkio-controller.rst, "Hierarchical Cgroups").
    """
    found: dict[str, dict[str, float]] = {}

    def add(disk: str, name: str, value: float) -> None:
        limits = found.setdefault(disk, {})
        limits[name] = min(value, limits.get(name, value))

    for folder in chain(pid, "io"):
        for line in usage.read_text(folder / "io.max").splitlines() if folder not in beside else ():
            disk, *pairs = line.split()
            for name, _, value in (pair.partition("=") for pair in pairs):
                if value.isdigit():
                    add(disk, name, float(value))
    own = next(chain(pid, "blkio"), None)
    if own is not None and own not in beside:
        for name, file in _THROTTLE_V1.items():
            for disk, limit in usage.table(own / f"blkio.throttle.{file}_device").items():
                add(disk, name, limit)
    return found


def chain(pid: int, controller: str) -> Iterator[Path]:
    """The folders of the process's group and of those above it, for one controller of either version."""
    try:
        lines = (_PROC / str(pid) / "cgroup").read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for mount in mounts():
            is_it = mount.kind == "cgroup2" if not controllers else controller in mount.options
            if not is_it or mount.kind not in ("cgroup", "cgroup2"):
                continue
            inside = Path(path)
            if mount.root != "/" and inside.is_relative_to(mount.root):
                inside = Path("/") / inside.relative_to(mount.root)
            folder = mount.point / inside.relative_to("/")
            while folder != mount.point and folder.is_relative_to(mount.point):
                yield folder
                folder = folder.parent
            yield mount.point
            break
