"""A comparison with a large difference, from the command line to its verdict and all that follows."""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import replay
import whole_tool
from pgassay.experiment.running.loop import RunLimits, run_experiment
from pgassay.progress import NullProgress
from pgassay.record.experiment import load

SCHEMA = json.loads((whole_tool.ROOT / "schemas" / "compare.schema.json").read_text("utf-8"))
# Thirty rows by their keys: with the index in microseconds, without it by reading the whole table for each.
POINT_READ = """-- name: point
SELECT sum((SELECT abalance FROM pgbench_accounts WHERE aid = 3000 * number))
FROM generate_series(1, 30) number;
"""
KEYS = {
    "schema", "folder", "workload", "metric", "control", "margin", "alpha", "blocks", "stopped", "arms",
    "twin", "statements", "plans_differ", "confounds", "warnings",
}  # fmt: skip
ARM_KEYS = {
    "name", "levels", "ratio", "interval", "verdict", "meaningful", "trials", "failures", "median", "values",
}  # fmt: skip

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@dataclass(frozen=True)
class Finished:
    """One run for all tests here."""

    folder: Path
    words: list[str]
    exit_status: int
    output: str
    progress: str

    @property
    def result(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.output)
        return document


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, require: Callable[..., None]) -> Iterator[Finished]:
    require("server", "cold-cache")
    folder = tmp_path_factory.mktemp("compare")
    (folder / "point.sql").write_text(POINT_READ)
    words = [
        "compare", "enable_indexscan=on,off", "--workload", f"sql:{folder / 'point.sql'}",
        "--cache", "warm-buffers", "--set", "enable_bitmapscan=off", *whole_tool.SMALL,
        "--blocks", "12", "--seed", "4", "--json", "--restart", "each",
    ]  # fmt: skip
    done = whole_tool.run(*words, "--fail-if", "slower", "--out", folder / "out")
    yield Finished(folder / "out", words, done.returncode, done.stdout, done.stderr)


def test_a_large_difference_is_found_in_few_blocks(finished: Finished) -> None:
    result = finished.result
    control, off = result["arms"]
    assert (control["name"], control["verdict"]) == ("enable_indexscan=on", "control")
    # By how much at least depends on the noise of four blocks; recorded trials below have it.
    assert off["verdict"] == "slower"
    assert off["ratio"] < 0.8
    assert off["interval"][0] <= off["ratio"] <= off["interval"][1] < 1
    assert off["median"] > 2 * control["median"]
    assert result["stopped"] == "decided"
    assert 4 <= result["blocks"] < 12
    assert result["control"] == "enable_indexscan=on"
    assert off["trials"] == len(off["values"]) == result["blocks"]


