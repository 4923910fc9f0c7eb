"""What comes next: order, second attempts, voided blocks."""

import pytest
from plans_for_tests import make_experiment, make_record

from pgassay.analysis.verdicts.dropped_arms import VOIDED_BLOCKS_MAX, dropped_arms
from pgassay.design.schedule import block_order, next_step
from pgassay.model.experiment import BlockDesign, BlockPlan, Experiment
from pgassay.model.trial import TrialRecord, TrialStatus

EXPERIMENT = make_experiment(["io_method=sync,worker"])
ARMS = len(EXPERIMENT.arms)


def run(experiment: Experiment, statuses: list[TrialStatus]) -> list[TrialRecord]:
    """Records of one step after the other with these outcomes."""
    records: list[TrialRecord] = []
    for status in statuses:
        records.append(make_record(next_step(experiment, records).spec, status))
    return records


def test_blocks_are_run_in_their_order() -> None:
    records = run(EXPERIMENT, ["ok"] * (2 * ARMS))
    ids = [arm.id for arm in EXPERIMENT.arms]
    assert [record.arm_id for record in records[:ARMS]] == block_order(7, 0, ids)
    assert [record.arm_id for record in records[ARMS:]] == block_order(7, 1, ids)
    assert [record.number for record in records] == list(range(2 * ARMS))
    step = next_step(EXPERIMENT, records)
    assert step.begins_block and step.spec.block == 2


def test_a_failed_trial_is_repeated_once_within_its_block() -> None:
    records = run(EXPERIMENT, ["ok", "failed", "ok", "ok"])
    assert [(record.number, record.attempt) for record in records] == [(0, 1), (1, 1), (1, 2), (2, 1)]
    assert next_step(EXPERIMENT, records).spec.block == 1


def test_a_second_failure_voids_the_block_whatever_the_arm() -> None:
    records = run(EXPERIMENT, ["ok", "failed", "invalid", "ok"])
    assert records[3].block == 1
    step = next_step(EXPERIMENT, records[:3])
    assert step.voided_in_a_row == 1 and step.begins_block
    assert next_step(EXPERIMENT, [*records, *[]]).voided_in_a_row == 1


def test_voided_blocks_in_a_row_are_counted_until_one_is_whole() -> None:
    records = run(EXPERIMENT, ["failed", "failed", "failed", "failed"])
    assert next_step(EXPERIMENT, records).voided_in_a_row == 2
    records = run(EXPERIMENT, ["failed", "failed", *["ok"] * ARMS])
    assert next_step(EXPERIMENT, records).voided_in_a_row == 0


def test_an_interrupted_attempt_is_no_failure() -> None:
    records = run(EXPERIMENT, ["interrupted", "interrupted", "failed", "ok"])
    assert [record.number for record in records] == [0, 0, 0, 0]
    assert [record.attempt for record in records] == [1, 2, 3, 4]
    assert next_step(EXPERIMENT, records).spec.number == 1


def test_a_half_done_block_goes_on_in_its_recorded_order() -> None:
    whole = run(EXPERIMENT, ["ok"] * ARMS)
    for done in range(ARMS):
        assert next_step(EXPERIMENT, whole[:done]).spec.arm.id == whole[done].arm_id


def ends_in_starts(bad: set[str], seed: int) -> tuple[str, set[str]]:
    """How an experiment ends in whose starts these arms can't run, and which of them are dropped."""
    plan = make_experiment(["work_mem=1MB,2MB,3MB,4MB,5MB"])
    contract = plan.contract.model_copy(update={"seed": seed, "unit": "start"})
    plan = plan.model_copy(update={"contract": contract, "design": BlockDesign(decided_rest=True)})
    names = {arm.id: arm.name for arm in plan.arms}
    records: list[TrialRecord] = []
    plans: dict[int, BlockPlan] = {}
    while True:
        dropped = dropped_arms(plan, records, plans)
        step = next_step(plan, records, plans, (), dropped)
        if step.voided_in_a_row >= VOIDED_BLOCKS_MAX:
            return "failed", {names[each] for each in dropped}
        if step.plan.block >= 12:
            return "ok", {names[each] for each in dropped}
        plans.setdefault(step.plan.block, step.plan)
        # A start is recorded for the arm that failed in it alone, or for all.
        failing = next((each for each in step.arms if each.name in bad and each.role != "twin"), None)
        first = step.spec.number - step.spec.position
        for place, arm in enumerate(step.arms):
            if failing in (None, arm):
                attempts = [each.attempt for each in records if each.number == first + place]
                spec = step.spec.model_copy(
                    update={"number": first + place, "arm": arm, "attempt": max(attempts, default=0) + 1}
                )
                records.append(make_record(spec, "failed" if failing else "ok"))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_arms_that_can_t_run_in_a_start_are_dropped_one_after_the_other(count: int) -> None:
    """Three that failed in three starts ended one experiment of five."""
    bad = {f"work_mem={number}MB" for number in range(2, 2 + count)}
    assert all(ends_in_starts(bad, seed) == ("ok", bad) for seed in range(20))


def test_an_experiment_none_of_whose_arms_can_run_in_a_start_ends() -> None:
    bad = {f"work_mem={number}MB" for number in range(1, 6)}
    assert all(ends_in_starts(bad, seed)[0] == "failed" for seed in range(20))
