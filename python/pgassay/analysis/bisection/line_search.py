"""The search along one line of commits for one step: what is excluded, what is likely, what to measure next.

A commit is excluded once the test martingale against "the step came with it" has reached 1/α, at any look;
so the set of those that are left holds the true one with probability 1 − α however often one looks and
whenever one stops. The posterior chooses what is measured, and excludes nothing.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from pgassay.analysis.bisection.block_likelihood import (
    Bet,
    MeasuredBlock,
    cuts_of,
    log_density_without,
    log_factors,
    log_likelihoods,
)
from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray

# On which side of the commits that are left something lies beyond the end of that side; '' on none.
Overshot = Literal["", "before", "after"]
CANDIDATES_MAX = 3
# As in the evidence of `compare`: what is thought before the first block, and for how many it counts.
_SPREAD_FIRST, _SPREAD_BLOCKS = 0.03, 3.0
_STEP_FIRST = -0.1
# Players who think the spread so many times as large, and what each begins with: all bet on their own, since
# one who was too sure of a small spread loses nearly all by a few bad trials.
_BOLDNESS = ((1.0, 0.7), (3.0, 0.3))
# What is not risked in any block.
_KEPT = 0.03
_CLIPPED_TIMES = 3.0
_SURE = 0.5
_BLOCKS_MAX = 3
# So near to a share of the posterior a place that was measured before parts it as well.
_NEAR = 0.1
# Blocks of a round for a spread as large as the step.
_BLOCKS_OF_NOISE = 10.0
# What a single step must be of the difference between the ends. One that seems to be less than the second is
# measured on, until that is known so well or so many blocks were spent: the larger of two steps looks so.
_SHARE_MIN, _SHARE_CLEAR, _ERROR_SMALL, _SHARE_BLOCKS = 0.5, 0.75, 0.08, 60
# A share that lies below this by so many standard errors leaves a part of the difference to others.
_WHOLE_MIN, _ERRORS = 0.85, 2.5
# As many that a share below the half is no chance of few blocks.
_ERRORS_OF_HALF = 1.5


@dataclass
class Line:
    """Commits 1 to `last`, of which one may have made the step; 0 is the good end, `last` the bad one.

    alpha: the error rate of the set. blocks: what was observed, in order. ends_differ: whether that there is
    a step is known from elsewhere, as from a comparison of the ends with an error rate of its own.
    """

    last: int
    alpha: float = 0.05
    blocks: list[MeasuredBlock] = field(default_factory=list)
    log_wealth: FloatArray = field(init=False)
    log_highest: FloatArray = field(init=False)
    log_posterior: FloatArray = field(init=False)
    ends_differ: bool = False
    same: dict[int, set[int]] = field(default_factory=dict)
    steps: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Entry 0 of each array is 'no step at all', entry k the step with commit k."""
        self.log_wealth = np.zeros((len(_BOLDNESS), self.last + 1))
        self.log_highest = np.zeros(self.last + 1)
        self.log_posterior = np.full(self.last + 1, -math.log(2 * self.last))
        self.log_posterior[0] = -math.log(2)

    def observe(self, block: MeasuredBlock) -> None:
        """Count a block, which must have a member at both ends."""
        bet = self.bet()
        expected = np.where(self._excluded_by_programs(), -np.inf, self.log_posterior)
        posterior = np.exp(expected - expected.max())
        cuts = cuts_of(block.places)
        weights = np.array([posterior[after + 1 : upto + 1].sum() for after, upto in cuts])
        weights = weights if weights.sum() > 0 else np.ones(len(cuts))
        for wealth, (times, _) in zip(self.log_wealth, _BOLDNESS, strict=True):
            factors, none = log_factors(block, Bet(bet.step, times * bet.spread), weights / weights.sum())
            for (after, upto), factor in zip(cuts, _hedged(factors), strict=True):
                wealth[after + 1 : upto + 1] += factor
            wealth[0] += _hedged(none)
        for (after, upto), likelihood in zip(cuts, log_likelihoods(block, bet), strict=True):
            self.log_posterior[after + 1 : upto + 1] += likelihood
        self.log_posterior[0] += log_density_without(block, bet)
        shares = np.log([[share] for _, share in _BOLDNESS])
        now = np.logaddexp.reduce(self.log_wealth + shares, axis=0)
        np.maximum(self.log_highest, now, out=self.log_highest)
        self.blocks.append(block)
        self.steps.append(_mean_at(block, {self.last}) - _mean_at(block, {0}))

    def alike(self, first: int, second: int) -> None:
        """Two places have the same programs: no step came between them, without any measurement.

        Where those are the two ends there is none at all. Where another program is known between them, one
        came and was taken back: then what was measured decides.
        """
        together = self.same_as(first) | self.same_as(second)
        self.same |= dict.fromkeys(together, together)

    def _excluded_by_programs(self) -> BoolArray:
        """Which commits lie between two places with the same programs, and with no other known in between."""
        excluded = np.zeros(self.last + 1, dtype=np.bool_)
        if not self.same:
            return excluded
        known = {place for block in self.blocks for place in block.places} | {*self.same}
        for low, together in self.same.items():
            high = min((place for place in together if place > low), default=low)
            if not any(low < place < high for place in known):
                excluded[low + 1 : high + 1] = True
        # What came after the last place that is as the good end is, and with the next that is as the bad one,
        # makes the step, whatever was taken back before or after.
        good = max(self.same_as(0))
        bad = min((place for place in self.same_as(self.last) if place > good), default=self.last)
        excluded[1 : good + 1] = excluded[bad + 1 :] = True
        return excluded

    @property
    def _log_against(self) -> FloatArray:
        """The evidence against each commit, its highest so far, and against 'no step at all'."""
        against: FloatArray = np.where(self._excluded_by_programs(), np.inf, self.log_highest)
        return against

    def bet(self) -> Bet:
        """Step and spread by the blocks so far: bad less good, and how that varied from block to block."""
        if not self.steps:
            return Bet(_STEP_FIRST, _SPREAD_FIRST)
        steps = np.array(self.steps)
        # The variance of a difference is the sum of two trials', less where the good end has several. A few
        # bad trials must not hide how well most agree.
        distances = np.abs(steps - np.median(steps))
        most = _CLIPPED_TIMES * max(float(np.median(distances)), _SPREAD_FIRST)
        squares = (np.minimum(distances, most) ** 2).sum() / 1.5
        spread = math.sqrt((squares + _SPREAD_BLOCKS * _SPREAD_FIRST**2) / (len(steps) - 1 + _SPREAD_BLOCKS))
        return Bet(float(np.median(steps)), spread)

    def left(self) -> list[int]:
        """The commits that are not excluded."""
        return [int(k) for k in np.flatnonzero(self._log_against[1:] < -math.log(self.alpha)) + 1]

    @property
    def has_step(self) -> bool:
        """Whether 'no step at all' is excluded."""
        return self.ends_differ or bool(self.log_highest[0] >= -math.log(self.alpha))

    @property
    def is_broken(self) -> bool:
        """Whether there is a step, and no single commit explains what was measured."""
        return self.has_step and not self.left()

    def posterior(self) -> FloatArray:
        """How likely each commit is, given that there is one step; entry 0 is 0."""
        values = np.where(self._excluded_by_programs(), -np.inf, self.log_posterior)
        values[0] = -np.inf
        if not np.isfinite(values.max()):
            return np.zeros(len(values))
        raised = np.exp(values - values.max())
        result: FloatArray = raised / raised.sum()
        return result

    def is_found(self, untestable: Collection[int] = ()) -> bool:
        """Whether measuring more can't part those that are left: all lie between two testable neighbours.

        And what was measured before and after them is as the ends are, so they make the step.
        """
        if not self._is_cornered(untestable):
            return False
        share = self._share(untestable)
        is_known = share.error < _ERROR_SMALL or len(self.blocks) >= _SHARE_BLOCKS
        return share.value >= (_SHARE_MIN if is_known else _SHARE_CLEAR)

    def is_spread(self, untestable: Collection[int] = ()) -> bool:
        """Whether those that are left make clearly less than the step, so that others have a part in it.

        A slope excludes all but a few in its middle, as one step would, and so does the larger of two steps.
        """
        if not self._is_cornered(untestable):
            return False
        share = self._share(untestable)
        is_less = share.value + _ERRORS * share.error < _WHOLE_MIN
        is_half = share.value + _ERRORS_OF_HALF * share.error < _WHOLE_MIN
        return is_less or (share.value < _SHARE_MIN and (is_half or len(self.blocks) >= _SHARE_BLOCKS))

    def overshot(self, untestable: Collection[int] = ()) -> Overshot:
        """Whether what was measured before or after them lies beyond the ends, so that they make more.

        Before them that is beyond the good end, after them beyond the bad one; the farther one where both do.
        """
        if not self._is_cornered(untestable):
            return ""
        share = self._share(untestable)
        if share.value - _ERRORS * share.error <= 2 - _WHOLE_MIN:
            return ""
        before, after = (float(np.median(each)) if each else 0.0 for each in self._beside(untestable))
        return "before" if before < after else "after"

    def sides(self, untestable: Collection[int] = ()) -> tuple[int, int]:
        """The testable places next to those that are left, before and from the last of them on."""
        left = self.left()
        return (
            _nearest(range(left[0] - 1, -1, -1), untestable),
            _nearest(range(left[-1], self.last + 1), untestable),
        )

    def _is_cornered(self, untestable: Collection[int]) -> bool:
        left = self.left()
        return bool(left) and all(place in untestable for place in range(left[0], left[-1]))

    def _share(self, untestable: Collection[int]) -> "_Share":
        """The part of the step that those that are left make: all but what lies before and after them."""
        bet = self.bet()
        before, after = self._beside(untestable)
        rest = sum(float(np.median(each)) for each in (before, after) if each)
        # Of a median, of differences of two trials: π/2 times the variance of their mean.
        error = math.sqrt(sum(math.pi / len(each) for each in (before, after) if each)) * bet.spread
        return _Share(1 - rest / abs(bet.step), error / abs(bet.step))

    def _beside(self, untestable: Collection[int]) -> tuple[list[float], list[float]]:
        """The gaps of what was measured before those that are left, and of what was measured after them."""
        below, above = self.sides(untestable)
        return self._gaps(range(1, below + 1), 0), self._gaps(range(above, self.last), self.last)

    def _gaps(self, places: range, end: int) -> list[float]:
        """How far the members among `places` lie from an end towards the other one, in logs, by block."""
        towards = math.copysign(1.0, self.bet().step) * (1 if end == 0 else -1)
        return [
            towards * (_mean_at(block, found) - _mean_at(block, {end}))
            for block in self.blocks
            if (found := {place for place in block.places if place in places})
        ]

    def same_as(self, place: int) -> set[int]:
        """The places that build the same programs as this one, itself among them."""
        return self.same.get(place, {place})

    def next_places(self, untestable: Collection[int] = ()) -> tuple[int, ...]:
        """What to measure next, both ends aside: at the quarters of the posterior, or around its peak.

        Around one commit that is likely: the last before it that can be measured, and the first from it on.
        What has the programs of an end needs no trial of its own; () where that leaves nothing.
        """
        posterior = self.posterior()
        if not posterior.any():
            return ()
        peak = int(posterior.argmax())
        below = _nearest(range(peak - 1, -1, -1), untestable)
        above = _nearest(range(peak, self.last + 1), untestable)
        ends = self.same_as(0) | self.same_as(self.last)
        if posterior[below + 1 : above + 1].sum() >= _SURE:
            return tuple(place for place in (below, above) if place not in ends)
        cumulated = posterior.cumsum()
        wanted = ((number + 1) / (CANDIDATES_MAX + 1) for number in range(CANDIDATES_MAX))
        found = {self._place_at(cumulated, share, untestable) for share in wanted} - ends
        return tuple(sorted(found or self._parting(cumulated, ends.union(untestable))))

    def _parting(self, cumulated: FloatArray, passed_over: Collection[int]) -> list[int]:
        """The place that parts the posterior most evenly, of those that part it; [] without one."""
        parts = [
            (abs(float(cumulated[place]) - 0.5), place)
            for place in range(1, self.last)
            if 0 < cumulated[place] < cumulated[-1] and place not in passed_over
        ]
        return [min(parts)[1]] if parts else []

    def _place_at(self, cumulated: FloatArray, share: float, untestable: Collection[int]) -> int:
        """The place that parts the posterior so, or one next to it that was measured: it is built already."""
        measured = {place for block in self.blocks for place in block.places}
        measured -= {0, self.last, *untestable}
        near = [place for place in measured if abs(float(cumulated[place]) - share) <= _NEAR]
        if near:
            return min(near, key=lambda place: (abs(float(cumulated[place]) - share), place))
        return self._testable_near(int(np.searchsorted(cumulated, share)), untestable)

    def blocks_wanted(self) -> int:
        """Blocks of the next round: one while the posterior still moves, those that may decide at its peak.

        A block around the peak excludes by a factor of three at most, as many members change places in it.
        """
        posterior = self.posterior()
        if posterior.max(initial=0.0) < _SURE:
            bet = self.bet()
            noise = (bet.spread / bet.step) ** 2 if bet.step else math.inf
            return int(min(max(round(min(_BLOCKS_OF_NOISE * noise, _BLOCKS_MAX)), 1), _BLOCKS_MAX))
        rest = self._log_against[1:]
        rest[int(posterior.argmax()) - 1] = np.inf
        lacking = -math.log(self.alpha) - rest.min(initial=math.inf)
        return int(min(max(math.ceil(lacking / math.log(3)), 1), _BLOCKS_MAX)) if lacking > 0 else 1

    def _testable_near(self, place: int, untestable: Collection[int]) -> int:
        up = _nearest(range(place, self.last + 1), untestable)
        down = _nearest(range(place, -1, -1), untestable)
        return down if down > 0 and (place - down < up - place or up >= self.last) else up

    def levels(self) -> dict[int, tuple[float, int]]:
        """By measured place between the ends its share of the step, 0 as good, 1 as bad, and the blocks."""
        step = self.bet().step
        found: dict[int, list[float]] = {}
        for block in self.blocks:
            for place in set(block.places) - {0, self.last}:
                found.setdefault(place, []).append((_mean_at(block, {place}) - _mean_at(block, {0})) / step)
        return {place: (float(np.median(values)), len(values)) for place, values in sorted(found.items())}

    def breaking_place(self, untestable: Collection[int] = ()) -> int | None:
        """The measured commit that lies between two steps, by which a line without a single one is parted.

        One side of a step that was found is as its end is, the other lies between both. Without one: of all
        ways to part what was measured into good ones, ones between and bad ones that with the least squares;
        of those between the commit that was measured most often.
        """
        if self._is_cornered(untestable):
            below, above = self.sides(untestable)
            rests = [abs(float(np.median(each))) if each else 0.0 for each in self._beside(untestable)]
            return (below if rests[0] > rests[1] else above) if max(rests) > 0 else None
        levels = [(place, share, count) for place, (share, count) in self.levels().items()]
        if not levels:
            return None
        shares, counts = (np.array([each[place] for each in levels], dtype=np.float64) for place in (1, 2))
        best, found = math.inf, levels[:1]
        for first, last in itertools.combinations(range(len(levels) + 1), 2):
            between = np.average(shares[first:last], weights=counts[first:last])
            fitted = np.concatenate(
                [np.zeros(first), np.full(last - first, between), np.ones(len(levels) - last)]
            )
            squares = float((counts * (shares - fitted) ** 2).sum())
            if squares < best:
                best, found = squares, levels[first:last]
        return max(found, key=lambda each: each[2])[0]


class _Share(NamedTuple):
    """A part of the step, and its standard error."""

    value: float
    error: float


def _hedged(log_factors: FloatArray | float) -> FloatArray:
    """log of a factor of which a part was not risked."""
    result: FloatArray = np.logaddexp(np.log(1 - _KEPT) + log_factors, np.log(_KEPT))
    return result


def _nearest(places: Iterable[int], untestable: Collection[int]) -> int:
    return next(place for place in places if place not in untestable)


def _mean_at(block: MeasuredBlock, places: Collection[int]) -> float:
    values = [value for where, value in zip(block.places, block.logs, strict=True) if where in places]
    return sum(values) / len(values)


def line_of(last: int, alpha: float, blocks: Sequence[MeasuredBlock]) -> Line:
    """A line that has observed these blocks."""
    line = Line(last, alpha)
    for block in blocks:
        line.observe(block)
    return line
