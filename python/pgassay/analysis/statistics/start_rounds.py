"""One figure for each arm from the rounds of one start, and how exact it is.

In a round every arm is executed once, in a drawn order, so what a round does to all of them is taken out
first: the mean over the arms. An arm's figure is the median over the rounds of what is left, and the level
of the rounds is added again. With two arms the difference of the figures is exactly the median of the rounds'
log ratios. The median and not the mean: one round in a hundred that meets a checkpoint or another process
takes 20 times as long, which moves the mean of 200 logs by 2 or 3 % in one start and not in the next; starts
are few, and none may be left out. The price is a wider error where noise is normal (by a quarter), and rounds
are cheap. What only a few executions suffer is asked of percentiles, not of this.

How many rounds a start has is decided by their noise while it runs (`is_exact_enough`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.eprocess import FloatArray

_NORMAL_MEDIAN_DEVIATION = 0.6745
# The standard error of a median of n normal values is this times σ/√n, and σ this times their mean deviation.
_OF_MEDIAN = _OF_DEVIATION = math.sqrt(math.pi / 2)
# By how much starts change a ratio, as this machine and others showed (`benchmarks/time_to_verdict.py --aa`).
START_SPREAD = 0.01
# Three starts prove a difference of so many times its error within each. For the figure's own sake the error
# may be so large at most.
CLEAR, CLEAR_ERROR_MAX = 6.0, 0.15


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


def is_exact_enough(
    logs: FloatArray, contrasts: Sequence[tuple[int, Sequence[int]]], start_s: float, round_s: float
) -> bool:
    """Whether another start tells more than more rounds of this one; logs: as of `start_figures`.

    contrasts: the columns of an arm and of its controls; start_s: what a start took before its rounds;
    round_s: what a round takes. Of starts that differ by σ and rounds by ω, n rounds tell most in a given
    time at n = ω/σ·√(start_s/round_s) (the optimal allocation of two-stage sampling: Cochran, "Sampling
    Techniques", 1977, section 10.6). A clear difference needs no more rounds than make it clear. Of several
    statements half must be so. Rounds never take longer than the start did: on a noisy machine σ is larger
    than assumed, and whatever σ and ω are, n = start_s/round_s leaves at most twice the smallest variance
    that this time could, since 2·(σ²·start_s + ω²·round_s) ≤ 2·(σ·√start_s + ω·√round_s)².

    Only the amount of a difference counts and never its side: where arms are alike, the figure at which a
    start ends is as likely on the one as on the other, as that of a fixed number of rounds
    (`test_rounds_of_a_start.py`).
    """
    rounds = logs.shape[-2]
    if rounds * round_s >= start_s:
        return True
    if rounds < 2:
        return False
    enough = np.ones(logs.shape[:-2], dtype=bool)
    for arm, controls in contrasts:
        differences = logs[..., arm] - logs[..., list(controls)].mean(axis=-1)
        middle = np.median(differences, axis=-1)
        deviations = np.abs(differences - middle[..., np.newaxis]).sum(axis=-1) / (rounds - 1)
        noise = _OF_MEDIAN * _OF_DEVIATION * deviations
        clear = np.minimum(np.abs(middle) / CLEAR, CLEAR_ERROR_MAX)
        enough &= (noise / math.sqrt(rounds) <= clear) | (
            noise * math.sqrt(start_s / round_s) <= START_SPREAD * rounds
        )
    return bool(np.mean(enough) >= 0.5)


def start_seconds(rounds: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """The figures of one start as seconds, by arm and statement; `rounds`: seconds by arm, round, statement.

    Where arms execute as many statements each, those at the same place are of the same rounds. Else each
    arm's are taken alone.
    """
    if len({len(of_round) for of_arm in rounds for of_round in of_arm}) > 1:
        return [np.exp(np.median(np.log(of_arm), axis=0)).tolist() for of_arm in rounds]
    seconds: list[list[float]] = np.exp(-start_figures(start_logs(rounds)).values).T.tolist()
    return seconds


def start_logs(rounds: Sequence[Sequence[Sequence[float]]]) -> FloatArray:
    """The rounds' log speeds, (statements, rounds, arms).

    Those of all statements together, (1, rounds, arms), where arms don't execute as many each.
    """
    if len({len(of_round) for of_arm in rounds for of_round in of_arm}) > 1:
        rounds = [[[math.fsum(of_round)] for of_round in of_arm] for of_arm in rounds]
    logs: FloatArray = -np.log(np.array(rounds, dtype=float)).transpose(2, 1, 0)
    return logs
