"""`pgassay fleet start --ssh`: machines in network namespaces, one of which is parted; and a real sshd."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fleets
import whole_tool
from pgassay.fleet.agent_requests import MachineLostError
from pgassay.fleet.cluster.cluster_connection import DaskFleet

pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.slow]
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
# sshd, run by root, gives its first steps to an account that a package makes.
START_SSHD = 'mount --bind "$1" /etc/passwd && mkdir -p /run/sshd && exec "$2" -D -e -f "$3"'


@pytest.fixture
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("root")
    with whole_tool.private_home() as folder:
        yield folder


def pgassay_fleet(*words: str | Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*whole_tool.COMMAND, "fleet", *map(str, words)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=whole_tool.TIMEOUT_S,
        check=False,
    )


def test_a_parted_machine_is_lost_and_comes_back_by_its_name(home: Path) -> None:
    """The stand-in for ssh enters a namespace; certificates, processes and the network are real."""
    path = home / "fleet.toml"
    with fleets.machines(home, {"alpha": home / "alpha", "beta": home / "beta"}) as machines:
        environment = machines.environment(home)
        words = ["--ssh", "alpha,beta", "--program", fleets.program(home), "--file", path]
        started = pgassay_fleet("start", *words, environment=environment)
        assert started.returncode == 0, started.stderr
        keys = sorted(home.glob("*/fleet/nodes/*/*/identity/key.pem"))
        assert [key.relative_to(home).parts[0] for key in keys] == ["alpha", "beta"]
        with DaskFleet.open(path) as connected:
            alpha, beta = connected.machines()
            assert (alpha.name, beta.name) == ("alpha", "beta") and alpha.host == beta.host
            asked = {"operation": "have", "files": []}
            assert alpha.request(asked) == beta.request(asked) == {"files": []}

            machines.part("beta", joined=False)
            with pytest.raises(MachineLostError):
                beta.request(asked, timeout_s=5)
            assert alpha.request(asked) == {"files": []}
            seen = pgassay_fleet("status", "--json", "--file", path, environment=environment)
            assert seen.returncode == 1
            states = {each["name"]: each["state"] for each in json.loads(seen.stdout)["machines"]}
            assert states == {"alpha": "ready", "beta": "lost"}
            worker = fleets.process_of(home / "beta", "beta")
            # Longer than a connection bears: the worker has to join anew.
            whole_tool.wait_for(lambda: "beta" not in connected.find(), "the scheduler misses it", 150)

            machines.part("beta", joined=True)

            def is_back() -> bool:
                try:
                    return beta.request(asked, timeout_s=5) == {"files": []}
                except MachineLostError:
                    return False

            whole_tool.wait_for(is_back, "it joins again", 150)
            assert fleets.process_of(home / "beta", "beta") == worker
        stopped = pgassay_fleet("stop", "--file", path, environment=environment)
        assert stopped.returncode == 0, stopped.stderr
        assert not path.exists()
    assert not fleets.left_of(home)


@pytest.fixture
def sshd(home: Path) -> Iterator[Path]:
    """The configuration of ssh for two machines, each an sshd with a home of its own."""
    if SSHD is None or shutil.which("ssh-keygen") is None:
        pytest.skip("openssh-server is not installed")
    home.joinpath("ssh").mkdir(mode=0o700)
    folder = home / "ssh"
    for name in ("host", "user"):
        generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(generate, check=True)
    passwd = folder / "passwd"
    passwd.write_text(Path("/etc/passwd").read_text() + "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n")
    passwd.chmod(0o644)
    servers, hosts = [], []
    try:
        for number, name in enumerate(("alpha", "beta")):
            port = 20022 + number
            configuration = folder / f"sshd-{name}"
            configuration.write_text(
                f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nUsePAM no\n"
                f"AuthorizedKeysFile {folder / 'user.pub'}\nStrictModes no\nPermitRootLogin yes\n"
                f"PidFile none\nSetEnv PGASSAY_HOME={home / name}\n"
            )
            command = ["unshare", "--mount", "sh", "-c", START_SSHD, "sh", passwd, SSHD, configuration]
            with (folder / f"log-{name}").open("wb") as log:
                servers.append(subprocess.Popen(command, stderr=log))
            hosts.append(
                f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder / 'user'}\n"
                f"  StrictHostKeyChecking no\n  UserKnownHostsFile {folder / 'known'}\n"
            )
        for name in ("alpha", "beta"):
            log = folder / f"log-{name}"
            whole_tool.wait_for(lambda each=log: b"listening" in each.read_bytes(), f"sshd of {name}", 30)
        (folder / "config").write_text("".join(hosts))
        yield folder / "config"
    finally:
        for server in servers:
            server.terminate()
            server.wait()


def test_a_fleet_by_ssh(home: Path, sshd: Path) -> None:
    path, environment = home / "fleet.toml", whole_tool.environment(home)
    words = ["--ssh", "alpha,beta", "--ssh-config", sshd, "--file", path]
    without = pgassay_fleet("start", *words, "--program", "/nowhere/pgassay", environment=environment)
    assert "install pgassay there" in whole_tool.assert_one_sentence(without, 2)
    wrong = pgassay_fleet("start", *words, "--program", "/bin/cat", environment=environment)
    assert "knows no fleet" in whole_tool.assert_one_sentence(wrong, 2)
    assert not path.exists() and not list(home.rglob("key.pem"))

    started = pgassay_fleet("start", *words, "--program", fleets.program(home), environment=environment)
    assert started.returncode == 0, started.stderr
    with DaskFleet.open(path) as connected:
        for machine in connected.machines():
            assert machine.request({"operation": "have", "files": []}) == {"files": []}
    stopped = pgassay_fleet("stop", "--file", path, environment=environment)
    assert stopped.returncode == 0, stopped.stderr
    assert not list(home.rglob("key.pem"))


def test_a_host_that_asks_for_a_password_is_refused(home: Path, sshd: Path) -> None:
    sshd.write_text(sshd.read_text().replace(str(sshd.parent / "user"), "/nowhere/key"))
    words = ["--ssh", "alpha", "--ssh-config", sshd, "--file", home / "fleet.toml"]
    refused = pgassay_fleet("start", *words, environment=whole_tool.environment(home))
    assert "without a password" in whole_tool.assert_one_sentence(refused, 2)
