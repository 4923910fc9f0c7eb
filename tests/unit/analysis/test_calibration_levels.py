"""Levels of repetition, copies and two speeds as a calibration reads them from stored trials."""

from typing import Any

import numpy as np
import pytest

import analysis_samples as samples
from pgassay.analysis.calibration.calibrate import calibrate
from pgassay.model.arm import Arm
from pgassay.model.calibration import CalibrationResult, LevelResult
from pgassay.model.experiment import DatasetFacts, Environment, Experiment
from pgassay.model.trial import LoadObservation, TrialFacts, TrialRecord
from pgassay.model.workload import Metric
from pgassay.report import calibration

BLOCKS = 40
STARTED = TrialFacts(started_for_this_trial=True)
SHARED = TrialFacts(started_for_this_trial=False)


def equal_arms(statements: int = 1) -> Experiment:
    """A control, an arm and the twin, equal in all but their copies, as `pgassay calibrate` plans them."""
    plan = samples.experiment(statements=statements, seed=1)
    control = plan.arms[0]
    copies = {"control": 0, "twin": 1, "arm": 2}

    def equal(arm: Arm) -> Arm:
        return arm.model_copy(update={"spec": control.spec, "data_copy": copies[arm.role]})

    loaded = Environment(datasets={"key": DatasetFacts(seconds=30.0)})
    return plan.model_copy(update={"arms": tuple(map(equal, plan.arms)), "environment": loaded})


def trials(
    plan: Experiment, *, copy: float = 0.0, start: float = 0.0, measurement: float = 0.0, **changes: Any
) -> list[TrialRecord]:
    """Trials measured twice within a start, with these standard deviations of each level."""
    random = np.random.default_rng(11)
    places = {arm.id: copy * value for arm, value in zip(plan.arms, (-1.0, 0.0, 1.0), strict=True)}
    records = []
    for block in range(BLOCKS):
        shared = 0.1 * random.standard_normal()
        for arm_id in random.permutation([arm.id for arm in plan.arms]):
            level = shared + places[str(arm_id)] + start * random.standard_normal()
            speeds = np.exp(level + measurement * random.standard_normal(2))
            again = {"repeated_s": (1.05 / float(speeds[1]),), "facts": STARTED, **changes}
            made = samples.record(plan, len(records), block, str(arm_id), float(speeds[0]), **again)
            minute, second = divmod(len(records), 60)
            records.append(
                made.model_copy(update={"started_at": f"2026-01-01T00:{minute:02d}:{second:02d}Z"})
            )
    return records


def calibrated(plan: Experiment, records: list[TrialRecord]) -> CalibrationResult:
    return calibrate(samples.stored(plan, records, "blocks"), None)


def by_level(result: CalibrationResult) -> dict[str, LevelResult]:
    return {each.level: each for each in result.levels}


def test_each_level_is_told_with_its_interval_its_cost_and_its_repetitions() -> None:
    plan = equal_arms()
    result = calibrated(plan, trials(plan, copy=0.03, start=0.02, measurement=0.01))
    assert [each.level for each in result.levels] == ["copy", "restart", "measurement"]
    for name, truth in (("copy", 0.03), ("restart", 0.02), ("measurement", 0.01)):
        level = by_level(result)[name]
        assert level.spread == pytest.approx(truth, rel=0.25)
        assert level.interval is not None
        assert level.interval[0] <= truth <= level.interval[1]
        assert level.repetitions is not None
    assert by_level(result)["copy"].cost_s == 30.0
    assert by_level(result)["restart"].cost_s == pytest.approx(12 - 2, abs=0.3), "without what was measured"
    assert by_level(result)["measurement"].cost_s == pytest.approx(1.0, rel=0.1)
    told = next(line for line in result.sentences if line.startswith("For an interval of"))
    assert "loads of the data" in told and "in each" in told
    assert result.copies is not None and result.copies.differ
    assert result.copies.evidence is not None and result.copies.evidence >= 20
    assert any(line.startswith("Copies of the data differ by 3") for line in result.sentences)
    page = calibration.page_of(result).terminal()
    assert "Noise added by each level of repetition" in page and "counts from 20 up" in page


def test_equal_copies_are_not_told_apart_and_the_bound_is_said() -> None:
    plan = equal_arms()
    result = calibrated(plan, trials(plan, start=0.02, measurement=0.01))
    assert result.copies is not None and not result.copies.differ
    assert (result.copies.storage, result.copies.copies) == ("host", 3)
    assert any("No difference between copies of the data was found" in line for line in result.sentences)


