"""PgBouncer in front of a server: shared connections, a password that nobody else reads, and nothing left."""

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgassay.environment.cleanup import registry
from pgassay.environment.debian.toolbox import tool
from pgassay.environment.server import server_processes
from pgassay.environment.server.pooler import PROGRAM, Pooler, version
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import connect
from pgassay.errors import MeasurementError
from pgassay.model.arm import PoolerSpec
from pgassay.model.build import Build
from server_helpers import (
    TINY_SETTINGS,
    best_build,
    child,
    empty_cluster,
    kill_child,
    own_home,
    socket_folders,
)

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
PID = "SELECT pg_backend_pid()"
TRANSACTION = PoolerSpec(text="pgbouncer:mode=transaction,size=1", mode="transaction", size=1)
SESSION = PoolerSpec(text="pgbouncer:mode=session", mode="session")


@pytest.fixture(scope="module")
def home(require) -> Iterator[tuple[Build, Path]]:
    require("apt")
    build, program = best_build(), tool(PROGRAM)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{program.parent}:{path}"
    try:
        with own_home() as folder:
            yield build, folder
    finally:
        os.environ["PATH"] = path


@pytest.fixture(scope="module")
def server(home: tuple[Build, Path]) -> Iterator[Server]:
    build, folder = home
    with Server(build, empty_cluster(build, folder / "data" / "pooled"), TINY_SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_left(server: Server, home: tuple[Build, Path]) -> Iterator[None]:
    yield
    assert socket_folders(home[1]) == [server.socket_directory]
    kinds = sorted(file.name.split("-")[0] for file in (home[1] / "registry").glob("*.json"))
    assert kinds == ["folder", "server"]


def test_clients_of_transactions_share_a_connection(server: Server) -> None:
    with Pooler(TRANSACTION, 5, server.connection_parameters()) as pooler:
        with connect(pooler.parameters()) as first, connect(pooler.parameters()) as second:
            assert first.execute(PID).fetchone() == second.execute(PID).fetchone()
        # It is asked throughout a trial.
        counts = [pooler.counts() for _ in range(12)][-1]
        assert counts.transactions >= 2 and counts.server_connections == 1 and counts.cpu_s > 0
        folder, users = pooler.folder, pooler.folder / "userlist.txt"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE(users.stat().st_mode) == 0o600
        password = str(pooler.parameters()["password"])
        assert len(password) > 40 and password in users.read_text()
        # Neither a command line nor what is written down for others has it.
        pid = server_processes.processes_of(folder, PROGRAM)[0]
        assert password.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        with pytest.raises(psycopg.OperationalError, match=r"(?i)password|auth"):
            connect({**pooler.parameters(), "password": "guessed"})
    assert not folder.exists()


def test_clients_of_sessions_have_one_each(server: Server) -> None:
    with Pooler(SESSION, 3, server.connection_parameters()) as pooler:
        assert pooler.size == 3
        with connect(pooler.parameters()) as first, connect(pooler.parameters()) as second:
            assert first.execute(PID).fetchone() != second.execute(PID).fetchone()


def test_the_version_says_what_it_keeps() -> None:
    assert version()[0].isdigit()


def test_what_it_refuses_is_said(server: Server) -> None:
    spec = PoolerSpec(text="pgbouncer:mode=cursor", mode="session").model_copy(update={"mode": "cursor"})
    with pytest.raises(MeasurementError, match=r"PgBouncer .* did not start: .*cursor"):
        Pooler(spec, 1, server.connection_parameters()).__enter__()


def test_what_a_killed_owner_leaves_is_swept(server: Server, home: tuple[Build, Path]) -> None:
    def own_and_wait() -> None:
        Pooler(SESSION, 3, server.connection_parameters()).__enter__()
        time.sleep(600)

    process, pipe = child(own_and_wait)
    deadline = time.monotonic() + 60
    while not (left := _poolers(home[1])) and time.monotonic() < deadline:
        time.sleep(0.05)
    kill_child(process, pipe)
    assert len(left) == 1 and server_processes.processes_of(left[0], PROGRAM)
    assert any("Stopped PgBouncer" in sentence for sentence in registry.sweep())
    assert not left[0].exists() and not server_processes.processes_of(left[0], PROGRAM)


def _poolers(home: Path) -> list[Path]:
    """The folders with a PgBouncer that answers."""
    return [folder for folder in socket_folders(home) if (folder / ".s.PGSQL.6432").exists()]
