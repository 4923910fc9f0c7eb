"""How often an arm is told to have changed within its trials: with no change, and with one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import report_examples as examples
from pgassay.analysis.changes.arm_changes import arm_changes, is_more_than_chance, trial_level
from pgassay.model.trial import LoadObservation
from pgassay.record.experiment import StoredExperiment

SECONDS, MEAN, DEVIATION = 30, 5000.0, 500.0
FEW = pytest.param(80, id="80")
MANY = pytest.param(2000, id="2000", marks=pytest.mark.slow)


def series(draws: np.random.Generator, coefficient: float) -> np.ndarray:
    """Standard deviates, each correlated so with the one before it."""
    noise = draws.normal(0, 1, SECONDS)
    for place in range(1, SECONDS):
        noise[place] = coefficient * noise[place - 1] + (1 - coefficient**2) ** 0.5 * noise[place]
    return noise


def told(arms: int, trials: int, coefficient: float, step: float = 0.0, seed: int = 21) -> float:
    """The share of so many arms that is told of; throughput and latency vary apart from each other."""
    draws = np.random.default_rng(seed)
    base = examples.stored(levels=["sync", "worker"], blocks=trials)
    count = found = 0
    while count < arms:
        found += len(arm_changes(_drawn(base, draws, coefficient, step)))
        count += len(base.experiment.arms)
    return found / count


def _drawn(
    base: StoredExperiment, draws: np.random.Generator, coefficient: float, step: float
) -> StoredExperiment:
    made = []
    for trial in base.trials:
        counts = MEAN + DEVIATION * series(draws, coefficient)
        counts[int(draws.integers(SECONDS // 3, 2 * SECONDS // 3 + 1)) :] *= 1 - step
        load = LoadObservation(
            transactions=int(counts.sum()),
            elapsed_s=SECONDS,
            errors=0,
            client_cpu_s=1,
            per_second=tuple(int(each) for each in counts),
            per_second_p99_ms=tuple((20 + 2 * series(draws, coefficient)).tolist()),
        )
        record = trial.record.model_copy(update={"load": load, "clock_ns": None})
        made.append(replace(trial, record=record, folder=Path("/nowhere")))
    return replace(base, trials=tuple(made))


@pytest.mark.parametrize("arms", [FEW, MANY])
@pytest.mark.parametrize("coefficient", [0.0, 0.3, 0.6, 0.8])
@pytest.mark.parametrize("trials", [1, 3, 10])
def test_of_arms_in_which_nothing_changed_at_most_one_in_twenty_is_told_of(
    arms: int, coefficient: float, trials: int
) -> None:
    assert told(arms, trials, coefficient) <= 0.05 + 3 * (0.05 * 0.95 / arms) ** 0.5


@pytest.mark.parametrize("arms", [FEW, MANY])
@pytest.mark.parametrize("coefficient", [0.0, 0.3])
def test_a_fifth_less_is_found_over_ten_trials_where_seconds_scatter_by_a_tenth(
    arms: int, coefficient: float
) -> None:
    assert told(arms, 10, coefficient, step=0.2) >= 0.8


def test_the_number_of_trials_that_is_too_many_is_the_binomial_s() -> None:
    """Of ten trials two show a change by chance in 8.6 % of arms, three in 1.2 %."""
    assert [is_more_than_chance(count, 10, 4) for count in range(5)] == [False, False, False, True, True]
    assert [is_more_than_chance(count, 10, 1) for count in range(4)] == [False, False, False, True]
    assert is_more_than_chance(1, 1, 4), "one trial alone is asked at a quarter of the level"
    assert trial_level(1) == trial_level(2) / 4
    # With 100 trials five are what chance makes, and ten hardly ever.
    assert not is_more_than_chance(9, 100, 1)
    assert is_more_than_chance(12, 100, 4)
