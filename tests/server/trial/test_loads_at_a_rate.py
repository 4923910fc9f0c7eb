"""Loads with a rate of their own, and `--metric`, from the command line to the report, on a real server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from pgassay.record import observations

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
SMALL = ("--set", "shared_buffers=64MB", "--cache", "as-is", "--blocks", "1", "--seed", "2", "--quiet")


def ran(folder: Path, workload: str, *words: str, factor: str = "work_mem=1MB,2MB") -> dict[str, Any]:
    typed = ("compare", factor, "--workload", workload, *words, *SMALL, "--json", "--out", folder)
    return whole_tool.result_of(whole_tool.run(*typed))


def loads(folder: Path) -> list[dict[str, Any]]:
    return [trial["load"] for trial in whole_tool.valid_trials(folder)]


def test_a_rate_below_and_one_above_what_the_server_holds(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server")
    folder, workload = tmp_path / "out", "select-only:clients=2,duration=1s,warmup=200ms"
    result = ran(folder, workload, "--metric", "p50", factor="rate=60,3000000")
    assert result["metric"] == {"name": "p50 latency", "unit": "ms", "better": "lower", "latency": "p50"}
    for load in loads(folder):
        found = load["open_loop"]
        assert found["scheduled"] == sum(found[part] for part in ("done", "failed", "skipped", "queued"))
        if found["scheduled"] < 1000:
            assert found["queued"] == found["skipped"] == 0
            # Two connections that do some hundred a second at least have not 60 waiting.
            assert load["transactions"] > found["scheduled"] / 2
        else:
            assert found["queued"] > 1_000_000
            assert load["latency_ms"]["p50"] > 100 > found["from_send_ms"]["p50"]
    assert "rate=3000000 did not hold its rate in 1 of 1 trial" in result["verdict"]
    assert not any(line.startswith("rate=60 did not") for line in result["verdict"].splitlines())
    trials = sorted((folder / "trials").glob("*/attempt-*"))
    by_second = observations.latencies_by_second(trials[0])
    assert set(by_second) == {0} and sum(count for _, count in by_second[0]) > 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Latencies over time" in page and "Measured from when a transaction was due" in page


def test_a_trial_too_short_for_its_percentile_is_refused_before_and_after(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server")
    words = ("compare", "work_mem=1MB,2MB", *SMALL, "--metric", "p99.99")
    paced = whole_tool.run(*words, "--workload", "tpcb:rate=100,duration=5s", "--out", tmp_path / "a")
    sentence = whole_tool.assert_one_sentence(paced, 2)
    assert "p99.99 needs 200,000 transactions in each trial" in sentence
    assert "write duration=2200s" in sentence
    assert not (tmp_path / "a").exists()
    # How many a closed loop does is known from its first trial.
    closed = whole_tool.run(
        *words, "--workload", "select-only:duration=300ms,warmup=0s", "--out", tmp_path / "b"
    )
    assert closed.returncode == 1
    assert "p99.99 needs 200,000 transactions in each trial" in closed.stderr
    assert json.loads((tmp_path / "b" / "state.json").read_text())["stopped"] == "failed"
    assert len(whole_tool.trials(tmp_path / "b")) == 1
