"""The three gates of io_uring, judged from facts."""

import errno
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pgassay.environment.builds import inspect
from pgassay.environment.builds.io_uring_gates import IoUringFacts, judge, kernel_version
from pgassay.environment.home import SystemAccount
from pgassay.model.build import Build, Gate
from server_helpers import own_home

BUILD = Build(origin="apt", version="18.6", major=18, bin_directory="/x", has_io_uring=True)
OPEN = IoUringFacts(
    setup_errno=0,
    disabled_setting=0,
    group_setting=-1,
    kernel=(6, 18),
    open_files_soft=1024,
    open_files_hard=4096,
    locked_bytes_soft=65536,
    account=SystemAccount("postgres", 101, 104),
    has_apt=True,
)


def closed(build: Build, facts: IoUringFacts, max_connections: int = 100) -> Gate:
    gate = judge(build, facts, max_connections)
    assert gate is not None
    assert gate.reason
    assert gate.remedy
    return gate


def test_all_open() -> None:
    assert judge(BUILD, OPEN) is None
    assert judge(BUILD, replace(OPEN, open_files_soft=-1)) is None


def test_build_without_asynchronous_io_or_liburing() -> None:
    old = BUILD.model_copy(update={"version": "17.11", "major": 17, "has_io_uring": False})
    assert closed(old, OPEN).name == "build"
    assert "17.11 has no asynchronous I/O" in closed(old, OPEN).reason
    bare = BUILD.model_copy(update={"has_io_uring": False})
    assert "without liburing" in closed(bare, OPEN).reason
    assert "pgassay builds install apt:18" in closed(bare, OPEN).remedy
    by_hand = closed(bare, replace(OPEN, has_apt=False)).remedy
    assert "install a PostgreSQL 18 built --with-liburing with the machine's package manager" in by_hand
    assert "--pg /path/to/bin" in by_hand
    assert "builds install" not in by_hand
    newer = bare.model_copy(update={"major": 19, "version": "19rc1"})
    assert "apt:19" in closed(newer, OPEN).remedy


@pytest.mark.parametrize(
    ("setting", "error", "reason", "remedy"),
    [
        (2, errno.EPERM, "io_uring_disabled is 2", "sysctl kernel.io_uring_disabled=0"),
        (1, errno.EPERM, "server runs as postgres", "kernel.io_uring_group"),
        (0, errno.EPERM, "seccomp filter or security module", "profile"),
        (None, errno.EACCES, "seccomp filter or security module", "profile"),
        (None, errno.ENOSYS, "does not know io_uring_setup", "5.1"),
    ],
)
def test_kernel(setting: int | None, error: int, reason: str, remedy: str) -> None:
    gate = closed(BUILD, replace(OPEN, disabled_setting=setting, setup_errno=error))
    assert gate.name == "kernel"
    assert reason in gate.reason
    assert remedy in gate.remedy


def test_kernel_setting_that_does_not_bite_is_no_gate() -> None:
    assert judge(BUILD, replace(OPEN, disabled_setting=1, setup_errno=0)) is None


def test_open_files() -> None:
    gate = closed(BUILD, replace(OPEN, open_files_soft=150))
    assert gate.name == "limits"
    assert "RLIMIT_NOFILE) is 150" in gate.reason
    assert "ulimit -n 1142" in gate.remedy
    assert "hard limit" not in gate.remedy
    assert (
        "hard limit (now 512)"
        in closed(BUILD, replace(OPEN, open_files_soft=150, open_files_hard=512)).remedy
    )


def test_open_files_follow_the_connections() -> None:
    assert judge(BUILD, replace(OPEN, open_files_soft=300), max_connections=100) is None
    assert closed(BUILD, replace(OPEN, open_files_soft=300), max_connections=500).name == "limits"


def test_locked_memory_counts_on_old_kernels_only() -> None:
    gate = closed(BUILD, replace(OPEN, kernel=(5, 10)))
    assert gate.name == "limits"
    assert "RLIMIT_MEMLOCK" in gate.reason
    assert judge(BUILD, replace(OPEN, kernel=(5, 10), locked_bytes_soft=8 << 20)) is None
    assert judge(BUILD, replace(OPEN, kernel=(5, 12))) is None


def test_order_is_build_kernel_limits() -> None:
    facts = replace(OPEN, setup_errno=errno.EPERM, open_files_soft=10)
    assert closed(BUILD.model_copy(update={"has_io_uring": False}), facts).name == "build"
    assert closed(BUILD, facts).name == "kernel"
    assert closed(BUILD, replace(facts, setup_errno=0)).name == "limits"


def test_kernel_version() -> None:
    assert kernel_version("6.18.0-rc1") == (6, 18)
    assert kernel_version("odd") == (0, 0)


def test_a_crash_while_the_binary_is_asked_would_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that the question needs is registered for as long as it is there."""
    with own_home() as home:
        asked: list[Path] = []

        def answer(command: list[str]) -> "subprocess.CompletedProcess[str]":
            entries = [json.loads(file.read_bytes()) for file in (home / "registry").glob("folder-*.json")]
            asked.append(Path(command[command.index("-D") + 1]))
            assert [entry["details"]["path"] for entry in entries] == [str(asked[0])]
            assert (asked[0] / "postgresql.conf").is_file()
            return subprocess.CompletedProcess(command, 0, "io_uring\n", "")

        monkeypatch.setattr(inspect, "_answer", answer)
        assert inspect.accepts_io_uring(Path("/nowhere/bin"), 18)
        assert not asked[0].exists()
        assert list((home / "registry").iterdir()) == []
