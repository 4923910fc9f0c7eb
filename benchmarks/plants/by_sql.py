"""A limit on storage around a server of the bench's own, of which the comparison is given sessions alone.

The reads pass the system's cache by, so that each of them counts; the limit is a control group's.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from _own_server import own_server
from pgassay.environment.builds.registry import resolve
from pgassay.environment.cgroup.group import Cgroup, io_limits
from pgassay.environment.linux.device import device_of, disk_of
from plants.base import Outside, Plant

_SCALE = 5
_SETTINGS = "-c listen_addresses='' -c fsync=off -c shared_buffers=8MB -c debug_io_direct=data"
_SECONDS = 14
# What stands in a plant's words for the server's connection string.
_SERVER = "LIMITED_SERVER"


def remote_limit(reads_a_second: int) -> Plant:
    """Arms of few and of many clients at one limit; beside them one client, whose rate is as steady."""
    load = f"select-only:duration={_SECONDS}s,warmup=1s"
    return Plant(
        "storage-iops",
        f"{reads_a_second} reads a second, by SQL alone",
        "clients=3,9",
        load,
        options=("--server", _SERVER),
        needs=("rate-limits",),
        outside=_limited(reads_a_second),
        is_remote=True,
        lifts=False,
        decoy={"factor": "work_mem=4MB,8MB", "workload": f"{load},clients=1", "lifts": True},
    )


def _limited(reads_a_second: int) -> Outside:
    @contextmanager
    def run(_home: Path) -> Iterator[Mapping[str, str]]:
        with own_server(Path(resolve("18").bin_directory), _SETTINGS, _SCALE) as folder:
            disk = disk_of(device_of(folder))
            group = Cgroup.create("by-sql", io_limits(disk.major, disk.minor, read_iops=reads_a_second))
            try:
                for path in group.paths:
                    _move(_processes(folder), path)
                yield {_SERVER: f"host={folder} dbname=postgres user=postgres"}
            finally:
                for path in group.paths:
                    _move(sorted(group.pids()), path.parent)
                group.remove()

    return run


def _processes(folder: Path) -> list[int]:
    """The server's first process and its children."""
    postmaster = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]


def _move(pids: list[int], group: Path) -> None:
    for pid in pids:
        # One that has just ended needs it no more.
        with suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(pid))


PLANTS = (remote_limit(120), remote_limit(240))
