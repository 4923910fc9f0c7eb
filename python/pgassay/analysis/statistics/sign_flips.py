"""Sign flips, which confirm a verdict where an arm may be noisier than its controls.

Three members of a block that can change places are exact evidence for an arm that shifts and does nothing
else; an arm that is three times as noisy as its controls fools it in 12 % of experiments. Sign flips of the
arm less its controls hold for any noise that is symmetric, of whatever size (Fisher, "The Design of
Experiments" 1935), and are fooled by an arm's skewness. A verdict takes both.
"""

import math
from dataclasses import replace

import numpy as np

from pgassay.analysis.statistics.drift import DriftModels
from pgassay.analysis.statistics.eprocess import (
    AnyEvidence,
    Evidence,
    EvidenceRules,
    FloatArray,
    differences,
    predictable_scale,
)
from pgassay.analysis.statistics.joined_evidence import LOG_2, BothMustAgree, EitherWillDo
from pgassay.analysis.statistics.starts import BoundedEvidence

# Each of the two is eased by what simulation leaves (tests/statistics/starts/test_unequal_noise.py): an arm
# that shifts is bounded by the flips as well, and one that is noisier by the members that change places.
MEMBERS_EASED, FLIPS_EASED = LOG_2, 0.25
# Signs double the evidence at most, so of many comparisons each would take many blocks however large it is.
# An arm that differs by far more than trials can is therefore confirmed by that as well, with what is left of
# the wealth: no noise is taken to be beyond this, a log ratio, or beyond so many of the spreads that so many
# blocks at least have shown.
FLIPS_SHARE, TRIAL_DEVIATION, TRIAL_SPREADS, TRIAL_BLOCKS = 0.9, 0.2, 3.0, 4
# Sharpnesses of the flips: for effects of a third to two thirds of the spread, and for those that are so
# large that each block doubles.
FLIPS_SHARPNESS, FLIPS_WEIGHTS = (0.35, 0.5, 0.7, 3.0), (3.0, 4.0, 1.0, 6.0)


def with_flips(
    base: AnyEvidence, members: FloatArray, models: DriftModels | None, rules: EvidenceRules
) -> AnyEvidence:
    """The evidence of `base`, which sign flips must confirm where an arm has several controls.

    members: those of which `base` was made, (..., blocks, n), the arm first. A pair is a sign flip already.
    models: those of its neighbours in time, where it weighs them.
    """
    if not rules.flips or members.shape[-1] < 3:
        return base
    bounded = BoundedEvidence(differences(members), TRIAL_DEVIATION, TRIAL_SPREADS, TRIAL_BLOCKS - 1)
    confirmed = EitherWillDo(gather_flips(members, models, rules), bounded, FLIPS_SHARE)
    return BothMustAgree(base, confirmed, MEMBERS_EASED, FLIPS_EASED - math.log(FLIPS_SHARE))


def with_bound(base: AnyEvidence, members: FloatArray) -> EitherWillDo:
    """The evidence of pairs, (..., blocks, 2), beside that of an effect that is larger than noise can be."""
    bounded = BoundedEvidence(differences(members), TRIAL_DEVIATION, TRIAL_SPREADS, TRIAL_BLOCKS - 1)
    return EitherWillDo(base, bounded, FLIPS_SHARE)


def gather_flips(members: FloatArray, models: DriftModels | None, rules: EvidenceRules) -> Evidence:
    """Evidence of the sign of the arm less its controls, (..., blocks, n): a pair of it and 0.

    The controls are weighed by how alike they were to the arm in earlier blocks and in their places, if there
    are models of that; the scale is that of earlier blocks.
    """
    difference, unit = (differences(members), None) if models is None else models.within_blocks()
    scale = predictable_scale(difference, rules.first_scale)
    if unit is not None:
        scale = scale * unit / _earlier_mean_square(unit)
    flips = rules_of_flips(rules)
    sharpness = 2 * flips.grid / scale[..., np.newaxis]
    nothing = np.zeros_like(sharpness)
    return Evidence(difference, sharpness, nothing, nothing, 2, flips.log_weights)


def rules_of_flips(rules: EvidenceRules) -> EvidenceRules:
    """What the pairs of a difference and 0 are judged by."""
    return replace(rules, points=FLIPS_SHARPNESS, weights=FLIPS_WEIGHTS, clipped_share=0.0, flips=False)


def _earlier_mean_square(unit: FloatArray) -> FloatArray:
    """The root of the mean square over earlier blocks, the first block's own where there is none."""
    squares = np.cumsum(unit**2, axis=-1)
    blocks = np.arange(1, unit.shape[-1])
    earlier = np.concatenate([unit[..., :1] ** 2, squares[..., :-1] / blocks], axis=-1)
    result: FloatArray = np.sqrt(earlier)
    return result
