"""Caps on real servers: what is beyond the memory is read again, a share of a processor is slower."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import whole_tool

pytestmark = pytest.mark.server

# More than the cap below, less than the other one.
TABLE = """-- name: first
SELECT count(*), min(filler) FROM pgbench_accounts;
-- name: second
SELECT count(*), min(filler) FROM pgbench_accounts;
"""
BURN = "-- name: burn\nSELECT sum(sqrt(i)) FROM generate_series(1, 1500000) i;\n"
MB = 1024 * 1024


def one_block(folder: Path) -> list[str | Path]:
    """The options that all these runs share, results going to `folder`."""
    options = ["--blocks", "1", "--seed", "5", "--set", "max_parallel_workers_per_gather=0", "--json"]
    return [*options, *whole_tool.build(), "--out", folder]


@pytest.fixture(scope="module")
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("server")
    with whole_tool.prepared_home() as folder:
        yield folder


def trials_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Arm's name → its valid trial (the twin's under 'twin').

    An attempt that broke a rule is repeated: somebody else's reads from the device count against it.
    """
    arms = {arm["id"]: arm for arm in json.loads((folder / "experiment.json").read_bytes())["arms"]}
    found = {}
    for trial in whole_tool.trials(folder):
        arm = arms[trial["arm_id"]]
        if trial["status"] == "ok":
            found["twin" if arm["role"] == "twin" else arm["name"]] = trial
    assert len(found) == len(arms), [trial["reason"] for trial in whole_tool.trials(folder)]
    return found


@pytest.mark.slow
@pytest.mark.shares_machine
def test_a_table_larger_than_the_memory_is_read_again(
    require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    require("server", "cgroup-memory", "cold-cache")
    (tmp_path / "scans.sql").write_text(TABLE)
    words = ["compare", "memory=64MB,1GB", "--workload", f"sql:{tmp_path}/scans.sql", "--cache", "cold"]
    out = tmp_path / "results"
    finished = whole_tool.run(*words, "--scale", "7", *one_block(out), home=home)
    whole_tool.result_of(finished)
    trials = trials_of(out)
    small, large = trials["memory=64MB"], trials["memory=1GB"]
    size = large["statements"][0]["postgres_read_bytes"]
    assert size > 80 * MB
    assert small["statements"][1]["device_read_bytes"] > 0.9 * size
    # Other readers count in the device's bytes, so that the larger one kept its pages is seen in its group.
    small_group, large_group = (trial["counters"]["control_group"][0] for trial in (small, large))
    assert large_group.get("workingset_refault_file", 0) * 4096 < 0.1 * size
    assert small["facts"]["limits"]["memory_bytes"] == 64 * MB
    # The kernel may charge a few pages beyond the cap before it frees others.
    assert 32 * MB < small["facts"]["limits"]["memory_peak_bytes"] < 65 * MB
    assert size < large["facts"]["limits"]["memory_peak_bytes"] < 1024 * MB
    assert small_group["memory_limit_hits"] > 0
    assert large_group["memory_limit_hits"] == 0
    # The contract's shared_buffers are alike in all arms: a quarter of the smallest cap.
    assert {trial["facts"]["settings"]["shared_buffers"] for trial in trials.values()} == {"16MB"}


@pytest.mark.slow
@pytest.mark.shares_machine
def test_a_quarter_of_a_processor_takes_four_times_as_long(
    require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    require("server", "cgroup-cpu")
    (tmp_path / "burn.sql").write_text(BURN)
    words = ["compare", "cpus=0.25,1", "--workload", f"sql:{tmp_path}/burn.sql", "--cache", "as-is"]
    out = tmp_path / "results"
    finished = whole_tool.run(*words, *whole_tool.SMALL, *one_block(out), home=home)
    whole_tool.result_of(finished)
    trials = trials_of(out)
    quarter, whole = trials["cpus=0.25"], trials["cpus=1"]
    # Its own processor time is what it needs; capped at a quarter that takes four times as long. Other
    # load on the machine slows both by an unknown factor, so the bounds are on the cap's side only.
    rate = quarter["server_cpu_s"] / quarter["statements"][0]["elapsed_s"]
    assert 0 < rate < 0.35
    assert quarter["statements"][0]["elapsed_s"] > 2 * whole["server_cpu_s"]
    assert quarter["facts"]["limits"]["cpus"] == 0.25
    assert whole["facts"]["limits"]["cpus"] == 1
    # A server that was starved by others never came to its cap.
    assert quarter["counters"]["control_group"][0]["nr_throttled"] > 0 or rate < 0.2


@pytest.mark.slow
def test_warm_pages_are_loaded_inside_the_cap_or_refused(
    require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    require("server", "cgroup-memory", "cold-cache")
    load = ["compare", "work_mem=4MB,5MB", "--workload", "select-only:duration=1s,warmup=0s", "--scale", "7"]
    out = tmp_path / "results"
    finished = whole_tool.run(*load, "--memory", "512MB", *one_block(out), home=home)
    whole_tool.result_of(finished)
    for trial in trials_of(out).values():
        assert trial["facts"]["cache"]["pages_loaded_from"] == "the server's control group"
        # The data were in the page cache when the memory was used most, so they counted in the cap.
        assert trial["facts"]["limits"]["memory_peak_bytes"] > 100 * MB
    environment = json.loads((out / "experiment.json").read_bytes())["environment"]
    assert environment["caps"] == {"work_mem=4MB": "memory 512MB", "work_mem=5MB": "memory 512MB"}
    refused = whole_tool.run(*load, "--memory", "64MB", *one_block(tmp_path / "other"), home=home)
    sentence = whole_tool.assert_one_sentence(refused, 2)
    assert "warm-pages" in sentence
    assert "--cache as-is" in sentence
    assert not (tmp_path / "other").exists()


@pytest.mark.shares_machine
def test_a_server_that_needs_more_than_its_memory_says_so(
    require: Callable[..., None], home: Path, tmp_path: Path
) -> None:
    require("server", "cgroup-memory")
    hungry = "SELECT length(string_agg(repeat('x', 1000000), '')) FROM generate_series(1, 200);\n"
    (tmp_path / "hungry.sql").write_text(f"-- name: hungry\n{hungry}")
    words = ["compare", "work_mem=4MB,5MB", "--workload", f"sql:{tmp_path}/hungry.sql", "--cache", "as-is"]
    finished = whole_tool.run(
        *words, "--memory", "64MB", "--scale", "1", *one_block(tmp_path / "out"), home=home
    )
    sentence = whole_tool.assert_one_sentence(finished, 1)
    assert "memory 64MB was used up" in sentence
