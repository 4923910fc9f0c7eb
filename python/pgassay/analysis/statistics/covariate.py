"""Adjustment of log speeds for a covariate measured before each trial (the canary).

The covariate can't depend on the arm, and the slope used in a block comes from earlier blocks only, so the
members of a block can still change places and the evidence stays valid.
"""

import numpy as np

from pgassay.analysis.statistics.eprocess import FloatArray, differences

RIDGE_BLOCKS = 3.0
BLOCKS_BEFORE = 4


def slopes(values: FloatArray, covariate: FloatArray) -> FloatArray:
    """β_b of every block, shape (..., blocks), from values and covariate of shape (..., blocks, n).

    β_b = S(Δx, d) / (S(Δx, Δx) + 3·mean(Δx²)) over the blocks before b, and 0 for the first four. S is the
    centred sum of products, so a constant effect of the arm does not move the slope.
    """
    response, predictor = np.broadcast_arrays(differences(values), differences(covariate))
    result = np.zeros(response.shape)
    shape = response.shape[:-1]
    mean_response, mean_predictor = np.zeros(shape), np.zeros(shape)
    products, squares, raw_squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for earlier in range(1, response.shape[-1]):
        y, x = response[..., earlier - 1], predictor[..., earlier - 1]
        distance = x - mean_predictor
        mean_predictor = mean_predictor + distance / earlier
        mean_response = mean_response + (y - mean_response) / earlier
        products = products + distance * (y - mean_response)
        squares = squares + distance * (x - mean_predictor)
        raw_squares = raw_squares + x * x
        if earlier < BLOCKS_BEFORE:
            continue
        weight = squares + RIDGE_BLOCKS * raw_squares / earlier
        # A covariate that never moved says nothing: no adjustment.
        result[..., earlier] = np.divide(products, weight, out=np.zeros(shape), where=weight > 0)
    return result


def adjust(values: FloatArray, covariate: FloatArray) -> FloatArray:
    """y′ = y − β_b·x for every member of every block, shape (..., blocks, n)."""
    result: FloatArray = values - slopes(values, covariate)[..., np.newaxis] * covariate
    return result
