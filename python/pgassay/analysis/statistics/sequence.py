"""The confidence sequence of an effect, and its point estimate.

At level a the lower end L solves E⁺(L) = 2/a and the upper end U solves E⁻(U) = 2/a; both evidences are
monotone in the effect, so each end is found by halving (or better) a bracket that is known to hold it. An end
that so few blocks can't bound is infinite: n members bound it only once n^blocks > 2/a.
"""

import math
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.special import betaln

from pgassay.analysis.statistics.eprocess import (
    AnyEvidence,
    BlockEvidence,
    FloatArray,
    log_evidence_above,
    log_evidence_below,
)
from pgassay.analysis.statistics.joined_evidence import BothMustAgree, EitherWillDo
from pgassay.analysis.statistics.starts import OfStarts

WIDTH_MIN = 1e-13
STEPS_MAX = 200
# How far an end of few starts is looked for: a first step beyond their range, in logs, and its quadruplings.
REACH_MIN, REACHES_MAX = 1e-3, 30


@dataclass(frozen=True)
class Sequence:
    """Both ends of the interval as log ratios, each of the evidence's leading shape; ±inf if unbounded."""

    lower: FloatArray
    upper: FloatArray


def _find_root(
    function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray, *, problems: int = 0
) -> FloatArray:
    """The roots of functions that are positive at `low` and negative at `high`, all arrays alike.

    The first `problems` axes count problems, each of which gets the answer that it would get alone: while any
    root of a problem is looked for, the others of that problem still gain digits.

    Chandrupatla's bracketing method ("A new hybrid quadratic/bisection algorithm", Advances in Engineering
    Software 1997): an inverse quadratic step where it can be trusted, else a halving, so the bracket always
    shrinks around the root.
    """
    newest, other = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    at_newest, at_other = function(newest), function(other)
    third, at_third = newest, at_newest
    step = np.full(newest.shape, 0.5)
    result = np.empty_like(newest)
    open_problems = np.ones(newest.shape[:problems], dtype=np.bool_)
    within = tuple(range(problems, newest.ndim))
    for _ in range(STEPS_MAX):
        point = newest + step * (other - newest)
        at_point = function(point)
        same = np.sign(at_point) == np.sign(at_newest)
        third, at_third = np.where(same, newest, other), np.where(same, at_newest, at_other)
        other, at_other = np.where(same, other, newest), np.where(same, at_other, at_newest)
        newest, at_newest = point, at_point
        tolerance = WIDTH_MIN + 4 * np.finfo(np.float64).eps * np.abs(newest)
        width = np.abs(other - newest)
        found = ((width <= 2 * tolerance) | (at_newest == 0)).all(axis=within)
        best = np.where(np.abs(at_newest) <= np.abs(at_other), newest, other)
        result[open_problems] = best[open_problems]
        open_problems &= ~found
        if not open_problems.any():
            break
        least = np.minimum(0.5, tolerance / np.maximum(width, tolerance))
        step = np.clip(_next_step(newest, other, third, at_newest, at_other, at_third), least, 1 - least)
    return result


