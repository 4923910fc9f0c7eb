"""Evidence against a hypothesised effect, valid at any time and for any number of looks.

In each block the arm and its controls (the control, and its twin when it is pooled) each leave one log
speed. If the arm has the effect θ, then after θ is taken from the arm's value the members of a block could
have changed places; the block's factor n·exp(κ·x_arm) / Σ_j exp(κ·x_j) then has expectation 1, whatever the
noise is. The product of the factors is a test martingale (Ville 1939; Ramdas et al., "Game-theoretic
statistics and safe anytime-valid inference", Statistical Science 2023): the probability that it ever
reaches 1/α is at most α.

Arrays have the shape (..., blocks, members): any number of leading axes (contrasts, simulated runs) is
computed at once. Member 0 is the arm, the others are its controls. All sums are of logarithms.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from pgassay.model.experiment import EvidenceUnit

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

PRIOR_WEIGHT = 3.0


@dataclass(frozen=True)
class EvidenceRules:
    """What the evidence is made with, fixed before the first trial (`StatisticalContract`).

    sharpness: least, most and number of the values of g, spaced geometrically; first_scale: the spread of d
    (in logs) that is assumed before the first block; weights: what each value of g counts beside the others,
    above 0, all alike where there are none; clipped_share: what clipped values count (`clipped`), from 0 on
    and below 1. flips: whether sign flips must confirm it (`joined`). points: the values of g
    where they are not spaced geometrically. unit, start_deviation: with 'start' a
    row is a start of one server for all arms, of which `starts` makes the evidence, by that deviation and by
    nothing else of these rules. bounded_pairs: of pairs, an effect that is larger than noise can be is found
    by its size as well (`sign_flips.with_bound`).
    """

    sharpness: tuple[float, float, int] = (0.3, 6.0, 8)
    first_scale: float = 0.05
    weights: tuple[float, ...] = ()
    clipped_share: float = 0.0
    flips: bool = False
    points: tuple[float, ...] = ()
    unit: EvidenceUnit = "trial"
    start_deviation: float = 0.05
    bounded_pairs: bool = False

    @cached_property
    def grid(self) -> FloatArray:
        """The values of g, shape (points,)."""
        if self.points:
            return np.array(self.points, dtype=np.float64)
        least, most, points = self.sharpness
        result: FloatArray = np.geomspace(least, most, points)
        return result

    @cached_property
    def log_weights(self) -> FloatArray:
        """log of each value's weight, shape (points,); only their differences count.

        Raises ValueError when there are weights, but not one above 0 for each value.
        """
        points = len(self.grid)
        if not self.weights:
            return np.zeros(points)
        if len(self.weights) != points or min(self.weights) <= 0:
            raise ValueError(f"{points} weights above 0 are needed, got {self.weights}")
        return np.log(np.array(self.weights, dtype=np.float64))


# What experiments have whose contract names no rules, and what every check of a twin uses.
BASE_RULES = EvidenceRules()


class AnyEvidence(Protocol):
    """What the blocks say, ready to be asked about any effect (a log ratio): all that a verdict needs.

    An effect has the leading shape, or is one number; answers are (..., blocks).
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading shape: that of an effect."""

    @property
    def blocks(self) -> int:
        """The number of blocks observed."""

    def log_path_above(self, effect: FloatArray | float) -> FloatArray:
        """log E⁺ after each block; it never rises when `effect` rises."""

    def log_path_below(self, effect: FloatArray | float) -> FloatArray:
        """log E⁻ after each block; it never falls when `effect` rises."""

    def log_highest_above(self, effect: FloatArray | float) -> FloatArray:
        """The highest log E⁺ after any block so far: what a running interval is made of."""

    def log_highest_below(self, effect: FloatArray | float) -> FloatArray:
        """As log_highest_above, of E⁻."""


class BlockEvidence(AnyEvidence, Protocol):
    """Evidence that is a weighted mean over a grid of products of the blocks' factors.

    Factors have the shape (..., blocks, grid); an effect, and each end of a bracket, the leading one.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading shape: that of an effect."""

    @property
    def blocks(self) -> int:
        """The number of blocks observed."""

    @property
    def members(self) -> int:
        """The members of a block."""

    @property
    def log_weights(self) -> FloatArray:
        """What each grid point counts (`EvidenceRules`), shape (grid,)."""

    @property
    def log_bounding_share(self) -> float:
        """log of the weight of the factors that `bracket_of_end` is about; 0 where those are all."""

    def log_factors_above(self, effect: FloatArray | float) -> FloatArray:
        """log of each block's factor of E⁺ by grid point."""

    def log_factors_below(self, effect: FloatArray | float) -> FloatArray:
        """As log_factors_above, of E⁻."""

    def both_sides(self) -> Self:
        """The evidence and that of the negated log speeds, on a new first axis.

        The lower end of the second is the negated upper end of the first.
        """

    def bracket_of_end(self, excess: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Effects around the lower end: left of the first every factor of E⁺ is at least n·exp(−excess/2).

        Of those in E⁺ that `log_bounding_share` is of. Right of the second every one is at most 1. `excess`
        is above 0 and broadcasts to the leading shape, with axes before it or not.
        """

    def bracket_of_balance(self) -> tuple[FloatArray, FloatArray]:
        """Effects around the one at which E⁺ = E⁻."""


class HighestSoFar:
    """The running maximum of what is said after each block, for evidence that is one path."""

    def log_highest_above(self: AnyEvidence, effect: FloatArray | float) -> FloatArray:
        """The highest log E⁺ after any block so far."""
        result: FloatArray = np.maximum.accumulate(self.log_path_above(effect), axis=-1)
        return result

    def log_highest_below(self: AnyEvidence, effect: FloatArray | float) -> FloatArray:
        """As log_highest_above, of E⁻."""
        result: FloatArray = np.maximum.accumulate(self.log_path_below(effect), axis=-1)
        return result


class OfFactors(HighestSoFar):
    """The path of evidence that is a `BlockEvidence`."""

    def log_path_above(self: BlockEvidence, effect: FloatArray | float) -> FloatArray:
        """log E⁺ after each block."""
        return mixed(log_products_above(self, effect), self.log_weights)

    def log_path_below(self: BlockEvidence, effect: FloatArray | float) -> FloatArray:
        """log E⁻ after each block."""
        return mixed(log_products_below(self, effect), self.log_weights)


@dataclass(frozen=True)
class Evidence(OfFactors):
    """The evidence of blocks in which it does not matter when a member ran.

    difference: d, the arm less the mean of its controls, shape (..., blocks).
    sharpness: κ per block and grid point, shape (..., blocks, grid).
    others_up, others_down: log Σ over the controls of exp(±κ·(x_j − their mean)), same shape as κ.
    members: n, the members of a block (2 paired, 3 with the twin pooled).
    log_weights: what each grid point counts, shape (grid,).
    """

    difference: FloatArray
    sharpness: FloatArray
    others_up: FloatArray
    others_down: FloatArray
    members: int
    log_weights: FloatArray
    log_bounding_share: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading shape: that of an effect."""
        return self.difference.shape[:-1]

    @property
    def blocks(self) -> int:
        """The number of blocks observed."""
        return int(self.difference.shape[-1])

    def log_factors_above(self, effect: FloatArray | float) -> FloatArray:
        """log of each block's factor of E⁺ by grid point, (..., blocks, grid)."""
        exponent = self._exponent(effect)
        result: FloatArray = np.log(self.members) - np.logaddexp(0.0, self.others_up - exponent)
        return result

    def log_factors_below(self, effect: FloatArray | float) -> FloatArray:
        """As log_factors_above, of E⁻."""
        exponent = self._exponent(effect)
        result: FloatArray = np.log(self.members) - np.logaddexp(0.0, self.others_down + exponent)
        return result

    def mirrored(self) -> "Evidence":
        """The evidence of the negated log speeds: its lower end is the negated upper end."""
        return replace(
            self, difference=-self.difference, others_up=self.others_down, others_down=self.others_up
        )

    def both_sides(self) -> "Evidence":
        """The evidence and its mirror image, on a new first axis."""
        other = self.mirrored()
        return Evidence(
            np.stack([self.difference, other.difference]),
            np.stack([self.sharpness, other.sharpness]),
            np.stack([self.others_up, other.others_up]),
            np.stack([self.others_down, other.others_down]),
            self.members,
            self.log_weights,
        )

    def bracket_of_end(self, excess: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Effects around the lower end, of the leading shape.

        Left of the first every factor of E⁺ is at least n·exp(−excess/2), so that of E⁺ after `blocks` blocks
        passes any target that leaves `excess` for each; right of the second every factor is at most 1.
        """
        reach = (self.others_up - np.log(np.expm1(excess[..., np.newaxis, np.newaxis] / 2))) / self.sharpness
        low = (self.difference[..., np.newaxis] - reach).min(axis=(-2, -1))
        return low, self._neutral_points().max(axis=(-2, -1))

    def bracket_of_balance(self) -> tuple[FloatArray, FloatArray]:
        """Effects around the one at which E⁺ = E⁻, each of the leading shape.

        Left of every neutral point of E⁺ its logarithm is the greater, right of every one of E⁻ the lesser.
        """
        # The margin around the bracket keeps the signs at its ends apart when all neutral points coincide.
        margin = 1 / self.sharpness.max(axis=(-2, -1))
        low = self._neutral_points().min(axis=(-2, -1)) - margin
        return low, margin - self.mirrored()._neutral_points().min(axis=(-2, -1))

    def _exponent(self, effect: FloatArray | float) -> FloatArray:
        moved = self.difference - np.asarray(effect, dtype=np.float64)[..., np.newaxis]
        result: FloatArray = self.sharpness * moved[..., np.newaxis]
        return result

    def _neutral_points(self) -> FloatArray:
        """Per block and grid point the effect at which the factor of E⁺ is exactly 1, (..., blocks, grid)."""
        neutral = np.log(self.members - 1)
        result: FloatArray = self.difference[..., np.newaxis] - (self.others_up - neutral) / self.sharpness
        return result


def differences(members: FloatArray) -> FloatArray:
    """d of each block: the arm less the mean of its controls; (..., blocks, n) → (..., blocks)."""
    result: FloatArray = members[..., 0] - members[..., 1:].mean(axis=-1)
    return result


def predictable_scale(difference: FloatArray, first_scale: float = BASE_RULES.first_scale) -> FloatArray:
    """s_b of every block from earlier blocks only, shape (..., blocks) → (..., blocks).

    s_1 is `first_scale`, and s_b² = [Σ_{i<b} (d_i − mean_{i<b} d)² + 3·s_1²] / (b + 1). A scale that knew its
    own block, or was computed again later, would spoil the expectation of the factors.
    """
    scale = np.empty_like(difference)
    scale[..., 0] = first_scale
    mean = np.zeros(difference.shape[:-1])
    squares = np.zeros(difference.shape[:-1])
    for earlier in range(1, difference.shape[-1]):
        value = difference[..., earlier - 1]
        # Welford's update: a common shift of d must not cost digits of the sum of squares.
        distance = value - mean
        mean = mean + distance / earlier
        squares = squares + distance * (value - mean)
        scale[..., earlier] = np.sqrt((squares + PRIOR_WEIGHT * first_scale**2) / (earlier + 2))
    return scale


def gather_evidence(members: FloatArray, rules: EvidenceRules = BASE_RULES) -> Evidence:
    """The evidence in blocks of log speeds, shape (..., blocks, n) with n ≥ 2 and at least one block.

    Raises ValueError when a block has fewer than two members or there is no block.
    """
    if members.ndim < 2 or members.shape[-1] < 2 or members.shape[-2] < 1:
        raise ValueError(f"evidence needs at least one block of two members, got the shape {members.shape}")
    count = members.shape[-1]
    difference = differences(members)
    factor = rules.grid * count / (count - 1)
    sharpness = factor / predictable_scale(difference, rules.first_scale)[..., np.newaxis]
    others = members[..., 1:]
    offsets = others - others.mean(axis=-1, keepdims=True)
    if count == 2:
        # A single control is its own mean: its term is exp(0) whatever κ is.
        up = down = np.zeros_like(sharpness)
    else:
        exponents = sharpness[..., np.newaxis] * offsets[..., np.newaxis, :]
        up, down = log_sum_exp(exponents), log_sum_exp(-exponents)
    return Evidence(difference, sharpness, up, down, count, rules.log_weights)


def log_sum_exp(exponents: FloatArray) -> FloatArray:
    """log Σ exp over the last axis, without overflow."""
    largest = exponents.max(axis=-1)
    result: FloatArray = largest + np.log(np.exp(exponents - largest[..., np.newaxis]).sum(axis=-1))
    return result


def mixed(products: FloatArray, log_weights: FloatArray) -> FloatArray:
    """log of the weighted mean over the grid of running products given as logs, (..., grid) → (...).

    A mean of test martingales, with weights that are fixed beforehand, is one.
    """
    result: FloatArray = log_sum_exp(products + log_weights) - np.log(np.exp(log_weights).sum())
    return result


def log_products_above(evidence: BlockEvidence, effect: FloatArray | float = 0.0) -> FloatArray:
    """log of the running product of each grid point's factors of E⁺, shape (..., blocks, grid)."""
    return np.cumsum(evidence.log_factors_above(effect), axis=-2)


def log_products_below(evidence: BlockEvidence, effect: FloatArray | float = 0.0) -> FloatArray:
    """As log_products_above, of E⁻."""
    return np.cumsum(evidence.log_factors_below(effect), axis=-2)


def log_evidence_above(evidence: AnyEvidence, effect: FloatArray | float = 0.0) -> FloatArray:
    """log E⁺ after each block: evidence that the true effect is above `effect` (a log ratio).

    `effect` has the leading shape of the evidence, or is one number; the answer is (..., blocks).
    It never rises when `effect` rises.
    """
    return evidence.log_path_above(effect)


def log_evidence_below(evidence: AnyEvidence, effect: FloatArray | float = 0.0) -> FloatArray:
    """log E⁻ after each block: evidence that the true effect is below `effect`; never falls as it rises."""
    return evidence.log_path_below(effect)


def log_evidence(evidence: AnyEvidence, effect: FloatArray | float = 0.0) -> FloatArray:
    """log E after each block, E = (E⁺ + E⁻)/2: evidence that the effect is not `effect`; (..., blocks)."""
    above, below = log_evidence_above(evidence, effect), log_evidence_below(evidence, effect)
    result: FloatArray = np.logaddexp(above, below) - np.log(2.0)
    return result
