"""What so many starts of one server find: the evidence of `starts`, on data of which only the size is known.

The starts are taken to lie as normal ones do in the middle case, and their mean to fall so low as in one of
20 experiments, since their spread is not in the middle either; then the evidence itself says whether that is
enough. By simulation (`test_start_power.py`) what it says is found in 88 to 99 of 100 experiments.
"""

import numpy as np
from scipy.special import ndtri

from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.statistics.starts import DEVIATION, STARTS_MIN, gather_start_evidence

_LOW = 0.05
# Effects that are asked about, as log ratios: 0.1 % to 400 times.
_EFFECTS: FloatArray = np.geomspace(0.001, 6.0, 160)
_STARTS_MAX = 2000


def resolvable_by_starts(
    starts: int, spread: float, threshold: float, *, members: int = 3, deviation: float = DEVIATION
) -> float:
    """The smallest effect (a fraction) that so many starts find in nine of ten experiments, or infinity.

    spread: of a single arm's log speed from start to start; threshold: what the evidence must reach; members:
    the arm and its controls.
    """
    if starts < STARTS_MIN:
        return np.inf
    pairs = spread * np.sqrt(1 + 1 / (members - 1))
    low = float(ndtri(_LOW)) * pairs / np.sqrt(starts)
    differences = _EFFECTS[:, np.newaxis] + low + pairs * _middle_case(starts)
    evidence = gather_start_evidence(np.stack([differences, np.zeros_like(differences)], axis=-1), deviation)
    found = evidence.log_highest_above(0.0)[:, -1] >= np.log(threshold)
    # From the largest that is missed on, since more of an effect is never less evidence.
    missed = np.flatnonzero(~found)
    place = missed[-1] + 1 if len(missed) else 0
    return float(np.expm1(_EFFECTS[place])) if place < len(_EFFECTS) else np.inf


def starts_for(effect: float, spread: float, threshold: float, *, members: int = 3) -> int:
    """How many starts find an effect (a fraction) in nine of ten experiments; at most 2000."""
    low, high = STARTS_MIN - 1, STARTS_MIN
    while resolvable_by_starts(high, spread, threshold, members=members) > effect and high < _STARTS_MAX:
        low, high = high, min(2 * high, _STARTS_MAX)
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
