"""A server of a benchmark's own, outside pgassay: made, filled by pgbench, and removed again."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


@contextmanager
def own_server(programs: Path, options: str, scale: int = 1) -> Iterator[Path]:
    """A server with pgbench's tables, as an unprivileged account, on a Unix socket in the folder it answers.

    options: of the postmaster, as pg_ctl's -o takes them.
    """
    # `timeout` ends a program so: its server goes with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="pgassay-bench-", dir="/tmp"))
    account = {}
    if os.geteuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def run(program: str, *words: str) -> None:
        command = [programs / program, *words]
        # A server that outlives pg_ctl keeps its output open: a pipe would never end.
        with (folder / "output").open("ab") as output:
            subprocess.run(command, stdout=output, stderr=output, check=True, cwd=folder, **account)

    data = ("-D", str(folder / "data"))
    with ExitStack() as undone:
        undone.callback(shutil.rmtree, folder)
        run("initdb", *data, "-U", "postgres", "-A", "trust", "--no-sync")
        run("pg_ctl", *data, "-w", "-l", str(folder / "log"), "-o", f"-k {folder} {options}", "start")
        undone.callback(run, "pg_ctl", *data, "-w", "-m", "immediate", "stop")
        run("pgbench", "-i", "-q", "-s", str(scale), "-h", str(folder), "-U", "postgres", "postgres")
        yield folder


@contextmanager
def server_on_loopback(programs: Path) -> Iterator[dict[str, str | int]]:
    """Such a server that listens on a port of the loopback too: how one connects by its socket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    os.environ["PGPORT"] = str(port)
    with own_server(programs, f"-p {port} -c fsync=off -c autovacuum=off") as folder:
        yield {"host": str(folder), "port": port, "user": "postgres", "dbname": "postgres"}


def select_only(programs: Path, port: int, clients: int, seconds: float, *more: str) -> str:
    """What pgbench prints of its prepared select-only load over the loopback."""
    words = ["-n", "-S", "-M", "prepared", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
    command = [programs / "pgbench", *words, "-c", str(clients), "-T", str(seconds), *more, "postgres"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
