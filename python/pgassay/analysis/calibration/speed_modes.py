"""Whether the trials of equal arms come in two speeds, and which reading before them tells it. Pure."""

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import stdtrit

from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.model.calibration import CovariateFit, ModesResult, Told

TRIALS_MIN = 18
DEGREES_MIN = 6
# The best cut in two takes 64 % of the variance of normal trials and 75 % of evenly spread ones. Above this
# fewer than 1 % of 18 normal trials come, and none of 36; two speeds six spreads apart do in most cases.
SPLIT_MIN = 0.87
SMALLER_MIN = 0.10
EXPLAINED_MIN = 0.5
SLOPE_ALPHA = 0.01


def modes(logs: FloatArray, covariates: Mapping[Told, FloatArray]) -> ModesResult | None:
    """Two speeds of equal arms' log speeds, shape (blocks, arms), and what tells them.

    covariates: the logs of each reading, of the same shape; those with a trial that lacks one are left out.
    None with too few trials for either question.
    """
    blocks, arms = logs.shape
    degrees = (blocks - 1) * (arms - 1)
    split = _split(logs - logs.mean(axis=0)) if logs.size >= TRIALS_MIN else None
    fits = []
    if degrees >= DEGREES_MIN:
        whole = {name: values for name, values in covariates.items() if np.isfinite(values).all()}
        found = {name: _fit(logs, values, degrees, len(whole)) for name, values in whole.items()}
        fits = [
            CovariateFit(name=name, explained=fit[0], spread=fit[1], tells=fit[2])
            for name, fit in found.items()
            if fit is not None
        ]
    if logs.size < TRIALS_MIN and not fits:
        return None
    telling = [fit for fit in fits if fit.tells and fit.explained >= EXPLAINED_MIN]
    best = max(telling, key=lambda fit: fit.explained, default=None)
    return ModesResult(
        found=split is not None,
        ratio=split[0] if split else None,
        slow_share=split[1] if split else None,
        covariates=tuple(fits),
        declare=best.name if best else None,
    )


def _split(values: FloatArray) -> tuple[float, float] | None:
    """The ratio of two speeds and the share of slow trials; None where no cut in two explains enough.

    The best cut is that of two means in one dimension, over all cuts of the ordered values.
    """
    ordered = np.sort(values, axis=None)
    ordered = ordered - ordered.mean()
    count = ordered.size
    total = float((ordered**2).sum())
    if total <= 0:
        return None
    below = np.arange(1, count)
    between = np.cumsum(ordered)[:-1] ** 2 * count / (below * (count - below))
    between[np.minimum(below, count - below) < SMALLER_MIN * count] = 0.0
    place = int(between.argmax())
    if between[place] < SPLIT_MIN * total:
        return None
    slow = place + 1
    distance = float(ordered[slow:].mean() - ordered[:slow].mean())
    return math.exp(distance), slow / count


def _fit(
    logs: FloatArray, covariate: FloatArray, degrees: int, tests: int
) -> tuple[float, float, bool] | None:
    """The share that a line explains, the spread that is left, and whether the slope is real.

    Blocks and arms are taken out of both, as the adjustment works within blocks. None where nothing moves.
    """
    y, x = _residuals(logs), _residuals(covariate)
    squares_y, squares_x = float((y**2).sum()), float((x**2).sum())
    if squares_y <= 0 or squares_x <= 1e-12:
        return None
    slope = float((x * y).sum()) / squares_x
    left = max(0.0, squares_y - slope**2 * squares_x)
    spread = math.sqrt(left / (degrees - 1))
    explained = 1 - spread**2 / (squares_y / degrees)
    bound = float(stdtrit(degrees - 1, 1 - SLOPE_ALPHA / (2 * tests)))
    tells = abs(slope) * math.sqrt(squares_x) > bound * spread
    return explained, spread, tells


def _residuals(values: FloatArray) -> FloatArray:
    result: FloatArray = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    return result
