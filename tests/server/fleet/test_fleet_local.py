"""`pgassay fleet start --local`: workers with a part of this machine each, and what they leave."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fleets
import whole_tool
from pgassay.fleet.agent_requests import MachineLostError
from pgassay.fleet.cluster import fleet_file
from pgassay.fleet.cluster.cluster_connection import DaskFleet

pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.usefixtures("divisible")]


@pytest.fixture
def fleet(home: Path) -> Iterator[Path]:
    """The file of two running workers, which are ended in any case."""
    path, temporary = home / "fleet.toml", home / "temporary"
    temporary.mkdir()
    words = ("fleet", "start", "--local", "2", "--file", path)
    started = whole_tool.run(*words, env=whole_tool.environment(home, TMPDIR=str(temporary)))
    assert started.returncode == 0, started.stderr
    name = fleet_file.read(path).id
    try:
        yield path
    finally:
        if path.exists():
            whole_tool.run("fleet", "stop", "--file", path, home=home)
    assert not fleets.left_of(home, name)
    assert not list(temporary.glob("dask*"))


def status(path: Path, home: Path) -> tuple[int, dict[str, str]]:
    """The exit status, and each machine's state."""
    finished = whole_tool.run("fleet", "status", "--json", "--file", path, home=home)
    document = json.loads(finished.stdout)
    return finished.returncode, {each["name"]: each["state"] for each in document["machines"]}


def test_two_workers_answer_and_leave_nothing(fleet: Path, home: Path) -> None:
    with DaskFleet.open(fleet) as connected:
        first, second = connected.machines()
        assert (first.name, second.name) == ("local-1", "local-2")
        assert first.host == second.host and first.is_part_of_host
        answers = [dict(each.request({"operation": "facts"})) for each in (first, second)]
        for answer, machine in zip(answers, (first, second), strict=True):
            assert answer["is_part_of_host"] is True and answer["home"] == str(machine.entry.home)
            facts = answer["machine"]
            assert isinstance(facts, dict) and facts["cores_usable"] == len(machine.entry.cores)
        assert not set(first.entry.cores) & set(second.entry.cores)
        refused = first.request({"operation": "nothing that it knows"})
        assert "not an operation" in str(refused["error"])
    assert status(fleet, home) == (0, {"local-1": "ready", "local-2": "ready"})
    if first.entry.memory_bytes is not None:
        name = f"pgassay-fleet-{fleet_file.read(fleet).id}-local-1-*"
        (limit,) = Path("/sys/fs/cgroup/memory").glob(f"**/{name}/memory.limit_in_bytes")
        # The kernel rounds to whole pages.
        assert first.entry.memory_bytes - 4096 < int(limit.read_text()) <= first.entry.memory_bytes
    for port in listening(fleets.processes_of(home)):
        assert_closed_to_strangers(port)
    second_fleet = whole_tool.run("fleet", "start", "--local", "2", "--file", home / "b.toml", home=home)
    assert "of another fleet" in whole_tool.assert_one_sentence(second_fleet, 2)
    lost = whole_tool.run("fleet", "stop", "--file", home / "b.toml", home=home)
    (copy,) = home.glob("fleet/nodes/*/fleet.toml")
    assert f"such as {copy}" in whole_tool.assert_one_sentence(lost, 2)

    ended = whole_tool.run("fleet", "stop", "--file", fleet, home=home)
    assert ended.returncode == 0, ended.stderr
    assert not fleet.exists() and not fleets.left_of(home)


