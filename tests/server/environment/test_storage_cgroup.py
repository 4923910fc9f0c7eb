"""Control groups on the real machine, version 1 and version 2."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgassay.environment.cgroup import group as cgroup
from pgassay.environment.cgroup.group import Cgroup, capabilities, cpu_limit, io_limits, memory_limit
from pgassay.environment.linux.mounts import mounts
from pgassay.errors import UsageError
from storage_fixtures import (
    MB,
    NOBODY,
    as_nobody,
    assert_nothing_left,
    cgroups_of,
    home_of_nobody,
    private_home,
)

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

SPIN = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"
BURN = "import time\nwhile time.process_time() < {}: pass"


@pytest.fixture
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("cgroup-cpu")
    with private_home() as folder:
        yield folder
        assert_nothing_left(folder)


@pytest.mark.usefixtures("home")
def test_cpu_of_all_processes_is_counted_dead_ones_too() -> None:
    group = Cgroup.create("test", {})
    try:
        assert group.cpu_seconds() < 0.05
        command = f"{sys.executable} -c '{BURN.format(0.3)}' & {sys.executable} -c '{BURN.format(0.3)}'; wait"
        started = time.monotonic()
        subprocess.run([*group.join_command(), "sh", "-c", command], check=True)
        elapsed_s = time.monotonic() - started
        # Starting the two takes processor time as well, but no more than there was.
        assert 0.6 < group.cpu_seconds() <= 1.1 * elapsed_s * (os.cpu_count() or 1)
    finally:
        group.remove()
    group.remove()


@pytest.mark.usefixtures("home")
def test_a_command_runs_inside_and_as_the_account() -> None:
    group = Cgroup.create("test", {})
    try:
        command = [
            *group.join_command(NOBODY, NOBODY),
            "sh",
            "-c",
            "id -u; id -g; id -G; cat /proc/self/cgroup",
        ]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        assert lines[:3] == [str(NOBODY)] * 3
        assert any(line.endswith(group.paths[0].name) for line in lines[3:])
    finally:
        group.remove()


@pytest.mark.usefixtures("home")
def test_a_command_that_cannot_join_does_not_run() -> None:
    group = Cgroup.create("test", {})
    command = [*group.join_command(), "echo", "ran"]
    group.remove()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 126
    assert done.stdout == ""
    assert "cgroup" in done.stderr


@pytest.mark.usefixtures("home")
def test_removal_waits_for_processes_that_end() -> None:
    group = Cgroup.create("test", {})
    process = subprocess.Popen([*group.join_command(), "cat"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    deadline = time.monotonic() + 60
    while process.pid not in group.pids():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    ending = threading.Timer(0.3, process.stdin.close)
    ending.start()
    group.remove()
    ending.join()
    assert process.wait() == 0
    assert cgroups_of(os.getpid()) == []


@pytest.mark.usefixtures("home")
def test_a_limit_that_the_kernel_refuses_is_one_sentence(require: Callable[..., None]) -> None:
    require("cgroup-limits")
    with pytest.raises(UsageError, match="refused the limit"):
        Cgroup.create("test", io_limits(4095, 1, read_iops=5))
    assert cgroups_of(os.getpid()) == []


@pytest.mark.usefixtures("home")
def test_a_cpu_cap_holds() -> None:
    group = Cgroup.create("test", cpu_limit(0.25))
    try:
        started = time.monotonic()
        subprocess.run([*group.join_command(), sys.executable, "-c", BURN.format(0.25)], check=True)
        assert time.monotonic() - started > 0.7
    finally:
        group.remove()


@pytest.mark.usefixtures("home")
def test_a_memory_cap_holds(require: Callable[..., None]) -> None:
    require("cgroup-memory")
    group = Cgroup.create("test", memory_limit(64 * MB))
    try:
        hungry = [*group.join_command(), sys.executable, "-c", f"bytearray({256 * MB})"]
        assert subprocess.run(hungry, capture_output=True).returncode != 0
    finally:
        group.remove()


def test_a_delegated_group_serves_an_ordinary_account(
    monkeypatch: pytest.MonkeyPatch, require: Callable[..., None]
) -> None:
    """Version 2 as a service manager delegates it: the new group stands beside the caller's own."""
    require("root")
    unified = next((mount.point for mount in mounts() if mount.kind == "cgroup2"), None)
    if unified is None:
        pytest.skip("no cgroup of version 2 is mounted")
    delegated = unified / f"pgassay-delegated-{os.getpid()}"
    only_version_2 = [mount for mount in mounts() if mount.kind == "cgroup2"]
    monkeypatch.setattr(cgroup, "mounts", lambda: only_version_2)

    def work() -> tuple[Path | None, str, float]:
        found = capabilities()
        group = Cgroup.create("test", {})
        subprocess.run([*group.join_command(), "sh", "-c", SPIN], check=True)
        used_s = group.cpu_seconds()
        group.remove()
        return found["cpu_accounting"].parent, found["io"].reason, used_s

    (delegated / "leaf").mkdir(parents=True)
    try:
        with home_of_nobody():
            for file in ("cgroup.procs", "cgroup.subtree_control", "leaf/cgroup.procs", "leaf", "."):
                os.chown(delegated / file, NOBODY, NOBODY)
            text = as_nobody(work, enter=delegated / "leaf")
        assert str(delegated) in text
        assert "'io'" in text
        assert float(text.rpartition(", ")[2].rstrip(")")) > 0.01
        assert [path.name for path in delegated.iterdir() if path.is_dir()] == ["leaf"]
    finally:
        (delegated / "leaf").rmdir()
        delegated.rmdir()


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version 2 tree whose root does not hand the controller down, and a machine without cgroups."""
    monkeypatch.setattr(cgroup, "mounts", list)
    with pytest.raises(UsageError, match=r"can't be set here: no cgroup file system is mounted; mount"):
        io_limits(7, 0, read_iops=5)
    if os.geteuid() != 0:
        return
    (tmp_path / "cgroup.controllers").write_text("cpu io memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    one = next(iter(mounts()))
    fake = type(one)("0:1", tmp_path, "/", "cgroup2", "cgroup2", frozenset({"rw"}))
    monkeypatch.setattr(cgroup, "mounts", lambda: [fake])
    with pytest.raises(UsageError, match=rf"type echo \+io > {tmp_path}/cgroup.subtree_control"):
        io_limits(7, 0, read_iops=5)
    (tmp_path / "cgroup.subtree_control").write_text("cpu io memory\n")
    assert io_limits(7, 0, read_iops=5, write_bytes_s=1.5 * MB) == {"io.max": "7:0 wbps=1572864 riops=5"}
    assert memory_limit(MB) == {"memory.max": str(MB)}
    assert cpu_limit(1.5) == {"cpu.max": "150000 100000"}
