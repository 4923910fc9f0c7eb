"""`--between neutral`: an uncounted trial of the control before each counted one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.mark.slow
def test_a_neutral_trial_runs_before_each_and_counts_for_nothing(
    require: Callable[..., None], tmp_path: Path
) -> None:
    require("server")
    out = tmp_path / "results"
    (tmp_path / "one.sql").write_text("-- name: one\nSELECT count(*) FROM pgbench_accounts;\n")
    words = ["compare", "work_mem=4MB,8MB", "--workload", f"sql:{tmp_path}/one.sql", "--cache", "as-is"]
    options = [*whole_tool.SMALL, *whole_tool.build(), "--blocks", "2", "--max-time", "5m", "--json"]
    with whole_tool.prepared_home() as home:
        finished = whole_tool.run(*words, *options, "--between", "neutral", "--out", out, home=home)
        document = whole_tool.result_of(finished)
        ledger = json.loads((home / "ledger.json").read_bytes())
        left = [path.name for path in (home / "data").rglob("trial.json")]
    assert document["blocks"] == 2
    assert [arm["trials"] for arm in document["arms"]] == [2, 2]
    plan = json.loads((out / "experiment.json").read_bytes())
    assert plan["design"]["between"] == "neutral"
    assert "--between" in plan["command"]
    records = [json.loads(path.read_bytes()) for path in sorted(out.glob("trials/*/*/trial.json"))]
    assert len(records) == 6
    # It is measured apart: the trial's own wall time begins after it.
    assert all(record["neutral_s"] > 0 for record in records)
    # Who ran before says nothing any more, so the ledger hears nothing of it.
    (machine,) = ledger["machines"].values()
    (evidence,) = machine["experiments"].values()
    assert "predecessor" not in evidence and "position" in evidence
    assert left == []
