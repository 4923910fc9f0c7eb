"""Evidence that knows that trials near in time are alike.

Which member of a block ran at which position is drawn, so for any function s of the block's values in the
order of time and of what was seen before, n·exp(s at the arm) / Σ over the members of exp(s) has expectation
1 once the true effect is taken from the arm's value. The best s is the log likelihood ratio of a shift δ of
one value in correlated noise: δ·(K·x)_t − δ²·K_tt/2. K is the inverse of the covariance, with an unknown
level projected out (as in generalised least squares). A bad K costs evidence and never its validity.

K is a mean of the models below, weighted by how well each foretold every value of earlier blocks from its
neighbours (the pseudo-likelihood of Besag, "Statistical Analysis of Non-Lattice Data", The Statistician
1975). Noise of a model: a share SHARE of the variance drifts, and is φ^h alike over h trials; the rest is
new in each trial. The neighbours are the members of the block and, in two of the models, the controls of the
block before: not in the others, for where each block has a level of its own, they say nothing.

The factor is monotone in the effect. A covariance a·φ^|h| plus a diagonal has an inverse with no positive
element off its diagonal and with row sums that are not negative; both hold after the projection, so
K_aa − K_ja > 0 for every control j. A mean of such matrices is one.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pgassay.analysis.statistics.eprocess import (
    PRIOR_WEIGHT,
    EvidenceRules,
    FloatArray,
    OfFactors,
    differences,
)

SHARE = 0.95
ALIKE = 0.85


@dataclass(frozen=True)
class _Model:
    """A covariance of the noise: `share` of it drifts; `before`: the controls of the row before count too.

    weight: what it counts before anything was seen.
    """

    share: float
    before: bool
    weight: float


_MODELS = (
    _Model(0.0, before=False, weight=0.3),
    _Model(0.0, before=True, weight=0.4),
    _Model(SHARE, before=False, weight=0.15),
    _Model(SHARE, before=True, weight=0.15),
)


@dataclass(frozen=True)
class DriftEvidence(OfFactors):
    """What the blocks say, as `Evidence`, with a weight for each neighbour.

    offsets: (K·x)_arm − (K·x)_j of each control j, shape (..., blocks, n − 1); slopes: K_aa − K_ja, by which
    an offset falls with the effect, above 0; biases: (K_aa − K_jj)/2, both of the same shape.
    shift: δ per block and grid point, shape (..., blocks, grid). members: n. log_weights: what each grid
    point counts, shape (grid,).
    """

    offsets: FloatArray
    slopes: FloatArray
    biases: FloatArray
    shift: FloatArray
    members: int
    log_weights: FloatArray
    log_bounding_share: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading shape: that of an effect."""
        return self.offsets.shape[:-2]

    @property
    def blocks(self) -> int:
        """The number of blocks observed."""
        return int(self.offsets.shape[-2])

    def log_factors_above(self, effect: FloatArray | float) -> FloatArray:
        """log of each block's factor of E⁺ by grid point, (..., blocks, grid)."""
        return self._log_factors(-1.0, effect)

    def log_factors_below(self, effect: FloatArray | float) -> FloatArray:
        """As log_factors_above, of E⁻."""
        return self._log_factors(1.0, effect)

    def mirrored(self) -> "DriftEvidence":
        """The evidence of the negated log speeds: its lower end is the negated upper end."""
        return replace(self, offsets=-self.offsets)

    def both_sides(self) -> "DriftEvidence":
        """The evidence and its mirror image, on a new first axis."""
        slopes, biases, shift = (np.stack([each, each]) for each in (self.slopes, self.biases, self.shift))
        return replace(
            self,
            offsets=np.stack([self.offsets, -self.offsets]),
            slopes=slopes,
            biases=biases,
            shift=shift,
        )

    def bracket_of_end(self, excess: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Effects around the lower end, of the leading shape.

        Left of the first every factor of E⁺ is at least n·exp(−excess/2), right of the second at most 1.
        """
        reach = np.log(np.expm1(excess / 2) / (self.members - 1))[..., np.newaxis, np.newaxis, np.newaxis]
        return self._effects_with(reach).min(axis=(-3, -2, -1)), self._effects_with(0.0).max(
            axis=(-3, -2, -1)
        )

    def bracket_of_balance(self) -> tuple[FloatArray, FloatArray]:
        """Effects around the one at which E⁺ = E⁻, each of the leading shape.

        Left of the first every factor of E⁺ is above 1 and every one of E⁻ below, right of the second the
        other way round.
        """
        margin = 1 / (self.shift.max(axis=-1)[..., np.newaxis] * self.slopes).max(axis=(-2, -1))
        both = np.stack([self._effects_with(0.0), -self.mirrored()._effects_with(0.0)])
        return both.min(axis=(0, -3, -2, -1)) - margin, both.max(axis=(0, -3, -2, -1)) + margin

    @cached_property
    def _biased(self) -> tuple[FloatArray, ...]:
        """δ²·bias of each control, (..., blocks, grid) each: what a root's many steps have in common."""
        return tuple(self.shift**2 * bias[..., np.newaxis] for bias in np.moveaxis(self.biases, -1, 0))

    def _log_factors(self, sign: float, effect: FloatArray | float) -> FloatArray:
        moved = self.slopes * np.asarray(effect, dtype=np.float64)[..., np.newaxis, np.newaxis]
        ahead = np.moveaxis(sign * (self.offsets - moved), -1, 0)
        total = np.zeros_like(self.shift)
        for of_control, bias in zip(ahead, self._biased, strict=True):
            total = np.logaddexp(total, self.shift * of_control[..., np.newaxis] + bias)
        result: FloatArray = np.log(self.members) - total
        return result

    def _effects_with(self, exponent: FloatArray | float) -> FloatArray:
        """The effects at which each control's exponent in E⁺ is `exponent`, (..., blocks, grid, n − 1)."""
        shift = self.shift[..., np.newaxis]
        numerator = (
            self.offsets[..., np.newaxis, :] - shift * self.biases[..., np.newaxis, :] + exponent / shift
        )
        result: FloatArray = numerator / self.slopes[..., np.newaxis, :]
        return result


@dataclass(frozen=True)
class DriftModels:
    """What the models say of each block, from earlier ones.

    members: log speeds, (..., blocks, n); slots: when each ran; inverses: K of each model, (models, ...,
    blocks, n, 2n − 1); weights: (models, ..., blocks).
    """

    members: FloatArray
    slots: FloatArray
    inverses: FloatArray
    weights: FloatArray

    def within_blocks(self) -> tuple[FloatArray, FloatArray]:
        """The arm less its controls, weighed by their places, and its standard error if the models are right.

        Of the members of a block alone, whose signs the block before does not know; both (..., blocks).
        """
        gaps = np.abs(self.slots[..., :, np.newaxis] - self.slots[..., np.newaxis, :])
        of_arm = np.zeros(self.members.shape)
        for model, weight in zip(_MODELS, self.weights, strict=True):
            of_arm = of_arm + weight[..., np.newaxis] * _projected(gaps, model.share)[..., 0, :]
        own = of_arm[..., 0]
        # Less the first control, which changes nothing and saves digits.
        values = self.members - self.members[..., 1:2]
        difference: FloatArray = (of_arm * values).sum(axis=-1) / own
        return difference, 1 / np.sqrt(own)


def drift_models(members: FloatArray, slots: FloatArray, rules: EvidenceRules) -> DriftModels:
    """The models of blocks of log speeds, (..., blocks, n), the arm first; as `gather_drift_evidence`."""
    if members.ndim < 2 or members.shape[-1] < 2 or members.shape[-2] < 1:
        raise ValueError(f"evidence needs at least one block of two members, got the shape {members.shape}")
    if slots.ndim != members.ndim or slots.shape[-2:] != members.shape[-2:]:
        raise ValueError(f"slots of the shape {slots.shape} don't fit members of {members.shape}")
    inverses = _inverses(slots)
    values = _with_row_before(members)
    weights = _weights(inverses, values, differences(members), rules.first_scale)
    return DriftModels(members, slots, inverses, weights)


def gather_drift_evidence(
    members: FloatArray, slots: FloatArray, rules: EvidenceRules, models: DriftModels | None = None
) -> DriftEvidence:
    """The evidence in blocks of log speeds, (..., blocks, n), the arm first.

    slots: when each ran, as the planned number of the trial, of as many axes as `members`, leading ones of
    length 1 where they are the same for all. No two in a block, or in two that follow each other, are equal.
    models: those of the same blocks, where they are known already.
    Raises ValueError when a block has fewer than two members, there is no block, or the slots don't fit.
    """
    count = members.shape[-1]
    found = models or drift_models(members, slots, rules)
    inverses, weights, values = found.inverses, found.weights, _with_row_before(members)
    mean = np.einsum("k...b,k...bij->...bij", weights, inverses)
    score = np.einsum("...ij,...j->...i", mean, values)
    within = mean[..., :count]
    own = np.diagonal(within, axis1=-2, axis2=-1)
    # What a shift of one member moves among them: the level of the block can't tell its members apart.
    told = own.mean(axis=-1) - within.sum(axis=(-2, -1)) / count**2
    shift = rules.grid / np.sqrt(told)[..., np.newaxis]
    slopes = own[..., :1] - within[..., 1:, 0]
    biases = (own[..., :1] - own[..., 1:]) / 2
    return DriftEvidence(score[..., :1] - score[..., 1:], slopes, biases, shift, count, rules.log_weights)


def _with_row_before(members: FloatArray) -> FloatArray:
    """Each row's members, then the controls of the row before, all less the mean of the row's controls.

    (..., rows, n) → (..., rows, 2n − 1). The first row has none before it: zeros, which have no weight. What
    is taken from all alike changes nothing, and saves digits.
    """
    controls = members[..., 1:]
    level = controls.mean(axis=-1, keepdims=True)
    before = np.zeros_like(controls)
    before[..., 1:, :] = controls[..., :-1, :] - level[..., 1:, :]
    return np.concatenate([members - level, before], axis=-1)


def _inverses(slots: FloatArray) -> FloatArray:
    """K of each model in units of its noise, for the members alone: (models, ..., rows, n, 2n − 1)."""
    count = slots.shape[-1]
    wide = _with_row_before(slots)
    gaps = np.abs(wide[..., :, np.newaxis] - wide[..., np.newaxis, :])
    result = np.zeros((len(_MODELS), *slots.shape[:-1], count, 2 * count - 1))
    for place, model in enumerate(_MODELS):
        result[place, ..., :count] = _projected(gaps[..., :count, :count], model.share)
        if model.before:
            result[place, ..., 1:, :, :] = _projected(gaps[..., 1:, :, :], model.share)[..., :count, :]
    return result


def _projected(gaps: FloatArray, share: float) -> FloatArray:
    """The inverse of the correlation at these gaps, with the unknown level projected out."""
    inverse = np.linalg.inv(share * ALIKE**gaps + (1 - share) * np.eye(gaps.shape[-1]))
    sums = inverse.sum(axis=-1)
    outer = sums[..., :, np.newaxis] * sums[..., np.newaxis, :]
    result: FloatArray = inverse - outer / sums.sum(axis=-1)[..., np.newaxis, np.newaxis]
    return result


def _weights(
    inverses: FloatArray, values: FloatArray, difference: FloatArray, first_scale: float
) -> FloatArray:
    """Each model's weight over its variance, from earlier rows only, (models, ..., rows).

    The effect of the arm is taken out by least squares, so no effect moves them.
    """
    count = inverses.shape[-2]
    own = np.diagonal(inverses[..., :count], axis1=-2, axis2=-1)
    # The first row's difference stands for the effect until least squares: that keeps the digits.
    centred = values.copy()
    centred[..., 0] -= difference[..., :1]
    errors = np.einsum("...ij,...j->...i", inverses, centred) / np.sqrt(own)
    arm = np.broadcast_to(inverses[..., 0] / np.sqrt(own), errors.shape)
    squares, products = _before((errors**2).sum(axis=-1)), _before((errors * arm).sum(axis=-1))
    arms = _before((arm**2).sum(axis=-1))
    explained = np.divide(products**2, arms, out=np.zeros_like(squares), where=arms > 0)
    # n errors in a row whose level is unknown: n − 1 degrees of freedom.
    freedom = (count - 1) / count
    rows = np.arange(squares.shape[-1])
    degrees = np.maximum(rows * (count - 1) - 1, 0) + PRIOR_WEIGHT
    leading = (len(_MODELS),) + (1,) * (squares.ndim - 1)
    first = first_scale**2 * np.array([_single_trial_variance(each, count) for each in _MODELS])
    residual = np.maximum(squares - explained, 0.0)
    variance = (freedom * residual + PRIOR_WEIGHT * first.reshape(leading)) / degrees
    log_density = freedom * _before(np.log(own).sum(axis=-1)) / 2
    score = np.log([each.weight for each in _MODELS]).reshape(leading) + log_density
    score = score - degrees / 2 * np.log(variance) + PRIOR_WEIGHT / 2 * np.log(first.reshape(leading))
    score = np.exp(score - score.max(axis=0))
    result: FloatArray = score / score.sum(axis=0) / variance
    return result


def _before(rows: FloatArray) -> FloatArray:
    """The sum over the rows before each, same shape."""
    result = np.zeros_like(rows)
    result[..., 1:] = np.cumsum(rows, axis=-1)[..., :-1]
    return result


def _single_trial_variance(model: _Model, count: int) -> float:
    """The variance of a model's noise where d has variance 1, with members that ran one after another."""
    places = np.arange(count, dtype=np.float64)
    gaps = np.abs(places[:, np.newaxis] - places)
    alike = (model.share * ALIKE**gaps)[gaps > 0].mean()
    return float((count - 1) / count / (1 - alike))
