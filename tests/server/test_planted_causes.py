"""Causes planted in real servers are named by `pgassay compare`, and their harmless counterparts are not.

Every plant is an order of magnitude beyond what the machine's load could do to it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import whole_tool

pytestmark = pytest.mark.server

# Read 13 MB of a table; read 30 of its pages one by one, by their key; sort it; compute.
SCAN = "-- name: scan\nSELECT count(*), min(filler) FROM pgbench_accounts;\n"
PAGES = """-- name: pages
SELECT sum(abalance) FROM generate_series(1, 30) i,
    LATERAL (SELECT abalance FROM pgbench_accounts WHERE aid = (i * 3163) % 100000 + 1 OFFSET 0) page;
"""
SORT = """-- name: sort
SELECT count(*) FROM (SELECT aid, filler FROM pgbench_accounts ORDER BY filler, aid DESC OFFSET 0) sorted;
"""
BURN = "-- name: burn\nSELECT sum(sqrt(aid)) FROM pgbench_accounts, generate_series(1, 10);\n"
IMAGE = "loop:size=1280MB"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with whole_tool.private_home() as folder:
        yield folder


class Bench:
    """Runs one block of a comparison in the shared home."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home = home
        self.folder = folder

    def run(self, factor: str, workload: str, *more: str) -> dict[str, dict[str, Any]]:
        """The causes by arm: {arm: {"limit": name, "faults": names, "all": {name: document}}}."""
        if workload.startswith("--"):
            file = self.folder / "statements.sql"
            file.write_text(workload)
            workload = f"sql:{file}"
        options = ["--blocks", "1", "--seed", "5", "--set", "max_parallel_workers_per_gather=0", "--json"]
        finished = whole_tool.run(
            *("compare", factor, "--workload", workload, *whole_tool.SMALL, *options, *more),
            *whole_tool.build(),
            *("--out", self.folder / "results"),
            home=self.home,
        )
        found: dict[str, dict[str, Any]] = {}
        for cause in whole_tool.result_of(finished)["causes"]:
            arm = found.setdefault(cause["arm"], {"limit": None, "faults": set(), "all": {}})
            if cause["kind"] == "limit":
                assert arm["limit"] is None, "an arm has one limit"
                arm["limit"] = cause["cause"]
            # A busy machine is no fault of what was planted here.
            elif cause["cause"] != "noise":
                arm["faults"].add(cause["cause"])
            arm["all"][cause["cause"]] = cause
        return found


@pytest.fixture
def bench(require: Callable[..., None], home: Path, tmp_path: Path) -> Bench:
    require("server")
    return Bench(home, tmp_path)


def test_bandwidth_that_is_used_up(require: Callable[..., None], bench: Bench) -> None:
    require("loop", "cold-cache")
    found = bench.run(f"storage={IMAGE},read_mb_s=6,{IMAGE},read_mb_s=4000", SCAN, "--cache", "cold")
    planted, decoy = found[f"storage={IMAGE},read_mb_s=6"], found[f"storage={IMAGE},read_mb_s=4000"]
    assert (planted["limit"], planted["faults"]) == ("storage-throughput", set())
    cause = planted["all"]["storage-throughput"]
    assert cause["evidence"]["ceiling_from"] == "limit"
    assert cause["share"] > 0.5
    assert cause["gain_if_lifted"] > 1.5
    assert decoy["limit"] != "storage-throughput"
    assert not decoy["faults"]


def test_requests_that_are_used_up_and_a_method_that_cannot_matter(
    require: Callable[..., None], bench: Bench
) -> None:
    require("loop", "cold-cache")
    found = bench.run("io_method=sync,worker", PAGES, "--storage", f"{IMAGE},read_iops=25", "--cache", "cold")
    assert len(found) == 2
    for arm in found.values():
        assert (arm["limit"], arm["faults"]) == ("storage-iops", {"no-aio"})
        assert arm["all"]["no-aio"]["layer"] == "measurement"


def test_a_cap_on_the_processors(require: Callable[..., None], bench: Bench) -> None:
    require("cgroup-cpu")
    found = bench.run("cpus=0.1,2", BURN, "--cache", "warm-buffers")
    assert (found["cpus=0.1"]["limit"], found["cpus=0.1"]["faults"]) == ("cpu-quota", set())
    assert found["cpus=0.1"]["all"]["cpu-quota"]["evidence"]["cpus"] == 0.1
    assert (found["cpus=2"]["limit"], found["cpus=2"]["faults"]) == ("backend-core", set())


def test_a_hot_row(bench: Bench) -> None:
    """At scale 1 every transaction updates the one row of branches: of 16 connections 15 wait for it."""
    found = bench.run(
        "clients=16,1", "tpcb:duration=2s,warmup=0s,threads=1", "--set", "synchronous_commit=off"
    )
    assert (found["clients=16"]["limit"], found["clients=16"]["faults"]) == ("row-locks", set())
    assert found["clients=1"]["limit"] != "row-locks"
    assert not found["clients=1"]["faults"]


def test_a_sort_that_does_not_fit(bench: Bench) -> None:
    found = bench.run("work_mem=64kB,64MB", SORT, "--cache", "as-is")
    assert found["work_mem=64kB"]["faults"] == {"temp-spill"}
    assert found["work_mem=64kB"]["all"]["temp-spill"]["evidence"]["work_mem"] == "64kB"
    assert found["work_mem=64MB"]["faults"] == set()


def test_data_that_lie_in_memory(require: Callable[..., None], bench: Bench) -> None:
    """A method of reading is compared, and no read reaches a device."""
    require("cold-cache")
    found = bench.run("io_method=sync,worker", "full-scan:only=read-table", "--cache", "warm-pages")
    assert [(arm["limit"], arm["faults"]) for arm in found.values()] == [("cached", set())] * 2
