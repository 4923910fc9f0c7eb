"""The highest rate within a bound: how often its interval misses it at any look, and how wide it is.

A trial keeps the bound up to a capacity of its own, which scatters around the true one. The rates are chosen
as `compare` chooses them; each look counts.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from pgassay.analysis.capacity.threshold import Capacity, Probe

ALPHA, TRIALS = 0.05, 40
# What a sweep of 12 rates with 5 trials each takes 60 trials for.
WIDTH_MAX, WIDTH_TRIALS = 0.15, 30
RUNS = [60, pytest.param(2000, marks=pytest.mark.slow)]
KINDS = ("2 %", "5 %", "heavy", "skewed")
FEW = [KINDS[1], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != KINDS[1])]


@dataclass(frozen=True)
class Found:
    """Whether any look missed, and half the width after so many trials."""

    missed: bool
    half_width: float


def deviation(kind: str, random: np.random.Generator) -> float:
    """Of a trial's own capacity from the median one, in logs."""
    if kind == "heavy":
        return 0.03 * float(random.standard_t(2.5))
    if kind == "skewed":
        return 0.1 * float(math.log(2) - random.exponential())
    return (0.02 if kind == "2 %" else 0.05) * float(random.standard_normal())


def found(kind: str, run: int, trials: int = TRIALS) -> Found:
    """One experiment of one arm, looked for between a fiftieth and one and a half of a closed loop's rate."""
    random = np.random.default_rng([36, run])
    closed = 4000.0
    true = closed * math.exp(random.uniform(-0.9, -0.05))
    capacity = Capacity(closed / 50, closed * 1.5)
    missed, half_width = False, math.inf
    for trial in range(1, trials + 1):
        rate = capacity.proposal(ALPHA)
        capacity.add(Probe(rate, rate <= true * math.exp(deviation(kind, random))))
        interval = capacity.interval(ALPHA)
        missed |= not interval.lower <= true <= interval.upper
        if trial == WIDTH_TRIALS:
            half_width = interval.half_width
    return Found(missed, half_width)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("kind", FEW)
def test_no_look_misses_the_capacity_more_often_than_alpha(kind: str, runs: int) -> None:
    all_found = [found(kind, run) for run in range(runs)]
    missed = sum(each.missed for each in all_found) / runs
    width = float(np.median([each.half_width for each in all_found]))
    print(f"{kind}: missed {missed:.4f}, median half width after {WIDTH_TRIALS} trials {width:.3f}")
    assert missed <= ALPHA
    if kind in ("2 %", "5 %"):
        assert width <= WIDTH_MAX


def test_an_arm_that_always_keeps_the_bound_has_no_upper_end() -> None:
    capacity = Capacity(10.0, 1000.0)
    for _ in range(30):
        capacity.add(Probe(capacity.proposal(ALPHA), kept=True))
    interval = capacity.interval(ALPHA)
    assert interval.upper == math.inf and 950 < interval.lower < 1001
    assert interval.half_width == math.inf and capacity.is_known(interval, WIDTH_MAX)


def test_an_arm_that_never_does_has_no_lower_end() -> None:
    capacity = Capacity(10.0, 1000.0)
    for _ in range(30):
        capacity.add(Probe(capacity.proposal(ALPHA), kept=False))
    interval = capacity.interval(ALPHA)
    assert interval.lower == 0.0 and 9 < interval.upper < 10.5
    assert capacity.is_known(interval, WIDTH_MAX)


def test_a_search_in_a_small_range_ends_at_its_bound_too() -> None:
    capacity = Capacity(240.0, 2000.0)
    for _ in range(16):
        capacity.add(Probe(capacity.proposal(ALPHA), kept=False))
    assert capacity.is_known(capacity.interval(ALPHA), WIDTH_MAX)


def test_outcomes_that_say_nothing_of_the_rate_leave_an_interval_that_is_open() -> None:
    random = np.random.default_rng(7)
    capacity = Capacity(10.0, 1000.0)
    for _ in range(60):
        # At a half each, whatever the rate: every rate is a capacity, and none may be excluded.
        capacity.add(Probe(capacity.proposal(ALPHA), kept=bool(random.random() < 0.5)))
    interval = capacity.interval(ALPHA)
    assert interval.lower == 0.0 and interval.upper == math.inf
