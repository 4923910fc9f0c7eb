"""Plans that an experiment executes: what they show, what is not executed, that nothing is executed twice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whole_tool

pytestmark = pytest.mark.server

QUERIES = """
-- name: sorted
SELECT aid, filler FROM pgbench_accounts ORDER BY md5(aid::text) OFFSET 100000;
-- name: drawn
SELECT public.draw();
"""
# A function that could write and does not: the trials stay valid, and nobody can tell from outside.
PREPARE = "CREATE FUNCTION public.draw() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1'"


def work_files(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("trials/*/attempt-*/work_plans.json"))
    return [json.loads(file.read_bytes())["statements"] for file in files]


def test_the_report_says_where_each_sort_went(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    (tmp_path / "q.sql").write_text(QUERIES)
    words = ["compare", "work_mem=1MB,64MB", "--workload", f"sql:{tmp_path / 'q.sql'}", "--prepare", PREPARE]
    words += ["--cache", "warm-buffers", *whole_tool.SMALL, "--set", "max_parallel_workers_per_gather=0"]
    limits = ["--blocks", "4", "--seed", "3", "--quiet", "--out", str(tmp_path / "out")]
    result = whole_tool.result_of(whole_tool.run(*words, *limits, "--json"))

    plans = {(each["statement"], each["arm"]): each for each in result["plans"]}
    assert len(plans) == len(result["plans"]) == 4
    small, large = plans["sorted", "work_mem=1MB"], plans["sorted", "work_mem=64MB"]
    methods = [
        next(node["sort_method"] for node in plan["nodes"] if node["sort_method"]) for plan in (small, large)
    ]
    assert methods == ["external merge", "quicksort"]
    for plan in (small, large):
        assert plan["executed"] and plan["cache"] == "as-left" and plan["untraced_s"] > 0
        assert plan["execution_ms"] > 0 and plan["planning_ms"] is not None
        assert plan["nodes"][0]["buffers_hit"] is not None
    drawn = plans["drawn", "work_mem=1MB"]
    assert not drawn["executed"] and "draw" in drawn["reason"] and "volatile" in drawn["reason"]

    folder = tmp_path / "out"
    spent_s = sum(record.get("plans_s") or 0.0 for record in whole_tool.trials(folder))
    used_s = json.loads((folder / "state.json").read_bytes())["seconds_used"]
    print(f"plans took {spent_s:.2f} of {used_s:.2f} s")
    assert 0 < spent_s < 0.1 * used_s

    terminal = whole_tool.run("report", folder).stdout
    markdown = whole_tool.run("report", folder, "--markdown").stdout
    for shown in (terminal, markdown):
        words_shown = " ".join(shown.split())
        assert "fits in memory in B: external merge" in words_shown and "quicksort" in words_shown
        assert "could write: it calls draw, which is volatile" in words_shown
    page = tmp_path / "page.html"
    whole_tool.run("report", folder, "--html", page)
    assert "under ANALYZE" in page.read_text() and "external merge" in page.read_text()

    indexes = {(each["table"], each["index"]) for each in result["table_cache"]}
    assert ("pgbench_accounts", None) in indexes
    for each in result["table_cache"]:
        assert each["hit_ratio"] == each["blocks_hit"] / (each["blocks_hit"] + each["blocks_read"])

    executed = sum(len(each) for each in work_files(folder))
    again = whole_tool.run("resume", folder, "--blocks", "5", "--json", "--quiet")
    assert len(whole_tool.result_of(again)["plans"]) == 4
    assert len(whole_tool.valid_trials(folder)) > 12
    assert sum(len(each) for each in work_files(folder)) == executed


@pytest.mark.shares_machine
def test_statements_that_write_or_lock_are_not_executed(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    (tmp_path / "w.sql").write_text(
        "-- name: added\nINSERT INTO pgbench_branches VALUES (2, 0, NULL);\n"
        "-- name: locked\nSELECT bid FROM pgbench_branches WHERE bid = 1 FOR UPDATE;\n"
        "-- name: read\nSELECT count(*) FROM pgbench_branches;\n"
    )
    words = ("compare", "work_mem=1MB,2MB", "--workload", f"sql:{tmp_path / 'w.sql'}", "--json", "--quiet")
    folder = tmp_path / "out"
    finished = whole_tool.run(*words, *whole_tool.SMALL, "--blocks", "1", "--out", folder)
    reasons = {each["statement"]: each["reason"] for each in whole_tool.result_of(finished)["plans"]}
    assert reasons == {
        "added": "it could write: it is an INSERT",
        "locked": "it could write: its plan has the node LockRows",
        "read": "",
    }
    assert all(record["status"] == "ok" for record in whole_tool.trials(folder))


@pytest.mark.shares_machine
def test_loads_and_estimates_execute_nothing(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    load = ("compare", "work_mem=1MB,2MB", "--workload", "select-only:duration=200ms,warmup=0s", "--json")
    options = (*whole_tool.SMALL, "--blocks", "1", "--quiet")
    result = whole_tool.result_of(whole_tool.run(*load, *options, "--out", tmp_path / "load"))
    assert result["plans"] and not any(each["executed"] for each in result["plans"])
    assert all("load" in each["reason"] and each["nodes"] for each in result["plans"])
    estimated = whole_tool.run(*load, *options, "--plans", "estimate", "--out", tmp_path / "estimate")
    assert whole_tool.result_of(estimated)["plans"] == []
    assert work_files(tmp_path / "estimate") == []
    assert list((tmp_path / "estimate").glob("trials/*/attempt-*/plans.json"))
    off = whole_tool.run(*load, *options, "--plans", "off", "--out", tmp_path / "off")
    assert whole_tool.result_of(off)["plans"] == []
    assert not list((tmp_path / "off").glob("trials/*/attempt-*/plans.json"))