def listening(pids: list[int]) -> list[int]:
    """The ports at which these processes listen; all of them on the loopback address."""
    ports = []
    for line in subprocess.run(
        ["ss", "-Hltnp"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        if any(f"pid={pid}," in line for pid in pids):
            address, _, port = line.split()[3].rpartition(":")
            assert address == "127.0.0.1", line
            ports.append(int(port))
    assert len(ports) == 3, "a scheduler and two workers, and no HTTP"
    return ports


def assert_closed_to_strangers(port: int) -> None:
    """Neither plain text nor a TLS client without a certificate gets an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP" not in plain.recv(4096)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as stranger,
        pytest.raises((ssl.SSLError, ConnectionResetError)),
        context.wrap_socket(stranger) as greeted,
    ):
        greeted.sendall(b"\0" * 64)
        # TLS 1.3: the client learns after its handshake that it needed a certificate.
        assert greeted.recv(4096) != b"", "an answer"
        greeted.recv(4096)


@pytest.mark.slow
def test_a_scheduler_that_was_killed_is_started_again(fleet: Path, home: Path) -> None:
    with DaskFleet.open(fleet) as connected:
        before = [machine.request({"operation": "have", "files": []}) for machine in connected.machines()]
        assert before == [{"files": []}] * 2
        workers = [fleets.process_of(home, name) for name in ("local-1", "local-2")]
        os.kill(fleets.process_of(home, "scheduler"), signal.SIGKILL)
        with pytest.raises(MachineLostError, match=r"the scheduler|local-1"):
            connected.machines()[0].request({"operation": "have", "files": []}, timeout_s=5)
        assert status(fleet, home) == (1, {"local-1": "lost", "local-2": "lost"})

        again = whole_tool.run("fleet", "start", "--file", fleet, home=home)
        assert again.returncode == 0 and "scheduler at" in again.stderr, again.stderr
        for machine in connected.machines():
            whole_tool.wait_for(lambda each=machine: answers(each), machine.name, 60)
        assert [fleets.process_of(home, name) for name in ("local-1", "local-2")] == workers


def answers(machine: object) -> bool:
    try:
        return bool(machine.request({"operation": "have", "files": []}, timeout_s=5))  # type: ignore[attr-defined]
    except MachineLostError:
        return False


@pytest.mark.slow
def test_a_worker_without_a_scheduler_gives_up(home: Path) -> None:
    path = home / "fleet.toml"
    started = whole_tool.run("fleet", "start", "--local", "2", "--give-up", "3s", "--file", path, home=home)
    assert started.returncode == 0, started.stderr
    os.kill(fleets.process_of(home, "scheduler"), signal.SIGKILL)
    whole_tool.wait_for(lambda: not fleets.processes_of(home), "both workers end", 60)
    cleaned = whole_tool.run("clean", home=home)
    assert f"fleet {fleet_file.read(path).id}, of which nothing runs here" in cleaned.stdout, cleaned.stderr
    assert not list((home / fleet_file.NODES).iterdir())
    stopped = whole_tool.run("fleet", "stop", "--file", path, home=home)
    assert stopped.returncode == 0 and "did not run" in stopped.stderr
    assert not fleets.left_of(home)


@pytest.mark.slow
def test_what_a_killed_worker_ran_ends(home: Path, require: Callable[..., None]) -> None:
    """The experiment ends with its worker, its servers with it; the machine comes back by its name."""
    require("server")
    path = home / "fleet.toml"
    assert whole_tool.run("fleet", "start", "--local", "2", "--file", path, home=home).returncode == 0
    words = ["shared_buffers=64MB,128MB", "--workload", "full-scan", "--cache", "warm-pages", "--scale", "1"]
    request = {"words": [*words, *whole_tool.build()], "seed": 1, "blocks": 50, "max_time_s": 600}
    with DaskFleet.open(path) as connected:
        machine = connected.machines()[0]
        asked = {"operation": "start", "id": "one", "request": request}
        assert machine.request(asked)["state"] == "running"
        whole_tool.wait_for(lambda: whole_tool.servers_below(home), "a server starts", 120)
        os.kill(fleets.process_of(home, "local-1"), signal.SIGKILL)
        with pytest.raises(MachineLostError):
            machine.request({"operation": "state", "id": "one"}, timeout_s=5)
        whole_tool.wait_for(lambda: not whole_tool.servers_below(home), "its servers end", 120)
        assert status(path, home) == (1, {"local-1": "lost", "local-2": "ready"})

        assert whole_tool.run("fleet", "start", "--file", path, home=home).returncode == 0
        state = machine.request({"operation": "state", "id": "one"})
        assert state["state"] in ("interrupted", "unknown")
        assert machine.request(asked)["state"] == "running"
        whole_tool.wait_for(lambda: whole_tool.servers_below(home), "it goes on", 120)
    assert fleet_file.read(path).machine[0].name == "local-1"
    # Stopped in the middle: what runs ends too.
    assert whole_tool.run("fleet", "stop", "--file", path, home=home).returncode == 0
    assert not fleets.left_of(home) and not whole_tool.servers_below(home)
