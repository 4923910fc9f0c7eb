"""What the tests of fleets share: a home, workers in network namespaces, and looking for what is left."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import whole_tool

# In place of ssh, where there is no other machine: enters the namespace and the home that stand for it.
_STAND_IN = """#!{python}
import json, os, sys
machines = json.load(open({machines!r}))
words = sys.argv[1:]
name = words[words.index("--") + 1]
if "-G" in words:
    print("hostname", machines[name]["address"])
    sys.exit(0)
environment = {{**os.environ, "PGASSAY_HOME": machines[name]["home"]}}
command = ["nsenter", "--net", "--uts", "--target", machines[name]["holder"], "sh", "-c", words[-1]]
os.execvpe(command[0], command, environment)
"""
PROGRAM = """#!/bin/sh
PYTHONPATH={path} exec {python} -m pgassay.cli.main "$@"
"""


def processes_of(folder: Path) -> list[int]:
    """All processes that work below a folder, or were started with a word that names it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            working = (entry / "cwd").readlink()
        except OSError:
            continue
        if str(folder) in words or working.is_relative_to(folder):
            found.append(int(entry.name))
    return sorted(found)


def process_of(home: Path, name: str) -> int:
    """The process of a scheduler or a worker."""
    (file,) = home.glob(f"fleet/nodes/*/{name}/process.json")
    return int(json.loads(file.read_bytes())["pid"])


def left_of(home: Path, fleet: str = "none") -> list[str]:
    """What a fleet (by its id) left below a home that it should not have."""
    left = [f"process {pid}" for pid in processes_of(home)]
    left += [f"node {path}" for path in home.glob("fleet/nodes/*/*")]
    left += [f"entry {path}" for path in home.rglob("registry/*.json")]
    return left + [f"group {path}" for path in Path("/sys/fs/cgroup").glob(f"**/pgassay-fleet-{fleet}-*")]


def program(folder: Path) -> Path:
    """This checkout as a program that a login shell can run."""
    path = folder / "pgassay"
    path.write_text(
        PROGRAM.format(path=shlex.quote(str(whole_tool.ROOT / "python")), python=shlex.quote(sys.executable))
    )
    path.chmod(0o755)
    return path


class Machines:
    """Network namespaces on one bridge, each with a host's name and a home, in place of machines.

    They are reached as by ssh.
    """

    def __init__(self, folder: Path, homes: Mapping[str, Path]) -> None:
        self.folder, self.names = folder, tuple(homes)
        named = 'hostname "$1"; exec sleep infinity'
        apart = ["unshare", "--net", "--uts", "sh", "-c", named, "sh"]
        self._holders = [subprocess.Popen([*apart, name]) for name in homes]
        _ip("link", "add", "fleet0", "type", "bridge")
        _ip("address", "add", "10.213.0.1/24", "dev", "fleet0")
        _ip("link", "set", "fleet0", "up")
        machines = {}
        for number, (name, holder) in enumerate(zip(homes, self._holders, strict=True), start=2):
            namespace = f"/proc/{holder.pid}/ns/net"
            whole_tool.wait_for(
                lambda place=namespace: Path(place).readlink() != Path("/proc/self/ns/net").readlink(), name
            )
            _ip(
                "link",
                "add",
                self.cable(name),
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                str(holder.pid),
            )
            _ip("link", "set", self.cable(name), "master", "fleet0", "up")
            for words in (f"address add 10.213.0.{number}/24 dev eth0", "link set eth0 up", "link set lo up"):
                _run("nsenter", f"--net={namespace}", "ip", *words.split())
            machines[name] = {
                "address": f"10.213.0.{number}",
                "holder": str(holder.pid),
                "home": str(homes[name]),
            }
        (folder / "machines.json").write_text(json.dumps(machines))
        self.programs = folder / "programs"
        self.programs.mkdir()
        ssh = self.programs / "ssh"
        ssh.write_text(_STAND_IN.format(python=sys.executable, machines=str(folder / "machines.json")))
        ssh.chmod(0o755)

    def cable(self, name: str) -> str:
        """The end of a machine's cable on this side."""
        return f"fleet-{name}"[:15]

    def part(self, name: str, *, joined: bool) -> None:
        """Pull the cable of a machine, or put it back."""
        _ip("link", "set", self.cable(name), "up" if joined else "down")

    def environment(self, home: Path) -> dict[str, str]:
        """With which `pgassay fleet` takes these for its machines."""
        return whole_tool.environment(home, PATH=f"{self.programs}:{os.environ['PATH']}")

    def fleet(self, home: Path, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        """`pgassay fleet` with these words, from a home whose fleet.toml is the fleet's file."""
        command = [*whole_tool.COMMAND, "fleet", *map(str, words), "--file", str(home / "fleet.toml")]
        return subprocess.run(
            command,
            env=self.environment(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def close(self) -> None:
        """Remove the network."""
        for name, holder in zip(self.names, self._holders, strict=True):
            subprocess.run(["ip", "link", "delete", self.cable(name)], check=False, capture_output=True)
            holder.kill()
            holder.wait()
        subprocess.run(["ip", "link", "delete", "fleet0"], check=False, capture_output=True)


@contextmanager
def machines(folder: Path, homes: Mapping[str, Path]) -> Iterator[Machines]:
    """Machines for the length of a test."""
    made = Machines(folder, homes)
    try:
        yield made
    finally:
        made.close()


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    subprocess.run(words, check=True)
