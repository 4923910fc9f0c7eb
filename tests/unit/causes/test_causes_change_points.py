"""Change points: rarely one in a stationary series, and a real one found where it is."""

import numpy as np
import pytest

from pgassay.analysis.statistics.change_points import change_points

RUNS = 600
# Five percent, and what so many runs may scatter above it.
FALSE_ALARMS_MAX = 0.05 + 3 * (0.05 * 0.95 / RUNS) ** 0.5


def autocorrelated(draws: np.random.Generator, count: int, coefficient: float) -> np.ndarray:
    noise = draws.normal(0, 1, count + 50)
    for place in range(1, noise.size):
        noise[place] += coefficient * noise[place - 1]
    return 100 + 5 * noise[50:]


@pytest.mark.parametrize("seconds", [20, 60])
@pytest.mark.parametrize("coefficient", [0.0, 0.3])
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
