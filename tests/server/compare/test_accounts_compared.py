"""The accounts of whole comparisons: they add up, and hold no more CPU than the server used."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pgassay
import whole_tool

pytestmark = pytest.mark.server
# The scheduler's counters and the control group's are read some milliseconds apart.
READ_APART_S = 0.05


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(
            ("io_method=worker,sync", "--workload", "full-scan", "--cache", "cold"), marks=pytest.mark.slow
        ),
        ("work_mem=1MB,2MB", "--workload", "select-only:clients=8,duration=400ms,warmup=100ms"),
    ],
    ids=["full-scan", "select-only"],
)
def test_every_arm_has_an_account_that_adds_up(
    words: tuple[str, ...], tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server", "cold-cache")
    options = ("--blocks", "1", "--seed", "3", "--json", "--quiet", "--out", tmp_path / "out")
    result = whole_tool.result_of(whole_tool.run("compare", *words, *whole_tool.SMALL, *options))
    assert [arm["arm"] for arm in result["accounts"]] == [arm["name"] for arm in result["arms"]]
    for arm in result["accounts"]:
        assert arm["trials"] == 1
        by_process = {each["process"]: each for each in arm["accounts"]}
        for each in by_process.values():
            total_s = sum(item["seconds"] for item in each["items"]) + each["residue_s"]
            assert total_s == pytest.approx(each["wall_s"], abs=1e-6)
        backend = by_process["backend"]
        assert "cpu" in {item["kind"] for item in backend["items"]}
        share = backend["residue_s"] / backend["wall_s"]
        print(f"{arm['arm']}: residue {share:+.2%}, {backend['samples']} looks")
    for record in whole_tool.trials(tmp_path / "out"):
        assert record["facts"]["observer"]["activity"]
        assert record["facts"]["observer"]["samples"] > 0
    check_cpu(tmp_path / "out")


def check_cpu(folder: Path) -> None:
    """Each trial's account, of its measured part, against the CPU of the whole server meanwhile."""
    opened = pgassay.open(folder)
    used_s = {row["number"]: row["server_cpu_s"] for row in opened.trials.to_pylist()}
    found_s: dict[int, float] = {}
    rows: list[dict[str, Any]] = opened.accounts.to_pylist()
    for row in rows:
        if row["pid"] is None and row["kind"] == "cpu":
            found_s[row["number"]] = found_s.get(row["number"], 0.0) + row["seconds"]
    assert set(found_s) == set(used_s)
    for number, seconds in found_s.items():
        assert 0 < seconds <= used_s[number] * 1.03 + READ_APART_S
        print(f"trial {number}: {seconds:.3f} s of {used_s[number]:.3f} s CPU are in the accounts")
