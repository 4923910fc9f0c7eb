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


def test_a_fixed_order_is_misled_by_the_machine_and_a_drawn_one_is_not(monkeypatch):
    """So the test above can fail: something on the machine slows every third trial down."""
    assert directions(replayed(1, before=False, each_third=-0.2)) <= ALPHA + 2 * math.sqrt(0.0475 / 40)
    monkeypatch.setattr("pgassay.design.blocks.block_order", lambda _seed, _block, ids: sorted(ids))
    assert directions(replayed(1, before=False, each_third=-0.2)) >= 0.25


def test_an_effect_put_into_real_trials_is_found():
    found = replayed(1, before=False, effect=0.15)
    right = sum(each.standing.arms[0].verdict == "faster" for each in found)
    assert right / len(found) >= 0.8
