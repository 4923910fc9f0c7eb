"""Limits around a process, on recorded trees of control groups: this machine may have another version."""

from pathlib import Path

import pytest

from pgassay.environment.cgroup import caps, inherited_limits
from pgassay.environment.cgroup.group import Capability
from pgassay.environment.linux.mounts import Mount

PID = 4711


@pytest.fixture
def version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A service of systemd on version 2: `/work.slice/job.service` below what the mount shows."""
    root = tmp_path / "cgroup"
    (root / "work.slice" / "job.service").mkdir(parents=True)
    process = tmp_path / "proc" / str(PID)
    process.mkdir(parents=True)
    (process / "cgroup").write_text("0::/work.slice/job.service\n")
    mount = Mount("0:26", root, "/", "cgroup2", "cgroup2", frozenset({"rw"}))
    monkeypatch.setattr(caps, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(caps, "mounts", lambda: [mount])
    beside = {"cpu_accounting": Capability(2, root / "work.slice" / "job.service")}
    monkeypatch.setattr(inherited_limits, "capabilities", lambda: beside)
    monkeypatch.setattr(inherited_limits.os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(inherited_limits.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(inherited_limits.os, "getpriority", lambda *_: 5)
    return root / "work.slice"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def test_the_tightest_of_the_chain_counts(version_2: Path) -> None:
    write(version_2, {"cpu.max": "50000 100000\n", "memory.max": "max\n", "memory.high": "1073741824\n"})
    write(
        version_2 / "job.service",
        {
            "cpu.max": "400000 100000\n",
            "memory.max": "2147483648\n",
            "memory.high": "max\n",
            "io.max": "8:0 rbps=max wbps=max riops=900 wiops=max\n",
        },
    )
    write(version_2, {"io.max": "8:0 rbps=67108864 wbps=max riops=2000 wiops=max\n"})
    limits = inherited_limits.inherited_limits(PID)
    assert limits.cpus == 0.5
    assert limits.cpus_from == str(version_2)
    assert limits.memory_bytes == 2 << 30
    assert limits.memory_from == str(version_2 / "job.service")
    assert limits.memory_high_bytes == 1 << 30
    assert limits.processors == 1
    assert limits.niceness == 5
    (disk,) = limits.disks.values()
    assert (disk.read_bytes, disk.reads, disk.write_bytes) == (67108864, 900, None)
    limited, nice = inherited_limits.limit_sentences(limits)
    for words in (
        "0.5 of its processors",
        "1 of its processors",
        "2.0 GB of memory",
        "67.1 MB/s (64 MiB/s) read",
        "900 req",
    ):
        assert words in limited
    assert "nice 5" in nice


def test_limits_of_a_group_that_servers_leave_are_not_said_to_be_theirs(
    version_2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root on version 2, where the servers' group is made at the top."""
    write(version_2, {"cpu.max": "50000 100000\n", "memory.high": "1073741824\n"})
    job = {"memory.max": "2147483648\n", "io.max": "8:0 rbps=67108864 wbps=max riops=max wiops=max\n"}
    write(version_2 / "job.service", job)
    assert inherited_limits.limits_left_behind(PID) == ()
    top = {"cpu_accounting": Capability(2, version_2.parent)}
    monkeypatch.setattr(inherited_limits, "capabilities", lambda: top)
    limits = inherited_limits.inherited_limits(PID)
    assert (limits.cpus, limits.memory_bytes, limits.memory_high_bytes, limits.disks) == (
        None,
        None,
        None,
        {},
    )
    (said,) = inherited_limits.limits_left_behind(PID)
    assert "do not apply to its servers: 2.0 GB of memory" in said and "0.5 processors" in said
    # A cap at the top holds for all.
    write(version_2.parent, {"memory.max": "1073741824\n"})
    assert inherited_limits.inherited_limits(PID).memory_bytes == 1 << 30


def test_a_group_of_ones_own_is_left_out(version_2: Path) -> None:
    write(version_2 / "job.service", {"cpu.max": "50000 100000\n"})
    assert caps.caps_of(PID, beside=[version_2 / "job.service"]).cpus is None
    assert caps.caps_of(PID).cpus == 0.5


def test_version_1_limits_of_a_disk_are_not_handed_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "blkio"
    (root / "outer" / "inner").mkdir(parents=True)
    process = tmp_path / "proc" / str(PID)
    process.mkdir(parents=True)
    (process / "cgroup").write_text("7:blkio:/outer/inner\n")
    mount = Mount("0:35", root, "/", "cgroup", "cgroup", frozenset({"rw", "blkio"}))
    monkeypatch.setattr(caps, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(caps, "mounts", lambda: [mount])
    write(root / "outer", {"blkio.throttle.read_bps_device": "8:0 1000000\n"})
    assert caps.limits_by_disk(PID) == {}
    write(root / "outer" / "inner", {"blkio.throttle.read_iops_device": "8:0 120\n"})
    assert caps.limits_by_disk(PID) == {"8:0": {"riops": 120.0}}
