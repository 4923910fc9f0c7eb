"""Trials on a remote server name its limits by SQL alone: those of all arms tell a ceiling from a latency."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import whole_tool
from limited_servers import ROWS, DirectServer, direct_server, limited_reads
from pgassay.record.experiment import load

pytestmark = [pytest.mark.server, pytest.mark.slow]
READS_A_SECOND = 120


@pytest.fixture(scope="module")
def server() -> Iterator[DirectServer]:
    with direct_server() as server:
        yield server


def limits(server: DirectServer, home: Path, folder: Path, *words: str) -> dict[str, dict[str, Any]]:
    """The limit of each arm."""
    same = (
        "--server",
        server.dsn,
        "--blocks",
        "1",
        "--seed",
        "5",
        "--json",
        "--quiet",
        "--out",
        folder / "out",
    )
    finished = whole_tool.run("compare", *words, *same, env=whole_tool.environment(home))
    causes = whole_tool.result_of(finished)["causes"]
    return {cause["arm"]: cause for cause in causes if cause["kind"] == "limit"}


def test_arms_with_other_numbers_of_clients_tell_a_ceiling(
    server: DirectServer, require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    require("cgroup-limits")
    with limited_reads(server, READS_A_SECOND):
        words = ("clients=3,9", "--workload", "select-only:duration=14s,warmup=1s")
        found = limits(server, home, tmp_path, *words)
    assert {cause["cause"] for cause in found.values()} == {"storage-iops"}, found
    for cause in found.values():
        assert cause["evidence"]["ceiling_from"] == "a rate that stayed flat"
        assert 0.5 * READS_A_SECOND < cause["evidence"]["ceiling_read_iops"] < 1.3 * READS_A_SECOND
    files = {file.name for file in (tmp_path / "out").rglob("*.parquet")}
    assert {"server_reads.parquet", "waits.parquet"} <= files


def test_one_client_is_limited_by_the_time_of_each_read(
    server: DirectServer, require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    """The decoy: the rate is as steady, and nothing was asked of the storage beside it."""
    require("cgroup-limits")
    with limited_reads(server, READS_A_SECOND):
        words = ("work_mem=4MB,8MB", "--workload", "select-only:duration=5s,warmup=1s,clients=1")
        found = limits(server, home, tmp_path, *words)
    assert {cause["cause"] for cause in found.values()} == {"storage-latency"}, found


def test_full_processors_by_their_number(server: DirectServer, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "burn.sql"
    file.write_text(
        "-- name: burn\nSELECT sum(sqrt(i)) FROM (SELECT generate_series(1, 100000000) AS i) AS s;\n"
    )
    words = ("work_mem=4MB,8MB", "--workload", f"sql:{file}", "--vcpus", "1")
    found = limits(server, home, tmp_path, *words)
    assert {cause["cause"] for cause in found.values()} == {"all-cores"}, found
    document = json.loads((tmp_path / "out" / "experiment.json").read_bytes())
    assert {each["vcpus"] for each in document["environment"]["servers"].values()} == {1}


def computing_s(folder: Path) -> float:
    """How long the statement took that only computes, in the middle of the trials."""
    statements = [each for trial in load(folder).trials for each in trial.record.statements]
    return median(each.elapsed_s for each in statements if each.name == "compute")


def test_what_faster_storage_gains_is_below_its_bound(
    server: DirectServer, require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    """The bound is of a server whose reads are held back; let go, it gets no faster than that.

    Beside its reads it computes for a time that does not change with the storage. So how long another
    statement takes, which only computes, tells how much busier the machine was in the one than in the other.
    """
    require("cgroup-limits")
    file = tmp_path / "read.sql"
    file.write_text(
        "-- name: compute\nSELECT sum(sqrt(i)) FROM generate_series(1, 1500000) AS i;\n"
        "-- name: read\nSELECT (SELECT sum(sqrt(i)) FROM generate_series(1, 1500000) AS i), "
        "sum((SELECT abalance FROM pgbench_accounts WHERE aid = target)) "
        f"FROM (SELECT 1 + (random() * {ROWS - 2})::int AS target FROM generate_series(1, 150)) AS targets;\n"
    )
    words = ("--server", server.dsn, "--workload", f"sql:{file}", "--blocks", "1", "--seed", "5", "--json")

    def sized(folder: Path) -> dict[str, Any]:
        finished = whole_tool.run(
            "size", *words, "--quiet", "--out", folder, env=whole_tool.environment(home)
        )
        assert finished.returncode == 0, finished.stderr
        document = json.loads(finished.stdout)
        assert document["groups"] == [] and "only an upper bound of the gain" in " ".join(
            document["sentences"]
        )
        (bound,) = document["bounds"]
        return dict(bound)

    with limited_reads(server, READS_A_SECOND // 2):
        slow = sized(tmp_path / "slow")
    fast = sized(tmp_path / "fast")
    gained = slow["seconds_per_unit"] / fast["seconds_per_unit"]
    assert slow["trials"] == 3 and slow["reads_share"] > 0.3
    most = slow["gain_interval"][1]
    # Machines are not as busy in the one as in the other, and both statements differ a little in that.
    busier = max(1.0, computing_s(tmp_path / "slow") / computing_s(tmp_path / "fast"))
    assert gained > 1.2 and (most is None or gained <= 1.1 * busier * most), (busier, slow, fast)
    # Without the limit there is less to gain.
    assert fast["share"] < slow["share"]
    assert (tmp_path / "slow" / "size.html").read_text().startswith("<!doctype html>")
    again = whole_tool.run("size", tmp_path / "slow", "--markdown", env=whole_tool.environment(home))
    assert again.returncode == 0 and "as fast" in again.stdout
    refused = whole_tool.run("size", tmp_path / "slow", "--prove", env=whole_tool.environment(home))
    assert refused.returncode == 2 and "requests of a remote server are not recorded" in refused.stderr
