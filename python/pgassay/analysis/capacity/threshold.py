"""The highest rate at which the median trial keeps a bound, with an interval that holds at any look.

A trial at a rate keeps the bound or does not. Where a higher rate never helps, a capacity of at least r means
that each trial at a rate of at most r keeps it with a chance of a half or more, given what was before.
Betting on failures there is a test martingale, and so is betting on trials that keep it at rates of at least
r against a capacity of at most r (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
betting", 2024). Rates whose wealth stayed below 2/alpha on both sides are the interval. It holds whatever the
rates were chosen by, as long as that was known before the trial; choosing them and the stakes well makes it
narrow. Both follow a fitted threshold model, which nothing is claimed to be true of.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

_Floats = NDArray[np.float64]
# The fitted model: capacities between the bounds of the search, and how much trials scatter, in logs.
_PLACES = 300
# It may lie so far beyond them, in logs, with little weight: else nothing is staked on a trial at a bound.
_BEYOND, _OF_BEYOND = 1.0, 0.05
_SPREADS = np.array([0.01, 0.02, 0.04, 0.08, 0.16, 0.32])
_OF_SPREADS = np.array([0.2, 0.25, 0.25, 0.2, 0.08, 0.02])
# Some trials end otherwise than any rate explains: a stall, a checkpoint.
_LAPSE = 0.02
# No bet takes all: one surprise would end it.
_STAKE_MAX = 0.9
# The chance, by the model, with which a trial is to surprise at the rate that is proposed: until that side
# has an end, and to bring the end nearer. Less tells nothing of the place; at a half it is a coin that tells.
SURPRISE_AT_FIRST, SURPRISE = 0.08, 0.12
# How far apart in logs the model's 10 and 90 % points may lie for that.
LOCATED = 0.25
_HALVINGS = 14
# Of the model's quantiles of one arm above, and of the other below which, arms lie apart.
_APART = 0.1
# An end that is so near to the bound of the search is at it.
_AT_BOUND = 1.05


@dataclass(frozen=True)
class Probe:
    """A trial at a rate a second, and whether it kept the bound."""

    rate: float
    kept: bool


@dataclass(frozen=True)
class RateInterval:
    """Rates a second; `lower` 0.0 and `upper` infinite where nothing bounds it. `middle`: the estimate."""

    lower: float
    middle: float
    upper: float

    @property
    def half_width(self) -> float:
        """By which factor, less one, the ends lie around their middle in logs; infinite without both."""
        if self.lower <= 0 or not math.isfinite(self.upper):
            return math.inf
        return math.sqrt(self.upper / self.lower) - 1


class Capacity:
    """What the trials of one arm tell, one after the other; rates are looked for between the two bounds.

    The true capacity may lie beyond them: the interval is then open on that side.
    """

    def __init__(self, lowest: float, highest: float):
        self._first, self._last = math.log(lowest), math.log(highest)
        self._places = np.linspace(self._first - _BEYOND, self._last + _BEYOND, _PLACES)
        beyond = (self._places < self._first) | (self._places > self._last)
        weights = np.where(beyond, _OF_BEYOND / beyond.sum(), (1 - _OF_BEYOND) / (~beyond).sum())
        self._logs = np.log(weights)[:, None] + np.log(_OF_SPREADS)[None, :]
        self._rates: list[float] = []
        self._against_high: list[float] = []
        self._against_low: list[float] = []

    def add(self, probe: Probe) -> None:
        """The next trial; the stakes were fixed by those before it."""
        kept = self._chances(math.log(probe.rate))
        chance = self._mean(kept)
        surprise = 1.0 if probe.kept else -1.0
        self._rates.append(math.log(probe.rate))
        self._against_high.append(math.log1p(-surprise * min(_STAKE_MAX, max(0.0, 1 - 2 * chance))))
        self._against_low.append(math.log1p(surprise * min(_STAKE_MAX, max(0.0, 2 * chance - 1))))
        self._logs += np.log(kept if probe.kept else 1 - kept)

    def interval(self, alpha: float) -> RateInterval:
        """Covers the capacity at all looks together with a chance of 1 - alpha or more."""
        middle = self.quantile(0.5)
        if not self._rates:
            return RateInterval(0.0, middle, math.inf)
        rates = np.array(self._rates)
        edges = np.unique(rates)
        # Capacities of one cell have the same trials at or below them: cell k lies above k edges.
        cells = np.arange(len(edges) + 1)
        place = np.searchsorted(edges, rates)
        below = place[:, None] < cells[None, :]
        limit = math.log(2 / alpha)
        excluded = _reaches(np.array(self._against_high), below, limit)
        excluded |= _reaches(np.array(self._against_low), ~below, limit)
        held = np.flatnonzero(~excluded)
        if not len(held):  # the rates contradict each other; nothing is claimed then
            return RateInterval(0.0, middle, math.inf)
        lower = math.exp(edges[held[0] - 1]) if held[0] > 0 else 0.0
        upper = math.exp(edges[held[-1]]) if held[-1] < len(edges) else math.inf
        return RateInterval(lower, min(max(middle, lower), upper), upper)

    def is_known(self, interval: RateInterval, enough: float) -> bool:
        """Whether half its width is small enough, or it lies beyond all rates that are tried."""
        below, above = math.exp(self._first) * _AT_BOUND, math.exp(self._last) / _AT_BOUND
        return interval.half_width <= enough or interval.upper <= below or interval.lower >= above

    def quantile(self, share: float) -> float:
        """The capacity that the model's posterior has this share below."""
        weights = self._weights().sum(axis=1).cumsum()
        return float(math.exp(np.interp(share, weights, self._places)))

    def proposal(self, alpha: float) -> float:
        """The rate of the next trial, by those before it, where the interval is wanted at this alpha.

        While the model knows little of the place, a rate in its middle: that halves what is left. Then one at
        which it expects a trial to fail, or one at which it expects it to keep the bound, whichever side of
        the interval lies farther away.
        """
        middle = self.quantile(0.5)
        if math.log(self.quantile(0.9) / self.quantile(0.1)) > LOCATED:
            return self._in_range(middle)
        found = self.interval(alpha)
        above = math.log(found.upper / middle)
        below = math.log(middle / found.lower) if found.lower > 0 else math.inf
        high = above > below if above != below else sum(self._against_high) <= sum(self._against_low)
        surprise = SURPRISE if math.isfinite(above if high else below) else SURPRISE_AT_FIRST
        wanted = surprise if high else 1 - surprise
        weights = self._weights()
        lower, upper = float(self._places[0]), float(self._places[-1])
        for _ in range(_HALVINGS):
            middle = (lower + upper) / 2
            if float((weights * self._chances(middle)).sum()) > wanted:
                lower = middle
            else:
                upper = middle
        return self._in_range(math.exp((lower + upper) / 2))

    def lies_apart_from(self, other: "Capacity") -> bool:
        """Whether by the model the two differ: a rate that tells of one tells little of the other."""
        low, high = self.quantile(_APART), self.quantile(1 - _APART)
        return low > other.quantile(1 - _APART) or high < other.quantile(_APART)

    def _in_range(self, rate: float) -> float:
        return min(max(rate, math.exp(self._first)), math.exp(self._last))

    def _weights(self) -> _Floats:
        weights = np.exp(self._logs - self._logs.max())
        return np.asarray(weights / weights.sum())

    def _chances(self, log_rate: float) -> _Floats:
        """By the model, of each of its places and spreads: that a trial at this rate keeps the bound."""
        scaled = (self._places[:, None] - log_rate) / _SPREADS[None, :]
        return np.asarray(_LAPSE + (1 - 2 * _LAPSE) * ndtr(scaled))

    def _mean(self, chances: _Floats) -> float:
        return float((self._weights() * chances).sum())


def capacity_of(probes: Sequence[Probe], lowest: float, highest: float) -> Capacity:
    """What these trials tell, in their order."""
    made = Capacity(lowest, highest)
    for probe in probes:
        made.add(probe)
    return made


def _reaches(logs: _Floats, counted: NDArray[np.bool_], limit: float) -> NDArray[np.bool_]:
    """For each cell whether its wealth, of the trials that count there, ever came to the limit."""
    wealth = np.cumsum(np.where(counted, logs[:, None], 0.0), axis=0)
    return np.asarray(wealth.max(axis=0) >= limit)
