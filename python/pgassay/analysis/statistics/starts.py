"""Evidence whose unit is a start of the server, in which all arms ran in turns.

Within a start, rounds in a drawn order make each arm's figure as exact as one likes; but they share what the
start gave them: where memory lies, what was cached when. A difference between arms may differ from start to
start, so a claim over starts has one row for each start (`within_starts`). Starts are few and large effects
common, hence two evidences with half of the wealth each:

- **Student's**, a mixture of t tests that holds at any look, for starts whose differences are normal with any
  spread (Pérez-Ortiz, Lardy, de Heide and Grünwald, "E-statistics, group invariance and anytime-valid
  testing", Annals of Statistics 2024). At three starts normality is all that it rests on: two-point noise
  fools it in 25 % of experiments. So sign flips (pairs of `eprocess`, exact for every symmetric noise) must
  agree, which takes six starts at 5 %.
- **Bounded**: no start changes an arm's ratio by more than some percent (sub-Gaussian with that scale).
  Whatever the noise is beside that, a large effect is proven at the third start.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtri, stdtr

from pgassay.analysis.statistics.eprocess import (
    EvidenceRules,
    FloatArray,
    HighestSoFar,
    differences,
    gather_evidence,
    log_sum_exp,
)
from pgassay.analysis.statistics.joined_evidence import LOG_2, BothMustAgree, EitherWillDo

STARTS_MIN = 3
# Below so many a direction of one comparison at 5 % rests on the bound alone (`starts_without_bound`).
STARTS_WITHOUT_BOUND = 6
# How much the ratio of a start may deviate from that of all starts.
DEVIATION = 0.05
# Variances of the effect over the spread between starts: an effect of 5 % is 5 spreads of 1 %.
_EFFECTS, _EFFECT_SHARES = (1.0, 16.0, 400.0), (0.25, 0.5, 0.25)
# Variances of the mixture over tilts, in units of 1/bound².
_TILTS = (0.3, 2.0, 10.0)
_FLIPS = EvidenceRules((0.5, 4.0, 4), DEVIATION, (1.0, 2.0, 3.0, 2.0))
_LEAST = 1e-300
# What so many starts find: the effects that are asked about, as log ratios (0.1 % to 400 times), how low the
# mean of the starts may fall, and the most starts whose evidence is computed for it.
_ASKED: FloatArray = np.geomspace(0.001, 6.0, 160)
_LOW = 0.05
_STARTS_ASKED = 300


@dataclass(frozen=True)
class OfStarts(HighestSoFar, ABC):
    """Evidence that rests on one log ratio of each start, `difference`, (..., starts)."""

    difference: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading shape: that of an effect."""
        return self.difference.shape[:-1]

    @property
    def blocks(self) -> int:
        """The number of starts observed."""
        return int(self.difference.shape[-1])

    @abstractmethod
    def both_sides(self) -> "OfStarts":
        """The evidence and its mirror image, on a new first axis."""

    @abstractmethod
    def path(self, sign: float, effect: FloatArray | float) -> FloatArray:
        """log E⁺ of the log ratios times `sign`, after each start."""

    def log_path_above(self, effect: FloatArray | float) -> FloatArray:
        """log E⁺ after each start."""
        return self.path(1.0, effect)

    def log_path_below(self, effect: FloatArray | float) -> FloatArray:
        """As log_path_above, of E⁻."""
        return self.path(-1.0, effect)


@dataclass(frozen=True)
class StudentEvidence(OfStarts):
    """A mixture of one-sided t tests; difference: (..., starts), a log ratio of each start.

    For an effect of δ spreads, δ half-normal with the variance g, and the scale by the right Haar measure,
    the likelihood ratio against δ = 0 has a closed form: with S the sum of y and Q of y² over n starts and
    v = g/(1 + n·g), E⁺ = 2·(1 + n·g)^(−½)·(1 − v·S²/Q)^(−n/2)·F_n(√(n·v)·S/√(Q − v·S²)), F_n being Student's
    distribution with n degrees of freedom. It does not change with the unit of y and rises with the effect.
    """

    def both_sides(self) -> "StudentEvidence":
        """The evidence and its mirror image, on a new first axis."""
        return replace(self, difference=np.stack([self.difference, -self.difference]))

    def path(self, sign: float, effect: FloatArray | float) -> FloatArray:
        """log E⁺ of the log ratios times `sign`, after each start."""
        moved = sign * (self.difference - np.asarray(effect, dtype=np.float64)[..., np.newaxis])
        return log_student(np.cumsum(moved, axis=-1), np.cumsum(moved**2, axis=-1), _counts(self.blocks))


