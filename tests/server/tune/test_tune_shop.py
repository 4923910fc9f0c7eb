"""A shop as a user has it: what is slow is mended and proven within a minute, and what needs nothing left."""

import json
import re
import sys
from pathlib import Path

import pytest

import whole_tool
from pgassay.progress import NullProgress
from pgassay.record.experiment import load
from pgassay.tune.run_tune import TOOLS, run_tune
from project_files import ROOT
from tuned_orders import request

sys.path.insert(0, str(ROOT / "benchmarks"))
from tuned_shop import shop

# What is planted differs many times over, and the time is several times what it takes.
pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


SHOP = shop(5, 4, 60)
PLANTED = {each.name for each in SHOP.asked if each.mends}


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder and the terminal's lines of tune on a small shop with four statements."""
    folder = tmp_path_factory.mktemp("shop")
    SHOP.write(folder)
    done = whole_tool.run(
        *("tune", "--dataset", f"script:{folder / 'shop.sql'}", "--workload", f"sql:{folder / 'slow.sql'}"),
        *("--max-time", "4m", "--out", folder / "out"),
    )
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stdout.splitlines()


def test_the_first_lines_say_what_to_do_and_what_it_does(answer: tuple[Path, list[str]]) -> None:
    lines = answer[1]
    first = " ".join(" ".join(lines[:6]).split())
    assert first.startswith("Recommended: ")
    for name in PLANTED:
        assert re.search(rf"Proven: .*{name} [\d,.]+ × as fast \([\d,.]+ to [\d,.]+\)", first), name
    # Each statement is a row, before anything else.
    heads = [line for line in lines if line in ("Statements", "Symptom", "Cause", "What helps")]
    assert heads[0] == "Statements"


def test_each_statement_has_its_own_verdict(answer: tuple[Path, list[str]]) -> None:
    result = json.loads((answer[0] / "tune.json").read_text("utf-8"))
    found = {each["name"]: each for each in result["statements"]}
    assert list(found) == [each["name"] for each in result["symptom"]["statements"]]
    recommended = [fix for fix in result["fixes"] if fix["verdict"] == "recommended"]
    for asked in SHOP.asked:
        given = found[asked.name]
        by = [fix["sql"] for fix in recommended if fix["id"] in given["fixes"]]
        if asked.mends:
            assert given["verdict"] == "faster" and given["interval"][0] > 1.1 and not given["unproven"]
            assert given["seconds_after"] < given["seconds_before"]
            assert any(map(asked.is_mended_by, by))
        else:
            # What needs nothing has nothing, and no noise is told as a finding.
            assert given["verdict"] in ("as it was", "not decided") and not by
    assert {each["name"] for fix in recommended for each in fix["statements"]} == PLANTED
    # Nothing that makes a statement faster is called of no help.
    assert all((fix["gain"] or 0) < 1.5 for fix in result["fixes"] if fix["verdict"] == "no help")
    assert result["cause"]["layer"] == "design" and "was fully read" in result["cause"]["sentence"]


def test_the_arms_took_turns_in_starts_of_one_server(answer: tuple[Path, list[str]]) -> None:
    folder = answer[0] / "proof"
    experiment = json.loads((folder / "experiment.json").read_text("utf-8"))
    assert experiment["contract"]["unit"] == "start"
    prepared = {tuple(arm["spec"]["prepare"]) for arm in experiment["arms"]}
    assert len(prepared) == 1, "all arms have the same data"
    without = {arm["name"]: arm["spec"].get("without_indexes", []) for arm in experiment["arms"]}
    assert without["fixes=all chosen"] == [] and without["fixes=as it is"]
    assert all(index in experiment["protocol"]["switched_indexes"] for index in without["fixes=as it is"])
    # The plans that the trials recorded are those with and without.
    statements = [record["statements"] for record in whole_tool.trials(folder)]
    assert statements and all(len(each) == len(statements[0]) for each in statements)


PLACED = """-- name: place
INSERT INTO orders SELECT n, n, 'new' FROM generate_series(1000001, 1000100) n;
-- name: slow
SELECT count(*), max(note) FROM orders WHERE customer = 4242;
"""


@pytest.mark.timeout(300)
def test_a_write_takes_turns_too_and_no_start_is_lost_by_its_plans(tmp_path: Path) -> None:
    result = run_tune(
        request(tmp_path, PLACED, max_time_s=120), TOOLS, NullProgress(), wait=True, isolates=False
    )
    assert [fix.id for fix in result.fixes if fix.verdict == "recommended"] == ["index:orders(customer)"]
    records = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "out").rglob("trial.json")]
    assert len(records) >= 9 and {each["status"] for each in records} == {"ok"}
    proof = load(tmp_path / "out" / "proof")
    assert proof.experiment.protocol.rolls_back
    # Every statement's plan was executed in both arms, the write's as well, and undone.
    names = {arm.id: arm.levels["fixes"] for arm in proof.experiment.arms}
    made = {
        (names[trial.record.arm_id], name): plan
        for trial in proof.trials
        for name, plan in trial.work_plans.items()
    }
    assert {key for key, plan in made.items() if plan.executed} == {
        (arm, name) for arm in ("all chosen", "as it is") for name in ("place", "slow")
    }
    assert made["as it is", "place"].rolled_back
