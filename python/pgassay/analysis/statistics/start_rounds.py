"""One figure for each arm from the rounds of one start, and how exact it is.

In a round every arm is executed once, in a drawn order, so what a round does to all of them is taken out
first: the mean over the arms. An arm's figure is the median over the rounds of what is left, and the level
of the rounds is added again. With two arms the difference of the figures is exactly the median of the rounds'
log ratios. The median and not the mean: one round in a hundred that meets a checkpoint or another process
takes 20 times as long, which moves the mean of 200 logs by 2 or 3 % in one start and not in the next; starts
are few, and none may be left out. The price is a wider error where noise is normal (by a quarter), and rounds
are cheap. What only a few executions suffer is asked of percentiles, not of this.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.eprocess import FloatArray

_NORMAL_MEDIAN_DEVIATION = 0.6745
# The standard error of a median of n normal values is this times σ/√n.
_OF_MEDIAN = math.sqrt(math.pi / 2)


@dataclass(frozen=True)
class StartFigures:
    """What one start leaves of each arm, on the scale of the rounds' logs.

    values: (..., arms); a row of the evidence. errors: the standard error within the start of each arm's
    difference from the first one, same shape, 0 for the first; rounds: how many they are of.
    """

    values: FloatArray
    errors: FloatArray
    rounds: int


def start_figures(logs: FloatArray) -> StartFigures:
    """The figures of one start; logs: (..., rounds, arms), log speeds, leading axes for statements.

    The first arm is the one that errors are told against. The errors take rounds for independent of each
    other, so they are for saying whether more rounds would help; no verdict rests on them.

    Raises ValueError where there is no round, or a value is not finite.
    """
    if logs.ndim < 2 or logs.shape[-2] < 1 or not np.isfinite(logs).all():
        raise ValueError(f"a start needs a finite log speed of each arm in each round, got {logs.shape}")
    rounds = logs.shape[-2]
    centre = logs.mean(axis=-1, keepdims=True)
    values = np.median(logs - centre, axis=-2) + np.median(centre, axis=-2)
    ratios = logs - logs[..., :1]
    deviations = np.abs(ratios - np.median(ratios, axis=-2, keepdims=True))
    spread = np.median(deviations, axis=-2) / _NORMAL_MEDIAN_DEVIATION
    errors: FloatArray = _OF_MEDIAN * spread / math.sqrt(rounds)
    return StartFigures(values, errors, rounds)


def start_seconds(rounds: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """The figures of one start as seconds, by arm and statement; `rounds`: seconds by arm, round, statement.

    Where arms execute as many statements each, those at the same place are of the same rounds. Else each
    arm's are taken alone.
    """
    if len({len(of_round) for of_arm in rounds for of_round in of_arm}) > 1:
        return [np.exp(np.median(np.log(of_arm), axis=0)).tolist() for of_arm in rounds]
    # (statements, rounds, arms)
    logs = -np.log(np.array(rounds, dtype=float)).transpose(2, 1, 0)
    seconds: list[list[float]] = np.exp(-start_figures(logs).values).T.tolist()
    return seconds
