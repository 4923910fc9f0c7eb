"""What a trial does to the one after it, and what is left of an effect when that is taken out.

An arm never follows itself within a block, while its control and their twin follow it and each other. So what
an arm leaves behind (dirty pages, a hot cache of the device, a throttled processor) falls on those that it is
compared with. Least squares with an effect of each block, of each arm and of the trial before
(the first-order model of cross-over trials: Jones and Kenward, "Design and Analysis of Cross-Over Trials").
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray


@dataclass(frozen=True)
class CarryOverFigure:
    """An estimate with the ends of its interval; log ratios."""

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Separated:
    """An arm's effect apart from its carry-over; log ratios.

    effect: with the carry-over taken out. carry_over: of the trials after the arm against the others. raw:
    the effect by the same model without any carry-over.
    """

    effect: CarryOverFigure
    carry_over: CarryOverFigure
    raw: float


def separate(
    values: FloatArray, arms: FloatArray, follows: tuple[BoolArray, ...], level: float
) -> Separated | None:
    """Separate an arm's effect from what it leaves to the next trial; None when the trials can't tell them.

    values: (blocks, trials) log speeds, NaN where a block has no such trial. arms: of the same shape, 1 for
    the arm in question, 0 for its controls and a number of its own for every other arm. follows: which trials
    ran after the arm; then, as further terms, after other kinds of trials. level: of both intervals (0.05 is
    95 %), by Student's t.
    """
    present = ~np.isnan(values)
    kinds = [kind for kind in np.unique(arms[present]) if kind not in (0.0, 1.0)]
    members = [arms == kind for kind in (1.0, *kinds)]
    carried = [term for term in follows if term[present].any()]
    if not follows or not follows[0][present].any():
        return None
    blocks = int(present.any(axis=-1).sum())
    full = _solve(values, present, [*members, *carried], blocks)
    plain = _solve(values, present, members, blocks)
    if full is None or plain is None:
        return None
    beta, errors, degrees = full
    reach = float(stdtrit(degrees, 1 - level / 2))

    def figure(place: int) -> CarryOverFigure:
        width = reach * float(errors[place])
        return CarryOverFigure(float(beta[place]), float(beta[place]) - width, float(beta[place]) + width)

    return Separated(figure(0), figure(len(members)), float(plain[0][0]))


def _solve(
    values: FloatArray, present: BoolArray, terms: list[BoolArray], blocks: int
) -> tuple[FloatArray, FloatArray, int] | None:
    """Least squares within blocks: estimates, their standard errors, degrees of freedom."""
    outcome = _within_blocks(values, present)[present]
    design = np.stack([_within_blocks(term.astype(np.float64), present)[present] for term in terms], axis=1)
    degrees = len(outcome) - blocks - design.shape[1]
    normal = design.T @ design
    if degrees < 1 or np.linalg.matrix_rank(normal) < len(normal):
        return None
    inverse = np.linalg.inv(normal)
    beta = inverse @ (design.T @ outcome)
    residual = outcome - design @ beta
    variance = float(residual @ residual) / degrees
    return beta, np.sqrt(np.diag(inverse) * variance), degrees


def _within_blocks(values: FloatArray, present: BoolArray) -> FloatArray:
    filled = np.where(present, values, 0.0)
    count = np.maximum(present.sum(axis=-1, keepdims=True), 1)
    result: FloatArray = filled - filled.sum(axis=-1, keepdims=True) / count
    return result


def can_explain(separated: Separated | None, direction: int) -> bool:
    """Whether a direction (1 or −1) could come from carry-over, or nothing speaks against it.

    It could when taking the carry-over out moves the effect towards 0 and its interval then holds 0.
    """
    if separated is None:
        return True
    correction = separated.raw - separated.effect.estimate
    left = separated.effect.lower if direction > 0 else -separated.effect.upper
    return math.copysign(1.0, correction) == direction and left <= 0
