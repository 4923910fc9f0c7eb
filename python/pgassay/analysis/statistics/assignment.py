"""Evidence that rests on what was drawn and on nothing else: positions, neighbours, copies of the data.

Who ran first, who ran after whom and which copy a block used were drawn for each block alone. If that makes
no difference, the trial that the draw chose is a fair pick among those that it could have chosen, whatever
the noise, the drift and the effects of the arms are. A bet on it, made before the draw, then has expectation
1, and the product over the draws is a test martingale (Ville 1939). Fisher's randomisation test, made
sequential by betting: Shafer, "Testing by betting", Journal of the Royal Statistical Society A (2021).
"""

import numpy as np

from pgassay.analysis.statistics.eprocess import (
    BASE_RULES,
    PRIOR_WEIGHT,
    BoolArray,
    FloatArray,
    log_sum_exp,
)

# Half-lives of memory, in blocks: a machine that drifts is told by its last blocks, a steady one by all.
LEVEL_MEMORIES = (1.0, 8.0)


def log_draw_evidence(values: FloatArray) -> FloatArray:
    """log E after each draw that the trial drawn differs from those that could have been drawn as well.

    values: (..., draws, members); member 0 is the trial that was drawn, the others might have been; NaN where
    a draw has fewer members. They must not depend on this draw, so an arm's effect may be taken out by what
    earlier blocks showed and by nothing later. A draw without member 0, or with it alone, says nothing. The
    factor is that of `eprocess`, n·exp(κ·x_0) / Σ_j exp(κ·x_j) with a scale from earlier draws; upwards and
    downwards have half each. Answer: (..., draws).
    """
    present = ~np.isnan(values)
    count = present.sum(axis=-1)
    speaks: BoolArray = present[..., 0] & (count >= 2)
    filled = np.where(present & speaks[..., np.newaxis], values, 0.0)
    members = np.where(speaks, count, 2)
    others = filled[..., 1:].sum(axis=-1) / (members - 1)
    difference = filled[..., 0] - others
    factor = members / (members - 1) / _scale(difference, speaks)
    sharpness = factor[..., np.newaxis] * BASE_RULES.grid
    offsets = (filled - filled[..., :1])[..., np.newaxis, :]
    absent = np.where(present[..., np.newaxis, :], 0.0, -np.inf)
    paths = []
    for sign in (1.0, -1.0):
        log_factors = np.log(members)[..., np.newaxis] - log_sum_exp(
            np.where(speaks[..., np.newaxis, np.newaxis], absent, 0.0)
            + sign * sharpness[..., np.newaxis] * offsets
        )
        paths.append(np.where(speaks[..., np.newaxis], log_factors, 0.0))
    return _mean_of_products(np.concatenate(paths, axis=-1))


def level_deviations(levels: FloatArray, copies: FloatArray, memory: float) -> FloatArray:
    """How far each block's level lies from what earlier blocks let expect; (blocks) of log speeds.

    levels: a log speed of each block; copies: the copy of the data that it used. What the copies seemed to
    differ by in earlier blocks is taken out of those before they are averaged with weights that halve every
    `memory` blocks. The first block has no expectation: 0.
    """
    deviations = np.zeros(len(levels))
    for block in range(1, len(levels)):
        seen = {copy: deviations[1:block][copies[1:block] == copy] for copy in set(copies[:block])}
        # Towards 0 by two blocks' worth: a copy seen once has shown little.
        effect = {copy: found.sum() / (len(found) + 2) for copy, found in seen.items()}
        weights = 0.5 ** (np.arange(block - 1, -1, -1) / memory)
        corrected = levels[:block] - np.array([effect[copy] for copy in copies[:block]])
        deviations[block] = levels[block] - weights @ corrected / weights.sum()
    return deviations


def log_copy_evidence(deviations: FloatArray, copies: FloatArray, count: int) -> FloatArray:
    """log E after each block that its level depends on which of `count` copies was drawn for it.

    deviations: (..., blocks), from earlier blocks and this one's level (`level_deviations`); copies: the copy
    drawn, 0 to count − 1, uniformly and for each block alone. If the copies are alike, the copy is a fair
    draw given the level, and count·exp(κ·z·[copy = t]) / (exp(κ·z) + count − 1) has expectation 1. The answer
    is the mean over t, over both directions and over the grid of κ; (..., blocks).
    """
    sharpness = (
        BASE_RULES.grid * 2.0 / _scale(deviations, np.ones(deviations.shape, dtype=bool))[..., np.newaxis]
    )
    paths = []
    for sign in (1.0, -1.0):
        exponent = sign * sharpness * deviations[..., np.newaxis]
        all_copies = np.logaddexp(exponent, np.log(count - 1)) if count > 1 else exponent
        for target in range(count):
            is_target = (np.asarray(copies) == target)[..., np.newaxis]
            paths.append(np.log(count) + np.where(is_target, exponent, 0.0) - all_copies)
    return _mean_of_products(np.concatenate(paths, axis=-1))


def _mean_of_products(log_factors: FloatArray) -> FloatArray:
    """log of the mean over the bets of their running products, (..., draws, bets) → (..., draws)."""
    products = np.cumsum(log_factors, axis=-2)
    result: FloatArray = log_sum_exp(products) - np.log(products.shape[-1])
    return result


def _scale(difference: FloatArray, speaks: BoolArray) -> FloatArray:
    """As `eprocess.predictable_scale`, from those earlier draws that said something."""
    scale = np.empty_like(difference)
    shape = difference.shape[:-1]
    count, mean, squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for draw in range(difference.shape[-1]):
        scale[..., draw] = np.sqrt(
            (squares + PRIOR_WEIGHT * BASE_RULES.first_scale**2) / (count + PRIOR_WEIGHT)
        )
        counts = speaks[..., draw]
        count = count + counts
        distance = np.where(counts, difference[..., draw] - mean, 0.0)
        mean = mean + distance / np.maximum(count, 1)
        squares = squares + distance * np.where(counts, difference[..., draw] - mean, 0.0)
    return scale
