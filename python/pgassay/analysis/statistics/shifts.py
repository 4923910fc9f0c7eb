"""Changes of the mean in many short series that were observed together, such as effects over nightly runs.

For every split of a series into two parts, the weighted likelihood ratio of one change of its mean, as a
t statistic; the greatest over the splits (Csörgő and Horváth, "Limit Theorems in Change-Point Analysis",
1997). What it reaches by chance is told by the runs themselves: if nothing changed, their order means
nothing, so the statistic of the runs in a random order is distributed as the one observed. That is exact for
noise of any shape, and the greatest over all series of one order bounds the chance of any false change over
all of them, however they depend on each other (Westfall and Young, "Resampling-Based Multiple Testing", 1993;
e-divisive of Matteson and James, Journal of the American Statistical Association 2014, permutes as well).

It takes runs that are independent of each other, which effects measured within a run are: what the machine
does to a whole run falls on both sides of a comparison.

After a change the parts on both sides are asked alike, each series alone at the level over the number of
series.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
LEVEL = 0.05
# No part is shorter: a single run is an outlier as likely as a change.
PART_MIN = 2
PERMUTATIONS = 1999
_PERMUTATIONS_MAX = 19_999
# How surely the first run after a change lies in the range that is given.
_RANGE = 0.9
# Permuted series that are computed at once, in values.
_VALUES_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Shift:
    """The mean changed between `index − 1` and `index`; the true place is in earliest..latest 9 times in 10.

    before, after: weighted means of the parts up to the neighbouring shifts.
    """

    index: int
    earliest: int
    latest: int
    before: float
    after: float


def shifts(
    values: FloatArray, errors: FloatArray, *, level: float = LEVEL, seed: int = 0
) -> tuple[tuple[Shift, ...], ...]:
    """The shifts of each series, ascending; values, errors: (series, runs), NaN where a run has none.

    errors: standard errors, of which only the proportions count. Deterministic for a seed. Raises ValueError
    where the shapes differ.
    """
    if values.shape != errors.shape or values.ndim != 2:
        raise ValueError(f"values and errors must be alike and of two axes: {values.shape}, {errors.shape}")
    weights = _weights(values, errors)
    series, runs = values.shape
    if series == 0 or runs < 2 * PART_MIN:
        return tuple(() for _ in range(series))
    random = np.random.default_rng([seed, series, runs])
    centred = _centred(values, weights)
    statistic, places = _greatest(centred)
    bound = _critical(centred, level, PERMUTATIONS, random)
    found: list[tuple[Shift, ...]] = []
    for row in range(series):
        if not statistic[row] > bound:
            found.append(())
            continue
        own = _Series(values[row], weights[row], level / series, random)
        first = int(places[row])
        indices = sorted([*own.split(0, first), first, *own.split(first, runs)])
        found.append(own.described(indices))
    return tuple(found)


def _weights(values: FloatArray, errors: FloatArray) -> FloatArray:
    """1/error² scaled to a mean of 1 in each series, 0 where a run has no value; alike without errors."""
    usable = np.isfinite(values) & np.isfinite(errors) & (errors > 0)
    weights = np.zeros(values.shape)
    for row in range(values.shape[0]):
        mine = usable[row]
        if mine.any():
            # One run of which little is known must not count nothing, nor one of few trials all.
            error = np.clip(errors[row][mine], np.median(errors[row][mine]) / 4, None)
            raw = 1.0 / error**2
            weights[row][mine] = raw / raw.mean()
    return weights


@dataclass(frozen=True)
class _Centred:
    """Series less their means, ready to be split in any order of their runs; (series, runs) and (series,).

    weighted: weight times value; counted: whether a run has a value, None where all have. What a split
    leaves unexplained follows from `squares`, which no order changes.
    """

    weights: FloatArray
    weighted: FloatArray
    counted: NDArray[np.bool_] | None
    squares: FloatArray
    freedom: FloatArray

    def in_order(self, order: NDArray[np.intp]) -> "_Centred":
        """With the runs in other orders, (orders, runs): arrays of (orders, series, runs)."""

        return _Centred(
            np.moveaxis(self.weights[:, order], 0, 1),
            np.moveaxis(self.weighted[:, order], 0, 1),
            None if self.counted is None else np.moveaxis(self.counted[:, order], 0, 1),
            self.squares,
            self.freedom,
        )


def _centred(values: FloatArray, weights: FloatArray) -> _Centred:
    filled = np.where(weights > 0, values, 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    mean = (weights * filled).sum(axis=-1, keepdims=True) / np.where(total > 0, total, 1.0)
    centred = np.where(weights > 0, filled - mean, 0.0)
    counted = weights > 0
    return _Centred(
        weights,
        weights * centred,
        None if counted.all() else counted,
        (weights * centred**2).sum(axis=-1),
        np.maximum(counted.sum(axis=-1) - 2.0, 0.0),
    )


def _gains(series: _Centred) -> FloatArray:
    """By split (its first run after it is the index + 1) what it explains, 0 where there can be none."""
    left_weight = np.cumsum(series.weights, axis=-1)
    left_sum = np.cumsum(series.weighted, axis=-1)[..., :-1]
    total, left_weight = left_weight[..., -1:], left_weight[..., :-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        gains: FloatArray = left_sum**2 * total / (left_weight * (total - left_weight))
    if series.counted is None:
        gains[..., : PART_MIN - 1] = 0.0
        gains[..., gains.shape[-1] - PART_MIN + 1 :] = 0.0
        return gains
    counts = np.cumsum(series.counted, axis=-1)
    is_possible = (counts[..., :-1] >= PART_MIN) & (counts[..., -1:] - counts[..., :-1] >= PART_MIN)
    # A split before a run without a value is the split before the next one that has one.
    is_possible &= series.counted[..., 1:]
    return np.where(is_possible & np.isfinite(gains), gains, 0.0)


def _greatest(series: _Centred) -> tuple[FloatArray, NDArray[np.intp]]:
    """The greatest t of all splits and the index of the first run after it; over the last axis."""
    gains = _gains(series)
    gain = gains.max(axis=-1)
    left = np.maximum(series.squares - gain, 1e-300)
    with np.errstate(over="ignore"):
        t = np.minimum(np.sqrt(gain * series.freedom / left), 1e9)
    # An exact step leaves nothing; rounding must not make one of a constant series.
    return np.where(gain <= 1e-24, 0.0, t), gains.argmax(axis=-1) + 1


def _critical(centred: _Centred, level: float, permutations: int, random: np.random.Generator) -> float:
    """What the greatest statistic over all series exceeds in at most `level` of all orders of the runs.

    With B orders drawn, the one observed counts as one of B + 1, so the test is exact (Phipson and Smyth,
    Statistical Applications in Genetics and Molecular Biology 2010). Infinite where B is too small.
    """
    series, runs = centred.weights.shape
    kept = math.floor(level * (permutations + 1)) - 1
    if kept < 0:
        return math.inf
    highest = np.empty(permutations)
    step = max(1, _VALUES_AT_ONCE // (series * runs))
    for begin in range(0, permutations, step):
        count = min(step, permutations - begin)
        orders = np.argsort(random.random((count, runs)), axis=-1)
        highest[begin : begin + count] = _greatest(centred.in_order(orders))[0].max(axis=-1)
    return float(np.sort(highest)[::-1][kept])


@dataclass(frozen=True)
class _Series:
    """One series in which a shift was found; its parts are asked at this level each."""

    values: FloatArray
    weights: FloatArray
    level: float
    random: np.random.Generator

    def split(self, begin: int, end: int) -> list[int]:
        """The further shifts within a part, ascending."""
        values, weights = self.values[np.newaxis, begin:end], self.weights[np.newaxis, begin:end]
        if int((weights > 0).sum()) < 2 * PART_MIN + 1:
            return []
        centred = _centred(values, weights)
        statistic, places = _greatest(centred)
        permutations = min(max(PERMUTATIONS, math.ceil(4 / self.level)), _PERMUTATIONS_MAX)
        if not statistic[0] > _critical(centred, self.level, permutations, self.random):
            return []
        place = begin + int(places[0])
        return [*self.split(begin, place), place, *self.split(place, end)]

    def described(self, indices: list[int]) -> tuple[Shift, ...]:
        """The shifts with the means on their sides and the range in which each lies."""
        edges = [0, *indices, self.values.size]
        means = [self._mean(edges[place], edges[place + 1]) for place in range(len(edges) - 1)]
        made = []
        for place, index in enumerate(indices):
            earliest, latest = self._range(edges[place], index, edges[place + 2])
            made.append(Shift(index, earliest, latest, means[place], means[place + 1]))
        return tuple(made)

    def _mean(self, begin: int, end: int) -> float:
        weights = self.weights[begin:end]
        total = float(weights.sum())
        filled = np.where(weights > 0, self.values[begin:end], 0.0)
        return float((weights * filled).sum() / total) if total else math.nan

    def _range(self, begin: int, index: int, end: int) -> tuple[int, int]:
        """The places that hold 9 tenths of the posterior of a normal series with one shift, a flat prior.

        With the means and the variance integrated out, a place has the weight RSS^(−(n−2)/2) /
        √(W_left·W_right) (Smith, Biometrika 1975).
        """
        weights = self.weights[begin:end]
        part = _centred(self.values[np.newaxis, begin:end], weights[np.newaxis])
        gains, squares = _gains(part)[0], float(part.squares[0])
        left = np.cumsum(weights)[:-1]
        right = weights.sum() - left
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = np.maximum(squares - gains, 1e-12 * max(squares, 1e-300))
            log_weight = -float(part.freedom[0]) / 2 * np.log(rest) - np.log(left * right) / 2
        log_weight = np.where(gains > 0, log_weight, -np.inf)
        if not np.isfinite(log_weight).any():
            return index, index
        share = np.exp(log_weight - log_weight.max())
        share /= share.sum()
        order = np.argsort(-share, kind="stable")
        needed = int(np.searchsorted(np.cumsum(share[order]), _RANGE)) + 1
        chosen = [*(begin + 1 + int(each) for each in order[:needed]), index]
        return min(chosen), max(chosen)
