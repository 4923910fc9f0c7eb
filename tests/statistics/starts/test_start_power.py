"""What is said before the first start of what so many find, against what simulated experiments find."""

import math

import numpy as np
import pytest

from pgassay.analysis.statistics.starts import (
    STARTS_MIN,
    gather_start_evidence,
    resolvable_by_starts,
    starts_for,
    starts_without_bound,
)

THRESHOLD = 365.0


@pytest.mark.parametrize("starts", [3, 6, 12, 40])
@pytest.mark.parametrize("spread", [0.01, 0.07])
def test_nine_of_ten_experiments_find_what_is_promised(starts: int, spread: float) -> None:
    effect = resolvable_by_starts(starts, spread, THRESHOLD)
    assert math.isfinite(effect)
    random = np.random.default_rng([96, starts, round(1000 * spread)])
    values = spread * random.standard_normal((600, starts, 3))
    values[..., 0] += math.log1p(effect)
    found = gather_start_evidence(values).log_highest_above(0.0)[:, -1] >= math.log(THRESHOLD)
    assert found.mean() >= 0.84


def test_more_starts_find_less_and_fewer_than_three_nothing() -> None:
    assert math.isinf(resolvable_by_starts(STARTS_MIN - 1, 0.01, THRESHOLD))
    effects = [resolvable_by_starts(starts, 0.03, THRESHOLD) for starts in (3, 6, 12, 25, 50)]
    assert effects == sorted(effects, reverse=True)


def test_the_starts_that_an_effect_takes_are_the_fewest_that_find_it() -> None:
    for effect in (0.05, 0.2, 3.0):
        count = starts_for(effect, 0.03, THRESHOLD)
        assert resolvable_by_starts(count, 0.03, THRESHOLD) <= effect
        assert count == STARTS_MIN or resolvable_by_starts(count - 1, 0.03, THRESHOLD) > effect
    assert starts_for(3.0, 0.03, THRESHOLD) == STARTS_MIN


def test_more_starts_than_are_computed_follow_from_those_that_are() -> None:
    """At a spread of 7 %, 1 % takes about four times as many as 2 %."""
    one, two = (starts_for(effect, 0.07, THRESHOLD) for effect in (0.01, 0.02))
    assert two > 300
    assert 3.5 < one / two < 4.5


@pytest.mark.parametrize(("contrasts", "least"), [(1, 6), (2, 7), (5, 8), (20, 10)])
def test_without_the_bound_more_comparisons_take_more_starts(contrasts: int, least: int) -> None:
    """Without any noise: the flips of one start fewer can't reach what so many comparisons ask for."""
    assert starts_without_bound(contrasts, 0.05) == least
    values = np.full((1, least + 2, 2), 0.01)
    values[..., 1] = 0.0
    path = gather_start_evidence(values).first.log_path_above(0.0)[0] - math.log(2)
    assert path[least - 2] < math.log(2 * contrasts / 0.05)
