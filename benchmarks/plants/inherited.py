"""Plants of limits that the product did not set: a group around the whole command, made by the bench.

A shell joins the group and then becomes the command, as a container's or a service manager's would. Both arms
run under the limit; the decoy has a run of its own in the same group without it.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pgassay.environment.cgroup import caps
from pgassay.environment.linux.device import device_of, disk_of
from plants.base import Around, Plant
from plants.outside import MEGABYTE
from plants.reading import COLD, scan
from plants.working import WARM, compute

_JOIN = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
# What both arms have alike: the limit is around the command, so nothing that an arm sets lifts it.
_NO_FACTOR = "work_mem=4MB,8MB"
_MEMORY_SCALE = 24
Lines = Callable[[Path], Mapping[str, str]]


def _nothing(_home: Path) -> Mapping[str, str]:
    return {}


def _group(controller: str, lines: Lines) -> Around:
    """A group of version 1 below this process's own, whose files get these lines; gone afterwards."""

    @contextmanager
    def around(home: Path) -> Iterator[tuple[str, ...]]:
        own = next(caps.chain(os.getpid(), controller))
        folder = own / f"pgassay-bench-around-{os.getpid()}"
        folder.mkdir()
        try:
            for name, line in lines(home).items():
                (folder / name).write_text(line)
            yield ("sh", "-c", _JOIN, str(folder))
        finally:
            folder.rmdir()

    return around


def quota(cpus: float) -> Plant:
    """A quota of processors for the server and its client together."""

    def lines(_home: Path) -> Mapping[str, str]:
        return {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": str(round(cpus * 100_000))}

    return Plant(
        "cpu-quota",
        f"{cpus:g} processors around the command",
        _NO_FACTOR,
        compute(800),
        options=WARM,
        needs=("cpu-quota", "groups-of-version-1"),
        lifts=False,
        variant="inherited",
        around=_group("cpu", lines),
        decoy={"around": _group("cpu", _nothing)},
    )


def throughput(mb_s: int) -> Plant:
    """A rate of reads from the disk that the home lies on."""

    def lines(home: Path) -> Mapping[str, str]:
        disk = disk_of(device_of(home))
        return {"blkio.throttle.read_bps_device": f"{disk.major}:{disk.minor} {mb_s * MEGABYTE}"}

    return Plant(
        "storage-throughput",
        f"{mb_s} MB/s around the command",
        _NO_FACTOR,
        scan(0.5, scale=8),
        options=COLD,
        scale=8,
        needs=("rate-limits", "groups-of-version-1"),
        lifts=False,
        variant="inherited",
        around=_group("blkio", lines),
        decoy={"around": _group("blkio", _nothing)},
    )


def memory(cap_mb: int) -> Plant:
    """Memory for the whole command, page cache included: what is read twice does not stay.

    The command itself takes up to 160 MB of it, with its report.
    """

    def lines(_home: Path) -> Mapping[str, str]:
        return {"memory.limit_in_bytes": str(cap_mb * MEGABYTE)}

    once = scan(0.01, scale=_MEMORY_SCALE)
    both = once + once.replace("name: scan", "name: again")
    return Plant(
        "memory",
        f"{cap_mb} MB around the command for 320 MB",
        _NO_FACTOR,
        both,
        options=COLD,
        scale=_MEMORY_SCALE,
        settings={"shared_buffers": "16MB", "max_connections": "20"},
        needs=("memory-cap", "groups-of-version-1"),
        lifts=False,
        variant="inherited",
        around=_group("memory", lines),
        decoy={"around": _group("memory", _nothing)},
    )


PLANTS = (
    quota(0.2),
    quota(0.12),
    throughput(32),
    throughput(16),
    memory(288),
    memory(256),
)
