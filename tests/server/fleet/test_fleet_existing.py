"""`pgassay fleet start --scheduler`: a Dask cluster that others started, with their certificates."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import fleets
import whole_tool
from pgassay.fleet.cluster.certificates import Authority, Identity
from pgassay.fleet.cluster.cluster_connection import DaskFleet

pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.slow]


@pytest.fixture
def cluster(home: Path) -> Iterator[tuple[str, list[str]]]:
    """A scheduler and a worker as Dask's own programs start them: the address, and options of start."""
    authority = Authority.make(home / "authority", "a cluster of others")
    identity = Identity.make(home / "identity")
    identity.install(authority.sign(identity.request("any")), authority.certificate)
    options = [
        "--protocol", "tls", "--tls-ca-file", str(identity.authority),
        "--tls-cert", str(identity.certificate), "--tls-key", str(identity.key),
    ]  # fmt: skip
    found = home / "scheduler.json"
    temporary = home / "temporary"
    temporary.mkdir()
    before = scratch()
    started = [
        dask(home, "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(found), *options)
    ]
    try:
        whole_tool.wait_for(found.is_file, "the scheduler listens", 60, started[0])
        address = json.loads(found.read_text())["address"]
        named = ["--name", "theirs", "--no-dashboard", "--no-nanny", "--nthreads", "1"]
        started.append(
            dask(home, "worker", address, *named, "--local-directory", str(home / "dask"), *options)
        )
        files = ["--ca", identity.authority, "--certificate", identity.certificate, "--key", identity.key]
        yield address, list(map(str, files))
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()
    assert scratch() == before, "all of it is in the folder of its own"


def scratch() -> list[Path]:
    """What Dask leaves in the temporary folder of everybody."""
    return sorted(Path(tempfile.gettempdir()).glob("dask-*"))


def dask(home: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *words],
        env=whole_tool.environment(home, TMPDIR=str(home / "temporary")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_its_workers_get_an_agent_and_lose_it(home: Path, cluster: tuple[str, list[str]]) -> None:
    (address, files), path = cluster, home / "fleet.toml"
    words = ["fleet", "start", "--scheduler", address, *files, "--file", path]
    untrusted = whole_tool.assert_one_sentence(whole_tool.run(*words, home=home), 2)
    assert "--trust-cluster" in untrusted and "unpickles" in untrusted

    def joined() -> bool:
        return whole_tool.run(*words, "--trust-cluster", home=home).returncode == 0

    whole_tool.wait_for(joined, "the worker is there", 60)
    with DaskFleet.open(path) as connected:
        (machine,) = connected.machines()
        assert machine.name == "theirs" and len(machine.host) == 16 and not machine.is_part_of_host
        assert machine.request({"operation": "have", "files": []}) == {"files": []}
    shown = whole_tool.run("fleet", "status", "--file", path, home=home)
    assert shown.returncode == 0 and "1 machine ready, on 1 host." in shown.stdout

    assert whole_tool.run("fleet", "stop", "--file", path, home=home).returncode == 0
    assert not path.exists()
    assert len(fleets.processes_of(home)) == 2, "the cluster goes on"


def test_a_cluster_that_takes_other_certificates(home: Path, cluster: tuple[str, list[str]]) -> None:
    authority = Authority.make(home / "stranger", "another")
    identity = Identity.make(home / "mine")
    identity.install(authority.sign(identity.request("any")), authority.certificate)
    files = ["--ca", identity.authority, "--certificate", identity.certificate, "--key", identity.key]
    words = ["fleet", "start", "--scheduler", cluster[0], "--trust-cluster", *files]
    refused = whole_tool.run(*words, "--file", home / "fleet.toml", home=home)
    assert "no cluster at" in whole_tool.assert_one_sentence(refused, 2)
