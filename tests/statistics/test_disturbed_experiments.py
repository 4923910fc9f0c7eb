"""Whole experiments that something disturbs: arms that leave a trace or fail by their outcome.

And a difference of just the margin. Simulated as in test_whole_experiments, with the same slack.
"""

import math

import numpy as np
import pytest

from simulated_worlds import World
from whole_experiments import BLOCKS, SPREAD, arms_of, planned, ran, run_whole

ALPHA = 0.05
ONE_ARM = ("work_mem=1MB,2MB",)
THREE_ARMS = ("work_mem=1MB,2MB,3MB,4MB",)
MANY = pytest.param(2000, marks=pytest.mark.slow)
NUMBERS_OF_RUNS = [50, MANY]
# Experiments of several arms take three times as long: in the default run fewer of them, with more slack.
FEWER_RUNS = [16, MANY]


def allowed(runs: int) -> float:
    """The rate of errors that is accepted of so many experiments."""
    return ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


def check_carry_over(factors: tuple[str, ...], carry_over: float, runs: int) -> None:
    """A direction without a warning is as rare as a false one."""
    ended = (ran(factors, run, "normal", carry_over=carry_over) for run in range(runs))
    silent = sum(bool(each.directions()) and "carry-over" not in each.warned_kinds() for each in ended)
    assert silent / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize(
    "carry_over", [*(pytest.param(size, marks=pytest.mark.slow) for size in (0.01, 0.02)), 0.05]
)
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
@pytest.mark.parametrize("failing", [pytest.param(0.5, marks=pytest.mark.slow), 1.0])
def test_trials_that_fail_by_their_outcome_are_warned_of_or_withheld(failing, runs):
    check_failures(ONE_ARM, failing, runs)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [16, 2000])
def test_trials_of_several_arms_that_fail_by_their_outcome_are_warned_of_or_withheld(runs):
    check_failures(THREE_ARMS, 1.0, runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize(
    "noise", ["normal", *(pytest.param(name, marks=pytest.mark.slow) for name in ("t2.5", "wave"))]
)
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
