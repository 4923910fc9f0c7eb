"""A private PostgreSQL server for the tests of the native binary: Unix socket and TCP, small pgbench data."""

import atexit
import functools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg

PASSWORD = "a 'quoted' pässword"
SCALE = 2
# Roles with a password each: the way their password is asked for over TCP.
TCP_ROLES = {"by_scram": "scram-sha-256", "by_md5": "md5", "by_cleartext": "password"}
SETTINGS = {
    "max_connections": "30",
    "superuser_reserved_connections": "3",
    "fsync": "off",
    "autovacuum": "off",
    "shared_buffers": "64MB",
    "listen_addresses": "127.0.0.1",
    "log_line_prefix": "%a|%p|",
    "lc_messages": "C",
}


def bin_directory() -> Path:
    """The newest PostgreSQL at hand: pgassay's own, else one that is installed."""
    if os.environ.get("TBIN"):
        return Path(os.environ["TBIN"])
    home = Path(os.environ.get("PGASSAY_HOME", "/var/cache/pgassay"))
    own = sorted(home.glob("builds/apt/18*/usr/lib/postgresql/18/bin"))
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = [path for path in [*installed, *own] if (path / "initdb").exists()]
    assert found, "no PostgreSQL on this machine: type `make setup`"
    return found[-1]


class NativeTestServer:
    """Started by `start`; `stop` leaves nothing behind."""

    def __init__(self) -> None:
        self.bin = bin_directory()
        self.account = servers_account()
        self.folder = folder_of_account("pgassay-native-")
        self.log = self.folder / "log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def make_cluster(self, *words: str) -> None:
        """A cluster as `initdb words` makes it; copied, because that takes a second of processor time."""
        self.copy_cluster(first_cluster(self.bin, words))

    def copy_cluster(self, source: Path) -> None:
        """Begin with a copy of a cluster that no server runs on."""
        subprocess.run(["cp", "-a", "--reflink=auto", source, self.folder / "data"], check=True)

    def run(self, program: str, *arguments: str) -> str:
        command = [self.bin / program, *arguments]
        # A file, because a server that is started here would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            finished = subprocess.run(
                command, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT, check=False, **self.account
            )
            output.seek(0)
            text = output.read()
        log = self.log.read_text() if self.log.exists() else ""
        assert finished.returncode == 0, f"{program}: {text} {log[-2000:]}"
        return text

    def start(self) -> None:
        """With the roles and pgbench's tables; copied, because that takes longer than most tests."""
        self.copy_cluster(loaded_cluster(self.bin))
        self.configure_place()
        self.start_again()

    def configure_place(self) -> None:
        """Let the cluster answer at this server's port and in its folder, and each role in its own way."""
        data = self.folder / "data"
        with (data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
            file.write(f"port = {self.port}\nunix_socket_directories = '{self.folder}'\n")
        rules = [f"host all {role} 127.0.0.1/32 {method}\n" for role, method in TCP_ROLES.items()]
        (data / "pg_hba.conf").write_text("local all all trust\n" + "".join(rules))

    def fill_cluster(self) -> None:
        """Make the roles and pgbench's tables."""
        with self.query_connection() as connection:
            for role, method in TCP_ROLES.items():
                encryption = "md5" if method == "md5" else "scram-sha-256"
                connection.execute(f"set password_encryption = '{encryption}'")
                quoted = PASSWORD.replace("'", "''")
                connection.execute(f"create role {role} login superuser password '{quoted}'")
        places = ("-h", str(self.folder), "-p", str(self.port), "-U", "postgres")
        self.run("pgbench", "-i", "-q", "-s", str(SCALE), *places)

    def start_again(self) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.log), "start")

    def stop(self) -> None:
        data = self.folder / "data"
        if (data / "postmaster.pid").exists():
            self.run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
        shutil.rmtree(self.folder)

    def parameters(self, **changes: Any) -> dict[str, Any]:
        usual = {"host": str(self.folder), "port": self.port, "user": "postgres", "dbname": "postgres"}
        return usual | changes

    def query_connection(self) -> psycopg.Connection[Any]:
        return psycopg.connect(host=str(self.folder), port=self.port, user="postgres", autocommit=True)

    def query(self, sql: str) -> tuple[Any, ...]:
        """The first row."""
        with self.query_connection() as connection:
            row = connection.execute(sql).fetchone()
        assert row is not None
        return row

    def logged(self, application: str) -> list[str]:
        """What the server logged of the sessions of this name, without the prefix."""
        prefix = f"{application}|"
        lines = self.log.read_text().splitlines()
        return [line.split("|", 2)[2] for line in lines if line.startswith(prefix)]


def servers_account() -> dict[str, Any]:
    """Whose processes the servers are, as options of subprocess: not root's."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(next(name for name in ("postgres", "nobody") if _account_exists(name)))
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def folder_of_account(prefix: str) -> Path:
    """A new folder that belongs to it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    account = servers_account()
    if account:
        os.chown(folder, account["user"], account["group"])
    return folder


_kept: list[Path] = []


@atexit.register
def remove_kept_clusters() -> None:
    """What `first_cluster` and `loaded_cluster` made.

    pytest does not wait long for the processes that ran its tests once their last test is over: they call
    this before they say so.
    """
    while _kept:
        shutil.rmtree(_kept.pop(), ignore_errors=True)


@functools.cache
def first_cluster(bin_folder: Path, words: tuple[str, ...]) -> Path:
    """One that no server ever runs on, until this process ends."""
    folder = folder_of_account("pgassay-cluster-")
    _kept.append(folder)
    command = [bin_folder / "initdb", "-D", folder / "data", *words]
    finished = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, **servers_account()
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return folder / "data"


@functools.cache
def loaded_cluster(bin_folder: Path) -> Path:
    """One that a server has filled and left, and none ever runs on again, until this process ends."""
    server = NativeTestServer()
    _kept.append(server.folder)
    server.bin = bin_folder
    server.make_cluster("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    data = server.folder / "data"
    own = (data / "postgresql.conf").read_text()
    server.configure_place()
    with (data / "postgresql.conf").open("a") as file:
        # What is kept of the WAL for reuse would be copied with every server.
        file.write("min_wal_size = '32MB'\nmax_wal_size = '64MB'\n")
    try:
        server.start_again()
        server.fill_cluster()
    except BaseException:
        server.stop()
        raise
    server.run("pg_ctl", "-D", str(data), "-w", "-m", "fast", "stop")
    (data / "postgresql.conf").write_text(own)
    return data


def _account_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


Started = TypeVar("Started", bound=NativeTestServer)


@contextmanager
def started_server(
    kind: type[Started] = NativeTestServer,  # type: ignore[assignment]
) -> Iterator[Started]:
    """One that runs, and leaves nothing behind."""
    server = kind()
    try:
        server.start()
        yield server
    finally:
        server.stop()
