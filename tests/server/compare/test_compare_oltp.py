"""`compare --workload oltp_read_only` from its tables to the report, on a real server."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
WORKLOAD = "oltp_read_only:tables=2,table_size=2000,duration=200ms,warmup=50ms"
SMALL = (
    "--set",
    "shared_buffers=64MB",
    "--cache",
    "as-is",
    "--blocks",
    "1",
    "--seed",
    "2",
    "--json",
    "--quiet",
)


@pytest.mark.parametrize("clients", ["2", pytest.param("1,2", marks=pytest.mark.slow)])
def test_a_matrix_runs_in_one_line(clients: str, tmp_path: Path, require: Callable[..., None]) -> None:
    """Two sizes of ranges, and two numbers of clients, are strata on one dataset of sysbench's tables."""
    require("server")
    factors = ["io_method=sync,worker", "range_size=10,1000"]
    workload, count = WORKLOAD, 2
    if "," in clients:
        factors.append(f"clients={clients}")
        count = 4
    else:
        workload += f",clients={clients}"
    # The range is a parameter of prepared statements: in a custom plan it is a number.
    custom = ("--set", "plan_cache_mode=force_custom_plan")
    words = ("compare", *factors, "--workload", workload, *SMALL, *custom, "--out", tmp_path / "out")
    result = whole_tool.result_of(whole_tool.run(*words))
    assert result["stopped"] == "blocks"
    assert len([arm for arm in result["arms"] if arm["values"][0] > 0]) >= 2 * count
    stored = json.loads((tmp_path / "out" / "experiment.json").read_text())
    assert stored["title"].endswith("2 sysbench tables of 2000 rows")
    assert stored["contract"]["metric"]["unit"] == "transactions/s"
    (dataset,) = stored["environment"]["datasets"].values()
    assert dataset["relations"]["sbtest2"]["rows"] == 2000
    assert set(dataset["relations"]) >= {"sbtest1_pkey", "k_1", "k_2"}
    arms = {arm["id"]: arm["levels"] for arm in stored["arms"]}
    strata = set()
    folders = sorted((tmp_path / "out" / "trials").glob("*/attempt-*"))
    for folder in folders:
        record = json.loads((folder / "trial.json").read_text())
        if record["status"] != "ok":
            continue
        levels = arms[record["arm_id"]]
        plans = (folder / "plans.json").read_text()
        ends = set(re.findall(r"id <= '?(\d+)", plans))
        assert ends == {levels["range_size"]}
        load = record["load"]
        assert load["errors"] == 0
        assert load["transactions"] > 0
        strata.add((levels.get("clients"), levels["range_size"]))
    assert len(strata) == count
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


@pytest.mark.slow
def test_tables_as_a_factor_are_two_datasets(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    words = ("compare", "tables=1,3", "--workload", WORKLOAD, *SMALL, "--out", tmp_path / "out")
    whole_tool.result_of(whole_tool.run(*words))
    stored = json.loads((tmp_path / "out" / "experiment.json").read_text())
    tables = [
        {name for name in dataset["relations"] if re.fullmatch(r"sbtest\d+", name)}
        for dataset in stored["environment"]["datasets"].values()
    ]
    assert sorted(map(len, tables)) == [1, 3]


def test_a_scale_has_no_place(tmp_path: Path) -> None:
    finished = whole_tool.run(
        "compare", "io_method=sync,worker", "--workload", WORKLOAD, "--scale", "3", "--out", tmp_path / "out"
    )
    complaint = whole_tool.assert_one_sentence(finished, 2)
    assert "write --workload oltp_read_only:tables=4" in complaint
