"""What the tests of servers and datasets share: a build, a home of their own, children as another user."""

import contextlib
import os
import pickle
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg

from native_servers import first_cluster
from pgassay.environment.builds.registry import resolve
from pgassay.environment.home import account, home
from pgassay.environment.server import server_folder, server_processes
from pgassay.environment.server.initdb import initdb_command
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import identity
from pgassay.environment.server.sessions import control
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build

# A flush matters only to a machine that loses its power.
TINY_SETTINGS = {"shared_buffers": "16MB", "max_connections": "20", "fsync": "off"}


def best_build() -> Build:
    """The build that PGASSAY_TEST_PG names, else the one a comparison would use, of the machine's home."""
    return resolve(os.environ.get("PGASSAY_TEST_PG"))


@contextlib.contextmanager
def own_home() -> Iterator[Path]:
    """A home that no other run uses, reachable for the servers' account, and gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="pgassay-test-", dir="/tmp"))
    folder.chmod(0o755)
    before = os.environ.get("PGASSAY_HOME")
    os.environ["PGASSAY_HOME"] = str(folder)
    # Apart from those of other runs on this machine, so that a test can say that none is left.
    sockets = folder / "sockets"
    sockets.mkdir(mode=0o755)
    parent, server_folder.PARENT = server_folder.PARENT, sockets
    try:
        yield home()
    finally:
        server_folder.PARENT = parent
        if before is None:
            del os.environ["PGASSAY_HOME"]
        else:
            os.environ["PGASSAY_HOME"] = before
        for data_directory in folder.rglob("postmaster.pid"):
            server_processes.kill_and_wait(data_directory.parent, 10)
        shutil.rmtree(folder)


def empty_cluster(build: Build, folder: Path) -> Path:
    """A cluster made by the product's own initdb; copied, because that takes a second of processor time."""
    program, _, _, *words = initdb_command(build, folder, DatasetSpec())
    source = first_cluster(Path(program).parent, tuple(words))
    subprocess.run(["cp", "-a", "--reflink=auto", source, folder], check=True)
    return folder


@contextlib.contextmanager
def session_on(sql: str) -> "Iterator[psycopg.Connection[Any]]":
    """A session on a small server of its own, on which this SQL ran."""
    build = best_build()
    with own_home() as home:
        folder = empty_cluster(build, home / "data" / "cluster")
        with Server(build, folder, TINY_SETTINGS) as server, control(server) as connection:
            connection.execute(sql)
            yield connection


def socket_folders(home_folder: Path) -> list[Path]:
    """The private folders of servers that exist now in a home of `own_home`."""
    return list((home_folder / "sockets").iterdir())


def run_program(build: Build, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run one of PostgreSQL's programs as the servers' account."""
    argv = [f"{build.bin_directory}/{words[0]}", *words[1:]]
    return subprocess.run(argv, capture_output=True, text=True, check=True, **identity())


def run_script(build: Build, script: str, parameters: Mapping[str, object]) -> str:
    """Run a script as its users do, by psql; what it prints. Raises CalledProcessError where psql stops."""
    words = [f"{name}={value}" for name, value in parameters.items()]
    argv = [f"{build.bin_directory}/psql", "-X", "-q", "-A", "-t", "-f", "-", " ".join(words)]
    account_of_servers = {name: value for name, value in identity().items() if name != "stdin"}
    done = subprocess.run(
        argv, input=script, capture_output=True, text=True, check=True, **account_of_servers
    )
    return done.stdout


def child(function: Callable[[], Any], user: str | None = None) -> "tuple[int, int]":
    """Fork a child (as `user` when given) that runs `function`; return its pid and its answer's pipe."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    answer: Any
    try:
        if user is not None:
            entry = pwd.getpwnam(user)
            os.setgroups([])
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)
            account.cache_clear()
        answer = ("value", function())
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        answer = ("error", f"{type(error).__name__}: {error}")
    with os.fdopen(writing, "wb") as pipe:
        pickle.dump(answer, pipe)
    os._exit(0)


def answer_of(pid: int, reading: int) -> Any:
    """Wait for the child and return what its function returned."""
    with os.fdopen(reading, "rb") as pipe:
        document = pipe.read()
    os.waitpid(pid, 0)
    assert document, "the child ended without an answer"
    kind, value = pickle.loads(document)
    assert kind == "value", value
    return value


def kill_child(pid: int, reading: int) -> None:
    """End the child by SIGKILL, as an operator or the kernel would."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reading)
