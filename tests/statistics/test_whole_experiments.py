"""Whole experiments of equal arms, simulated through plan, schedule and verdicts: false directions.

Every rate is that of whole experiments which end at their first verdict. A rate of 5 % may be missed by two
standard errors of its estimate, so that chance alone fails few of these tests; their seeds are fixed.
"""

import math

import numpy as np
import pytest

from simulated_worlds import NOISES, World
from whole_experiments import BLOCKS, SPREAD, as_before, planned, ran, run_whole

ALPHA = 0.05
ONE_ARM = ("work_mem=1MB,2MB",)
THREE_ARMS = ("work_mem=1MB,2MB,3MB,4MB",)
OWN_DATA = ("prepare=none,SELECT 1",)
GRID = ("io_method=sync,worker,io_uring", "work_mem=1MB,2MB")
MANY = pytest.param(2000, marks=pytest.mark.slow)
NUMBERS_OF_RUNS = [50, MANY]
# Experiments of several arms take three times as long: in the default run fewer of them, with more slack.
FEWER_RUNS = [16, MANY]


# Tails, what lasts, and what is neither; all others in the slow tests.
USUAL = ("normal", "t2.5", "wave")
SOME_NOISES = [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in NOISES]


def allowed(runs: int) -> float:
    """The rate of errors that is accepted of so many experiments."""
    return ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("noise", SOME_NOISES)
def test_an_equal_arm_is_seldom_given_a_direction(noise, runs):
    wrong = sum(bool(ran(ONE_ARM, run, noise).directions()) for run in range(runs))
    assert wrong / runs <= allowed(runs)


@pytest.mark.parametrize("runs", FEWER_RUNS)
@pytest.mark.parametrize(
    ("factors", "noise"), [(THREE_ARMS, "two-speed"), pytest.param(GRID, "wave", marks=pytest.mark.slow)]
)
def test_none_of_several_equal_arms_is_given_a_direction_but_seldom(factors, noise, runs):
    wrong = sum(bool(ran(factors, run, noise).directions()) for run in range(runs))
    assert wrong / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize(
    "difference", [*(pytest.param(size, marks=pytest.mark.slow) for size in (0.01, 0.03)), 0.05]
)
def test_copies_that_arms_share_may_differ(difference, runs):
    wrong = sum(
        bool(ran(ONE_ARM, run, "normal", copy_difference=difference).directions()) for run in range(runs)
    )
    assert wrong / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize(
    "spread", [*(pytest.param(size, marks=pytest.mark.slow) for size in (0.015, 0.03)), 0.05]
)
def test_copies_that_arms_own_may_differ(spread, runs):
    """Each fresh copy draws what chance gave it: 200 blocks on two copies would tell nothing of the arm."""
    wrong = sum(bool(ran(OWN_DATA, run, "normal", copy_spread=spread).directions()) for run in range(runs))
    assert wrong / runs <= allowed(runs)


def test_copies_that_are_kept_mislead():
    """So these simulations can fail: the design before never made a fresh copy of an arm's own data."""
    wrong = 0
    for run in range(60):
        experiment = as_before(planned(*OWN_DATA, seed=run, blocks=BLOCKS))
        source = World("normal", SPREAD, np.random.default_rng([77, run]), copy_spread=0.03)
        wrong += bool(run_whole(experiment, source).directions())
    assert wrong / 60 >= 0.2
