"""Blocks planned one by one, on real servers: grids, data of an arm's own, a kill and a resumption."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from pgassay.errors import InterruptionError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running import run_experiment
from pgassay.model.trial import TrialRecord
from pgassay.progress import NullProgress
from pgassay.record.experiment import StoredExperiment, load
from server_helpers import best_build

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

LOAD = ("--workload", "select-only:clients=2,threads=1,duration=200ms,warmup=50ms", *whole_tool.SMALL)
GRID = ("compare", "enable_sort=on,off", "work_mem=1MB,4MB", *LOAD)


def whole(stored: StoredExperiment) -> None:
    """Every trial ran in the place and on the copy that its block's plan says."""
    first = 0
    for block, plan in sorted(stored.block_plans.items()):
        records = [trial.record for trial in stored.trials if trial.record.block == block]
        done = {record.position: record for record in records if record.status == "ok"}
        assert [done[place].arm_id for place in sorted(done)] == list(plan.arm_ids)
        assert {done[place].number - place for place in done} == {first}
        assert {name: plan.data_copies[name] for name in plan.arm_ids} == {
            record.arm_id: record.data_copy for record in done.values()
        }
        first += len(plan.arm_ids)
    assert sorted(stored.block_plans) == list(range(len(stored.block_plans)))


def measured(words: Sequence[object], folder: Path) -> tuple[dict[str, Any], StoredExperiment]:
    finished = whole_tool.run(*words, "--out", folder, "--json", "--quiet")
    return whole_tool.result_of(finished), load(folder)


def killed_after(trials: int, words: Sequence[object], folder: Path) -> dict[str, bytes]:
    """Kill a run, and all that it started, when so many trials are stored; its plans of blocks by file."""
    argv = [*whole_tool.COMMAND, *map(str, (*words, "--out", folder, "--quiet"))]
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until = time.monotonic() + whole_tool.TIMEOUT_S
        while len(list(folder.glob("trials/*/*/trial.json"))) < trials:
            assert running.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    return {path.name: path.read_bytes() for path in (folder / "blocks").glob("0*.json")}


def resumed(folder: Path, before: dict[str, bytes]) -> tuple[dict[str, Any], StoredExperiment]:
    """Resume a run that was killed: it goes on as its blocks were planned."""
    finished = whole_tool.run("resume", folder, "--json", "--quiet")
    stored = load(folder)
    whole(stored)
    assert before.items() <= {path.name: path.read_bytes() for path in (folder / "blocks").iterdir()}.items()
    return json.loads(finished.stdout), stored


