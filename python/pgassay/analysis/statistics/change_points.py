"""Moments at which the mean of a series changed, with a bounded chance of a false alarm.

The statistic is the greatest t of all splits into two parts (the likelihood ratio of one change of the mean;
Csörgő and Horváth, "Limit Theorems in Change-Point Analysis", 1997). Its distribution depends on how much
each value resembles the one before it. That is estimated from differences of values one, two and three apart,
which a few steps hardly touch (Tecuapetla-Gómez and Munk, "Autocovariance estimation in regression with a
discontinuous signal and m-dependent errors", Scandinavian Journal of Statistics 44, 2017). What the statistic
reaches by chance comes from simulated first-order autoregressive series, which were treated alike.

A long series is asked of as a whole and in three halves that overlap, because a change that is taken back
hides in the whole. After a change the parts on its sides are looked at alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
# No part is shorter than this: its mean could be anything.
VALUES_MIN = 4
# How often a stationary series may show a change, for each of which CRITICAL has a table.
LEVEL = 0.05
STRICT_LEVEL = LEVEL / 4
# Halves are looked at from here on, each at a quarter of the level.
_WINDOWED_MIN = 48
# A value this many standard deviations from the median counts as if it were this far: one stall is no change.
_CLIPPED_AT = 6.0
# The median of |x − y| of two normal values, in their standard deviations.
_MEDIAN_DIFFERENCE = 0.9539
# The standard error of the estimated correlation times the root of the number of values, at most (simulated:
# 1.26 without correlation, 1.5 at 0.8).
_CORRELATION_ERROR = 1.4
_CORRELATION_MAX = 0.95
_LENGTHS = (8, 12, 20, 30, 60, 120, 240, 960)
_CORRELATIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
# By level, then a row for each of _LENGTHS and a column for each of _CORRELATIONS: what the statistic of that
# share of stationary series exceeds (40 000 simulated for each cell, 8 000 of length 960; in the last column
# that one is no less than the row before it).
_CRITICAL: dict[float, tuple[tuple[float, ...], ...]] = {
    LEVEL: (
        (2.45, 2.93, 3.53, 4.21, 4.90, 5.21, 5.34),
        (2.97, 3.59, 4.41, 5.56, 6.82, 7.64, 7.82),
        (3.03, 3.67, 4.57, 5.88, 7.98, 9.45, 10.12),
        (3.03, 3.65, 4.52, 5.89, 8.42, 10.74, 12.20),
        (3.05, 3.70, 4.52, 5.89, 8.78, 12.41, 15.87),
        (3.11, 3.74, 4.58, 5.90, 8.80, 12.80, 18.19),
        (3.15, 3.82, 4.67, 5.99, 8.77, 12.69, 18.67),
        (3.26, 3.94, 4.85, 6.22, 9.00, 12.84, 18.70),
    ),
    STRICT_LEVEL: (
        (3.56, 4.27, 5.04, 5.91, 6.80, 7.20, 7.36),
        (3.91, 4.69, 5.84, 7.25, 8.57, 9.67, 9.90),
        (3.75, 4.55, 5.68, 7.27, 9.93, 11.54, 12.33),
        (3.62, 4.43, 5.51, 7.26, 10.35, 13.23, 14.97),
        (3.57, 4.33, 5.41, 7.14, 10.73, 15.45, 19.79),
        (3.59, 4.35, 5.34, 6.96, 10.49, 15.76, 23.12),
        (3.63, 4.36, 5.37, 6.94, 10.38, 15.32, 23.21),
        (3.69, 4.49, 5.56, 7.09, 10.29, 15.00, 23.21),
    ),
    STRICT_LEVEL / 4: (
        (4.77, 5.68, 6.73, 7.96, 9.04, 9.99, 10.16),
        (4.96, 5.94, 7.18, 9.29, 10.68, 12.05, 12.33),
        (4.42, 5.39, 6.76, 8.62, 11.66, 13.41, 14.76),
        (4.17, 5.16, 6.53, 8.44, 12.08, 15.64, 17.36),
        (4.04, 4.90, 6.23, 8.22, 12.52, 17.93, 23.57),
        (4.02, 4.82, 6.05, 7.83, 12.16, 18.53, 27.81),
        (4.01, 4.84, 5.97, 7.83, 11.75, 18.03, 27.56),
        (4.05, 5.01, 6.16, 7.90, 11.46, 16.71, 27.56),
    ),
}


@dataclass(frozen=True)
class ChangePoint:
    """The mean changed between values `index − 1` and `index`; before and after are means of both parts."""

    index: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """After over before; infinite after nothing."""
        return self.after / self.before if self.before else float("inf")


def change_points(
    values: Sequence[float], *, correlation: float | None = None, level: float = LEVEL
) -> tuple[ChangePoint, ...]:
    """The change points of a series, ascending; () for one too short to tell, or with gaps (NaN).

    correlation: of each value with the next, between 0 and 0.95; by default what this series alone bounds it
    by (`correlation_bound`). level: LEVEL or STRICT_LEVEL, how often a series without a change may show one.
    """
    series = np.asarray(values, dtype=np.float64)
    if not _is_usable(series):
        return ()
    if correlation is None:
        correlation = correlation_bound([values])
    indices = sorted(_split(series, 0, correlation, level))
    edges = [0, *indices, series.size]
    means = [float(series[begin:end].mean()) for begin, end in pairwise(edges)]
    return tuple(
        ChangePoint(index, before, after)
        for index, (before, after) in zip(indices, pairwise(means), strict=True)
    )


def correlation_bound(series: Sequence[Sequence[float]]) -> float:
    """What the correlation of neighbouring values is at most, about: one standard error above its estimate.

    series: one for each trial; all tell together, so that many bound it closely. With v(k) the mean square of
    differences of values k apart, v(2) + v(3) is (2 + 2ρ + ρ²) v(1) in a first-order autoregressive series.
    Differences need no mean, so that the estimate is not biased downwards as a short series' correlogram is
    (Kendall, "Note on bias in the estimation of autocorrelation", Biometrika 41, 1954). Between 0 and 0.95.
    """
    usable = [each for values in series if _is_usable(each := np.asarray(values, dtype=np.float64))]
    squares, count = np.zeros(3), 0
    for each in usable:
        kept = _clipped(each)
        unit = float(np.mean(np.diff(kept) ** 2))
        if unit > 0:
            # Of trials that scatter more than others none counts more.
            squares += [each.size / unit * _difference(kept, lag) for lag in (1, 2, 3)]
            count += each.size
    if not count:
        return 0.0
    ratio = (squares[1] + squares[2]) / squares[0]
    estimate = math.sqrt(max(ratio - 1, 0.0)) - 1
    return min(max(estimate + _CORRELATION_ERROR / math.sqrt(count), 0.0), _CORRELATION_MAX)


def _is_usable(series: FloatArray) -> bool:
    return series.size >= 2 * VALUES_MIN and bool(np.isfinite(series).all())


def _difference(series: FloatArray, lag: int) -> float:
    return float(np.mean((series[lag:] - series[:-lag]) ** 2))


def _clipped(series: FloatArray) -> FloatArray:
    deviation = float(np.median(np.abs(np.diff(series)))) / _MEDIAN_DIFFERENCE
    if deviation <= 0:
        return series
    median = float(np.median(series))
    return np.clip(series, median - _CLIPPED_AT * deviation, median + _CLIPPED_AT * deviation)


def _split(series: FloatArray, offset: int, correlation: float, level: float) -> list[int]:
    if series.size < 2 * VALUES_MIN:
        return []
    windows = _windows(series.size)
    each_level = level if len(windows) == 1 else level / 4
    best, place = 1.0, None
    for begin, end in windows:
        value, index = statistic(series[begin:end])
        share = value / critical(end - begin, correlation, each_level)
        if share > best:
            best, place = share, begin + index
    if place is None:
        return []
    left, right = series[:place], series[place:]
    return [
        *_split(left, offset, correlation, level),
        offset + place,
        *_split(right, offset + place, correlation, level),
    ]


def _windows(count: int) -> list[tuple[int, int]]:
    if count < _WINDOWED_MIN:
        return [(0, count)]
    half = count // 2
    return [(0, count), (0, half), (count // 4, count // 4 + half), (count - half, count)]


def statistic(series: FloatArray) -> tuple[float, int]:
    """The greatest t of all splits and where that is; 0 of a constant series, infinite of an exact step."""
    values = _clipped(series)
    count = values.size
    splits = np.arange(VALUES_MIN, count - VALUES_MIN + 1)
    centred = values - values.mean()
    gains = np.cumsum(centred)[splits - 1] ** 2 * count / (splits * (count - splits))
    at = int(np.argmax(gains))
    explained, total = float(gains[at]), float((centred**2).sum())
    scale = float(np.abs(values).max())
    # Rounding alone must neither make a change of a constant series nor hide an exact step.
    if explained <= count * (1e-9 * scale) ** 2:
        return 0.0, int(splits[at])
    left = max(total - explained, count * (1e-12 * scale) ** 2)
    return math.sqrt(explained * (count - 2) / left), int(splits[at])


def critical(count: int, correlation: float, level: float) -> float:
    """What the statistic of `count` stationary values exceeds with probability `level`.

    level: LEVEL, STRICT_LEVEL or a quarter of that. Between the simulated cells it is interpolated, linear in
    the correlation and in the logarithm of the length. Raises KeyError for another level.
    """
    table = _CRITICAL[level]
    column = [float(np.interp(correlation, _CORRELATIONS, row)) for row in table]
    return float(np.interp(math.log(count), np.log(_LENGTHS), column))