def test_what_was_not_repeated_is_not_known_and_never_nothing() -> None:
    plan = equal_arms()
    once = calibrated(plan, trials(plan, copy=0.03, start=0.02, repeated_s=()))
    lacking = [by_level(once)[name] for name in ("restart", "measurement")]
    assert [(each.spread, each.interval, each.repetitions) for each in lacking] == [(None, None, None)] * 2
    assert by_level(once)["copy"].spread == pytest.approx(0.03, rel=0.25)
    assert any("nothing was measured twice within one" in line for line in once.sentences)

    shared = calibrated(plan, trials(plan, start=0.02, facts=SHARED, repeated_s=(), data_copy=1))
    assert shared.copies is None
    assert by_level(shared)["copy"].spread is None
    assert by_level(shared)["restart"].spread is None
    assert by_level(shared)["measurement"].spread == pytest.approx(0.02, rel=0.25)
    assert any("the trials shared their starts" in line for line in shared.sentences)
    assert any("there was one copy" in line for line in shared.sentences)


def test_the_seconds_of_a_load_say_nothing_of_its_latency() -> None:
    random = np.random.default_rng(3)
    plan = equal_arms(statements=0)
    metric = Metric(name="p99 latency", unit="ms", better="lower", latency="p99")
    plan = plan.model_copy(update={"contract": plan.contract.model_copy(update={"metric": metric})})
    records = []
    for record in trials(plan, repeated_s=()):
        seconds = np.rint(500 * (1 + 0.005 * random.standard_normal(60))).astype(int)
        load = LoadObservation(
            transactions=int(seconds.sum()),
            elapsed_s=60.0,
            errors=0,
            client_cpu_s=1.0,
            per_second=tuple(int(each) for each in seconds),
            latency_ms={"p99": float(20 * np.exp(0.2 * random.standard_normal()))},
        )
        records.append(record.model_copy(update={"load": load, "wall_s": 75.0}))
    result = calibrated(plan, records)
    assert result.noise is not None and result.noise.within_trial is None
    assert result.noise.trial == pytest.approx(0.2, rel=0.25)
    assert by_level(result)["measurement"].spread is None
    assert by_level(result)["restart"].spread is None
    assert not any("fluctuation within trials" in line or "a longer" in line for line in result.sentences)


def test_copies_that_were_drawn_for_blocks_are_compared_between_blocks() -> None:
    plan = equal_arms()
    records = trials(plan, measurement=0.01, facts=SHARED, repeated_s=())
    drawn = []
    for record in records:
        copy = record.block % 2
        statements = tuple(
            each.model_copy(update={"elapsed_s": each.elapsed_s * (1.5 if copy else 1.0)})
            for each in record.statements
        )
        drawn.append(record.model_copy(update={"data_copy": copy, "statements": statements}))
    result = calibrated(plan, drawn)
    assert result.copies is not None and result.copies.differ
    assert result.copies.spread == pytest.approx(np.log(1.5) / np.sqrt(2), rel=0.25)
    assert result.copies.evidence is None


def test_a_loads_batches_are_its_measurements() -> None:
    random = np.random.default_rng(3)
    plan = equal_arms(statements=0)
    records = []
    for record in trials(plan, start=0.03, repeated_s=()):
        assert record.load is not None
        rate = record.load.transactions / 1000
        seconds = np.rint(10 * rate * (1 + 0.05 * random.standard_normal(20))).astype(int)
        load = LoadObservation(
            transactions=int(seconds.sum()),
            elapsed_s=20.0,
            errors=0,
            client_cpu_s=1.0,
            per_second=tuple(int(value) for value in seconds),
        )
        records.append(record.model_copy(update={"load": load, "wall_s": 35.0}))
    result = calibrated(plan, records)
    # Batches of two seconds each.
    assert by_level(result)["measurement"].spread == pytest.approx(0.05 / np.sqrt(2), rel=0.15)
    assert by_level(result)["measurement"].cost_s == pytest.approx(2.0)
    assert by_level(result)["restart"].spread == pytest.approx(0.03, rel=0.25)
    assert by_level(result)["restart"].cost_s == pytest.approx(15.0)
    assert any("a load of" in line for line in result.sentences)


def test_two_speeds_are_said_with_the_covariate_to_declare() -> None:
    random = np.random.default_rng(5)
    plan = equal_arms()
    records = []
    for record in trials(plan, measurement=0.005):
        slow = random.random() < 0.4
        factor = 1.4 if slow else 1.0
        statements = tuple(
            each.model_copy(update={"elapsed_s": each.elapsed_s * factor}) for each in record.statements
        )
        memory_s = (0.05 if slow else 0.02) * float(np.exp(0.05 * random.standard_normal()))
        records.append(
            record.model_copy(
                update={
                    "statements": statements,
                    "memory_s": memory_s,
                    "disk_s": 0.1 + 0.01 * random.random(),
                }
            )
        )
    # Blocks of these trials differ by 10 %, which a cut in two must not be made of.
    result = calibrated(plan, records)
    assert result.modes is not None
    assert result.modes.declare == "memory"
    assert [fit.name for fit in result.modes.covariates] == ["memory", "disk"], "the canary stood still"
    fit = result.modes.covariates[0]
    assert result.noise is not None
    assert fit.spread < 0.3 * result.noise.trial
    assert any("with --covariate memory the spread" in line for line in result.sentences)
    assert "Variance explained by readings before a trial" in calibration.page_of(result).markdown()
