"""Where the noise of equal arms comes from: within trials, between trials, and over the run.

The log speed of arm a in block b is μ + α_a + β_b + ε_ab: an arm's constant place (its copy of the data),
the block's moment, and the trial. The components are those of a two-way layout without repetition
(Montgomery, Design and Analysis of Experiments, section 4.1). What a load's seconds alone would make of ε
is the variance of the mean of their batches (Law and Kelton, Simulation Modeling and Analysis, section 9.5).
Variances are of log speeds, so a standard deviation of 0.03 is about 3 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, stdtrit

from pgassay.analysis.statistics.eprocess import FloatArray

BATCHES = 10
SECONDS_MIN = 4
BLOCKS_MIN = 2
DRIFT_BLOCKS_MIN = 3
CONFIDENCE = 0.95
# As the planner's `upper_spread`: above the truth in 80 % of cases.
UPPER_TAIL = 0.20


@dataclass(frozen=True)
class Components:
    """Variance components of log speeds.

    within: what the fluctuation of a trial's own seconds explains, None for statements; between: the rest of
    a trial's variance within its block, never below 0; blocks: between blocks, beyond that of trials.
    trial: within and between together, from `degrees` degrees of freedom; arms: each arm's mean log speed
    less the mean of all.
    """

    within: float | None
    between: float
    blocks: float
    trial: float
    degrees: int
    arms: FloatArray

    @property
    def paired_spread(self) -> float:
        """Standard deviation of the log ratio of two trials of one block."""
        return math.sqrt(2 * self.trial)

    def paired_spread_upper(self) -> float:
        """As `paired_spread`, above the truth in 80 % of cases (a χ² bound)."""
        quantile = 2 * gammaincinv(self.degrees / 2, UPPER_TAIL)
        return float(self.paired_spread * math.sqrt(self.degrees / quantile))


@dataclass(frozen=True)
class Trend:
    """A straight line through the blocks' means: its change of log speed over the run's hours.

    lower, upper: a 95 % t interval of the change, which takes the blocks' deviations from the line for
    independent.
    """

    change: float
    lower: float
    upper: float
    hours: float

    @property
    def is_seen(self) -> bool:
        """Whether the interval excludes no drift."""
        return self.lower > 0 or self.upper < 0


def components(logs: FloatArray, within: float | None) -> Components:
    """The components of equal arms' log speeds, shape (blocks, arms); `within` as `within_variance` gives.

    Raises ValueError for fewer than two blocks or two arms.
    """
    blocks, arms = logs.shape
    if blocks < BLOCKS_MIN or arms < 2:
        raise ValueError(f"components need two blocks of two arms, got {blocks} of {arms}")
    of_arms = logs.mean(axis=0) - logs.mean()
    of_blocks = logs.mean(axis=1, keepdims=True)
    residuals = logs - of_blocks - of_arms
    degrees = (blocks - 1) * (arms - 1)
    trial = float((residuals**2).sum() / degrees)
    mean_square = float(arms * np.var(of_blocks, ddof=1))
    return Components(
        within=None if within is None else min(within, trial),
        between=trial if within is None else max(0.0, trial - within),
        blocks=max(0.0, (mean_square - trial) / arms),
        trial=trial,
        degrees=degrees,
        arms=of_arms,
    )


def within_variance(loads: Sequence[Sequence[int]]) -> float | None:
    """The variance of a trial's log rate that its own seconds explain, the mean over trials.

    loads: each trial's transactions per second. Seconds that follow each other are alike, so they are taken
    in ten batches (single seconds below 20). None when no trial has 4 seconds, or a rate is 0.
    """
    found = [value for load in loads if (value := _within(load)) is not None]
    return float(np.mean(found)) if found else None


def batch_means(per_second: Sequence[int]) -> FloatArray | None:
    """The rates of a load's ten batches of seconds (single seconds below 20); None below 4 seconds."""
    count = len(per_second)
    length = max(1, count // BATCHES)
    batches = count // length
    if batches < SECONDS_MIN:
        return None
    whole = np.asarray(per_second[: batches * length], dtype=np.float64)
    means: FloatArray = whole.reshape(batches, length).mean(axis=1)
    return means


def _within(per_second: Sequence[int]) -> float | None:
    means = batch_means(per_second)
    if means is None or not means.mean() > 0:
        return None
    return float(np.var(means, ddof=1) / len(means) / float(means.mean()) ** 2)


def trend(block_logs: FloatArray, hours: FloatArray) -> Trend | None:
    """Least squares of the blocks' mean log speeds, shape (blocks,), on their times in hours.

    None with fewer than three blocks, or when all have one time.
    """
    count = block_logs.shape[0]
    centred = hours - hours.mean()
    square = float((centred**2).sum())
    if count < DRIFT_BLOCKS_MIN or square <= 0:
        return None
    slope = float((centred * block_logs).sum() / square)
    residuals = block_logs - block_logs.mean() - slope * centred
    error = math.sqrt(float((residuals**2).sum()) / (count - 2) / square)
    reach = float(stdtrit(count - 2, 0.5 + CONFIDENCE / 2)) * error
    length = float(hours.max() - hours.min())
    return Trend(slope * length, (slope - reach) * length, (slope + reach) * length, length)
