"""The rows of a contrast's evidence when an arm may be missing in a block, or copies are replicated."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from analysis_samples import experiment, record, stored
from pgassay.analysis.statistics.contrasts import ContrastSet
from pgassay.analysis.verdicts.checks.failures import first_attempts
from pgassay.analysis.verdicts.compare import analyse, decided, interim_result
from pgassay.analysis.verdicts.primary_family import analyse_primary, forecasts
from pgassay.analysis.verdicts.study import gather_study
from pgassay.design.schedule import next_step
from pgassay.experiment.running.stopping_rules import decided_arms
from pgassay.model.arm import Arm
from pgassay.model.experiment import BlockDesign, BlockPlan, Experiment
from pgassay.model.result import DesignWarning
from pgassay.record.experiment import StoredExperiment

APART = BlockDesign(strata="apart", data_copies=2, decided_rest=True)


def owning(plan: Experiment, *places: int, blocks_per_copy: int = 1) -> Experiment:
    """The plan with arms whose data were prepared in another way."""

    def changed(arm: Arm) -> Arm:
        if arm.role != "arm" or int(arm.id.rpartition("-")[2]) not in places:
            return arm
        return arm.model_copy(update={"spec": arm.spec.model_copy(update={"prepare": ("VACUUM",)})})

    design = BlockDesign(data_copies=2, blocks_per_copy=blocks_per_copy, decided_rest=True)
    return plan.model_copy(update={"arms": tuple(map(changed, plan.arms)), "design": design})


def measured(
    plan: Experiment,
    blocks: int,
    effects: dict[str, float] | None = None,
    *,
    rest: bool = True,
    **failing: Any,
) -> StoredExperiment:
    """The experiment after so many blocks, run as the loop runs it; with `rest` until it is decided."""
    random = np.random.default_rng(5)
    found = stored(plan, [])
    plans: dict[int, BlockPlan] = {}
    resting: frozenset[str] = frozenset()
    records = []
    shared = 0.0
    while True:
        step = next_step(plan, records, plans, resting)
        if step.begins_block:
            found = replace(stored(plan, records), block_plans=dict(plans))
            if len(plans) == blocks:
                return found
            if rest and records:
                result = analyse(found)
                if decided(result):
                    return found
                resting = decided_arms(found, result)
            step = next_step(plan, records, plans, resting)
            plans[step.plan.block] = step.plan
            shared = 0.1 * random.standard_normal()
        arm = step.spec.arm.id
        log_speed = shared + 0.01 * random.standard_normal() + (effects or {}).get(arm, 0.0)
        place = {"position": step.spec.position, "attempt": step.spec.attempt}
        status = "failed" if step.spec.block in failing.get("voided", ()) else "ok"
        records.append(
            record(
                plan, step.spec.number, step.spec.block, arm, float(np.exp(log_speed)), status=status, **place
            )
        )


def test_each_contrast_has_the_blocks_of_its_own_stratum() -> None:
    plan = experiment(strata=("a", "b"), arms=2).model_copy(update={"design": APART})
    study = gather_study(measured(plan, 12, rest=False))
    assert study.blocks == 6
    for index, contrast in enumerate(study.experiment.contrasts):
        numbers = [number for row in study.block_numbers(index) for number in row]
        assert numbers == [block for block, each in study.plans.items() if each.stratum == contrast.stratum]
        names = study.rows[index].arm_ids
        members = study.contrast_set(study.logs).members(0, index)
        expected = [
            [study.logs[0, block, study.columns[name]] for name in names]
            for block in numbers_at(study, index)
        ]
        assert np.array_equal(members, np.array(expected))
    # Together they give what each stratum's blocks give alone.
    together = study.contrast_set(study.logs).effects()
    for index, contrast in enumerate(plan.contrasts):
        own = study.logs[:, numbers_at(study, index)]
        columns = study.columns
        alone = ContrastSet(own, columns, (contrast,), pool_twin=True).effects()
        assert together[:, index] == pytest.approx(alone[:, 0], abs=1e-12)


def numbers_at(study: Any, index: int) -> list[int]:
    return [place for row in study.rows[index].blocks for place in row]


def test_a_stratum_without_a_block_has_no_figures_and_no_verdict() -> None:
    plan = experiment(strata=("a", "b")).model_copy(update={"design": APART})
    result = analyse(measured(plan, 1))
    seen = {arm.stratum: arm for arm in result.arms if arm.verdict != "control"}
    assert sorted(arm.blocks for arm in seen.values()) == [0, 1]
    empty = next(arm for arm in seen.values() if not arm.blocks)
    assert (empty.ratio, empty.verdict) == (None, "inconclusive")
    assert empty.interval == (None, None)


def test_a_decided_arm_rests_and_says_after_how_many_blocks() -> None:
    plan = experiment(arms=2, statements=2).model_copy(
        update={"design": BlockDesign(data_copies=2, decided_rest=True)}
    )
    found = measured(plan, 40, {"s0-1": 0.5, "s0-2": 0.013})
    result = analyse(found)
    first, second = (arm for arm in result.arms if arm.verdict != "control")
    assert first.verdict == "faster"
    assert first.blocks < result.blocks == second.blocks
    assert f"rested after {first.blocks} blocks: decided" in first.note
    assert f"{first.blocks} blocks" in result.verdict
    statement = next(arm for arm in result.statements[0].arms if arm.name == first.name)
    assert statement.blocks == first.blocks
    assert "rested after" in statement.note
    assert "rested" not in second.note
    cpu = next(arm for arm in result.secondary[0].arms if arm.name == first.name)
    assert cpu.note.endswith(f"rested after {first.blocks} blocks: decided")
    # What it was decided by is what stands.
    assert interim_result(found).arms[0].verdict == "faster"


def test_a_withheld_or_undecided_arm_does_not_rest() -> None:
    plan = experiment(arms=2, pool_twin=False).model_copy(
        update={"design": BlockDesign(data_copies=2, decided_rest=True)}
    )
    found = measured(plan, 20, {"s0-1": 0.05, "s0-2": 0.05, "s0-3": 0.5}, rest=False)
    result = analyse(found)
    assert all(arm.withheld for arm in result.arms if arm.verdict != "control")
    assert not decided_arms(found, result)


def test_the_unit_of_an_arm_with_data_of_its_own_is_the_finished_replicate() -> None:
    plan = owning(experiment(), 1, blocks_per_copy=3)
    found = measured(plan, 8, rest=False)
    study = gather_study(found)
    assert study.block_numbers(0) == ((0, 1, 2), (3, 4, 5))
    # All own their data: three independent copies, so the twin stays pooled.
    assert study.rows[0].arm_ids == ("s0-1", "s0-0", "s0-2")
    means = study.contrast_set(study.logs).members(0, 0)
    columns = [study.columns[name] for name in study.rows[0].arm_ids]
    assert means == pytest.approx(study.logs[0, :6, columns].T.reshape(2, 3, 3).mean(axis=1))
    assert study.pairs(study.logs, "s0-0", "s0-2").shape[1] == 2
    [arm] = [each for each in analyse(found).arms if each.verdict != "control"]
    assert (arm.blocks, arm.replicates, arm.verdict) == (6, 2, "inconclusive")


def test_blocks_of_a_set_of_copies_that_has_begun_are_not_to_come_again() -> None:
    plan = owning(experiment(), 1, blocks_per_copy=4)
    further = []
    for blocks in (12, 15):
        study = gather_study(measured(plan, blocks, rest=False))
        assert len(study.rows[0].blocks) == 3 and study.blocks_begun(0) == blocks - 12
        (found,) = forecasts(study, analyse_primary(study))
        assert found is not None and found[0] is not None
        further.append(found[0])
    assert further[0] >= 4 and further[1] == further[0] - 3


def test_a_twin_on_copies_speaks_after_sets_of_blocks() -> None:
    """Its blocks on one set of copies count as one: of 8 blocks it has 2."""
    told = [
        [each for each in analyse(found).warnings if "not yet tested" in each]
        for found in (
            measured(owning(experiment(), 1, blocks_per_copy=3), 8, rest=False),
            measured(experiment(), 3, rest=False),
        )
    ]
    assert told == [
        [
            "The twin is not yet tested: its check can't speak before 8 sets of blocks, one for each making "
            "of the copies, and 2 are complete."
        ],
        ["The twin is not yet tested: its check can't speak before block 8, and 3 are complete."],
    ]


def of_copies(seed: int, blocks_per_copy: int = 4) -> Iterator[StoredExperiment]:
    """An experiment after each of its blocks; what a copy is like counts beside what a trial is like."""
    plan = owning(experiment(), 1, blocks_per_copy=blocks_per_copy)
    random, copies = np.random.default_rng(seed), {}
    plans: dict[int, BlockPlan] = {}
    records: list[Any] = []
    while True:
        step = next_step(plan, records, plans, frozenset())
        if step.begins_block:
            if plans:
                yield replace(stored(plan, records), block_plans=dict(plans))
            step = next_step(plan, records, plans, frozenset())
            plans[step.plan.block] = step.plan
        arm = step.spec.arm.id
        copy = copies.setdefault((step.plan.replicate, arm), 0.012 * random.standard_normal())
        log_speed = copy + 0.04 * random.standard_normal() + (0.03 if arm == "s0-1" else 0.0)
        speed, number = float(np.exp(log_speed)), step.spec.number
        records.append(record(plan, number, step.spec.block, arm, speed, position=step.spec.position))


@pytest.mark.parametrize("seeds", [(105,), pytest.param(range(100, 110), marks=pytest.mark.slow)])
def test_forecasts_of_sets_of_several_blocks_are_as_long_as_it_takes(seeds: Sequence[int]) -> None:
    """Until the verdict: not 2 to 3 times too many blocks, and within the range that is told."""
    ratios, held = [], []
    for seed in seeds:
        told: dict[int, tuple[int | None, ...]] = {}
        for found in of_copies(seed):
            blocks = len(found.block_plans)
            study = gather_study(found)
            primary = analyse_primary(study) if blocks >= 4 else None
            if primary is not None and primary.judgements[0].verdict != "inconclusive":
                break
            (forecast,) = forecasts(study, primary) if primary is not None else (None,)
            told |= {blocks: forecast} if forecast is not None else {}
        assert told and blocks % 4 == 0
        for at, (low, middle, high) in told.items():
            held.append((low or 1) <= blocks - at <= (high or math.inf))
            ratios += [middle / (blocks - at)] if middle else []
    assert np.mean(held) >= 0.8
    assert 0.6 <= np.median(ratios) <= 1.5 and np.mean(np.array(ratios) > 2) <= 0.25


def test_what_a_forecast_takes_has_the_copies_in_it() -> None:
    """The trials of 12 s come after each other, and before each set copying takes 100 s."""
    found = next(each for each in of_copies(100) if len(each.block_plans) == 14)
    clock, replicate, records = datetime(2026, 3, 1, tzinfo=UTC), 0, []
    for trial in found.trials:
        plan = found.block_plans[trial.record.block]
        clock += timedelta(seconds=100 if plan.replicate > replicate else 0)
        replicate, ended = plan.replicate, clock + timedelta(seconds=12)
        times = {"started_at": clock.isoformat(), "ended_at": ended.isoformat()}
        records.append(trial.record.model_copy(update=times))
        clock = ended
    timed = replace(stored(found.experiment, records), block_plans=found.block_plans)
    (arm,) = [each for each in analyse(timed).arms if each.verdict != "control"]
    assert arm.forecast is not None
    (blocks, *_), (seconds, *_) = arm.forecast.blocks, arm.forecast.seconds
    assert blocks and seconds == blocks * (3 * 12 + 100 / 4)


def test_a_trial_has_the_slot_that_was_planned_where_neighbours_are_weighed() -> None:
    """Only in rows of single trials; who was measured where is the record's, other arms lie between."""
    plan = owning(experiment(arms=2, drift="neighbours"), 2, blocks_per_copy=2)
    study = gather_study(measured(plan, 4, rest=False))
    shared, owned = study.rows
    assert owned.slots == ()
    for number, slots in zip(study.table.numbers, shared.slots, strict=True):
        order = study.plans[number].arm_ids
        assert slots == tuple(4 * number + order.index(name) for name in shared.arm_ids)
    without = experiment(arms=2).model_copy(update={"design": APART})
    assert all(rows.slots == () for rows in gather_study(measured(without, 4, rest=False)).rows)


