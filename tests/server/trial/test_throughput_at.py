"""A short comparison of the highest rate within a bound, on a real server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


def test_blocks_run_at_rates_of_their_own_and_the_report_says_what_is_held(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server")
    out = tmp_path / "out"
    words = (
        *("compare", "work_mem=4MB,8MB", "--workload", "select-only:clients=2,duration=1s,warmup=100ms"),
        *("--metric", "throughput-at:p50<1s", *whole_tool.SMALL, "--blocks", "3", "--json", "--quiet"),
        *("--out", out),
    )
    with whole_tool.prepared_home() as home:
        result = whole_tool.result_of(whole_tool.run(*words, *whole_tool.build(), home=home))
    plans = [json.loads(path.read_text()) for path in sorted(out.glob("blocks/*.json"))]
    lowest, highest = json.loads((out / "experiment.json").read_text())["design"]["rates"][""]
    assert len(plans) == 3 and all(lowest <= plan["rate"] <= highest for plan in plans)
    trials = [json.loads(path.read_text()) for path in sorted(out.glob("trials/*/attempt-*/trial.json"))]
    for plan in plans:
        # An arm that held far more or less so far has a rate of its own.
        due = {
            trial["arm_id"]: trial["load"]["open_loop"]["scheduled"] / trial["load"]["elapsed_s"]
            for trial in trials
            if trial["block"] == plan["block"] and trial["status"] == "ok"
        }
        rates = {arm_id: plan.get("rates", {}).get(arm_id, plan["rate"]) for arm_id in due}
        # Poisson arrivals of a second, otherwise the same for all arms of the block.
        assert len(due) == 3 and all(abs(due[arm_id] / rate - 1) < 0.3 for arm_id, rate in rates.items())
    control, arm = result["capacities"]
    assert (control["trials"], arm["trials"]) == (6, 3)
    # Nothing was near a second, so no rate was excluded from below by so few trials.
    assert control["interval"][1] is None and arm["ratio"] is not None
    refused = whole_tool.run("calibrate", "--metric", "throughput-at:p99<20ms", "--workload", "tpcb")
    assert refused.returncode == 2
