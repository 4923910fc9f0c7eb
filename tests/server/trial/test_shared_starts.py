"""Arms that one running server can be take turns in it: a block is one start, on real servers."""

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from pgassay.record.experiment import StoredExperiment, load

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

GROUPS = "-- name: groups\nSELECT bid, aid % 7, count(*) FROM pgbench_accounts GROUP BY 1, 2;\n"


def compared(folder: Path, *words: object) -> tuple[dict[str, Any], StoredExperiment]:
    options = [*whole_tool.SMALL, "--max-time", "5m", "--json", "--quiet"]
    finished = whole_tool.run("compare", *words, *options, "--out", folder / "out")
    return whole_tool.result_of(finished), load(folder / "out")


def statement(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.sql"
    path.write_text(text)
    return path


def nodes(plan: object) -> str:
    return json.dumps(plan)


def of_arm(stored: StoredExperiment, name: str) -> list[Any]:
    (arm,) = [each for each in stored.experiment.arms if each.name == name and each.role != "twin"]
    return [trial for trial in stored.trials if trial.record.arm_id == arm.id]


def test_a_block_is_one_start_and_goes_on_with_another_after_a_kill(
    require: Callable[..., None], tmp_path: Path
) -> None:
    require("server")
    file = statement(tmp_path, "groups", GROUPS)
    words = ("enable_hashagg=on,off", "--workload", f"sql:{file}", "--cache", "warm-buffers")
    result, stored = compared(tmp_path, *words, "--blocks", "2")
    assert stored.experiment.contract.unit == "start"
    assert [arm["starts"] for arm in result["arms"]][1] == 2
    assert len(stored.trials) == 6
    for block in (0, 1):
        records = [trial.record for trial in stored.trials if trial.record.block == block]
        assert sorted(bool(each.facts.started_for_this_trial) for each in records) == [False, False, True]
        # As many rounds of every arm, and each arm's figure among them.
        (rounds,) = {len(each.statements[0].rounds_s) for each in records}
        assert rounds >= 3
        for each in records:
            seconds = each.statements[0].rounds_s
            assert min(seconds) * 0.5 < each.statements[0].elapsed_s < max(seconds) * 2
    # The sessions had the arm's settings, seen from inside and by the plans.
    for name, value, node in (("enable_hashagg=on", "on", "Hashed"), ("enable_hashagg=off", "off", "Sorted")):
        for trial in of_arm(stored, name):
            assert trial.record.facts.settings["enable_hashagg"] == value
            assert node in nodes(trial.plans["groups"])

    # As a run leaves it that is killed while it writes the records of a start.
    out = tmp_path / "out"
    kept, lost = [trial for trial in stored.trials if trial.record.block == 1][:2]
    shutil.rmtree(lost.folder)
    whole_tool.run("resume", out, "--blocks", "2", "--json", "--quiet")
    again = load(out)
    second = [trial.record for trial in again.trials if trial.record.block == 1]
    assert len(second) == 3 and all(each.status == "ok" for each in second)
    assert {each.started_at for each in second}.isdisjoint({kept.record.started_at})
    assert len({len(each.statements[0].rounds_s) for each in second}) == 1


@pytest.mark.slow
def test_statements_of_different_text_share_a_start(require: Callable[..., None], tmp_path: Path) -> None:
    """The planted difference, ten times the work, is found; and the report says what a start shares."""
    require("server")
    few = statement(tmp_path, "few", "SELECT count(*) FROM pgbench_accounts WHERE aid % 3 = 1;\n")
    # The same answer by about ten times the work.
    many = statement(
        tmp_path,
        "many",
        "SELECT count(*) FROM pgbench_accounts WHERE md5(md5(md5(filler))) <> '' AND aid % 3 = 1;\n",
    )
    result, stored = compared(tmp_path, f"sql={few},{many}", "--cache", "warm-buffers", "--blocks", "3")
    assert stored.experiment.contract.unit == "start"
    assert len({trial.record.block for trial in stored.trials}) == 3
    assert result["arms"][1]["ratio"] < 0.5
    report = whole_tool.run("report", tmp_path / "out")
    assert "took turns in one server" in " ".join(report.stdout.split())


@pytest.mark.slow
def test_a_long_statement_is_executed_once_in_a_start(require: Callable[..., None], tmp_path: Path) -> None:
    """The observed execution is the start's only round, so that a start takes no longer than trials do."""
    require("server")
    file = statement(tmp_path, "long", "SELECT pg_sleep(7);\n")
    words = ("jit=on,off", "--workload", f"sql:{file}", "--cache", "warm-buffers", "--blocks", "1")
    _, stored = compared(tmp_path, *words)
    assert stored.experiment.contract.unit == "start" and len(stored.trials) == 3
    for trial in stored.trials:
        (measured,) = trial.record.statements
        assert measured.rounds_s == (measured.elapsed_s,) and 7 <= measured.elapsed_s < 8
    assert stored.seconds_used < 3 * 7 + 15


def test_a_statement_that_fails_in_one_arm_voids_the_block(
    require: Callable[..., None], tmp_path: Path
) -> None:
    """The record is of the arm that failed, with its reason, and nothing counts of the others."""
    require("server")
    slow = "SELECT count(*) FROM pgbench_accounts, pg_sleep(0.5);\n"
    file = statement(tmp_path, "slow", slow)
    finished = whole_tool.run(
        *("compare", "statement_timeout=0,100ms", "--workload", f"sql:{file}", "--cache", "warm-buffers"),
        *(*whole_tool.SMALL, "--blocks", "3", "--max-time", "5m", "--json", "--quiet"),
        *("--out", tmp_path / "out"),
    )
    stored = load(tmp_path / "out")
    assert finished.returncode != 0 or stored.stopped == "failed"
    assert stored.trials
    (failing,) = [arm for arm in stored.experiment.arms if arm.role == "arm"]
    assert {trial.record.arm_id for trial in stored.trials} == {failing.id}
    assert all("statement timeout" in trial.record.reason for trial in stored.trials)


def test_what_needs_servers_of_its_own_has_them_and_says_why(
    require: Callable[..., None], tmp_path: Path
) -> None:
    require("server")
    file = statement(tmp_path, "groups", GROUPS)
    words = ("--workload", f"sql:{file}", "--cache", "as-is", "--blocks", "1")
    _, stored = compared(tmp_path, "max_connections=50,60", *words)
    assert stored.experiment.contract.unit == "trial"
    assert stored.experiment.restarts == "a session can't change max_connections"
    assert all(not trial.record.statements[0].rounds_s for trial in stored.trials)
    text = " ".join(whole_tool.run("report", tmp_path / "out").stdout.split())
    assert "Each trial had its own server: a session can't change max_connections." in text


@pytest.mark.slow
def test_what_is_to_have_servers_of_its_own_has_them(require: Callable[..., None], tmp_path: Path) -> None:
    require("server")
    file = statement(tmp_path, "groups", GROUPS)
    words = ("--workload", f"sql:{file}", "--cache", "as-is", "--blocks", "1")
    _, stored = compared(tmp_path, "work_mem=1MB,8MB", *words, "--restart", "each")
    assert stored.experiment.contract.unit == "trial"
    assert stored.experiment.restarts == ""


def test_indexes_are_switched_in_one_start_and_nothing_of_that_is_left(
    require: Callable[..., None], tmp_path: Path
) -> None:
    require("server")
    text = "-- name: by-balance\nSELECT count(*) FROM pgbench_accounts WHERE abalance = 7;\n"
    file = statement(tmp_path, "by-balance", text)
    index = tmp_path / "index.sql"
    index.write_text("BEGIN;\nCREATE INDEX ON pgbench_accounts (abalance);\nCOMMIT;\n")
    with whole_tool.prepared_home() as home:
        finished = whole_tool.run(
            *("compare", f"prepare=none,{index}", "--workload", f"sql:{file}"),
            *(
                *whole_tool.build(),
                *whole_tool.SMALL,
                "--blocks",
                "3",
                "--max-time",
                "5m",
                "--json",
                "--quiet",
            ),
            *("--out", tmp_path / "out"),
            home=home,
        )
        (arm,) = [each for each in whole_tool.result_of(finished)["arms"] if each["verdict"] != "control"]
        stored = load(tmp_path / "out")
        # The copies of the data are as they were loaded: a later experiment finds them with the index.
        assert not whole_tool.leftovers(home, whole_tool.socket_folders(), [])
        built = [file for file in home.rglob("snapshot.json") if "CREATE INDEX" in file.read_text()]
    assert (arm["verdict"], arm["starts"]) == ("faster", 3) and arm["ratio"] > 3
    assert len(built) <= 1
    (name,) = stored.experiment.protocol.switched_indexes
    assert (stored.experiment.protocol.cache, stored.experiment.contract.unit) == ("as-is", "start")
    for trial in stored.trials:
        is_with = not next(
            arm.spec.without_indexes for arm in stored.experiment.arms if arm.id == trial.record.arm_id
        )
        assert (name.strip('"') in nodes(trial.plans["by-balance"])) == is_with
        for made in trial.work_plans.values():
            assert (name.strip('"') in made.model_dump_json()) == is_with


def test_a_setting_that_one_arm_alone_has_is_its_default_in_the_others(
    require: Callable[..., None], tmp_path: Path
) -> None:
    """As a level that holds several things, or a fix of `tune`: the server starts once for both."""
    require("server")
    file = statement(tmp_path, "groups", GROUPS)
    words = ("config=18,18+enable_hashagg=off", "--workload", f"sql:{file}", "--blocks", "1")
    _, stored = compared(tmp_path, *words, "--cache", "warm-buffers")
    assert stored.experiment.contract.unit == "start"
    records = [trial.record for trial in stored.trials]
    assert [each.status for each in records] == ["ok"] * 3
    assert sorted(bool(each.facts.started_for_this_trial) for each in records) == [False, False, True]
    for name, node in (("18", "Hashed"), ("18+enable_hashagg=off", "Sorted")):
        assert all(node in nodes(trial.plans["groups"]) for trial in of_arm(stored, f"config={name}"))


def test_a_setting_that_takes_a_reload_is_read_anew_for_each_turn(
    require: Callable[..., None], tmp_path: Path
) -> None:
    """The statement shows the value that its session has in each round, by how long it takes."""
    require("server")
    slow = "SELECT pg_sleep(CASE current_setting('bgwriter_delay') WHEN '20ms' THEN 0.02 ELSE 0.06 END);\n"
    file = statement(tmp_path, "waiting", slow)
    words = ("bgwriter_delay=20ms,60ms", "--workload", f"sql:{file}", "--cache", "as-is", "--blocks", "1")
    _, stored = compared(tmp_path, *words)
    assert stored.experiment.contract.unit == "start"
    assert stored.experiment.protocol.reloaded_settings == ("bgwriter_delay",)
    for name, least_s, most_s in (("20ms", 0.02, 0.06), ("60ms", 0.06, 10.0)):
        for trial in of_arm(stored, f"bgwriter_delay={name}"):
            assert trial.record.facts.settings["bgwriter_delay"] == name
            assert statistics.median(trial.record.statements[0].rounds_s) >= least_s
            assert min(trial.record.statements[0].rounds_s) < most_s
