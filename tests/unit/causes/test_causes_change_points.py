"""Change points: rarely one in a stationary series, and a real one found where it is."""

import numpy as np
import pytest

from pgassay.analysis.statistics.change_points import (
    LEVEL,
    STRICT_LEVEL,
    change_points,
    correlation_bound,
    critical,
    statistic,
)

RUNS = 600
# Five percent, and what so many runs may scatter above it.
FALSE_ALARMS_MAX = 0.05 + 3 * (0.05 * 0.95 / RUNS) ** 0.5


def autocorrelated(draws: np.random.Generator, count: int, coefficient: float) -> np.ndarray:
    noise = draws.normal(0, 1, count + 50)
    for place in range(1, noise.size):
        noise[place] += coefficient * noise[place - 1]
    return 100 + 5 * noise[50:]


@pytest.mark.parametrize("seconds", [20, 60])
@pytest.mark.parametrize("coefficient", [0.0, 0.3, 0.6, 0.8])
def test_a_stationary_series_seldom_has_one(seconds: int, coefficient: float) -> None:
    draws = np.random.default_rng(11)
    alarms = sum(bool(change_points(autocorrelated(draws, seconds, coefficient))) for _ in range(RUNS))
    assert alarms / RUNS <= FALSE_ALARMS_MAX


def test_skewed_noise_and_single_stalls_are_no_change() -> None:
    draws = np.random.default_rng(12)
    alarms = sum(bool(change_points(100 - draws.exponential(10, 40))) for _ in range(RUNS))
    assert alarms / RUNS <= FALSE_ALARMS_MAX
    stalled = 100 + draws.normal(0, 2, 40)
    stalled[17] = 5
    assert not change_points(stalled)


def test_a_halving_is_found_and_timed_within_two_seconds() -> None:
    draws = np.random.default_rng(13)
    for _ in range(100):
        series = autocorrelated(draws, 60, 0.3)
        series[30:] /= 2
        found = change_points(series)
        assert any(abs(point.index - 30) <= 2 and 0.4 < point.ratio < 0.6 for point in found)


def test_two_changes_are_both_found() -> None:
    draws = np.random.default_rng(14)
    series = 100 + draws.normal(0, 2, 90)
    series[30:60] /= 2
    indices = [point.index for point in change_points(series)]
    assert any(abs(index - 30) <= 2 for index in indices)
    assert any(abs(index - 60) <= 2 for index in indices)


def test_an_exact_step_is_one_change_and_a_constant_none() -> None:
    found = change_points([100.0] * 10 + [50.0] * 10)
    assert [(point.index, point.before, point.after) for point in found] == [(10, 100.0, 50.0)]
    assert not change_points([7.1] * 30)
    assert not change_points([0.0] * 30)
    assert not change_points([100.0, 50.0] * 3)
    assert not change_points([100.0] * 10 + [float("nan")] * 10)


@pytest.mark.parametrize(("count", "coefficient"), [(12, 0.0), (30, 0.4), (60, 0.8)])
@pytest.mark.parametrize("level", [LEVEL, STRICT_LEVEL])
def test_the_critical_values_are_exceeded_as_often_as_they_say(
    count: int, coefficient: float, level: float
) -> None:
    """Simulated anew, with other draws than the table's."""
    draws, runs = np.random.default_rng(15), 4000
    bound = critical(count, coefficient, level)
    exceeded = sum(statistic(autocorrelated(draws, count, coefficient))[0] > bound for _ in range(runs))
    assert abs(exceeded / runs - level) <= 4 * (level / runs) ** 0.5


@pytest.mark.parametrize("coefficient", [0.0, 0.3, 0.6, 0.8])
def test_the_correlation_is_estimated_from_all_trials_together_whatever_steps_they_have(
    coefficient: float,
) -> None:
    """A correlogram of 30 values around their own mean would say 0.6 for 0.8, and 0.5 of a step."""
    draws = np.random.default_rng(16)
    still = [autocorrelated(draws, 30, coefficient) for _ in range(400)]
    assert correlation_bound(still) == pytest.approx(coefficient, abs=0.05)
    stepped = [np.where(np.arange(30) < 15, series, series - 10) for series in still]
    assert coefficient - 0.05 <= correlation_bound(stepped) <= coefficient + 0.15
    # Of fewer trials it is a bound: seldom below the truth.
    bounds = [correlation_bound(still[place : place + 4]) for place in range(0, 400, 4)]
    assert sum(bound < coefficient for bound in bounds) <= 30
    assert correlation_bound([]) == 0
    assert correlation_bound([[1.0] * 30, [1.0, 2.0]]) == 0
