"""Evidence that a few outliers can't drown: values are clipped around the median of their block.

Real noise has tails: of recorded trials of equal servers the mean of a block's differences spreads twice as
much as their median. A clipped value (Huber, "Robust estimation of a location parameter", Annals of
Mathematical Statistics 1964) is a function of the block's values that does not ask which of them is the
arm's, as long as the true effect is taken from it. So n·exp(κ·z_arm) / Σ_j exp(κ·z_j) has expectation 1 as
well, whatever the noise is. The median moves by no more than the arm does, so that the factor is monotone in
the effect.

Clipped factors are bounded: no effect, however far away, is excluded by few of them. So they are a share of
the evidence beside those of `eprocess` or `drift`, which bound the interval. A mean of two test martingales
with fixed weights is one.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pgassay.analysis.statistics.eprocess import (
    BlockEvidence,
    EvidenceRules,
    FloatArray,
    OfFactors,
    differences,
    predictable_scale,
)

# Values of g, as of `EvidenceRules`, and beyond how many standard deviations of a single trial it is clipped.
SHARPNESS = (0.3, 0.7, 2.0)
CLIPPED_AT = 2.0
# So many observations that agree with the first scale stand before the first block.
_PRIOR_OBSERVATIONS = 3
# Where most values are equal, as with rounded times, their median deviation is 0: the scale stays above this
# part of the one that all values make.
_LEAST_PART = 0.1
_NORMAL_MEDIAN_DEVIATION = 0.6745
# What the medians of earlier blocks take in memory is bounded.
_NUMBERS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class ClippedEvidence(OfFactors):
    """Evidence of clipped values beside that of `base`, which has the rest of the weight.

    members: (..., blocks, n), the arm first; spread: that of a single trial, from earlier blocks, (...,
    blocks); share: the weight of what is clipped, above 0 and below 1.
    """

    base: BlockEvidence
    values: FloatArray
    spread: FloatArray
    share: float

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading shape: that of an effect."""
        return self.base.shape

    @property
    def blocks(self) -> int:
        """The number of blocks observed."""
        return self.base.blocks

    @property
    def members(self) -> int:
        """The members of a block."""
        return self.base.members

    @property
    def log_weights(self) -> FloatArray:
        """What each grid point counts, those of `base` first; they add up to 1."""
        of_base = np.exp(self.base.log_weights)
        clipped = np.full(len(SHARPNESS), self.share / len(SHARPNESS))
        result: FloatArray = np.log(np.concatenate([of_base * ((1 - self.share) / of_base.sum()), clipped]))
        return result

    @property
    def log_bounding_share(self) -> float:
        """log of the weight of the factors that exclude every effect far enough away: those of `base`."""
        return self.base.log_bounding_share + float(np.log1p(-self.share))

    def log_factors_above(self, effect: FloatArray | float) -> FloatArray:
        """log of each block's factor of E⁺ by grid point, (..., blocks, grid)."""
        return np.concatenate([self.base.log_factors_above(effect), self._log_factors(1.0, effect)], axis=-1)

    def log_factors_below(self, effect: FloatArray | float) -> FloatArray:
        """As log_factors_above, of E⁻."""
        return np.concatenate([self.base.log_factors_below(effect), self._log_factors(-1.0, effect)], axis=-1)

    def both_sides(self) -> "ClippedEvidence":
        """The evidence and its mirror image, on a new first axis."""
        return ClippedEvidence(
            self.base.both_sides(),
            np.stack([self.values, -self.values]),
            np.stack([self.spread, self.spread]),
            self.share,
        )

    def bracket_of_end(self, excess: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Effects around the lower end, of the leading shape.

        Left of the first every factor of `base` is at least n·exp(−excess/2); right of the second no factor
        is above 1: the arm is the lowest of every block.
        """
        low, high = self.base.bracket_of_end(excess)
        return low, np.maximum(high, self._lead_over_lowest)

    def bracket_of_balance(self) -> tuple[FloatArray, FloatArray]:
        """Effects around the one at which E⁺ = E⁻: from the arm being the highest to being the lowest."""
        low, high = self.base.bracket_of_balance()
        ahead = (self.values[..., 0] - self.values[..., 1:].max(axis=-1)).min(axis=-1)
        return np.minimum(low, ahead), np.maximum(high, self._lead_over_lowest)

    @cached_property
    def _lead_over_lowest(self) -> FloatArray:
        lead: FloatArray = (self.values[..., 0] - self.values[..., 1:].min(axis=-1)).max(axis=-1)
        return lead

    @cached_property
    def _sharpness(self) -> FloatArray:
        """κ per block and grid point, (..., blocks, grid)."""
        count = self.values.shape[-1]
        result: FloatArray = np.array(SHARPNESS) * np.sqrt(count / (count - 1)) / self.spread[..., np.newaxis]
        return result

    def _log_factors(self, sign: float, effect: FloatArray | float) -> FloatArray:
        arm = self.values[..., 0] - np.asarray(effect, dtype=np.float64)[..., np.newaxis]
        controls = np.moveaxis(self.values[..., 1:], -1, 0)
        # The median of the arm and two controls is the arm, or the control that it has passed.
        centre = (
            np.clip(arm, controls.min(axis=0), controls.max(axis=0))
            if len(controls) == 2
            else np.median(np.stack(np.broadcast_arrays(arm, *controls)), axis=0)
        )
        bound = CLIPPED_AT * self.spread
        of_arm = np.clip(arm - centre, -bound, bound)
        total = np.zeros((*arm.shape, len(SHARPNESS)))
        for control in controls:
            ahead = sign * (np.clip(control - centre, -bound, bound) - of_arm)
            total = np.logaddexp(total, self._sharpness * ahead[..., np.newaxis])
        result: FloatArray = np.log(len(controls) + 1) - total
        return result


def with_clipped(base: BlockEvidence, members: FloatArray, rules: EvidenceRules) -> BlockEvidence:
    """The evidence of `base`, with the share of clipped values that the rules give it.

    members: those of which `base` was made, (..., blocks, n), the arm first.
    """
    if not rules.clipped_share:
        return base
    return ClippedEvidence(
        base, members, _predictable_spread(members, rules.first_scale), rules.clipped_share
    )


def _predictable_spread(members: FloatArray, first_scale: float) -> FloatArray:
    """The spread of a single trial for each block from earlier ones only, (..., blocks, n) → (..., blocks).

    The median of the absolute deviations, times what makes it the standard deviation of normal noise. They
    are those of d from its median, and of the differences of two controls, so that no effect moves it.
    """
    count, blocks = members.shape[-1], members.shape[-2]
    of_single = np.sqrt((count - 1) / count)
    difference = differences(members)
    between = np.abs(np.diff(members[..., 1:], axis=-1)) / np.sqrt(2)
    lead = difference.shape[:-1]
    known = np.full((*lead, 1, _PRIOR_OBSERVATIONS), _NORMAL_MEDIAN_DEVIATION * first_scale * of_single)
    result = np.empty_like(difference)
    together = max(1, _NUMBERS_AT_ONCE // (count * blocks * max(1, math.prod(lead))))
    for begin in range(0, blocks, together):
        rows = np.arange(begin, min(begin + together, blocks))
        # (..., rows, blocks): for each row what is earlier, the rest beyond all others.
        earlier = np.arange(blocks) < rows[:, np.newaxis]
        past = np.where(earlier, difference[..., np.newaxis, :], np.inf)
        centre = _median(past, rows)[..., np.newaxis]
        deviations = np.abs(difference[..., np.newaxis, :] - centre)
        # Those from the median of few are too small; a single one says nothing.
        deviations *= of_single * (1 + 1 / np.maximum(rows, 1)[:, np.newaxis])
        has_centre = earlier & (rows > 1)[:, np.newaxis]
        seen = [
            np.broadcast_to(known, (*lead, len(rows), _PRIOR_OBSERVATIONS)),
            np.where(has_centre, deviations, np.inf),
        ]
        seen += [np.where(earlier, each[..., np.newaxis, :], np.inf) for each in np.moveaxis(between, -1, 0)]
        counts = _PRIOR_OBSERVATIONS + np.where(rows > 1, rows, 0) + rows * between.shape[-1]
        result[..., rows] = _median(np.concatenate(seen, axis=-1), counts)
    result /= _NORMAL_MEDIAN_DEVIATION
    least = _LEAST_PART * of_single * predictable_scale(difference, first_scale)
    spread: FloatArray = np.maximum(result, least)
    return spread


def _median(values: FloatArray, counts: NDArray[np.intp]) -> FloatArray:
    """The medians of the `counts` least values of each row, (..., rows, any) → (..., rows).

    0 where there is none.
    """
    ordered = np.sort(values, axis=-1)
    places = np.stack([np.maximum(counts - 1, 0) // 2, counts // 2], axis=-1)
    both = np.take_along_axis(ordered, np.broadcast_to(places, (*values.shape[:-1], 2)), axis=-1)
    result: FloatArray = np.where(counts > 0, both.sum(axis=-1) / 2, 0.0)
    return result
