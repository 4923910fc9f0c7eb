"""A whole comparison of clients that execute a file's statements at once, writing ones among them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
STATEMENTS = """
-- name: read
SELECT sum(abalance) FROM pgbench_accounts WHERE aid < 5000;
-- name: change
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 4711;
-- name: insert
INSERT INTO pgbench_branches (bid, bbalance) VALUES (99, 0);
"""


def test_statements_are_executed_by_so_many_clients(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    file, out = tmp_path / "mine.sql", tmp_path / "out"
    file.write_text(STATEMENTS)
    words = (
        "compare", "clients=1,3", "--workload", f"sql:{file},clients=2,executions=12", *whole_tool.SMALL,
        "--blocks", "1", "--json", "--quiet", "--out", out,
    )  # fmt: skip
    result = whole_tool.result_of(whole_tool.run(*words))
    assert [arm["name"] for arm in result["arms"]] == ["clients=1", "clients=3"]
    assert [statement["name"] for statement in result["statements"]] == ["read", "change", "insert"]
    trials = [json.loads(file.read_text()) for file in sorted(out.glob("trials/*/attempt-*/trial.json"))]
    assert len(trials) == 3 and {trial["status"] for trial in trials} == {"ok"}
    for trial in trials:
        # A key that is inserted twelve times: what writes is rolled back.
        assert [statement["at_once"] for statement in trial["statements"]] == [12, 12, 12]
        assert all(statement["elapsed_s"] > 0 and not statement["cold"] for statement in trial["statements"])
        assert trial["facts"]["cache"]["state"] == "warm-pages"
    refused = whole_tool.run(
        "compare", "work_mem=4MB,8MB", "--workload", f"sql:{file},clients=2", "--cache", "cold"
    )
    assert "with statements that clients execute concurrently" in whole_tool.assert_one_sentence(refused, 2)
