"""Whether the machine and the loads were steady: drift over the blocks, and loads that never settled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from pgassay.analysis.statistics.eprocess import FloatArray

DRIFT_BLOCKS_MIN = 8
DRIFT_SCORE_MIN = 3.29
STEP_BLOCKS_MIN = 16
STEP_SIDE_MIN = 6
UNSETTLED_SCORE_MIN = 2.58
SETTLE_SECONDS_MIN = 4
SETTLE_TRIALS_MIN = 3
SETTLE_CONFIDENCE = 0.99


@dataclass(frozen=True)
class Drift:
    """A trend over the blocks, all arms together.

    change: log ratio of the last block's speed to the first's along the trend; settled: whether the second
    half of the blocks shows no trend of its own.
    """

    change: float
    settled: bool


def trend_score(series: FloatArray) -> float:
    """The standard score of Mann and Kendall's test for a trend (Kendall 1975, with the tie correction)."""
    count = series.shape[0]
    later, earlier = np.triu_indices(count, 1)[1], np.triu_indices(count, 1)[0]
    total = float(np.sign(series[later] - series[earlier]).sum())
    _, ties = np.unique(series, return_counts=True)
    variance = (
        count * (count - 1) * (2 * count + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())
    ) / 18
    if variance <= 0:
        return 0.0
    return (total - math.copysign(1.0, total)) / math.sqrt(variance) if total else 0.0


def trend_per_step(series: FloatArray) -> float:
    """Theil and Sen's slope: the median of the slopes of all pairs."""
    earlier, later = np.triu_indices(series.shape[0], 1)
    return float(np.median((series[later] - series[earlier]) / (later - earlier)))


def find_drift(block_logs: FloatArray, margin: float) -> Drift | None:
    """A drift larger than the margin in block means of log speed, or None.

    block_logs: (blocks,) in run order. Needs 8 blocks; the score must be beyond 3.29 (p < 0.001).
    """
    count = block_logs.shape[0]
    if count < DRIFT_BLOCKS_MIN or abs(trend_score(block_logs)) < DRIFT_SCORE_MIN:
        return None
    change = trend_per_step(block_logs) * (count - 1)
    if abs(change) <= math.log1p(margin):
        return None
    second_half = block_logs[count // 2 :]
    return Drift(change, abs(trend_score(second_half)) < UNSETTLED_SCORE_MIN)


def find_step(block_logs: FloatArray, margin: float) -> Drift | None:
    """A step larger than the margin after which no block is as any before it was, or None.

    block_logs: (blocks,) in run order. Needs 16 blocks with six on either side. Without a change each order
    of the blocks is as likely as any other, so that a step is found by chance in at most Σ 2 / C(blocks, k)
    of cases over the k that are looked at: 0.001 of 16 blocks, less of more. The score of a trend reaches its
    limit for a single step from 22 blocks on.
    """
    count = block_logs.shape[0]
    if count < STEP_BLOCKS_MIN:
        return None
    places = np.arange(STEP_SIDE_MIN, count - STEP_SIDE_MIN + 1)
    turned = block_logs[::-1]
    least_after, most_after = np.minimum.accumulate(turned)[::-1], np.maximum.accumulate(turned)[::-1]
    is_higher = least_after[places] > np.maximum.accumulate(block_logs)[places - 1]
    is_lower = most_after[places] < np.minimum.accumulate(block_logs)[places - 1]
    apart = places[is_higher | is_lower]
    changes = [float(np.median(block_logs[place:]) - np.median(block_logs[:place])) for place in apart]
    change = max(changes, key=abs, default=0.0)
    return Drift(change, settled=True) if abs(change) > math.log1p(margin) else None


def change_within(per_second: Sequence[int]) -> float | None:
    """log of a load's mean rate in the second half of its interval over the first's; None if too short.

    per_second: transactions of each second of the measured interval. A rate of 0 in a half gives an infinite
    log ratio.
    """
    count = len(per_second)
    if count < SETTLE_SECONDS_MIN:
        return None
    half = count // 2
    first, second = float(np.mean(per_second[:half])), float(np.mean(per_second[count - half :]))
    if first == second:
        return 0.0
    if first <= 0 or second <= 0:
        return math.inf if second > 0 else -math.inf
    return math.log(second / first)


def unsettled_change(loads: Sequence[Sequence[int]], margin: float) -> float | None:
    """The mean change within the trials of one arm, when its loads had not settled; None when they had.

    It must exceed the margin, with a 99 % t interval over at least three trials that excludes 0: a single
    trial's seconds are not independent, trials are.
    """
    changes = [change for load in loads if (change := change_within(load)) is not None]
    count = len(changes)
    if count < SETTLE_TRIALS_MIN:
        return None
    if not all(math.isfinite(change) for change in changes):
        return next(change for change in changes if not math.isfinite(change))
    mean, spread = float(np.mean(changes)), float(np.std(changes, ddof=1))
    reach = float(stdtrit(count - 1, 0.5 + SETTLE_CONFIDENCE / 2)) * spread / math.sqrt(count)
    return mean if abs(mean) > max(math.log1p(margin), reach) else None
