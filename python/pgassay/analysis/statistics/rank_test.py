"""The rank test of two samples, without the weight of a statistics library: it is asked for every cell."""

import math
from collections.abc import Sequence
from functools import cache

# Beyond this product of the sizes the normal approximation is used.
_EXACT_MAX = 900


def probability_of_fall(before: Sequence[float], after: Sequence[float]) -> float:
    """The chance of ranks at least so much in favour of `before`, if both came from one distribution.

    The one-sided test of Mann and Whitney, "On a test of whether one of two random variables is
    stochastically larger than the other" (1947): exact for small samples, else by the normal approximation
    with its continuity correction. Ties count half.
    """
    larger = sum((one > other) + (one == other) / 2 for one in before for other in after)
    sizes = (len(before), len(after))
    if sizes[0] * sizes[1] <= _EXACT_MAX:
        ways = _ways(*sizes)
        # Half a tie is rounded against the fall.
        return sum(ways[math.floor(larger) :]) / sum(ways)
    mean = sizes[0] * sizes[1] / 2
    deviation = math.sqrt(mean * (sum(sizes) + 1) / 6)
    return math.erfc((larger - mean - 0.5) / deviation / math.sqrt(2)) / 2


@cache
def _ways(first: int, second: int) -> tuple[int, ...]:
    """In how many orders of both samples each value of the statistic, 0 to first · second, comes about.

    The coefficients of the Gaussian binomial: the product of (1 − xʲ⁺ˢ)/(1 − xʲ) for j from 1 to `first`, s
    being `second`.
    """
    top = first * second
    ways = [1] + [0] * top
    for step in range(1, first + 1):
        for power in range(top, step + second - 1, -1):
            ways[power] -= ways[power - step - second]
        for power in range(step, top + 1):
            ways[power] += ways[power - step]
    return tuple(ways)
