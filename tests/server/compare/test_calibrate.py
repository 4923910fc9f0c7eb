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
    jsonschema.validate(document, schema.calibration_schema(), cls=jsonschema.Draft202012Validator)
    assert (document["blocks"], document["stopped"]) == (3, "blocks")
    assert document["noise"]["trial"] > 0
    assert document["noise"]["within_trial"] is None
    assert [row["minutes"] for row in document["resolves"]] == [5, 10, 15, 30, 60, 120]
    assert document["ledger"]["experiments"] == 1
    assert copies == ["copy-0", "copy-1", "copy-2"]
    arms = json.loads((out / "experiment.json").read_bytes())["arms"]
    assert [arm["spec"] for arm in arms] == [arms[0]["spec"]] * 3
    assert again.returncode == 0, again.stderr
    assert "What a comparison of two levels resolves" in again.stdout
    assert "leave it out" in whole_tool.assert_one_sentence(refused, 2)
