"""`pgassay calibrate` on real servers: equal arms, all the blocks, and a page from the folder alone."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

import whole_tool
from pgassay.report import schema

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


def test_equal_arms_are_measured_and_their_noise_is_told(
    require: Callable[..., None], tmp_path: Path
) -> None:
    require("server")
    out = tmp_path / "results"
    (tmp_path / "one.sql").write_text("-- name: one\nSELECT count(*) FROM pgbench_accounts;\n")
    words = ["calibrate", "--workload", f"sql:{tmp_path}/one.sql", "--cache", "as-is", "--seed", "3"]
    options = [*whole_tool.SMALL, *whole_tool.build(), "--blocks", "3", "--max-time", "5m", "--json"]
    with whole_tool.prepared_home() as home:
        finished = whole_tool.run(*words, *options, "--out", out, home=home)
        document = whole_tool.result_of(finished)
        copies = sorted(path.name for path in (home / "data" / "work").rglob("copy-*") if path.is_dir())
        again = whole_tool.run("calibrate", "--from", out, home=home)
        refused = whole_tool.run(*words, "--control", "copy=second", home=home)
    jsonschema.validate(document, schema.CALIBRATION.schema(), cls=jsonschema.Draft202012Validator)
    assert (document["blocks"], document["stopped"]) == (3, "blocks")
    assert document["noise"]["trial"] > 0
    assert document["noise"]["within_trial"] is None
    assert [row["minutes"] for row in document["resolves"]] == [5, 10, 15, 30, 60, 120]
    assert document["ledger"]["experiments"] == 1
    levels = {each["level"]: each for each in document["levels"]}
    assert list(levels) == ["copy", "restart", "measurement"]
    assert levels["measurement"]["spread"] > 0
    for level in levels.values():
        assert level["interval"][0] <= level["spread"] <= level["interval"][1]
        assert level["cost_s"] > 0
    assert levels["measurement"]["cost_s"] < levels["restart"]["cost_s"]
    assert document["copies"]["copies"] == 3
    assert document["copies"]["evidence"] > 0
    assert {fit["name"] for fit in (document["modes"] or {"covariates": []})["covariates"]} <= {
        "canary", "memory", "disk",
    }  # fmt: skip
    recorded = whole_tool.trials(out)
    for trial in recorded:
        assert trial["memory_s"] > 0 and trial["disk_s"] > 0
        assert len(trial["repeated_s"]) == 1 and trial["repeated_s"][0] > 0
    assert copies == ["copy-0", "copy-1", "copy-2"]
    arms = json.loads((out / "experiment.json").read_bytes())["arms"]
    assert [arm["spec"] for arm in arms] == [arms[0]["spec"]] * 3
    assert again.returncode == 0, again.stderr
    assert "Smallest difference found by a comparison of two levels" in again.stdout
    assert "Noise added by each level of repetition" in again.stdout
    assert "no option --control" in whole_tool.assert_one_sentence(refused, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["memory", "disk"])
def test_a_reading_is_taken_before_each_start_and_leaves_cold_trials_cold(
    name: str, require: Callable[..., None], tmp_path: Path
) -> None:
    require("server", "cold-cache")
    out = tmp_path / "results"
    words = ["work_mem=1MB,2MB", "--workload", "full-scan:only=sum", "--cache", "cold", "--covariate", name]
    limits = ["--blocks", "1", "--seed", "4", "--json", "--quiet"]
    finished = whole_tool.run("compare", *words, *whole_tool.SMALL, *limits, "--out", out)
    assert whole_tool.result_of(finished)["blocks"] == 1
    plan = json.loads((out / "experiment.json").read_bytes())
    assert plan["contract"]["covariate"] == name
    assert plan["protocol"]["readings"] == [name]
    other = {"memory": "disk_s", "disk": "memory_s"}[name]
    for trial in whole_tool.trials(out):
        assert trial["status"] == "ok", "what is cold was verified"
        assert trial[f"{name}_s"] > 0
        assert other not in trial and "repeated_s" not in trial
        assert trial["facts"]["cache"]["resident_bytes"] == 0
        stages = list(trial["facts"]["stage_s"])
        assert stages.index("reading the machine's speed") < stages.index("starting")
