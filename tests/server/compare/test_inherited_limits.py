"""Limits around the command that pgassay did not set: it runs in a group that the test makes."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from pgassay.environment.cgroup import caps
from pgassay.environment.cgroup.group import capabilities
from pgassay.environment.home import home_path
from pgassay.environment.linux.device import device_of, disk_of

pytestmark = pytest.mark.server

SCAN = "-- name: scan\nSELECT count(filler) FROM pgbench_accounts;\n"
BURN = "-- name: burn\nSELECT sum(sqrt(i)) FROM generate_series(1, 1500000) i;\n"
MB = 1024 * 1024


@pytest.fixture(scope="module")
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("server")
    with whole_tool.prepared_home() as folder:
        yield folder


@contextmanager
def limited(controller: str, lines: dict[str, str]) -> Iterator[Path]:
    """A group below this process's own (version 1, as files of that controller), gone afterwards."""
    own = next(caps.chain(os.getpid(), controller))
    folder = own / f"pgassay-test-around-{os.getpid()}"
    folder.mkdir()
    try:
        for name, line in lines.items():
            (folder / name).write_text(line)
        yield folder
    finally:
        folder.rmdir()


def run_inside(group: Path, words: list[str | Path], home: Path) -> dict[str, Any]:
    """What `pgassay` prints as JSON when a shell that has joined the group starts it."""
    return whole_tool.result_of(whole_tool.run(*words, home=home, group=group))


def options(folder: Path) -> list[str | Path]:
    same = ["--blocks", "1", "--seed", "5", "--set", "max_parallel_workers_per_gather=0", "--json", "--quiet"]
    return [*same, *whole_tool.build(), "--out", folder]


def causes(result: dict[str, Any]) -> set[str]:
    return {cause["cause"] for cause in result["causes"]}


def limit_warnings(result: dict[str, Any]) -> list[str]:
    return [line for line in result["warnings"] if isinstance(line, str) and "started under limits" in line]


def test_half_a_processor_around_the_command_is_the_limit(
    require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    require("server", "cgroup-cpu")
    if capabilities()["cpu_quota"].version != 1:
        pytest.skip("the group around the command is made for version 1 here")
    (tmp_path / "burn.sql").write_text(BURN)
    out = tmp_path / "results"
    words = ["compare", "work_mem=4MB,8MB", "--workload", f"sql:{tmp_path}/burn.sql", "--cache", "as-is"]
    words += ["--restart", "each"]
    with limited("cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}) as group:
        result = run_inside(group, [*words, *whole_tool.SMALL, *options(out)], home)
        (warning,) = limit_warnings(result)
        assert "0.5 of its processors" in warning
        assert str(group) in warning
    for trial in whole_tool.trials(out):
        assert trial["facts"]["limits"]["inherited_cpus"] == 0.5
        assert trial["counters"]["control_group"][0]["nr_throttled"] > 0
    assert "cpu-quota" in causes(result)
    assert "cached" not in causes(result)


@pytest.mark.slow
@pytest.mark.shares_machine
def test_the_same_without_a_limit_is_not_called_one(
    require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    require("server", "cgroup-cpu")
    if capabilities()["cpu_quota"].version != 1:
        pytest.skip("the group around the command is made for version 1 here")
    (tmp_path / "burn.sql").write_text(BURN)
    out = tmp_path / "results"
    words = ["compare", "work_mem=4MB,8MB", "--workload", f"sql:{tmp_path}/burn.sql", "--cache", "as-is"]
    words += ["--restart", "each"]
    with limited("cpu", {}) as group:
        result = run_inside(group, [*words, *whole_tool.SMALL, *options(out)], home)
    assert limit_warnings(result) == []
    assert "cpu-quota" not in causes(result)
    assert all("limits" not in trial["facts"] for trial in whole_tool.trials(out))


@pytest.mark.slow
def test_a_rate_limit_around_the_command_is_the_storages(
    require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    require("server", "cgroup-limits", "cold-cache")
    if capabilities()["io"].version != 1:
        pytest.skip("the group around the command is made for version 1 here")
    disk = disk_of(device_of(home_path()))
    (tmp_path / "scan.sql").write_text(SCAN)
    out = tmp_path / "results"
    words = ["compare", "io_method=worker,sync", "--workload", f"sql:{tmp_path}/scan.sql", "--scale", "10"]
    line = f"{disk.major}:{disk.minor} {64 * MB}"
    with limited("blkio", {"blkio.throttle.read_bps_device": line}) as group:
        result = run_inside(group, [*words, "--set", "shared_buffers=64MB", *options(out)], home)
    (warning,) = limit_warnings(result)
    assert f"67.1 MB/s (64 MiB/s) read on {disk.name}" in warning
    ceilings = json.loads((out / "experiment.json").read_bytes())["ceilings"]["by_arm"]
    assert {each["read_mb_s_from"] for each in ceilings.values()} == {"limit"}
    assert {round(each["read_mb_s"], 3) for each in ceilings.values()} == {round(64 * MB / 1e6, 3)}
    assert "storage-throughput" in causes(result)
    assert "too-few-io-workers" not in causes(result)


@pytest.mark.slow
def test_a_memory_limit_around_the_command_is_named(
    require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    require("server", "cgroup-memory", "cold-cache")
    if capabilities()["memory"].version != 1:
        pytest.skip("the group around the command is made for version 1 here")
    (tmp_path / "scans.sql").write_text(SCAN + SCAN.replace("scan", "again"))
    out = tmp_path / "results"
    words = ["compare", "work_mem=4MB,8MB", "--workload", f"sql:{tmp_path}/scans.sql", "--cache", "cold"]
    with limited("memory", {"memory.limit_in_bytes": str(192 * MB)}) as group:
        more = ["--scale", "15", "--set", "shared_buffers=16MB", *options(out)]
        result = run_inside(group, [*words, *more], home)
        (warning,) = limit_warnings(result)
        assert f"192.0 MB of memory ({group})" in warning
    for trial in whole_tool.trials(out):
        assert trial["facts"]["limits"]["inherited_memory_bytes"] == 192 * MB
        assert "workingset_refault_file" in trial["counters"]["control_group"][0]
    assert "memory" in causes(result)