def log_student(total: FloatArray, squares: FloatArray, counts: FloatArray) -> FloatArray:
    """log E⁺ of `StudentEvidence` from the sums of y and of y² over so many starts, of one shape."""
    n, total, squares = counts[..., np.newaxis], total[..., np.newaxis], squares[..., np.newaxis]
    variance = np.array(_EFFECTS)
    part = variance / (1 + n * variance)
    # Starts that agree with the effect to the last digit say nothing of its side.
    known = squares > 0
    all_squares = np.where(known, squares, 1.0)
    rest = np.maximum(all_squares - part * total**2, all_squares / (1 + n * variance) / 2)
    both = -np.log1p(n * variance) / 2 - n / 2 * np.log(rest / all_squares)
    tail = stdtr(n, np.sqrt(n * part / rest) * total)
    paths = np.where(known, both + np.log(2 * np.maximum(tail, _LEAST)), 0.0)
    return log_sum_exp(paths + np.log(np.array(_EFFECT_SHARES)))


@dataclass(frozen=True)
class BoundedEvidence(OfStarts):
    """Evidence for starts that deviate by no more than `bound`: E exp(λ·(y − θ)) ≤ exp(λ²·bound²/2).

    difference: (..., starts). With λ half-normal with the variance κ/bound²,
    E⁺ = 2·(1 + n·κ)^(−½)·exp(κ·S²/(2·bound²·(1 + n·κ)))·Φ(√(κ/(1 + n·κ))·S/bound). Where so many
    `spreads` of what is seen are more than the bound, they replace it: a wider bound only makes each E
    smaller. They do so at every earlier look as well, so that what the first starts seemed to exclude, before
    they could show how they differ, is excluded no longer. It says nothing of the first `silent` of them,
    which show no spread.
    """

    bound: float
    spreads: float = 1.0
    silent: int = 0

    def both_sides(self) -> "BoundedEvidence":
        """The evidence and its mirror image, on a new first axis."""
        return replace(self, difference=np.stack([self.difference, -self.difference]))

    def path(self, sign: float, effect: FloatArray | float) -> FloatArray:
        """log E⁺ of the log ratios times `sign`, after each start."""
        counts = _counts(self.blocks)
        # Around the first start, so that a common shift of all costs no digits.
        first = self.difference[..., :1]
        total = np.cumsum(self.difference - first, axis=-1)
        squares = np.cumsum((self.difference - first) ** 2, axis=-1)
        spread = np.maximum(squares - total**2 / counts, 0.0) / np.maximum(counts - 1, 1)
        spread = np.flip(np.maximum.accumulate(np.flip(spread, axis=-1), axis=-1), axis=-1)
        moved = first - np.asarray(effect, dtype=np.float64)[..., np.newaxis]
        path = log_bounded(sign * (total + counts * moved), self.spreads**2 * spread, counts, self.bound)
        return np.where(counts > self.silent, path, 0.0)


def log_bounded(total: FloatArray, spread: FloatArray, counts: FloatArray, bound: float) -> FloatArray:
    """log E⁺ of `BoundedEvidence` from the sum of y and the variance that widens the bound, of one shape."""
    tilts = np.array(_TILTS)
    widened = np.maximum(spread / bound**2, 1.0)[..., np.newaxis]
    inflated = 1 + counts[..., np.newaxis] * tilts * widened
    scaled = np.sqrt(tilts / inflated) * total[..., np.newaxis] / bound
    paths = -np.log(inflated) / 2 + scaled**2 / 2 + LOG_2 + log_ndtr(scaled)
    result: FloatArray = log_sum_exp(paths) - np.log(len(_TILTS))
    return result