def test_fail_if_ends_with_3(finished: Finished) -> None:
    assert finished.exit_status == 3
    # The same experiment asked the other way round is no failure, and is not measured again.
    done = whole_tool.run("resume", finished.folder, "--fail-if", "faster", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["blocks"] == finished.result["blocks"]
    assert done.stderr == ""


def test_the_document_keeps_the_contract(finished: Finished) -> None:
    """Standard output holds one JSON document and nothing else; progress goes to standard error."""
    result = finished.result
    jsonschema.validate(result, SCHEMA)
    assert result.keys() >= KEYS
    assert all(arm.keys() >= ARM_KEYS for arm in result["arms"])
    assert result["schema"] == 1
    assert result["metric"] == {"name": "total elapsed time", "unit": "s", "better": "lower"}
    assert result["twin"].keys() >= {"ratio", "interval", "ok"}
    assert Path(result["folder"]) == finished.folder
    lines = finished.progress.splitlines()
    assert any(line.startswith("2 arms: enable_indexscan=on and enable_indexscan=off") for line in lines)
    assert any(line.startswith("block 1 of at most 12, trial 3: ok") for line in lines)
    assert any("after block 4: enable_indexscan=off" in line for line in lines)
    assert "Traceback" not in finished.progress


def test_plans_that_differ_are_a_finding(finished: Finished) -> None:
    assert finished.result["plans_differ"]
    [statement] = finished.result["statements"]
    assert statement["name"] == "point"
    assert statement["cold"] is False
    plans = [file.read_text("utf-8") for file in finished.folder.glob("trials/*/attempt-1/plans.json")]
    scans = {re.search(r"(Index|Seq) Scan", plan)[0] for plan in plans}
    assert scans == {"Index Scan", "Seq Scan"}


def test_a_session_setting_does_not_restart_the_server(finished: Finished) -> None:
    """One start for each copy of the data in a row of trials on it, not one for each trial."""
    recorded = whole_tool.trials(finished.folder)
    assert {record["status"] for record in recorded} == {"ok"}
    kept = 0
    for before, record in itertools.pairwise(recorded):
        if before["data_copy"] == record["data_copy"]:
            assert not record["facts"]["started_for_this_trial"]
            kept += 1
    assert kept > 0
    effective = {record["facts"]["settings"]["enable_indexscan"] for record in recorded}
    assert effective == {"on", "off"}
    assert all(record["facts"]["cache"]["buffered_fraction"] >= 0.99 for record in recorded)


def test_it_is_reported_again_without_a_server(finished: Finished, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = whole_tool.run("report", finished.folder, "--json", "--html", page, pictures=True)
    assert json.loads(done.stdout) == finished.result
    content = page.read_text("utf-8")
    assert "enable_indexscan=off" in content
    assert "Seq Scan" in content
    # Self-contained: nothing is fetched from anywhere.
    for loading in ('src="http', "src='http", 'href="http', "@import", "url(http"):
        assert loading not in content
    written = (finished.folder / "report.html").read_text("utf-8")
    assert written.startswith("<!doctype html>")
    assert written.rstrip().endswith("</html>")
    text = whole_tool.run("report", finished.folder).stdout
    assert re.search(r"enable_indexscan=off is \S+ × as slow", " ".join(text.split()))
    assert (
        max(len(line) for line in text.splitlines() if not line.startswith(("Again", "Folder", "report")))
        <= 100
    )
    markdown = whole_tool.run("report", finished.folder, "--markdown").stdout
    assert "| enable_indexscan=off" in markdown


def test_it_is_listed(finished: Finished) -> None:
    listed = whole_tool.run("list", finished.folder.parent)
    assert listed.returncode == 0, listed.stderr
    assert str(finished.folder) in listed.stdout.replace("\n", "")
    assert re.search(r"enable_indexscan=off is \S+ × as slow", " ".join(listed.stdout.split()))


@pytest.mark.slow
def test_more_blocks_are_added_by_resume(finished: Finished) -> None:
    blocks = finished.result["blocks"] + 1
    done = whole_tool.run("resume", finished.folder, "--blocks", blocks, "--json")
    result = whole_tool.result_of(done)
    assert result["blocks"] == blocks
    assert result["stopped"] in ("blocks", "decided")
    before = finished.result["arms"][1]["values"]
    assert result["arms"][1]["values"][: len(before)] == before


def test_a_file_is_the_same_experiment(finished: Finished, tmp_path: Path) -> None:
    """The plan of `run FILE.toml` equals that of `compare`, arm for arm, and the order of its trials too."""
    (tmp_path / "point.sql").write_text(POINT_READ)
    (tmp_path / "point.toml").write_text(
        'workload = "sql:point.sql"\ncache = "warm-buffers"\nscale = 1\nblocks = 1\nseed = 4\n'
        'restart = "each"\n'
        '[factors]\nenable_indexscan = ["on", "off"]\n'
        '[set]\nenable_bitmapscan = false\nshared_buffers = "64MB"\n'
    )
    done = whole_tool.run("run", tmp_path / "point.toml", "--out", tmp_path / "out", "--json", "--quiet")
    assert whole_tool.result_of(done)["blocks"] == 1
    assert done.stderr == ""
    planned, typed = (
        json.loads((folder / "experiment.json").read_bytes())
        for folder in (tmp_path / "out", finished.folder)
    )
    for plan in (planned, typed):
        # What this machine knows of a file of that place, from an experiment before.
        plan["contract"].pop("first_scale", None)
        for arm in plan["arms"]:
            del arm["spec"]["workload"]["text"]  # it names the file's place
    assert planned["arms"] == typed["arms"]
    assert planned["protocol"] == typed["protocol"]
    assert planned["contract"] == typed["contract"] | {"blocks_max": 1}
    order = [
        [record["arm_id"] for record in whole_tool.trials(folder)[:3]]
        for folder in (tmp_path / "out", finished.folder)
    ]
    assert order[0] == order[1]


@pytest.mark.slow
def test_no_direction_without_a_difference_that_the_interval_shows(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    """Two values that mean the same. Noise decides about the word; the interval must be the one it says."""
    require("server")
    words = ["compare", "work_mem=4MB,4097kB", "--workload", "full-scan:only=read-table", "--restart", "each"]
    options = ["--cache", "warm-buffers", *whole_tool.SMALL, "--margin", "50%", "--seed", "1", "--json"]
    out = tmp_path / "out"
    few = whole_tool.run(*words, *options, "--quiet", "--blocks", "2", "--out", out, "--fail-if", "slower")
    result = whole_tool.result_of(few)
    assert few.returncode == 0
    # Nine orders of six trials can't bound anything at an error of 5 %, whatever was measured.
    assert [arm["verdict"] for arm in result["arms"]] == ["control", "inconclusive"]
    assert not result["arms"][1]["meaningful"]
    more = whole_tool.result_of(whole_tool.run("resume", out, "--blocks", "4", "--json", "--quiet"))
    arm = more["arms"][1]
    # What is called equivalent is so by an interval of its own, which is narrower than the one that is shown.
    decides = arm["equivalence_interval"] or arm["interval"]
    assert arm["verdict"] in words_of_interval(decides, margin=0.5)


def words_of_interval(interval: list[float | None], margin: float) -> set[str]:
    """The words that an interval of the ratio allows; the guards may withhold any but the last."""
    low, high = interval
    if low is not None and high is not None and 1 / (1 + margin) <= low and high <= 1 + margin:
        return {"equivalent", "inconclusive"}
    if low is not None and low > 1:
        return {"faster", "inconclusive"}
    if high is not None and high < 1:
        return {"slower", "inconclusive"}
    return {"inconclusive"}


@pytest.mark.parametrize(
    ("speed_up", "verdict"),
    [
        (1.0, "equivalent"),
        (1.2, "faster"),
        # What is slower is slower in the real trials above.
        pytest.param(0.8, "slower", marks=pytest.mark.slow),
    ],
)
def test_the_word_of_recorded_trials(speed_up: float, verdict: str, tmp_path: Path) -> None:
    """Recorded outcomes instead of a server: the same loop, analysis and report, without the noise."""
    folder = replay.new_experiment(tmp_path / "replayed", seed=3)
    runner = replay.Replay(seed=1, spread=0.005, speed_up=speed_up)
    limits = RunLimits(60, 600.0)
    assert run_experiment(load(folder), runner, limits, NullProgress()).stopped == "decided"
    result = whole_tool.result_of(whole_tool.run("report", folder, "--json"))
    assert result["stopped"] == "decided"
    assert [arm["verdict"] for arm in result["arms"]] == ["control", verdict, verdict]
    for arm in result["arms"][1:]:
        assert words_of_interval(arm["interval"], result["margin"]) == {verdict, "inconclusive"}
        assert arm["interval"][0] <= speed_up <= arm["interval"][1]
    text = " ".join(whole_tool.run("report", folder).stdout.split())
    assert re.search(rf"work_mem=2MB is (20 % )?{verdict} (than|to) work_mem=1MB", text)
