"""Moments at which the mean of a series changed, with a bounded chance of a false alarm.

A self-normalised CUSUM (Shao and Zhang, "Testing for change points in time series", JASA 105, 2010): the
statistic divides by a variance of the series' own partial sums, so that neither the noise's variance nor its
autocorrelation need be known. It is asked of the whole series and of three halves that overlap, because a
change that is taken back hides in the whole. After a change the parts on its sides are looked at alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
# At most 5 % of stationary series of 12 to 120 values with an autocorrelation of 0.3 reach it in any
# window (simulated; the worst is 30 values). One window of a long series has 40.1 (Shao and Zhang, table 1).
CRITICAL = 110.0
# Shorter series are looked at as a whole alone.
_WINDOWED_MIN = 24
# No part is shorter than this: its mean could be anything.
VALUES_MIN = 4


@dataclass(frozen=True)
class ChangePoint:
    """The mean changed between values `place − 1` and `place`; before and after are means of both parts."""

    index: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """After over before; infinite after nothing."""
        return self.after / self.before if self.before else float("inf")


def change_points(values: Sequence[float]) -> tuple[ChangePoint, ...]:
    """The change points of a series, ascending; () for one too short to tell, or with gaps (NaN)."""
    series = np.asarray(values, dtype=np.float64)
    if series.size < 2 * VALUES_MIN or not np.isfinite(series).all():
        return ()
    indices = sorted(_split(series, 0))
    edges = [0, *indices, series.size]
    means = [float(series[begin:end].mean()) for begin, end in pairwise(edges)]
    return tuple(
        ChangePoint(index, before, after)
        for index, (before, after) in zip(indices, pairwise(means), strict=True)
    )


def _split(series: FloatArray, offset: int) -> list[int]:
    if series.size < 2 * VALUES_MIN:
        return []
    begin, end = max(_windows(series.size), key=lambda window: statistic(series[slice(*window)]))
    if statistic(series[begin:end]) <= CRITICAL:
        return []
    index = begin + _change_index(series[begin:end])
    left, right = series[:index], series[index:]
    return [*_split(left, offset), offset + index, *_split(right, offset + index)]


def _windows(count: int) -> list[tuple[int, int]]:
    if count < _WINDOWED_MIN:
        return [(0, count)]
    half = count // 2
    return [(0, count), (0, half), (count // 4, count // 4 + half), (count - half, count)]


def statistic(series: FloatArray) -> float:
    """The greatest self-normalised CUSUM over all splits; 0 of a constant series."""
    count = series.size
    centred = series - series.mean()
    sums = np.cumsum(centred)
    greatest = 0.0
    scale = float(np.abs(series).max())
    for split in range(VALUES_MIN, count - VALUES_MIN + 1):
        signal = sums[split - 1] ** 2 / count
        noise = (_bridge(centred[:split]) + _bridge(centred[split:][::-1])) / count**2
        # Rounding alone must neither make a change of a constant series nor hide an exact step.
        if signal <= (1e-9 * scale) ** 2:
            continue
        greatest = max(greatest, float(signal / max(noise, (1e-12 * scale) ** 2)))
    return greatest


def _bridge(part: FloatArray) -> float:
    """Σ of the squared distances of the partial sums from the straight line between their ends."""
    sums = np.cumsum(part)
    line = sums[-1] * np.arange(1, part.size + 1) / part.size
    return float(((sums - line) ** 2).sum())


def _change_index(series: FloatArray) -> int:
    """The split that leaves the smallest sum of squares within both parts."""
    indices = np.arange(VALUES_MIN, series.size - VALUES_MIN + 1)
    sums = np.cumsum(series - series.mean())
    gains = sums[indices - 1] ** 2 * series.size / (indices * (series.size - indices))
    return int(indices[np.argmax(gains)])