def _counts(starts: int) -> FloatArray:
    return np.arange(1.0, starts + 1.0)


def gather_start_evidence(members: FloatArray, deviation: float = DEVIATION) -> EitherWillDo:
    """The evidence of starts' log speeds, (..., starts, n) with n ≥ 2, the arm first.

    deviation: by how much a start may change a ratio (0.05 is 5 %). Sign flips are asked for as much as if
    they had all of the wealth. Raises ValueError as `gather_evidence`.
    """
    difference = differences(members)
    pairs = np.stack([difference, np.zeros_like(difference)], axis=-1)
    student = BothMustAgree(StudentEvidence(difference), gather_evidence(pairs, _FLIPS), second_eased=LOG_2)
    # No verdict comes before that many starts, and what one or two show says nothing of how they differ.
    bounded = BoundedEvidence(difference, float(np.log1p(deviation)), silent=STARTS_MIN - 1)
    return EitherWillDo(student, bounded)


def starts_without_bound(contrasts: int, alpha: float) -> int:
    """Below so many starts a direction rests on the bound alone: n signs reach 2ⁿ at most, and 2m/α is asked.

    More may be needed: the mixture of flips falls short of what the best of them reaches.
    """
    return max(STARTS_MIN, math.ceil(math.log2(2 * max(contrasts, 1) / alpha)))


def resolvable_by_starts(
    starts: int, spread: float, threshold: float, *, members: int = 3, deviation: float = DEVIATION
) -> float:
    """The smallest effect (a fraction) that so many starts find in nine of ten experiments, or infinity.

    spread: of a single arm's log speed from start to start; threshold: what the evidence must reach; members:
    the arm and its controls. The starts are taken to lie as normal ones do in the middle case, and their mean
    to fall so low as in one of 20 experiments, since their spread is not in the middle either; then the
    evidence says whether it is enough. By simulation 88 to 99 of 100 find it (`test_start_power.py`).
    """
    if starts < STARTS_MIN:
        return np.inf
    pairs = spread * np.sqrt(1 + 1 / (members - 1))
    low = float(ndtri(_LOW)) * pairs / np.sqrt(starts)
    differences = _ASKED[:, np.newaxis] + low + pairs * _middle_case(starts)
    evidence = gather_start_evidence(np.stack([differences, np.zeros_like(differences)], axis=-1), deviation)
    found = evidence.log_highest_above(0.0)[:, -1] >= np.log(threshold)
    # From the largest that is missed on, since more of an effect is never less evidence.
    missed = np.flatnonzero(~found)
    place = missed[-1] + 1 if len(missed) else 0
    return float(np.expm1(_ASKED[place])) if place < len(_ASKED) else np.inf


def starts_for(effect: float, spread: float, threshold: float, *, members: int = 3) -> int:
    """How many starts find an effect (a fraction) in nine of ten experiments.

    Beyond some hundred by the law of large numbers: what they find falls with the root of their number.
    """
    low, high = STARTS_MIN - 1, STARTS_MIN
    while (found := resolvable_by_starts(high, spread, threshold, members=members)) > effect:
        if high >= _STARTS_ASKED:
            return int(np.ceil(high * (np.log1p(found) / np.log1p(effect)) ** 2))
        low, high = high, min(2 * high, _STARTS_ASKED)
    while high - low > 1:
        middle = (low + high) // 2
        if resolvable_by_starts(middle, spread, threshold, members=members) > effect:
            low = middle
        else:
            high = middle
    return high


def _middle_case(count: int) -> FloatArray:
    """Normal scores in an order that favours no end of the path, with mean 0 and standard deviation 1."""
    scores = ndtri((np.arange(1, count + 1) - 0.375) / (count + 0.25))
    scores = np.random.default_rng(count).permutation(scores)
    result: FloatArray = (scores - scores.mean()) / scores.std(ddof=1)
    return result
