"""Blocks that are planned one by one: strata apart, copies of the data, arms that rest; and resuming them."""

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans_for_tests import make_record

import analysis_samples
import replay
from pgassay.cli import main, outcome
from pgassay.design.schedule import Step, arms_to_prepare, next_step, plan_block, planned_design, trial_place
from pgassay.experiment.running import run_experiment
from pgassay.experiment.running.earlier_experiments import TrialHistory
from pgassay.experiment.running.loop import RunLimits
from pgassay.experiment.running.run_experiment import blocks_per_copy
from pgassay.experiment.running.run_forecast import resolution
from pgassay.model.arm import Arm
from pgassay.model.experiment import BlockDesign, BlockPlan, Experiment
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredExperiment, load, write_experiment

STRATA = ("scale=1", "scale=10", "scale=100")


def planned(
    *,
    strata: tuple[str, ...] = ("",),
    arms: int = 1,
    own: tuple[int, ...] = (),
    design: Mapping[str, object] | None = None,
    seed: int = 3,
) -> Experiment:
    """A plan in the design of new experiments; the arms numbered in `own` have another preparation."""
    plan = analysis_samples.experiment(arms=arms, strata=strata, seed=seed)
    made = tuple(arm if place_of(arm) not in own else prepared(arm) for arm in plan.arms)
    chosen = planned_design(made, is_crossed=False).model_copy(update=dict(design or {}))
    return plan.model_copy(update={"arms": made, "design": chosen})


def place_of(arm: Arm) -> int:
    return int(arm.id.rpartition("-")[2]) if arm.role == "arm" else 0


def prepared(arm: Arm) -> Arm:
    return arm.model_copy(update={"spec": arm.spec.model_copy(update={"prepare": (f"VACUUM -- {arm.id}",)})})