@pytest.mark.slow
def test_a_grid_runs_its_strata_in_blocks_of_their_own(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    result, stored = measured((*GRID, "--blocks", "2"), tmp_path / "out")
    whole(stored)
    strata = [plan.stratum for _, plan in sorted(stored.block_plans.items())]
    assert sorted(strata[:2]) == sorted(strata[2:]) == ["work_mem=1MB", "work_mem=4MB"]
    assert all(len(set(plan.data_copies.values())) == 1 for plan in stored.block_plans.values())
    assert result["blocks"] == 2
    assert {arm["blocks"] for arm in result["arms"]} == {2}
    assert result["stopped"] == "blocks"


@pytest.mark.slow
def test_data_of_an_arm_s_own_are_copied_anew(tmp_path: Path, require: Callable[..., None]) -> None:
    """A set of copies for each block, none of them used again, and no old one left."""
    require("server")
    statement = tmp_path / "index.sql"
    statement.write_text("CREATE INDEX made ON pgbench_accounts (abalance);")
    words = ("compare", f"prepare=none,{statement}", *LOAD, "--blocks", "3")
    result, stored = measured(words, tmp_path / "out")
    whole(stored)
    assert stored.experiment.design.blocks_per_copy == 1
    assert [plan.replicate for _, plan in sorted(stored.block_plans.items())] == [0, 1, 2]
    used = [set(plan.data_copies.values()) for plan in stored.block_plans.values()]
    assert all(len(each) == 3 for each in used)
    assert len(set.union(*used)) == 9
    [arm] = [arm for arm in result["arms"] if arm["verdict"] != "control"]
    assert (arm["blocks"], arm["replicates"]) == (3, 3)
    facts = [trial.record.facts.storage.extents for trial in stored.trials]
    assert all(len(each) <= 3 for each in facts if each)


@pytest.mark.slow
def test_a_killed_run_is_resumed_as_its_blocks_were_planned(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server")
    folder = tmp_path / "out"
    before = killed_after(4, (*GRID, "--blocks", "2"), folder)
    assert len(before) >= 2
    result, stored = resumed(folder, before)
    assert result["blocks"] == 2
    assert len(stored.block_plans) == 4


@pytest.mark.slow
def test_strata_in_which_only_some_arms_need_data_of_their_own(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    """Two read-aheads of a loop device share their data, the host's disk has its own; killed and resumed."""
    require("server", "loop")
    folder = tmp_path / "out"
    control = "storage=loop:read_ahead=128"
    factors = (f"{control},loop:read_ahead=256,host", "work_mem=1MB,4MB")
    before = killed_after(6, ("compare", *factors, "--control", control, *LOAD, "--blocks", "2"), folder)
    result, stored = resumed(folder, before)
    assert len(stored.block_plans) == 4
    spec_of = {arm.id: arm.spec.storage.kind for arm in stored.experiment.arms}
    for plan in stored.block_plans.values():
        on_loop, on_host = (
            {plan.data_copies[name] for name in plan.arm_ids if spec_of[name] == kind}
            for kind in ("loop", "host")
        )
        assert (len(on_loop), len(on_host)) == (1, 1)
        assert on_loop.isdisjoint(on_host)
    replicates = {arm["name"].split()[0]: arm["replicates"] for arm in result["arms"]}
    assert replicates == {control: None, "storage=loop:read_ahead=256": None, "storage=host": 2}


class UntilTheFirstTrial(NullProgress):
    def trial_ended(self, *_: object) -> None:
        raise KeyboardInterrupt


def test_how_many_blocks_run_on_a_set_of_copies_follows_from_what_a_trial_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the time has room for, and no set would ever be finished: no verdict at all."""
    monkeypatch.setattr(run_experiment, "COPYING_BYTES_PER_S", 1e6)  # a disk that takes long to copy anything
    statement, index = tmp_path / "slow.sql", tmp_path / "index.sql"
    statement.write_text("-- name: slow\nSELECT pg_sleep(3);\n")
    index.write_text("CREATE INDEX made ON pgbench_accounts (abalance);")
    request = CompareRequest(
        factors=(f"prepare=none,{index}",), workload=f"sql:{statement}", scale=1, cache="as-is",
        build=best_build().bin_directory, max_time_s=400, seed=3, out=tmp_path / "out", restart="each",
    )  # fmt: skip
    with pytest.raises(InterruptionError):
        run_experiment.run_new(request, UntilTheFirstTrial(), wait=True)
    experiment = load(tmp_path / "out").experiment
    quick, fast, slow = (
        run_experiment.blocks_per_copy(experiment, 1 << 40, trial_s) for trial_s in (2.0, 3.0, 9.0)
    )
    assert slow <= experiment.design.blocks_per_copy <= fast < quick


@pytest.mark.slow
def test_several_blocks_run_on_one_set_of_copies(tmp_path: Path, require: Callable[..., None]) -> None:
    """Where copying takes more than moments; killed in the second set and resumed."""
    require("server")
    folder = tmp_path / "out"
    statement = tmp_path / "index.sql"
    statement.write_text("CREATE INDEX made ON pgbench_accounts (abalance);")
    words = ("compare", f"prepare=none,{statement}", *LOAD, "--scale", "3", "--blocks", "16")
    result, stored = resumed(folder, killed_after(7, words, folder))
    assert stored.experiment.design.blocks_per_copy == 2
    plans = [plan for _, plan in sorted(stored.block_plans.items())]
    assert [plan.replicate for plan in plans] == [block // 2 for block in range(16)]
    used = [frozenset(plan.data_copies.values()) for plan in plans]
    assert len(set(used)) == 8
    assert len(frozenset.union(*used)) == 24
    [arm] = [arm for arm in result["arms"] if arm["verdict"] != "control"]
    assert (arm["blocks"], arm["replicates"]) == (16, 8)


@pytest.mark.slow
def test_the_time_that_was_given_is_kept(tmp_path: Path, require: Callable[..., None]) -> None:
    """But for the first block: no block begins that would end later, by what its trials take."""
    require("server")
    statement = tmp_path / "slow.sql"
    statement.write_text("-- name: slow\nSELECT pg_sleep(2);\n")
    words = ("compare", "work_mem=1MB,4MB", "--workload", f"sql:{statement}", *whole_tool.SMALL)
    began = time.monotonic()
    result, stored = measured((*words, "--max-time", "60s"), tmp_path / "out")
    took_s = time.monotonic() - began
    records = [trial.record for trial in stored.trials]
    first_s = block_s([record for record in records if record.block == 0])
    assert result["stopped"] == "max-time" and result["blocks"] >= 1
    assert took_s <= 60 + first_s
    # Nor is it left unused: what remains has no room for another block and for what comes after it.
    assert took_s >= 60 - 3 * first_s


def block_s(records: Sequence[TrialRecord]) -> float:
    """What a block took, from the beginning of its first trial to the end of its last."""
    begun = min(datetime.fromisoformat(record.started_at) for record in records)
    return (max(datetime.fromisoformat(record.ended_at) for record in records) - begun).total_seconds()
