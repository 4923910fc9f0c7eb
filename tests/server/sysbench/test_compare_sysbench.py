"""`compare --workload sysbench:SCRIPT` from its tables to the report, on a real server."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whole_tool
from native_servers import started_server
from pgassay.native.load import load_document, run_load
from pgassay.native.sysbench_commands import make_tables
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.sysbench import SCRIPTS

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
WORKLOAD = "sysbench:oltp_read_write,tables=2,table-size=2000,clients=2,duration=200ms,warmup=50ms"
SMALL = ("--set", "shared_buffers=64MB", "--cache", "as-is", "--blocks", "1", "--seed", "2")


@pytest.mark.slow
def test_a_writing_script_runs_on_copies(tmp_path: Path, require: Callable[..., None]) -> None:
    """A factor over an option, plans of what writes, and each trial from the same data."""
    require("server")
    words = ("compare", "index_updates=1,3", "--workload", WORKLOAD, *SMALL, "--json", "--quiet")
    result = whole_tool.result_of(whole_tool.run(*words, "--out", tmp_path / "out"))
    assert result["stopped"] == "blocks"
    stored = json.loads((tmp_path / "out" / "experiment.json").read_text())
    arms = {arm["id"]: arm["levels"]["index_updates"] for arm in stored["arms"]}
    seen = set()
    for folder in sorted((tmp_path / "out" / "trials").glob("*/attempt-*")):
        record = json.loads((folder / "trial.json").read_text())
        if record["status"] != "ok":
            continue
        load = record["load"]
        calls = {row["relname"]: row for row in record["counters"]["pg_stat_user_tables"]}
        updates = sum(row.get("n_tup_upd", 0) for row in calls.values())
        done = load["transactions"] + load["warmup_transactions"] + load["late_transactions"]
        # So many updates of k and one of c a transaction; those of what was given up are a few more.
        assert done > 0 and updates == pytest.approx(done * (int(arms[record["arm_id"]]) + 1), rel=0.2)
        plans = json.loads((folder / "plans.json").read_text())
        assert {"point-select", "update-index", "insert-row", "delete-row"} <= set(plans)
        assert re.search(r'"Operation": "Update"', json.dumps(plans["update-index"]))
        seen.add(arms[record["arm_id"]])
    assert seen == {"1", "3"}


@pytest.fixture
def server_with_tables(require: Callable[..., None]) -> Iterator[dict[str, object]]:
    """The parameters of a server with one table of 500 rows."""
    require("server")
    with started_server() as server:
        parameters = server.parameters()
        spec = {"connect": parameters, "tables": 1, "table_size": 500, "jobs": 1, "seed": 1}
        make_tables(spec, lambda _number, _step: None)
        yield parameters


def test_every_script_runs_as_a_load(server_with_tables: dict[str, object]) -> None:
    for script in SCRIPTS:
        workload = parse_workload(f"sysbench:{script},table-size=500,clients=2,duration=150ms,warmup=0s")
        assert workload.load is not None
        record = run_load(load_document(server_with_tables, workload.load, scale=1, seed=3))
        assert record["transactions"] > 0, script


def test_every_micro_benchmark_runs(server_with_tables: dict[str, object]) -> None:
    """Each by its name, as the series runs it."""
    workload = parse_workload("sysbench:micro,table-size=500,duration=2800ms,warmup=0s")
    assert workload.load is not None and workload.load.sysbench is not None
    assert len(workload.load.sysbench.series) == 28
    for name in workload.load.sysbench.series:
        options = workload.load.sysbench.model_copy(update={"script": name, "series": ()})
        part = workload.load.model_copy(update={"sysbench": options, "duration_s": 0.1})
        record = run_load(load_document(server_with_tables, part, scale=1, seed=3))
        assert record["transactions"] > 0 and record["errors"] == 0, name


def test_the_series_has_a_verdict_for_each(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    series = "micro,only=update-one+scan+point-query+delete"
    workload = f"sysbench:{series},table-size=3000,clients=2,duration=800ms,warmup=50ms"
    words = ("compare", "jit=on,off", "--workload", workload, *SMALL, "--json")
    finished = whole_tool.run(*words, "--out", tmp_path / "out")
    result = whole_tool.result_of(finished)
    # A trial's line has what is compared: the sum of the mean times, and no rate.
    assert re.search(r"trial 1: ok [\d.,]+ (ms|µs)\n", finished.stderr)
    # In the order of the series, whatever the order typed.
    names = [statement["name"] for statement in result["statements"]]
    assert names == ["point-query", "scan", "update-one", "delete"]
    for statement in result["statements"]:
        arms = [arm for arm in statement["arms"] if arm["verdict"] != "twin"]
        assert len(arms) >= 2 and all(value > 0 for arm in arms for value in arm["values"])
    stored = json.loads((tmp_path / "out" / "experiment.json").read_text())
    assert stored["contract"]["metric"]["name"] == "time of one of each"
    folder = next(iter(sorted((tmp_path / "out" / "trials").glob("*/attempt-*"))))
    record = json.loads((folder / "trial.json").read_text())
    load, times = record["load"], {each["name"]: each["elapsed_s"] for each in record["statements"]}
    assert sum(kind["transactions"] for kind in load["kinds"]) >= load["transactions"] > 0
    assert load["elapsed_s"] == pytest.approx(0.8)
    for kind in load["kinds"]:
        assert times[kind["name"]] == pytest.approx(kind["latency_ms"]["mean"] / 1e3)
    low, high = load["latency_ms"]["min"], load["latency_ms"]["max"]
    assert low <= load["latency_ms"]["p50"] <= load["latency_ms"]["p99"] <= high
    assert (folder / "latency.hlog").read_text().count("Tag=script:") == 4