class Run:
    """A run of the schedule in which plans and records are kept as the loop keeps them."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.plans: dict[int, BlockPlan] = {}
        self.records: list[TrialRecord] = []

    def step(self, resting: tuple[str, ...] = ()) -> Step:
        return next_step(self.experiment, self.records, self.plans, resting)

    def trial(self, resting: tuple[str, ...] = (), status: str = "ok") -> Step:
        step = self.step(resting)
        self.plans.setdefault(step.plan.block, step.plan)
        self.records.append(make_record(step.spec, status))
        return step

    def block(self, resting: tuple[str, ...] = ()) -> list[Step]:
        steps = [self.trial(resting)]
        while not self.step(resting).begins_block:
            steps.append(self.trial(resting))
        return steps


def test_a_block_holds_one_stratum_and_a_round_visits_each_once() -> None:
    run = Run(planned(strata=STRATA, arms=2))
    visited = []
    for _ in range(30):
        steps = run.block()
        strata = {step.spec.arm.stratum for step in steps}
        assert strata == {steps[0].plan.stratum}
        assert {step.spec.arm.role for step in steps} == {"control", "arm", "twin"}
        assert len(steps) == 4
        visited.append(strata.pop())
    rounds = [visited[first : first + 3] for first in range(0, 30, 3)]
    assert all(sorted(each) == sorted(STRATA) for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1
    assert [record.number for record in run.records] == list(range(120))
    assert [trial_place(run.experiment, run.plans, 4 * block + 3)[1] for block in range(30)] == [3] * 30


def test_decided_arms_rest_and_a_decided_stratum_is_visited_no_more() -> None:
    run = Run(planned(strata=STRATA[:2], arms=2))
    for _ in range(2):
        run.block()
    resting = ("s0-1", "s1-1", "s1-2")
    blocks = [run.block(resting) for _ in range(3)]
    assert all({step.spec.arm.id for step in steps} == {"s0-0", "s0-2", "s0-3"} for steps in blocks)
    # With no arm resting any more, as under --blocks, the stratum that was left behind catches up first.
    assert [run.block()[0].plan.stratum for _ in range(2)] == [STRATA[1], STRATA[1]]
    # Everything is decided and more is asked for: nothing rests.
    everything = ("s0-1", "s0-2", "s1-1", "s1-2")
    assert len(run.block(everything)) == 4


def test_what_rests_is_settled_when_a_block_is_planned() -> None:
    run = Run(planned(arms=2))
    run.trial()
    assert run.step(("s0-1",)).plan == run.plans[0]
    rest = run.block(("s0-1",))
    assert {run.records[0].arm_id, *(step.spec.arm.id for step in rest)} == {"s0-0", "s0-1", "s0-2", "s0-3"}


def test_an_experiment_that_lets_nothing_rest_plans_whole_blocks() -> None:
    run = Run(planned(arms=2, design={"decided_rest": False}))
    assert len(run.block(("s0-1",))) == 4


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    statuses=st.lists(st.sampled_from(["ok", "ok", "ok", "failed", "interrupted"]), max_size=40),
    resting=st.sets(st.sampled_from(["s0-1", "s0-2", "s1-1", "s1-2"])),
)
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(
    seed: int, statuses: list[str], resting: set[str]
) -> None:
    run = Run(planned(strata=STRATA[:2], arms=2, seed=seed))
    for status in statuses:
        step = run.trial(tuple(sorted(resting)), status)
        # The plan was written and the process killed before the trial was recorded.
        again = next_step(run.experiment, run.records[:-1], run.plans, ())
        assert again == step
        assert sorted(step.plan.arm_ids) == sorted(set(step.plan.arm_ids))
        assert [arm.id for arm in step.arms] == list(step.plan.arm_ids)


def test_the_trials_of_a_block_share_a_copy_that_is_drawn_for_it() -> None:
    run = Run(planned(arms=2))
    drawn = []
    for _ in range(200):
        steps = run.block()
        copies = {step.spec.arm.data_copy for step in steps}
        assert len(copies) == 1
        assert set(steps[0].plan.data_copies.values()) == copies
        drawn.append(copies.pop())
    assert 70 < sum(drawn) < 130
    assert set(drawn) == {0, 1}
    # Each draw is independent of the one before it.
    same = sum(one == other for one, other in itertools.pairwise(drawn))
    assert 70 < same < 130
    assert {arm.data_copy for arm in arms_to_prepare(run.experiment)} == {0, 1}


def test_arms_with_data_of_their_own_get_fresh_copies_and_so_do_control_and_twin() -> None:
    run = Run(planned(arms=2, own=(1, 2), design={"blocks_per_copy": 2}))
    used: dict[int, set[int]] = {}
    for _ in range(6):
        steps = run.block()
        copies = {step.spec.arm.id: step.spec.arm.data_copy for step in steps}
        assert len(set(copies.values())) == 4
        used.setdefault(steps[0].plan.replicate, set()).update(copies.values())
    assert list(used) == [0, 1, 2]
    assert all(len(found) == 4 for found in used.values())
    assert not used[0] & used[1] and not used[1] & used[2]


def test_where_only_some_arms_own_data_the_twin_stays_with_the_control() -> None:
    run = Run(planned(arms=2, own=(2,)))
    copies = {step.spec.arm.id: step.spec.arm.data_copy for step in run.block()}
    assert copies["s0-0"] == copies["s0-1"] == copies["s0-3"]
    assert copies["s0-2"] != copies["s0-0"]


def test_each_replicate_runs_on_the_next_load() -> None:
    plan = planned(own=(1,), design={"blocks_per_copy": 2}).model_copy(update={"dataset_loads": 2})
    run = Run(plan)
    loads = [{step.spec.arm.spec.dataset.load for step in run.block()} for _ in range(6)]
    assert loads == [{0}, {0}, {1}, {1}, {0}, {0}]
    first = {(arm.id, arm.spec.dataset.load): arm.data_copy for arm in arms_to_prepare(plan)}
    assert first == {
        (step.spec.arm.id, step.spec.arm.spec.dataset.load): step.spec.arm.data_copy
        for step in itertools.chain.from_iterable(again.block() for again in [Run(plan)] for _ in range(4))
    }


def test_what_is_said_beforehand_counts_sets_of_copies() -> None:
    known, limits = TrialHistory(10.0, 0.05), RunLimits(blocks_max=60, time_max_s=1800)
    said = [resolution(planned(own=own, design={"blocks_per_copy": 5}), known, limits) for own in ((1,), ())]
    assert "at least 4 sets, 20 blocks." in said[0]
    # Where all arms share the data each block counts.
    assert "sets" not in said[1]


def test_what_starts_can_find_follows_from_their_spread_and_the_comparisons() -> None:
    plan = planned()

    def said(contrasts: int, spread: float | None, starts: int) -> str:
        changes = {"unit": "start", "contrasts": contrasts}
        contract = plan.contract.model_copy(update=changes)
        known, limits = TrialHistory(10.0, spread), RunLimits(blocks_max=starts, time_max_s=18_000)
        return resolution(plan.model_copy(update={"contract": contract}), known, limits)

    of_one, of_twenty = said(1, 0.01, 6), said(20, 0.01, 6)
    assert of_one.startswith("about 6 starts of one server for all arms: they can find differences of ")
    assert of_one.endswith("at a spread of 1 % from start to start")
    assert of_one != of_twenty
    assert said(1, 0.01, 12) != of_one
    assert "at a spread of 7 %" in said(1, None, 6)
    assert said(1, 2.0, 3).startswith("about 3 starts of one server for all arms: no verdict is likely")
    assert said(1, 0.01, 2).startswith("no verdict is likely: it takes 3 starts")


def test_crossed_experiments_and_the_null_factor_keep_their_copies() -> None:
    arms = analysis_samples.experiment(strata=STRATA).arms
    assert planned_design(arms, is_crossed=True) == BlockDesign()
    levels = tuple(arm.model_copy(update={"levels": {"copy": "first"}, "data_copy": 5}) for arm in arms)
    design = planned_design(levels, is_crossed=False)
    assert (design.data_copies, design.blocks_per_copy, design.strata) == (0, 0, "apart")
    plan = analysis_samples.experiment(strata=STRATA).model_copy(update={"arms": levels, "design": design})
    assert set(plan_block(plan, {}).data_copies.values()) == {5}


@pytest.mark.parametrize(
    ("replicate_bytes", "trial_s", "blocks_max", "expected"),
    [(10**6, 2.0, 60, 1), (2 * 10**9, 10.0, 60, 2), (10**11, 10.0, 60, 7), (10**11, 10.0, 6, 1)],
)
def test_copying_takes_a_quarter_of_the_time_as_long_as_enough_replicates_are_left(
    replicate_bytes: int, trial_s: float, blocks_max: int, expected: int
) -> None:
    plan = analysis_samples.experiment(blocks_max=blocks_max, time_max_s=1e6)
    assert blocks_per_copy(plan, replicate_bytes, trial_s) == expected


@pytest.mark.parametrize(
    ("until_decided", "typed", "ends"),
    [
        (True, [], True),
        (False, [], False),
        (True, ["--blocks", "9"], False),
        (False, ["--max-time", "9s"], False),
    ],
)
def test_an_experiment_that_wants_all_blocks_wants_them_when_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until_decided: bool, typed: list[str], ends: bool
) -> None:
    (tmp_path / "planned").mkdir()
    folder = tmp_path / "out"
    folder.mkdir()
    experiment = load(replay.new_experiment(tmp_path / "planned", 1)).experiment
    contract = experiment.contract.model_copy(update={"until_decided": until_decided})
    write_experiment(folder, experiment.model_copy(update={"contract": contract}))
    given: list[RunLimits] = []

    def run_resumed(_: Path, limits: RunLimits, *__: object, **___: object) -> StoredExperiment:
        given.append(limits)
        return load(folder)

    monkeypatch.setattr(run_experiment, "run_resumed", run_resumed)
    monkeypatch.setattr(outcome, "finish", lambda *_: 0)
    assert main.main(["resume", str(folder), *typed]) == 0
    assert [limits.until_decided for limits in given] == [ends]
