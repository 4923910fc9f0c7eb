"""The interval of a weighted sum of effects, each with evidence from blocks of its own.

Effects of several strata, or of one stratum on several machines, rest on different blocks. If θ₁ … θₙ are the
true ones, each block's factor has expectation 1 given all that came before (`statistics.eprocess`), whichever
effect it is of. So the product E₁(θ₁) · … · Eₙ(θₙ) is a test martingale, as each of them is, and as their
mixture (∏ E + mean of E)/2 is. The vectors at which that is below 1/level are a region that holds the true
one at all times with probability 1 − level (Ville 1939). There ∏ E is below 2/level, each E below 2n/level.
All weighted sums over the region have their interval at once: sums of the same effects share no level.

The greatest sum is bounded by weak duality (Boyd and Vandenberghe, "Convex Optimization" 2004, 5.2.2): for
any λ > 0 it is at most λ·log(2/level) + Σ of the greatest w·θ − λ·log E(θ) of each effect alone. Any λ gives
a valid bound; the least of some is taken. Between two effects that are computed E⁺ is taken at the right one
and E⁻ at the left one, so that the region is never too small.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.machines.pooled_evidence import final_log_evidence
from pgassay.analysis.statistics.eprocess import AnyEvidence, FloatArray
from pgassay.analysis.statistics.sequence import balance_bracket, confidence_sequence, point_estimate

# More cells, and more values of λ, make the interval sharper, never wrong.
_CELLS = 96
_PRICES = np.geomspace(1e-3, 3.0, 40)
# In the interval at this level lies what there is least evidence against.
_NEARLY_ALL = 0.999


@dataclass(frozen=True)
class Term:
    """An effect and what it counts in the sum; all terms of a sum have the same leading shape."""

    weight: float
    evidence: AnyEvidence


@dataclass(frozen=True)
class SumInterval:
    """Log ratios of the leading shape; the ends are infinite where too few blocks bound an effect."""

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True)
class _Cells:
    """Ranges of one effect.

    edges: (cells + 1, ...); against: the least log evidence in each, (cells, ...); beside: that outside of
    all of them, (...).
    """

    edges: FloatArray
    against: FloatArray
    beside: FloatArray


def sum_interval(terms: Sequence[Term], level: float) -> SumInterval:
    """The interval of Σ weight · effect at this level, of the blocks so far; valid at any look.

    The effects must rest on different blocks: arms of one stratum on one machine share their control's. Their
    number must be fixed beforehand.
    """
    shape, count = terms[0].evidence.shape, len(terms)
    # One effect alone needs no mixture.
    target = float(np.log((2 if count > 1 else 1) / level))
    estimate = np.zeros(shape)
    least = []
    for term in terms:
        estimate = estimate + term.weight * point_estimate(term.evidence)
        # Evidence for an effect, which others may spend.
        least.append(_least(term.evidence))
    total = np.sum(least, axis=0)
    found: list[_Cells] = []
    for term, own in zip(terms, least, strict=True):
        # What the product leaves of it, and what its own evidence does: whichever is less.
        beside = min(float(np.max(target - (total - own))), target + float(np.log(count)))
        cells = _bounded(term.evidence, float(np.exp(-beside)))
        if cells is None:
            return _unbounded(estimate)
        found.append(cells)
    weights = [term.weight for term in terms]
    upper = _greatest(found, weights, target)
    lower = -_greatest(found, [-weight for weight in weights], target)
    return SumInterval(estimate, lower, upper)


def _unbounded(estimate: FloatArray) -> SumInterval:
    return SumInterval(estimate, np.full(estimate.shape, -np.inf), np.full(estimate.shape, np.inf))


def _bounded(evidence: AnyEvidence, level: float) -> _Cells | None:
    """Cells over the interval at this level; None where that has no two ends."""
    ends = confidence_sequence(evidence, level, running=False)
    if not (np.isfinite(ends.lower).all() and np.isfinite(ends.upper).all()):
        return None
    return _cells(evidence, ends.lower, ends.upper)


def _cells(evidence: AnyEvidence, low: FloatArray, high: FloatArray) -> _Cells:
    edges = np.linspace(low, high, _CELLS + 1)
    above = final_log_evidence(evidence, edges, above=True)
    below = final_log_evidence(evidence, edges, above=False)
    inside = np.logaddexp(above[1:], below[:-1]) - np.log(2.0)
    beside = np.minimum(above[0], below[-1]) - np.log(2.0)
    return _Cells(edges, inside, beside)


def _least(evidence: AnyEvidence) -> FloatArray:
    """A lower bound of the log evidence against any effect, at most 0; of the leading shape."""
    cells = _bounded(evidence, _NEARLY_ALL) or _cells(evidence, *balance_bracket(evidence))
    result: FloatArray = np.minimum(np.minimum(cells.against.min(axis=0), cells.beside), 0.0)
    return result


def _greatest(cells: Sequence[_Cells], weights: Sequence[float], target: float) -> FloatArray:
    """An upper bound of the weighted sum over the region, of the leading shape."""
    ends = [
        weight * (each.edges[1:] if weight > 0 else each.edges[:-1])
        for weight, each in zip(weights, cells, strict=True)
    ]
    width = np.sum([each.max(axis=0) - each.min(axis=0) for each in ends], axis=0)
    best = np.full(width.shape, np.inf)
    for price in _PRICES:
        price_here = price * width / target
        bound = price_here * target
        for end, each in zip(ends, cells, strict=True):
            bound = bound + (end - price_here * each.against).max(axis=0)
        best = np.minimum(best, bound)
    return best
