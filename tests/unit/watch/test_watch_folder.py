"""What a results folder alone tells of a running experiment, and who holds it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import replay
import whole_tool
from pgassay.design.schedule import next_step
from pgassay.errors import UsageError
from pgassay.record.experiment import TrialWriter, load
from pgassay.record.experiment_lock import held, holder, is_held
from pgassay.watch.reading.experiment_folder import REPORT_FILE, FolderWatch

_HOLD = """
import sys
from pathlib import Path
from pgassay.record.experiment_lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_held_as_long_as_its_holder_lives(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    assert holder(tmp_path) is None
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    assert is_held(tmp_path)
    assert holder(tmp_path) == child.pid
    assert list(tmp_path.iterdir()) == [], "nothing is written"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not is_held(tmp_path)
    assert holder(tmp_path) is None


def test_who_looks_keeps_nobody_from_running(tmp_path: Path) -> None:
    for _ in range(3):
        assert not is_held(tmp_path)
        with held(tmp_path):
            assert is_held(tmp_path)
            assert holder(tmp_path) == os.getpid()
    assert not is_held(tmp_path / "nowhere")
    assert holder(tmp_path / "nowhere") is None


def test_the_running_trial_is_the_one_that_the_schedule_names(tmp_path: Path) -> None:
    folder = replay.recorded(tmp_path, blocks=3)
    watch = FolderWatch(folder)
    stored = load(folder)
    step = next_step(stored.experiment, (trial.record for trial in stored.trials))
    with held(folder):
        writer = TrialWriter(folder, step.spec.number, step.spec.attempt)
        state = watch.state()
        writer.discard()
        assert watch.state().trial is None
    assert state.is_running
    assert state.stopped == "running"
    assert state.trial is not None
    told = (state.trial.number, state.trial.attempt, state.trial.block, state.trial.position)
    assert told == (step.spec.number, step.spec.attempt, step.spec.block, step.spec.position)
    assert state.trial.arm_id == step.spec.arm.id
    assert state.trial.expected_s == 1.0
    assert state.time_left_s is not None
    assert 0 < state.time_left_s <= stored.experiment.contract.time_max_s


def test_estimates_are_those_of_the_recorded_blocks_and_come_with_each(tmp_path: Path) -> None:
    folder = replay.recorded(tmp_path, blocks=2)
    watch = FolderWatch(folder)
    before = watch.state()
    assert (before.blocks, before.arms, before.trials) == (2, 4, {"ok": 8})
    assert [arm.name for arm in before.estimates] == ["work_mem=2MB", "work_mem=4MB"]
    replay.run_experiment(
        load(folder), replay.Replay(seed=1), replay.RunLimits(3, 600.0), replay.NullProgress()
    )
    after = watch.state()
    assert (after.blocks, after.trials) == (3, {"ok": 12})
    assert after.estimates != before.estimates
    assert all(arm.interval is not None for arm in after.estimates)


def test_what_nobody_runs_says_how_it_ended_and_where_the_report_is(tmp_path: Path) -> None:
    folder = replay.recorded(tmp_path, blocks=2)
    # A trial that a killed run left half done.
    (folder / "trials" / "000009").mkdir()
    (folder / "trials" / "000009" / ".attempt-1.abc.tmp").mkdir()
    state = FolderWatch(folder).state()
    assert (state.stopped, state.is_running, state.trial, state.report) == ("blocks", False, None, None)
    assert state.time_left_s is None
    (folder / REPORT_FILE).write_text("<html>")
    assert FolderWatch(folder).state().report == str(folder / REPORT_FILE)


def test_a_folder_without_an_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no experiment"):
        FolderWatch(tmp_path)


def test_an_experiment_that_has_ended_is_told_of_at_once(tmp_path: Path) -> None:
    folder = replay.recorded(tmp_path, blocks=2)
    (folder / REPORT_FILE).write_text("<html>")
    finished = whole_tool.run("watch", folder, "--interval", "1h")
    assert (finished.returncode, finished.stderr) == (0, "")
    *estimates, ending, report = finished.stdout.splitlines()
    assert [line.split(":")[:2] for line in estimates] == [
        ["after block 2", " work_mem=2MB"],
        ["after block 2", " work_mem=4MB"],
    ]
    assert ending == "it has ended: all its blocks were run"
    assert report == f"report: {folder / REPORT_FILE}"
    document = json.loads(whole_tool.run("watch", folder, "--json").stdout)
    assert document["experiment"]["stopped"] == "blocks"
