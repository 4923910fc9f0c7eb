"""How the clients of a load hold their connections, from what is typed to the report, on a real server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whole_tool

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
SMALL = ("--set", "shared_buffers=64MB", "--cache", "as-is", "--blocks", "1", "--seed", "2", "--quiet")


def ran(folder: Path, factor: str, workload: str) -> dict[str, Any]:
    words = ("compare", factor, "--workload", workload, *SMALL, "--json", "--out", folder)
    return whole_tool.result_of(whole_tool.run(*words))


def test_pools_are_compared_and_shown(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    folder = tmp_path / "out"
    load = "tpcb:clients=8,duration=1s,warmup=200ms,lifetime=300ms,idle-in-transaction=3ms,think=1ms"
    result = ran(folder, "pool=none,2", load)
    by_arm = {each["arm"]: each for each in result["connections"]}
    assert {name: each["pool"] for name, each in by_arm.items()} == {"pool=none": None, "pool=2": 2}
    assert by_arm["pool=2"]["wait_mean_ms"] > by_arm["pool=none"]["wait_mean_ms"]
    assert all(each["opened_per_s"] > 0 < each["opening_ms"] for each in by_arm.values())
    statements = [each["text"] for each in result["load_statements"] if each["arm"] == "pool=2"]
    assert len(statements) == 7 and statements[0] == "BEGIN;" and statements[-1] == "END;"
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "The clients' connections" in page.replace("&#x27;", "'").replace("&#39;", "'")
    assert "Statements of the transactions" in page and "a pool of 2, each for 300 ms" in page
    (log, *_) = folder.glob("trials/*/attempt-*/latency.hlog")
    text = log.read_text()
    assert "Tag=statement:7," in text and "Tag=connection-wait," in text
    # Pauses are the clients' own: no warning that time was lost.
    assert not any("Little" in each for each in map(str, result["warnings"]))


def test_what_can_t_be_is_refused(tmp_path: Path) -> None:
    for load, words in (
        ("select-only:clients=2,idle_in_transaction=20ms", "it has no BEGIN and COMMIT"),
        ("tpcb:clients=8,threads=4,pool=2", "4 threads share 2 connections"),
        ("tpcb:reconnect=maybe", "write yes or no"),
        ("tpcb:client=-oProxyCommand=x", "write client=ssh:HOST or client=ssh:USER@HOST"),
        ("tpcb:client=ssh:-oProxyCommand", "write client=ssh:HOST or client=ssh:USER@HOST"),
        ("tpcb:client=ssh:there", "compare running servers"),
    ):
        done = whole_tool.run("compare", "work_mem=1MB,2MB", "--workload", load, "--out", tmp_path / "no")
        assert words in whole_tool.assert_one_sentence(done, 2)
    done = whole_tool.run("compare", "pool=2,4", "--workload", "full-scan", "--out", tmp_path / "no")
    assert "how the clients of a load hold their connections" in whole_tool.assert_one_sentence(done, 2)
