"""Variance components, drift and what can be resolved: recovered from data made with known ones."""

import numpy as np
import pytest

import analysis_samples as samples
from pgassay.analysis.calibration import noise
from pgassay.analysis.calibration.calibrate import calibrate
from pgassay.analysis.statistics.power import blocks_for_equivalence, minimum_blocks, resolvable_margin
from pgassay.errors import UsageError
from pgassay.model.calibration import LedgerResult
from pgassay.model.experiment import Experiment
from pgassay.model.trial import LoadObservation
from pgassay.record.experiment import StoredExperiment
from pgassay.report import calibration

RATE, SECONDS = 2000.0, 60


def simulated(within: float, between: float, blocks: float, runs: int = 60) -> list[noise.Components]:
    """Components found in experiments of 20 blocks of 3 equal arms with these standard deviations."""
    found = []
    for seed in range(runs):
        random = np.random.default_rng(seed)
        moments = blocks * random.standard_normal((20, 1))
        places = np.array([0.03, -0.01, 0.0])  # a copy that is always faster is no noise
        true = moments + places + between * random.standard_normal((20, 3))
        # The mean of SECONDS independent seconds has the standard deviation `within`.
        each = within * np.sqrt(SECONDS) * random.standard_normal((20, 3, SECONDS))
        seconds = np.rint(RATE * np.exp(true)[..., None] * (1 + each)).astype(int)
        logs = np.log(seconds.mean(axis=2))
        loads = [list(row) for row in seconds.reshape(60, SECONDS)]
        found.append(noise.components(logs, noise.within_variance(loads)))
    return found


@pytest.mark.parametrize(
    ("within", "between", "blocks"), [(0.02, 0.0, 0.0), (0.005, 0.03, 0.0), (0.01, 0.01, 0.05)]
)
def test_the_components_are_recovered(within: float, between: float, blocks: float) -> None:
    found = simulated(within, between, blocks)
    trial = np.sqrt(np.mean([each.trial for each in found]))
    assert trial == pytest.approx(np.hypot(within, between), rel=0.05)
    assert np.sqrt(np.mean([each.within or 0 for each in found])) == pytest.approx(within, rel=0.1)
    # A component is never below 0, so one that is 0 in truth is found a little above on average.
    unsure = 0.12 * (within**2 + between**2)
    assert np.mean([each.between for each in found]) == pytest.approx(between**2, rel=0.1, abs=unsure)
    assert np.mean([each.blocks for each in found]) == pytest.approx(blocks**2, rel=0.15, abs=unsure)
    upper = np.array([each.paired_spread_upper() for each in found])
    assert 0.65 < np.mean(upper > np.sqrt(2) * np.hypot(within, between)) < 0.95
    assert found[0].arms[0] > found[0].arms[1]


def test_neighbouring_seconds_that_are_alike_are_taken_together() -> None:
    """A rate that wanders within the trial: single seconds would promise too little noise."""
    random = np.random.default_rng(5)
    waves = np.repeat(random.standard_normal((200, 12)), 5, axis=1)
    loads = [list(np.rint(1000 * (1 + 0.1 * row)).astype(int)) for row in waves]
    true = 0.1**2 / 12
    naive = float(np.mean([np.var(load, ddof=1) / 60 / np.mean(load) ** 2 for load in loads]))
    found = noise.within_variance(loads)
    assert found is not None
    assert naive < 0.3 * true
    assert 0.6 * true < found < 1.3 * true


def test_short_loads_and_statements_have_no_within() -> None:
    assert noise.within_variance([[100, 100, 100]]) is None
    assert noise.within_variance([[0] * 10]) is None
    assert noise.within_variance([]) is None
    with pytest.raises(ValueError, match="two blocks"):
        noise.components(np.zeros((1, 3)), None)


def test_a_drift_is_found_with_its_interval_and_chance_is_not() -> None:
    hours = np.linspace(0.0, 2.0, 24)
    covered = seen = 0
    for seed in range(200):
        errors = 0.02 * np.random.default_rng(seed).standard_normal(24)
        line = noise.trend(-0.05 * hours + errors, hours)
        flat = noise.trend(errors, hours)
        assert line is not None and flat is not None
        assert line.hours == pytest.approx(2.0)
        covered += line.lower <= -0.10 <= line.upper
        seen += flat.lower > 0 or flat.upper < 0
    assert 180 <= covered <= 199
    assert seen <= 22
    assert noise.trend(np.zeros(2), np.array([0.0, 1.0])) is None
    assert noise.trend(np.zeros(4), np.ones(4)) is None


