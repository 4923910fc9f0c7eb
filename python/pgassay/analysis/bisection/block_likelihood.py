"""The factors of one block against "the step came at this cut", and the likelihood of each cut.

A block holds trials of the good end, of the bad end and of some commits between them. If the step came with
commit k, then all members before k have one speed and all from k on another, so within each of both groups
members could have changed places. For any score A of a block that was chosen before it, A(x) over the mean of
A over all such exchanges has expectation 1 under that hypothesis, whatever the noise is: the factor of a test
martingale (Ville 1939; Vovk and Wang, "E-values: calibration, combination and applications", Annals of
Statistics 2021). The score that grows fastest is the likelihood under what else may be (Kelly 1956), so A is
a mixture of the likelihoods of the other cuts.
"""

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pgassay.analysis.statistics.eprocess import FloatArray

# Multiples of the spread in the likelihood, and their weights: noise has tails, and a spread of few blocks is
# known badly.
_SCALES = ((1.0, 0.6), (2.0, 0.3), (5.0, 0.1))
_WEIGHT_MIN = 0.02


@dataclass(frozen=True)
class MeasuredBlock:
    """One complete block: the places of its members on the line of commits, and their log speeds.

    Place 0 is the good end and the last place the bad end; a place may have several members.
    """

    places: tuple[int, ...]
    logs: tuple[float, ...]


@dataclass(frozen=True)
class Bet:
    """What earlier blocks say, and this one is judged by: the step in logs, and the spread of one trial."""

    step: float
    spread: float


def cuts_of(places: tuple[int, ...]) -> list[tuple[int, int]]:
    """The intervals of k that a block tells apart: (after, up to), ascending."""
    distinct = sorted(set(places))
    return list(itertools.pairwise(distinct))


def log_likelihoods(block: MeasuredBlock, bet: Bet) -> FloatArray:
    """log of the density of the block, its own mean aside, for the step in each of `cuts_of`."""
    logs = np.array(block.logs)[np.newaxis]
    return np.array([_log_density(logs, _after(block.places, cut), bet)[0] for cut in cuts_of(block.places)])


def log_density_without(block: MeasuredBlock, bet: Bet) -> float:
    """As `log_likelihoods`, for no step at all."""
    none = np.zeros(len(block.places))
    return float(_log_density(np.array(block.logs)[np.newaxis], none, bet)[0])


def log_factors(block: MeasuredBlock, bet: Bet, weights: FloatArray) -> tuple[FloatArray, float]:
    """log of the factor against each of `cuts_of`, and of that against "no step at all".

    weights: of each cut, how likely it was before this block. A block of the two ends alone says nothing of
    where the step is: its factor is 1 against the one cut that it has.
    """
    cuts = cuts_of(block.places)
    shifts = [_after(block.places, cut) for cut in cuts]
    weights = np.maximum(weights, _WEIGHT_MIN)
    found = np.zeros(len(cuts))
    for own, shift in enumerate(shifts):
        others = [each for each in range(len(cuts)) if each != own]
        if others:
            groups = tuple(int(value) for value in shift)
            found[own] = _log_factor(block, groups, [shifts[each] for each in others], weights[others], bet)
    none = _log_factor(block, (0,) * len(block.places), shifts, weights, bet)
    return found, none


def _log_factor(
    block: MeasuredBlock, groups: tuple[int, ...], shifts: list[FloatArray], weights: FloatArray, bet: Bet
) -> float:
    logs = np.array(block.logs)[_exchanges(groups)]
    parts = np.array([_log_density(logs, shift, bet) for shift in shifts])
    scores = np.logaddexp.reduce(parts + np.log(weights / weights.sum())[:, np.newaxis], axis=0)
    # The first exchange is the one that changes nothing.
    return float(scores[0] - (np.logaddexp.reduce(scores) - np.log(len(scores))))


def _after(places: tuple[int, ...], cut: tuple[int, int]) -> FloatArray:
    """1 for every member that a step in this cut changed."""
    return np.array([1.0 if place >= cut[1] else 0.0 for place in places])


def _log_density(logs: FloatArray, shift: FloatArray, bet: Bet) -> FloatArray:
    """For rows of log speeds: normal about a mean of their own, mixed over multiples of the spread."""
    rest = logs - shift * bet.step
    squares = ((rest - rest.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    degrees = logs.shape[1] - 1
    parts = [
        np.log(weight) - degrees * np.log(scale * bet.spread) - squares / (2 * (scale * bet.spread) ** 2)
        for scale, weight in _SCALES
    ]
    result: FloatArray = np.logaddexp.reduce(np.array(parts), axis=0)
    return result


@lru_cache(maxsize=256)
def _exchanges(groups: tuple[int, ...]) -> "np.ndarray":
    """All orders of the members in which each stays within its group; the first changes nothing."""
    sets = [[place for place, group in enumerate(groups) if group == wanted] for wanted in (0, 1)]
    rows = []
    for first in itertools.permutations(sets[0]):
        for second in itertools.permutations(sets[1]):
            row = list(range(len(groups)))
            for place, taken in zip((*sets[0], *sets[1]), (*first, *second), strict=True):
                row[place] = taken
            rows.append(row)
    return np.array(rows)
