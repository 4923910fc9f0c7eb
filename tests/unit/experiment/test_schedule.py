"""What comes next: order, second attempts, voided blocks."""

from plans_for_tests import make_experiment, make_record

from pgassay.design.schedule import block_order, next_step
from pgassay.model.experiment import Experiment
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