def test_failed_first_attempts_are_judged_by_the_slots_of_their_plan() -> None:
    plan = experiment(drift="neighbours").model_copy(update={"design": APART})
    study = gather_study(measured(plan, 5, rest=False, voided=(2,)))
    (contrast,) = plan.contrasts
    attempts = first_attempts(study, contrast)
    # In the voided block only the first arm ran: the others have the slots that they would have had.
    assert [record is None for record in attempts.records[2]].count(True) == 2
    for number, slots in enumerate(attempts.slots):
        order = study.plans[number].arm_ids
        assert slots == tuple(3 * number + order.index(name) for name in attempts.members)


def test_a_voided_block_leaves_its_replicate_the_others() -> None:
    plan = owning(experiment(), 1, blocks_per_copy=2)
    study = gather_study(measured(plan, 5, rest=False, voided=(1,)))
    assert study.table.voided == (1,)
    assert study.block_numbers(0) == ((0,), (2, 3))


def test_in_a_mixed_stratum_an_owner_is_compared_in_pairs() -> None:
    plan = owning(experiment(arms=2), 2, blocks_per_copy=2)
    study = gather_study(measured(plan, 4, rest=False))
    assert study.rows[0].arm_ids == ("s0-1", "s0-0", "s0-3")
    assert study.rows[0].blocks == ((0,), (1,), (2,), (3,))
    assert study.rows[1].arm_ids == ("s0-2", "s0-0")
    assert study.rows[1].blocks == ((0, 1), (2, 3))
    assert study.rows_min(1) > study.rows_min(0)


def test_too_few_copies_are_told() -> None:
    plan = owning(experiment(blocks_max=10), 1, blocks_per_copy=4)
    [warning] = kinds(analyse(measured(plan, 4, rest=False)).warnings)
    assert warning.arm == "io_method=method1"
    assert "--blocks 16" in warning.sentence
    plan = owning(experiment(blocks_max=60), 1, blocks_per_copy=4)
    assert not kinds(analyse(measured(plan, 4, rest=False)).warnings)


def test_a_stored_twin_on_a_copy_of_its_own_is_told_if_it_was_pooled() -> None:
    plan = experiment()
    [warning] = kinds(analyse(measured(plan, 4)).warnings)
    assert "pooled" in warning.sentence
    assert not kinds(analyse(measured(experiment(pool_twin=False), 4)).warnings)
    drawn = plan.model_copy(update={"design": BlockDesign(data_copies=2)})
    assert not kinds(analyse(measured(drawn, 4)).warnings)


def kinds(warnings: tuple[str | DesignWarning, ...]) -> list[DesignWarning]:
    return [each for each in warnings if isinstance(each, DesignWarning) and each.kind == "copies"]