def _next_step(
    a: FloatArray, b: FloatArray, c: FloatArray, at_a: FloatArray, at_b: FloatArray, at_c: FloatArray
) -> FloatArray:
    """The fraction of the way from a to b: by inverse quadratic interpolation, or a half."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = (a - b) / (c - b)
        height = (at_a - at_b) / (at_c - at_b)
        trusted = (height**2 < place) & ((1 - height) ** 2 < 1 - place)
        quadratic = at_a / (at_b - at_a) * at_c / (at_b - at_c) + (c - a) / (b - a) * at_a / (
            at_c - at_a
        ) * at_b / (at_c - at_b)
    result: FloatArray = np.where(trusted & np.isfinite(quadratic), quadratic, 0.5)
    return result


def _lower_ends_of_starts(evidence: OfStarts, levels: FloatArray, running: bool) -> FloatArray:
    """As `_lower_ends`, of evidence of few starts, whose end has no bracket that is known beforehand."""
    shape = evidence.shape
    target = np.log(2.0 / levels).reshape(-1, *[1] * len(shape))

    def above_target(effect: FloatArray) -> FloatArray:
        path = log_evidence_above(evidence, effect)
        reached: FloatArray = path.max(axis=-1) if running else path[..., -1]
        result: FloatArray = reached - target
        return result

    # Right of every difference nothing speaks for an effect that is larger still.
    high = np.broadcast_to(evidence.difference.max(axis=-1), (len(levels), *shape))
    step = np.ptp(evidence.difference, axis=-1) + REACH_MIN
    low, reached = high - step, np.zeros(high.shape, dtype=np.bool_)
    for _ in range(REACHES_MAX):
        reached = above_target(low) > 0
        if reached.all():
            break
        low = np.where(reached, low, high - 4 * (high - low))
    # What so few starts can't bound gets a root of its own that is not looked at.
    lower = _find_root(above_target, np.where(reached, low, high), high, problems=2)
    return np.where(reached, lower, -np.inf)


def _lower_ends(evidence: BlockEvidence, levels: FloatArray, running: bool) -> FloatArray:
    """The lower ends of both sides at each level, (levels, sides, ...); evidence: (sides, ..., blocks).

    All in one search: where the arrays are small, a step of it costs as much for many as for one.
    """
    shape = evidence.shape
    lower = np.full((len(levels), *shape), -np.inf)
    all_targets = np.log(2.0 / levels)
    # What bounds the interval has this share of the evidence, so it must reach so much more.
    to_reach = all_targets - evidence.log_bounding_share
    all_excesses = np.log(evidence.members) - to_reach / evidence.blocks
    bounded = all_excesses > 0
    if not bounded.any():
        return lower
    axes = (-1, *[1] * len(shape))
    target = all_targets[bounded].reshape(axes)
    # The product passes the target left of `low`, and none ever reaches it right of `high`.
    low, high = evidence.bracket_of_end(all_excesses[bounded].reshape(axes))
    high = np.broadcast_to(high, low.shape)

    def above_target(effect: FloatArray) -> FloatArray:
        path = log_evidence_above(evidence, effect)
        reached: FloatArray = path.max(axis=-1) if running else path[..., -1]
        result: FloatArray = reached - target
        return result

    lower[bounded] = _find_root(above_target, np.minimum(low, high), high, problems=2)
    return lower


def confidence_sequence(evidence: AnyEvidence, level: float, *, running: bool) -> Sequence:
    """The interval at level `level` (0 < level < 1): see `confidence_sequences`."""
    (found,) = confidence_sequences(evidence, [level], running=running)
    return found


def confidence_sequences(
    evidence: AnyEvidence, levels: SequenceOf[float], *, running: bool
) -> tuple[Sequence, ...]:
    """The intervals at each of these levels (0 < level < 1).

    running: the intersection of the intervals after every block so far, which never widens, so a verdict
    once reached stays; else the interval of the last block alone. Both are valid at any stopping time. The
    intersection can be empty (lower > upper), when the effect moved.
    """
    if isinstance(evidence, BothMustAgree):
        eased = [level * math.exp(evidence.first_eased) for level in levels]
        first = confidence_sequences(evidence.first, eased, running=running)
        eased = [level * math.exp(evidence.second_eased) for level in levels]
        second = confidence_sequences(evidence.second, eased, running=running)
        return tuple(_hull(*both) for both in zip(first, second, strict=True))
    if isinstance(evidence, EitherWillDo):
        parts = [level * evidence.share for level in levels]
        first = confidence_sequences(evidence.first, parts, running=running)
        parts = [level * (1 - evidence.share) for level in levels]
        second = confidence_sequences(evidence.second, parts, running=running)
        return tuple(_intersection(*both) for both in zip(first, second, strict=True))
    asked = np.asarray(levels, dtype=np.float64)
    if isinstance(evidence, OfStarts):
        ends = _lower_ends_of_starts(evidence.both_sides(), asked, running)
    else:
        ends = _lower_ends(cast(BlockEvidence, evidence).both_sides(), asked, running)
    return tuple(Sequence(lower, -mirrored) for lower, mirrored in ends)


def _hull(first: Sequence, second: Sequence) -> Sequence:
    return Sequence(np.minimum(first.lower, second.lower), np.maximum(first.upper, second.upper))


def _intersection(first: Sequence, second: Sequence) -> Sequence:
    return Sequence(np.maximum(first.lower, second.lower), np.minimum(first.upper, second.upper))


def balance_bracket(evidence: AnyEvidence) -> tuple[FloatArray, FloatArray]:
    """Effects around the estimate, each of the leading shape."""
    if isinstance(evidence, BothMustAgree | EitherWillDo):
        return balance_bracket(evidence.first)
    if isinstance(evidence, OfStarts):
        return evidence.difference.min(axis=-1), evidence.difference.max(axis=-1)
    return cast(BlockEvidence, evidence).bracket_of_balance()


def point_estimate(evidence: AnyEvidence) -> FloatArray:
    """The effect that the blocks speak against equally from both sides: E⁺ = E⁻; a log ratio.

    log E⁺ − log E⁻ falls strictly as the effect rises, so there is one root. Of joined evidence it is the
    first's, of starts their mean.
    """
    if isinstance(evidence, BothMustAgree | EitherWillDo):
        return point_estimate(evidence.first)
    if isinstance(evidence, OfStarts):
        mean: FloatArray = evidence.difference.mean(axis=-1)
        return mean
    low, high = balance_bracket(evidence)

    def balance(effect: FloatArray) -> FloatArray:
        above, below = log_evidence_above(evidence, effect), log_evidence_below(evidence, effect)
        result: FloatArray = above[..., -1] - below[..., -1]
        return result

    return _find_root(balance, low, high)


def log_sign_evidence(positives: FloatArray, blocks: int) -> FloatArray:
    """log of 2ⁿ·B(S + ½, n − S + ½) / B(½, ½) for S positives among n blocks.

    The likelihood ratio of a coin of unknown fairness (Jeffreys' prior) against a fair one.
    """
    result: FloatArray = (
        blocks * np.log(2.0) + betaln(positives + 0.5, blocks - positives + 0.5) - betaln(0.5, 0.5)
    )
    return result


def median_sequence(pairs: FloatArray, level: float) -> Sequence:
    """The interval of the median of paired differences, shape (..., blocks), at level `level`.

    Its ends are the order statistics between which the sign evidence stays below 1/level.
    """
    blocks = pairs.shape[-1]
    counts = np.arange(blocks // 2 + 1, dtype=np.float64)
    accepted = log_sign_evidence(counts, blocks) < np.log(1.0 / level)
    shape = pairs.shape[:-1]
    # The even split is never evidence against the median, so at least one count is accepted.
    fewest = int(np.argmax(accepted))
    if fewest == 0:
        return Sequence(np.full(shape, -np.inf), np.full(shape, np.inf))
    ordered = np.sort(pairs, axis=-1)
    return Sequence(ordered[..., fewest - 1], ordered[..., blocks - fewest])
