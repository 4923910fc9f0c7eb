"""Variance components of a nested design, with intervals, and how many repetitions of each level to take.

A component is what a level adds to the variance of those within it: the mean square between the level's units
less the one within them, over the observations in a unit. It may come out below 0, which says that none was
found (Searle, Casella and McCulloch, Variance Components, 1992, chapter 3).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtri, gammaincinv, stdtrit

from pgassay.analysis.statistics.eprocess import FloatArray

CONFIDENCE = 0.95
REPETITIONS_MAX = 10_000


@dataclass(frozen=True)
class MeanSquare:
    """A mean square and its degrees of freedom."""

    value: float
    degrees: int


@dataclass(frozen=True)
class Component:
    """A variance component, which is below 0 where none was found, with its 95 % interval from 0 on."""

    variance: float
    lower: float
    upper: float

    @property
    def spread(self) -> float:
        """The standard deviation; 0 where no variance was found."""
        return math.sqrt(max(0.0, self.variance))

    @property
    def spread_interval(self) -> tuple[float, float]:
        """The interval of the standard deviation."""
        return math.sqrt(self.lower), math.sqrt(self.upper)

    @property
    def is_found(self) -> bool:
        """Whether the interval excludes no variance."""
        return self.lower > 0


@dataclass(frozen=True)
class LevelCost:
    """A level of repetition for `repetitions`: its variance, and the seconds that one more of it takes.

    The seconds are without those of the levels within it; None where they are not known.
    """

    variance: float
    cost_s: float | None


def mean_square_within(values: FloatArray) -> MeanSquare:
    """The mean square within units, shape (units, repetitions), less what each repetition has in common.

    The second measurement after a start may always be faster than the first, which is no noise.
    Raises ValueError for fewer than two units or repetitions.
    """
    units, repetitions = values.shape
    if units < 2 or repetitions < 2:
        raise ValueError(f"a mean square within needs two units of two, got {units} of {repetitions}")
    residuals = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    degrees = (units - 1) * (repetitions - 1)
    return MeanSquare(float((residuals**2).sum() / degrees), degrees)


def alone(within: MeanSquare) -> Component:
    """The variance of the innermost level: its mean square, with the χ² interval."""
    total = within.value * within.degrees
    return Component(
        within.value,
        total / _chi_square(1 - (1 - CONFIDENCE) / 2, within.degrees),
        total / _chi_square((1 - CONFIDENCE) / 2, within.degrees),
    )


def component(between: MeanSquare, within: MeanSquare, observations: float) -> Component:
    """What a level adds, with `observations` in each of its units.

    The interval is Williams's ("A confidence interval for variance components", Biometrika 49, 1962): the two
    χ² ends of the mean square between, each less what the F ratio's end says is due to the mean square
    within. It needs normal effects, covers at least as often as it says, and nearly exactly.
    """
    tail = (1 - CONFIDENCE) / 2
    total = between.value * between.degrees

    def end(probability: float) -> float:
        chi_square = _chi_square(probability, between.degrees)
        ratio = float(fdtri(between.degrees, within.degrees, probability))
        due = between.degrees * ratio * within.value
        return max(0.0, (total - due) / (observations * chi_square))

    return Component((between.value - within.value) / observations, end(1 - tail), end(tail))


def _chi_square(probability: float, degrees: int) -> float:
    return float(2 * gammaincinv(degrees / 2, probability))


def repetitions(levels: Sequence[LevelCost], margin: float) -> tuple[int | None, ...]:
    """How many of each level to take in the level around it, from the innermost to the outermost.

    r_i = √(c_{i+1}·T_i² / (c_i·T_{i+1}²)), rounded up, which makes the variance least for the time that is
    spent (Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013); T² are the components,
    c the costs. A level that adds no variance is taken once, and the next that does replaces it. The
    outermost is taken so often that the 95 % t interval of the difference of two arms is as narrow as
    ±log(1 + margin). None where a cost is not known, or more than 10 000 would be needed.
    """
    counts: list[int | None] = [1] * len(levels)
    places = [place for place, level in enumerate(levels) if level.variance > 0]
    variance = 0.0
    for place, following in itertools.pairwise(places):
        costs = [level.cost_s for level in levels[place + 1 : following + 1]]
        outer_s = None if None in costs else math.fsum(cost for cost in costs if cost is not None)
        inner_s = levels[place].cost_s
        if outer_s is None or not inner_s:
            counts[place] = None
            return (*counts[:following], *[None] * (len(levels) - following))
        best = math.sqrt(outer_s * levels[place].variance / (inner_s * levels[following].variance))
        count = min(REPETITIONS_MAX, max(1, math.ceil(best)))
        counts[place] = count
        variance = (variance + levels[place].variance) / count
    if places:
        counts[places[-1]] = _for_margin(variance + levels[places[-1]].variance, margin)
    return tuple(counts)


def _for_margin(variance: float, margin: float) -> int | None:
    """The fewest units (two at least) whose means' difference has a t interval of ±log(1 + margin)."""
    counts = np.arange(2, REPETITIONS_MAX + 1)
    reach = stdtrit(2 * (counts - 1), 0.5 + CONFIDENCE / 2) * np.sqrt(2 * variance / counts)
    enough = np.flatnonzero(reach <= math.log1p(margin))
    return int(counts[enough[0]]) if enough.size else None
