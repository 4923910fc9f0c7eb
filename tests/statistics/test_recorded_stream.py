"""The recorded stream of real A/A trials, measured again by today's design and by the one before it.

The stream is cut into experiments of equal length. Each takes its trials in the order of time, with the roles
and the copies that the design draws. The noise is real, so are the differences between the copies.
"""

import math

import numpy as np
import pytest

from recorded_stream import Recorded, recorded_log_speeds
from whole_experiments import Ended, as_before, planned, run_whole

ALPHA = 0.05
BLOCKS = 20
TRIALS = 3 * BLOCKS
# The stream's spread within a block is about 5 %: at a margin of 5 % today's experiments rarely end decided.
MARGIN = 0.05
SEEDS = [3, pytest.param(40, marks=pytest.mark.slow)]


def replayed(seeds: int, *, before: bool, **planted: float) -> list[Ended]:
    """Every experiment that the stream holds side by side, drawn with so many seeds."""
    stream = recorded_log_speeds()
    ended = []
    for seed in range(seeds):
        for start in range(0, len(stream) - TRIALS + 1, TRIALS):
            experiment = planned("work_mem=1MB,2MB", seed=10_000 * seed + start, blocks=BLOCKS, margin=MARGIN)
            chosen = as_before(experiment) if before else experiment
            ended.append(run_whole(chosen, Recorded(stream, start, **planted)))
    return ended


def directions(ended: list[Ended]) -> float:
    """The share of experiments that call the arm faster or slower."""
    return sum(bool(each.directions()) for each in ended) / len(ended)


def inconclusive(ended: list[Ended]) -> float:
    """The share of experiments without a verdict."""
    return sum(not each.standing.decided for each in ended) / len(ended)


def test_the_stream_is_long_and_real():
    stream = recorded_log_speeds()
    assert stream.size >= 2000
    assert stream.shape[1] == 2
    assert np.isfinite(stream).all()
    centred = stream - stream.mean(axis=0)
    alike = (centred[1:] * centred[:-1]).mean(axis=0) / (centred**2).mean(axis=0)
    assert (alike > 0.5).all(), "neighbours in time are alike, as on any real machine"


@pytest.mark.parametrize("seeds", SEEDS)
def test_real_equal_arms_are_seldom_given_a_direction_and_more_are_decided(seeds):
    now, before = replayed(seeds, before=False), replayed(seeds, before=True)
    assert directions(now) <= ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / len(now))
    assert inconclusive(now) <= inconclusive(before) * 2 / 3


def test_a_difference_of_the_copies_misleads_the_design_before_and_not_this_one():
    """So the test above can fail: copy 1 is made faster, which only the twin runs on in the older design."""
    before = replayed(3, before=True, on_copy_1=0.15)
    now = replayed(3, before=False, on_copy_1=0.15)
    bound = ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / len(now))
    assert directions(before) > bound
    assert directions(now) <= bound


def test_an_effect_put_into_real_trials_is_found():
    found = replayed(1, before=False, effect=0.15)
    right = sum(each.standing.arms[0].verdict == "faster" for each in found)
    assert right / len(found) >= 0.8
