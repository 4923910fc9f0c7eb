"""Whole experiments, simulated through plan, schedule and verdicts: what is promised of their words.

Every rate is that of whole experiments which end at their first verdict. A rate of 5 % may be missed by two
standard errors of its estimate, so that chance alone fails few of these tests; their seeds are fixed.
"""

import math

import numpy as np
import pytest

from simulated_worlds import NOISES, World
from whole_experiments import Ended, arms_of, as_before, planned, run_whole

ALPHA = 0.05
ONE_ARM = ("work_mem=1MB,2MB",)
THREE_ARMS = ("work_mem=1MB,2MB,3MB,4MB",)
OWN_DATA = ("prepare=none,SELECT 1",)
GRID = ("io_method=sync,worker,io_uring", "work_mem=1MB,2MB")
MANY = pytest.param(2000, marks=pytest.mark.slow)
NUMBERS_OF_RUNS = [200, MANY]
# Experiments of several arms take three times as long: in the default run fewer of them, with more slack.
FEWER_RUNS = [50, MANY]
BLOCKS, SPREAD = 24, 0.03


def allowed(runs: int) -> float:
    """The rate of errors that is accepted of so many experiments."""
    return ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


def ran(factors: tuple[str, ...], run: int, noise: str, **world: object) -> Ended:
    """One experiment of equal arms; `world` says what is wrong with the machine."""
    experiment = planned(*factors, seed=run, blocks=BLOCKS)
    names = frozenset(arm.name for arm in arms_of(experiment))
    if "carry_over" in world:
        world["leaving"] = names
    if "failing" in world:
        world["failing_arms"] = names
    random = np.random.default_rng([77, run])
    return run_whole(experiment, World(noise, SPREAD, random, **world))  # type: ignore[arg-type]


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("noise", NOISES)
def test_an_equal_arm_is_seldom_given_a_direction(noise, runs):
    wrong = sum(bool(ran(ONE_ARM, run, noise).directions()) for run in range(runs))
    assert wrong / runs <= allowed(runs)


@pytest.mark.parametrize("runs", FEWER_RUNS)
@pytest.mark.parametrize(("factors", "noise"), [(THREE_ARMS, "two-speed"), (GRID, "wave")])
def test_none_of_several_equal_arms_is_given_a_direction_but_seldom(factors, noise, runs):
    wrong = sum(bool(ran(factors, run, noise).directions()) for run in range(runs))
    assert wrong / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("difference", [0.01, 0.03, 0.05])
def test_copies_that_arms_share_may_differ(difference, runs):
    wrong = sum(
        bool(ran(ONE_ARM, run, "normal", copy_difference=difference).directions()) for run in range(runs)
    )
    assert wrong / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("spread", [0.015, 0.03, 0.05])
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


def check_carry_over(factors: tuple[str, ...], carry_over: float, runs: int) -> None:
    """A direction without a warning is as rare as a false one."""
    ended = (ran(factors, run, "normal", carry_over=carry_over) for run in range(runs))
    silent = sum(bool(each.directions()) and "carry-over" not in each.warned_kinds() for each in ended)
    assert silent / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("carry_over", [0.01, 0.02, 0.05])
def test_what_an_arm_leaves_behind_is_warned_of_or_withheld(carry_over, runs):
    check_carry_over(ONE_ARM, carry_over, runs)


@pytest.mark.parametrize("runs", FEWER_RUNS)
def test_what_several_arms_leave_behind_is_warned_of_or_withheld(runs):
    check_carry_over(THREE_ARMS, 0.05, runs)


def check_failures(factors: tuple[str, ...], failing: float, runs: int) -> None:
    """A slow trial of an arm breaks a rule and is repeated: what is left of the arm is its faster trials."""
    ended = (ran(factors, run, "normal", failing=failing) for run in range(runs))
    silent = sum(bool(each.directions()) and "failures" not in each.warned_kinds() for each in ended)
    assert silent / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("failing", [0.5, 1.0])
def test_trials_that_fail_by_their_outcome_are_warned_of_or_withheld(failing, runs):
    check_failures(ONE_ARM, failing, runs)


@pytest.mark.parametrize("runs", FEWER_RUNS)
def test_trials_of_several_arms_that_fail_by_their_outcome_are_warned_of_or_withheld(runs):
    check_failures(THREE_ARMS, 1.0, runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("noise", ["normal", "t2.5", "wave"])
def test_a_difference_of_the_margin_is_seldom_called_equivalent(noise, runs):
    """The truth lies on the edge; alternating sides."""
    wrong = 0
    for run in range(runs):
        experiment = planned(*ONE_ARM, seed=run, blocks=BLOCKS)
        effect = math.log1p(experiment.contract.margin) * (-1) ** run
        effects = {arm.name: effect for arm in arms_of(experiment)}
        source = World(noise, SPREAD, np.random.default_rng([78, run]), effects=effects)
        wrong += run_whole(experiment, source).standing.arms[0].verdict == "equivalent"
    assert wrong / runs <= allowed(runs)
