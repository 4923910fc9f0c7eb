"""The factors of a block: expectation 1 where the hypothesis holds, whatever the values are."""

import itertools
import math

import numpy as np
import pytest

from pgassay.analysis.bisection.block_likelihood import Bet, MeasuredBlock, cuts_of, log_factors

PLACES = (0, 0, 3, 7, 10)
BET = Bet(-0.1, 0.03)


@pytest.mark.parametrize("own", range(3))
def test_over_all_exchanges_that_a_cut_allows_its_factor_has_the_mean_one(own: int) -> None:
    """Members before the cut change places with each other, those behind it too: exactly the hypothesis."""
    logs = np.random.default_rng(own).standard_t(2, len(PLACES)) * 0.05
    cut = cuts_of(PLACES)[own]
    groups = [[i for i, place in enumerate(PLACES) if (place >= cut[1]) is after] for after in (False, True)]
    factors = []
    for first in itertools.permutations(groups[0]):
        for second in itertools.permutations(groups[1]):
            values = list(logs)
            for place, taken in zip((*groups[0], *groups[1]), (*first, *second), strict=True):
                values[place] = logs[taken]
            found, _ = log_factors(MeasuredBlock(PLACES, tuple(values)), BET, np.array([0.2, 0.5, 0.3]))
            factors.append(math.exp(found[own]))
    assert np.mean(factors) == pytest.approx(1.0, abs=1e-9)


def test_over_all_orders_the_factor_against_no_step_has_the_mean_one() -> None:
    logs = np.random.default_rng(9).normal(size=len(PLACES)) * 0.05
    factors = [
        math.exp(log_factors(MeasuredBlock(PLACES, order), BET, np.ones(3))[1])
        for order in itertools.permutations(logs.tolist())
    ]
    assert np.mean(factors) == pytest.approx(1.0, abs=1e-9)


def test_the_ends_alone_say_nothing_of_where_a_step_is() -> None:
    found, none = log_factors(MeasuredBlock((0, 0, 9), (0.0, 0.0, -0.1)), BET, np.ones(1))
    assert found.tolist() == [0.0]
    assert none > 0


def test_a_candidate_as_slow_as_the_bad_end_speaks_against_a_step_behind_it() -> None:
    found, _ = log_factors(MeasuredBlock((0, 0, 5, 9), (0.0, 0.01, -0.11, -0.1)), BET, np.ones(2))
    assert found[1] > 0.5
    assert found[0] < 0
