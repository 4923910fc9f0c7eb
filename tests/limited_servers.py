"""A server whose reads pass the system's cache by, and limits on it that a test sets from outside."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from native_servers import NativeTestServer
from pgassay.environment.cgroup.group import Cgroup, io_limits
from pgassay.environment.linux.device import device_of, disk_of

SCALE = 5
ROWS = 100_000 * SCALE


class DirectServer(NativeTestServer):
    """Reads that the system does not cache, and few pages of its own; `place`: a folder on another disk."""

    def __init__(self, place: Path | None = None) -> None:
        super().__init__()
        if place is not None:
            shutil.rmtree(self.folder)
            self.folder = Path(tempfile.mkdtemp(prefix="server-", dir=place))
            self.log = self.folder / "log"
            if self.account:
                os.chown(self.folder, self.account["user"], self.account["group"])

    def start(self) -> None:
        super().start()
        places = ("-h", str(self.folder), "-p", str(self.port), "-U", "postgres")
        self.run("pgbench", "-i", "-q", "-s", str(SCALE), *places)
        with self.query_connection() as connection:
            connection.execute("alter system set debug_io_direct = 'data'")
            connection.execute("alter system set shared_buffers = '8MB'")
            connection.execute("checkpoint")
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", "fast", "stop")
        self.start_again()

    @property
    def dsn(self) -> str:
        return f"host={self.folder} port={self.port} dbname=postgres user=postgres"

    def pids(self) -> list[int]:
        postmaster = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        return [postmaster, *map(int, children)]


@contextmanager
def direct_server() -> Iterator[DirectServer]:
    """One that runs, and is stopped afterwards."""
    server = DirectServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def limited_reads(server: DirectServer, reads_a_second: int) -> Iterator[None]:
    """The server in a group that may read so often from its disk; the capability is `cgroup-limits`."""
    disk = disk_of(device_of(server.folder))
    group = Cgroup.create("by-sql", io_limits(disk.major, disk.minor, read_iops=reads_a_second))
    try:
        for path in group.paths:
            move(server.pids(), path)
        yield
    finally:
        for path in group.paths:
            move(group.pids(), path.parent)
        group.remove()


def move(pids: Iterable[int], group: Path) -> None:
    """Processes into a group; those that have just ended need it no more."""
    for pid in pids:
        with suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(pid))