def test_the_margin_that_is_resolved_is_the_inverse_of_the_blocks_it_takes() -> None:
    for blocks in (10, 40, 200):
        margin = resolvable_margin(blocks, 0.05, pooled=True)
        assert blocks_for_equivalence(0.05, margin, pooled=True) == pytest.approx(blocks, abs=1)
    assert resolvable_margin(minimum_blocks(pooled=True) - 1, 0.05, pooled=True) == float("inf")


def equal_arms(statements: int) -> Experiment:
    """An experiment as `pgassay calibrate` plans it: the arm equals the control."""
    plan = samples.experiment(statements=statements, seed=1)
    control = plan.arms[0]
    arms = tuple(arm.model_copy(update={"spec": control.spec}) for arm in plan.arms)
    return plan.model_copy(update={"arms": arms})


def measured(plan: Experiment, blocks: int, spread: float = 0.02, **changes: object) -> StoredExperiment:
    records = [
        record.model_copy(
            update={
                "started_at": f"2026-01-01T00:{record.number // 60:02d}:{record.number % 60:02d}+00:00",
                "steal_s": 0.1,
                "clock_ns": (0, 10**10),
                **changes,
            }
        )
        for record in samples.simulate(plan, blocks, spread=spread)
    ]
    return samples.stored(plan, records, "blocks")


def test_a_calibration_tells_what_the_trials_were_made_with() -> None:
    ledger = LedgerResult(experiments=3, evidence=0.5, alarm=False)
    result = calibrate(measured(equal_arms(2), 30), ledger)
    assert result.noise is not None and result.drift is not None and result.steal is not None
    assert result.noise.within_trial is None
    assert result.noise.trial == pytest.approx(0.02, rel=0.25)
    assert result.noise.between_blocks == pytest.approx(0.1, rel=0.35)
    assert sum(result.noise.shares.values()) == pytest.approx(1)
    assert result.steal.mean == pytest.approx(0.01)
    assert (result.trial_s, result.block_s) == (12.0, 36.0)
    assert [row.blocks for row in result.resolves] == [8, 16, 25, 50, 100, 200]
    effects = [row.effect for row in result.resolves]
    assert None not in effects
    assert effects == sorted(effects, reverse=True)
    assert result.minutes_for_margin is not None and 5 < result.minutes_for_margin < 60
    assert result.equal_arms[0].verdict in ("equivalent", "inconclusive")
    page = calibration.page_of(result).terminal()
    assert "3 experiments on this machine, no alarm" in page
    assert "n/a" in page
    assert "| minutes |" in calibration.page_of(result).markdown()


def test_a_load_whose_seconds_fluctuate_is_told_to_run_longer() -> None:
    random = np.random.default_rng(7)
    plan = equal_arms(0)
    stored = measured(plan, 12, spread=0.0)
    records = []
    for trial in stored.trials:
        seconds = np.rint(1000 * (1 + 0.2 * random.standard_normal(20))).astype(int)
        load = LoadObservation(
            transactions=int(seconds.sum()),
            elapsed_s=20.0,
            errors=0,
            client_cpu_s=1.0,
            per_second=tuple(int(value) for value in seconds),
        )
        records.append(trial.record.model_copy(update={"load": load}))
    result = calibrate(samples.stored(plan, records, "blocks"), None)
    assert result.noise is not None and result.noise.within_trial is not None
    assert result.noise.within_trial == pytest.approx(0.2 / np.sqrt(20), rel=0.2)
    assert any("a longer duration makes each trial steadier" in line for line in result.sentences)
    assert result.ledger is None


def test_control_and_twin_of_a_comparison_will_do_and_without_a_twin_nothing_does() -> None:
    result = calibrate(measured(samples.experiment(), 10), None)
    assert result.noise is not None
    assert result.equal_arms == ()
    with pytest.raises(UsageError, match="no two arms are equal"):
        calibrate(measured(samples.experiment(twin=False), 10), None)


def test_one_block_tells_nothing_and_says_so() -> None:
    result = calibrate(measured(equal_arms(2), 1), None)
    assert result.noise is None
    assert result.resolves == ()
    assert "two complete blocks" in calibration.page_of(result).terminal()
