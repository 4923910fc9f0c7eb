"""`compare --workload sysbench:SCRIPT` from its tables to the report, on a real server."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whole_tool
from native_servers import NativeTestServer
from pgassay.native.load import load_document, run_load
from pgassay.native.sysbench import make_tables
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.sysbench import SCRIPTS

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
WORKLOAD = "sysbench:oltp_read_write,tables=2,table-size=2000,clients=2,duration=200ms,warmup=50ms"
SMALL = ("--set", "shared_buffers=64MB", "--cache", "as-is", "--blocks", "1", "--seed", "2")


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
    server = NativeTestServer()
    try:
        server.start()
        parameters = server.parameters()
        spec = {"connect": parameters, "tables": 1, "table_size": 500, "jobs": 1, "seed": 1}
        make_tables(spec, lambda _number, _step: None)
        yield parameters
    finally:
        server.stop()


def test_every_script_runs_as_a_load(server_with_tables: dict[str, object]) -> None:
    for script in SCRIPTS:
        workload = parse_workload(f"sysbench:{script},table-size=500,clients=2,duration=150ms,warmup=0s")
        assert workload.load is not None
        record = run_load(load_document(server_with_tables, workload.load, scale=1, seed=3))
        assert record["transactions"] > 0, script
