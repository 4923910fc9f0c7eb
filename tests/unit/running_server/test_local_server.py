"""Which process of this machine serves a session, told from namesakes, on made-up folders of /proc."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgassay.environment.cgroup.caps import caps_of
from pgassay.environment.remote.local_server import LocalServer, NotLocal, find_server
from pgassay.running_server.diagnosis.other_processes import clients_of, named, snapshot, used_between
from pgassay.running_server.diagnosis.thread_observer import RATE_HZ, output_s, rate_hz

TICKS = os.sysconf("SC_CLK_TCK")
POSTMASTER, BACKEND = 70, 71
AGE_S = 3.0


def process(
    proc: Path, pid: int, parent: int, *, name: str = "postgres", numbers: str = "", age_s: float = AGE_S
) -> None:
    """A process's files, as far as they are read."""
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comm").write_text(f"{name}\n")
    (folder / "status").write_text(f"Name:\t{name}\nNSpid:\t{numbers or pid}\n")
    begun = round((time.clock_gettime(time.CLOCK_BOOTTIME) - age_s) * TICKS)
    fields = ["S", str(parent), *["0"] * 9, "250", "50", *["0"] * 6, str(begun), "0"]
    (folder / "stat").write_text(f"{pid} ({name} (odd) name) {' '.join(fields)}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    process(tmp_path, POSTMASTER, 1)
    process(tmp_path, BACKEND, POSTMASTER)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "status").write_text("NSpid:\t99\n")
    return tmp_path


def test_the_server_is_found_with_its_data(proc: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (proc / str(POSTMASTER) / "cwd").symlink_to(data)
    found = find_server(BACKEND, AGE_S, None, proc=proc)
    assert isinstance(found, LocalServer)
    assert (found.postmaster_pid, found.data_directory) == (POSTMASTER, data)


def test_a_folder_that_is_hidden_leaves_what_the_server_says(proc: Path) -> None:
    found = find_server(BACKEND, AGE_S, "/nowhere/at/all", proc=proc)
    assert isinstance(found, LocalServer)
    assert (found.data_directory, found.device.name) == (Path("/nowhere/at/all"), None)
    unknown = find_server(BACKEND, AGE_S, None, proc=proc)
    assert isinstance(unknown, LocalServer)
    assert unknown.data_directory is None


def test_a_namesake_is_not_taken_for_it(proc: Path) -> None:
    assert isinstance(find_server(4711, AGE_S, None, proc=proc), NotLocal)
    # As old as it says, within what the kernel's clock can tell.
    assert isinstance(find_server(BACKEND, AGE_S + 60, None, proc=proc), NotLocal)
    assert isinstance(find_server(BACKEND, AGE_S + 0.1, None, proc=proc), LocalServer)
    process(proc, BACKEND, POSTMASTER, name="sleep")
    assert isinstance(find_server(BACKEND, AGE_S, None, proc=proc), NotLocal)
    process(proc, BACKEND, 1)
    process(proc, 1, 0, name="init")
    assert isinstance(find_server(BACKEND, AGE_S, None, proc=proc), NotLocal)


def test_a_container_s_process_has_another_number_here(proc: Path) -> None:
    process(proc, BACKEND, POSTMASTER, numbers=f"{BACKEND}\t12")
    assert isinstance(find_server(BACKEND, AGE_S, None, proc=proc), NotLocal)
    (proc / "self" / "status").write_text("NSpid:\t99\t5\n")
    process(proc, BACKEND, POSTMASTER, numbers=f"500\t{BACKEND}")
    assert isinstance(find_server(BACKEND, AGE_S, None, proc=proc), LocalServer)


def test_processes_are_named_by_what_they_used(proc: Path) -> None:
    before = snapshot(proc)
    (backend,) = [value for (pid, _), value in before.items() if pid == BACKEND]
    assert (backend.name, backend.parent, backend.cpu_s) == ("postgres (odd) name", POSTMASTER, 300 / TICKS)
    process(proc, 200, 1, name="backup", age_s=1)
    used = used_between(before, snapshot(proc), POSTMASTER)
    assert used == {200: ("backup (odd) name", 300 / TICKS)}
    assert named(used, 10.0) == {"backup (odd) name": 300 / TICKS}
    assert named(used, 1e6) == {}


def test_this_process_has_no_clients_and_perhaps_caps() -> None:
    assert clients_of(os.getpid(), [], [os.getpid()]) == set()
    caps = caps_of(os.getpid())
    assert (caps.cpus is None) == (caps.cpu_folder is None)
    assert (caps.memory_bytes is None) == (caps.memory_folder is None)
    assert caps_of(0).cpus is None


_ACCEPT = (
    "import socket; server = socket.create_server(('127.0.0.1', 0)); "
    "print(server.getsockname()[1], flush=True); connection, _ = server.accept(); connection.recv(1)"
)


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")]
)
def test_a_client_by_tcp_is_found_whatever_its_socket(family: int, address: str) -> None:
    """Java connects to IPv4 addresses by sockets of IPv6."""
    with subprocess.Popen([sys.executable, "-c", _ACCEPT], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        try:
            with socket.socket(family) as client:
                client.connect((address, port))
                assert _until_found(child.pid) == {os.getpid()}
        except OSError as error:
            pytest.skip(f"no such sockets here: {error}")
        finally:
            child.kill()


def _until_found(server_pid: int) -> set[int]:
    """The server has accepted some moments after the client has connected."""
    ends = time.monotonic() + 5
    while not (found := clients_of(0, [server_pid], [os.getpid()])) and time.monotonic() < ends:
        time.sleep(0.01)
    return found


def test_more_connections_are_sampled_less_often() -> None:
    assert rate_hz(0) == rate_hz(8) == RATE_HZ
    assert rate_hz(128) == RATE_HZ / 2
    assert 0 < rate_hz(100_000) < RATE_HZ / 2
    assert output_s(8) < output_s(128) < output_s(100_000) == output_s(200_000)
