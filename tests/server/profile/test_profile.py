"""`compare --profile` on real servers: perf samples them, and what a setting adds is told."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.linux.perf import SWITCH_PERIOD, find_perf
from pgassay.environment.linux.perf_counters import PerfCounting
from pgassay.environment.server.server_processes import processes_of
from pgassay.record.layout import PROFILE_FOLDER
from pgassay.record.stacks import folded_stacks

pytestmark = pytest.mark.server
WORDS = ("--workload", "select-only:clients=2,duration=800ms,warmup=100ms", *whole_tool.SMALL)
OPTIONS = ("--blocks", "1", "--seed", "3")


@pytest.mark.shares_machine
def test_the_functions_of_both_arms_are_sampled_and_told(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server", "perf")
    folder = tmp_path / "out"
    done = whole_tool.run(
        *("compare", "work_mem=1MB,2MB", *WORDS, "--profile", "--profile-rounds", "1"),
        *(*OPTIONS, "--details", "--out", folder),
    )
    assert done.returncode == 0, done.stderr
    assert "profile: 1 further round of trials with perf" in done.stderr
    assert "after block 2" not in done.stderr  # no estimate is of these trials
    assert "\nFunctions\n" in done.stdout
    assert "too few to find a difference in any function" in " ".join(done.stdout.split())
    result = whole_tool.result_of(whole_tool.run("report", folder, "--json"))
    found = result["profile"]
    assert (found["unit"], found["rate_hz"]) == ("transaction", 997.0)
    assert found["rounds"] == 1
    assert [arm["name"] for arm in found["arms"]] == ["work_mem=1MB", "work_mem=2MB"]
    for arm in found["arms"]:
        assert arm["trials"] >= 1 and arm["samples"] > 0 and arm["us"] > 0
    # What the machine can't count is said.
    assert ("counted" in found) is not any("cycles are not counted" in note for note in found["notes"])
    # Every statement goes through it, whatever the compiler made of the other functions.
    assert "PortalRun" in {each["name"] for each in found["callers"]}
    # The judged trials are one block of three; the profile's lie apart.
    assert len(whole_tool.valid_trials(folder)) == 3
    profiled = [record["number"] for record in whole_tool.valid_trials(folder / PROFILE_FOLDER)]
    assert len(profiled) == 3
    trials = sorted((folder / PROFILE_FOLDER / "trials").glob("*/attempt-*"))
    for trial in trials:
        stacks = folded_stacks(trial)
        if json.loads((trial / "trial.json").read_bytes())["status"] != "ok":
            continue
        assert stacks is not None
        assert any("PostgresMain" in stack.split(";") for stack in stacks)
    # One that was interrupted in its last trial goes on there.
    shutil.rmtree(trials[-1].parent)
    state = {"format": 1, "stopped": "interrupted", "seconds_used": 1.0, "warnings": []}
    (folder / PROFILE_FOLDER / "state.json").write_text(json.dumps(state))
    resumed = whole_tool.run("resume", folder)
    assert resumed.returncode == 0, resumed.stderr
    again = [record["number"] for record in whole_tool.valid_trials(folder / PROFILE_FOLDER)]
    assert set(again) | {int(trials[-1].parent.name)} >= set(profiled)
    assert not [pid for pid in processes_of(folder) if pid != os.getpid()]


@pytest.mark.shares_machine
def test_what_a_process_does_meanwhile_is_counted(require: Callable[..., None]) -> None:
    """By an event of the kernel's, which every machine has."""
    require("perf")
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            with PerfCounting(find_perf(), [busy.pid], ("task-clock",)) as counting:
                first_ns = time.monotonic_ns()
                time.sleep(0.5)
                last_ns = time.monotonic_ns()
            (clock_ms,) = counting.counts(first_ns, last_ns).values()
        finally:
            busy.kill()
    assert 0 < clock_ms < 1.2 * (last_ns - first_ns) / 1e6
    # Of a process that is not there perf counts nothing, and a profile goes on without.
    with PerfCounting(find_perf(), [busy.pid], ("task-clock",)) as counting:
        pass
    assert counting.counts(first_ns, last_ns) == {}


@pytest.mark.shares_machine
def test_what_waits_off_the_processor_is_told_by_its_function(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server", "perf")
    (tmp_path / "sleep.sql").write_text("SELECT pg_sleep(0.004);\n")
    load = f"pgbench:file={tmp_path}/sleep.sql"
    folder = tmp_path / "out"
    done = whole_tool.run(
        *("compare", "work_mem=1MB,2MB", "--workload", f"{load},clients=4,duration=500ms,warmup=0s"),
        *(*whole_tool.SMALL, "--profile", "--profile-rounds", "1", *OPTIONS, "--json", "--out", folder),
    )
    found = whole_tool.result_of(done)["profile"]
    trials = whole_tool.valid_trials(folder / PROFILE_FOLDER)
    periods = {trial["facts"]["profile"]["switch_period"] for trial in trials}
    if not find_perf().has_waits or {trial["facts"]["profile"]["stacks"] for trial in trials} != {
        "frame pointers"
    }:
        assert periods == {0} and "waiting" not in found
        assert any(note.startswith("waiting is not known by function") for note in found["notes"])
        return
    assert periods == {SWITCH_PERIOD}
    (sleeping,) = [each for each in found["waiting"] if each["name"] == "pg_sleep"]
    # Each transaction sleeps 4 ms and more; one wait in 13 stands for all.
    assert all(arm["us"] > 2000 for arm in sleeping["arms"])
    assert sleeping["share"] > 0.5
    assert "secure_read" not in {each["name"] for each in found["waiting"]}


@pytest.mark.slow
def test_what_a_statement_adds_is_a_sentence(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server", "perf")
    for name, argument in (("plain", "i"), ("hashed", "md5(i::text)")):
        sql = f"SELECT count({argument}) FROM generate_series(1, 300000) AS i;\n"
        (tmp_path / f"{name}.sql").write_text(sql)
    done = whole_tool.run(
        *("compare", f"sql={tmp_path}/plain.sql,{tmp_path}/hashed.sql", *whole_tool.SMALL),
        *("--profile", "--profile-rounds", "10", *OPTIONS, "--out", tmp_path / "out", "--json"),
    )
    found = whole_tool.result_of(done)["profile"]
    assert found["unit"] == "pass over all statements"
    # One arm has hashes and the other none: a hundred times as much at least.
    hashing = next(each for each in found["callers"] if each["name"].startswith("md5_"))
    assert hashing["arms"][1]["verdict"] == "more"
    assert hashing["arms"][1]["interval"][0] > 3
    assert any(" takes " in line and "per pass over all statements" in line for line in found["sentences"])
