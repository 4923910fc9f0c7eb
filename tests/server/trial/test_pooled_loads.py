"""`compare pooler=none,pgbouncer:…` from its refusals to the report, on a real server and PgBouncer."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.server.pooler import keeps_prepared, version

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
POOLERS = "pooler=none,pgbouncer:mode=transaction,size=3"
SMALL = ("--set", "shared_buffers=64MB", "--cache", "as-is", "--blocks", "1", "--seed", "2")


def test_a_pooler_stands_before_the_arm_s_server_alone(tmp_path: Path, require: Callable[..., None]) -> None:
    """Settings that differ reach its sessions as well; its use is in the record, the result and the page."""
    require("server", "apt")
    load = "select-only:clients=12,duration=700ms,warmup=200ms,protocol=extended"
    words = ("compare", POOLERS, "work_mem=4MB,9MB", "--workload", load, *SMALL)
    result = whole_tool.result_of(whole_tool.run(*words, "--json", "--quiet", "--out", tmp_path / "out"))
    assert [each["pooler"] for each in result["poolers"]] == ["pgbouncer:mode=transaction,size=3"] * 2
    for each in result["poolers"]:
        assert each["server_connections_max"] <= each["size"] == 3
        assert each["cpu_us"] > 0 and each["wait_ms"] > 0 and 0 < each["busy"] <= 1.1
    arms = {arm["id"]: arm for arm in json.loads((tmp_path / "out" / "experiment.json").read_text())["arms"]}
    for folder in (tmp_path / "out" / "trials").glob("*/attempt-*"):
        record = json.loads((folder / "trial.json").read_text())
        levels, load_seen = arms[record["arm_id"]]["levels"], record["load"]
        is_pooled = levels["pooler"] != "none"
        assert ("pooler" in load_seen) is is_pooled
        assert (folder / "observations" / "pooler.parquet").exists() is is_pooled
        assert record["facts"]["settings"]["work_mem"] == levels["work_mem"]
        if is_pooled:
            done = load_seen["transactions"] + load_seen["late_transactions"]
            assert load_seen["pooler"]["transactions"] == pytest.approx(done, rel=0.2)
    assert "The pooler" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("word", ["prepared", "extended"])
def test_prepared_statements_need_a_version_that_keeps_them(
    word: str, tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server", "apt")
    words = ("compare", POOLERS, "--workload", f"select-only:clients=4,protocol={word}", "--plan")
    done = whole_tool.run(*words, "--out", tmp_path / "out")
    if word == "prepared" and not keeps_prepared(version()):
        assert done.returncode == 2 and "gives each transaction another one" in done.stderr
        assert "protocol=extended or protocol=simple" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
