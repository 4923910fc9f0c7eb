"""How many blocks a question takes, and what a given number of blocks can answer.

A spread is the standard deviation of the log ratio of two trials of one block (paired d); single trials
spread by 1/√2 of it. Effects and margins are fractions (0.03 is 3 %) and enter as log(1 + effect). The
constants were fitted by simulation of this package's own evidence at α = 0.05 for one contrast, with the
rules of new experiments (`tests/statistics/test_rules.py` simulates it again). More contrasts, or another α,
need ln(2m/α)/ln(2/0.05) times as many blocks (1 + ln(m)/3.7), and ln(m/α)/ln(1/0.05) times for equivalence.
"""

import math

import numpy as np
from scipy.special import gammaincinv

from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.words import duration, duration_rounded, percent_rounded, plural

PILOT_BLOCKS_MIN = 3
BLOCKS_MIN_POOLED, BLOCKS_MIN_PAIRED = 4, 6
# (constant, factor of (spread/effect)²) by (power, pooled).
_DETECTION = {
    (0.8, False): (4.0, 14.2),
    (0.8, True): (3.0, 10.5),
    (0.9, False): (4.0, 18.0),
    (0.9, True): (2.0, 13.0),
}
# For a statement among others, judged by its current evidence; the primary metric takes a tenth less.
_EQUIVALENCE = {False: (4.0, 18.0), True: (3.0, 13.0)}
_CONTRAST_DIVISOR, _EQUIVALENCE_DIVISOR = 3.7, 3.0


def multiplicity(contrasts: int = 1, alpha: float = 0.05, *, equivalence: bool = False) -> float:
    """How many times as many blocks m contrasts at error rate α take as one at 0.05."""
    divisor = _EQUIVALENCE_DIVISOR if equivalence else _CONTRAST_DIVISOR
    return 1 + math.log(contrasts * 0.05 / alpha) / divisor


def minimum_blocks(*, pooled: bool, contrasts: int = 1, alpha: float = 0.05) -> int:
    """The fewest blocks that can give a verdict: 4 pooled, 6 paired, or more when n^blocks ≤ 2m/α.

    As few only of an effect far beyond what trials spread by; sign flips take 5, and 8 of five comparisons.
    """
    members, least = (3, BLOCKS_MIN_POOLED) if pooled else (2, BLOCKS_MIN_PAIRED)
    bounded = math.floor(math.log(2 * contrasts / alpha) / math.log(members)) + 1
    return max(least, bounded)


def _blocks(terms: tuple[float, float], spread: float, effect: float, least: int, times: float) -> int:
    if not effect > 0 or not spread >= 0:
        raise ValueError(f"the effect must be above 0 and the spread 0 or more, got {effect} and {spread}")
    constant, factor = terms
    needed = (constant + factor * (spread / math.log1p(effect)) ** 2) * times
    return max(least, round(needed))


def blocks_for_detection(
    spread: float,
    effect: float,
    *,
    pooled: bool,
    power: float = 0.8,
    contrasts: int = 1,
    alpha: float = 0.05,
) -> int:
    """Blocks after which an effect of this size is found with probability `power` (0.8 or 0.9).

    Raises ValueError for another power, a spread below 0 or an effect that is not above 0.
    """
    if (power, pooled) not in _DETECTION:
        raise ValueError(f"blocks are known for a power of 0.8 and 0.9, not {power}")
    least = minimum_blocks(pooled=pooled, contrasts=contrasts, alpha=alpha)
    return _blocks(_DETECTION[power, pooled], spread, effect, least, multiplicity(contrasts, alpha))


def blocks_for_equivalence(
    spread: float, margin: float, *, pooled: bool, contrasts: int = 1, alpha: float = 0.05
) -> int:
    """Blocks after which equal arms are found equivalent within the margin with probability 0.8 or more.

    So is each of the statements that don't differ, where all are tested together.
    """
    least = minimum_blocks(pooled=pooled, contrasts=contrasts, alpha=alpha)
    times = multiplicity(contrasts, alpha, equivalence=True)
    return _blocks(_EQUIVALENCE[pooled], spread, margin, least, times)


def _deviations(blocks: int, pooled: bool, contrasts: int, alpha: float, power: float = 0.8) -> float:
    """effect/spread, both in logs, that so many blocks detect at this power; infinite if too few."""
    if blocks < minimum_blocks(pooled=pooled, contrasts=contrasts, alpha=alpha):
        return math.inf
    constant, factor = _DETECTION[power, pooled]
    left = blocks / multiplicity(contrasts, alpha) - constant
    return math.sqrt(factor / left) if left > 0 else math.inf


def resolvable_effect(
    blocks: int,
    spread: float,
    *,
    pooled: bool,
    power: float = 0.8,
    contrasts: int = 1,
    alpha: float = 0.05,
) -> float:
    """The smallest effect (a fraction) that so many blocks find at this power (0.8 or 0.9).

    Infinite if they are too few.
    """
    deviations = _deviations(blocks, pooled, contrasts, alpha, power)
    if math.isinf(deviations):
        return math.inf
    return math.expm1(min(deviations * spread, 700.0))


def resolvable_margin(
    blocks: int, spread: float, *, pooled: bool, contrasts: int = 1, alpha: float = 0.05
) -> float:
    """The smallest margin within which so many blocks find equal arms equivalent at 80 % power."""
    if blocks < minimum_blocks(pooled=pooled, contrasts=contrasts, alpha=alpha):
        return math.inf
    constant, factor = _EQUIVALENCE[pooled]
    left = blocks / multiplicity(contrasts, alpha, equivalence=True) - constant
    return math.expm1(min(spread * math.sqrt(factor / left), 700.0)) if left > 0 else math.inf


def resolvable_spread(
    blocks: int, effect: float, *, pooled: bool, contrasts: int = 1, alpha: float = 0.05
) -> float:
    """The largest spread of paired trials at which so many blocks find this effect; 0 if too few."""
    deviations = _deviations(blocks, pooled, contrasts, alpha)
    return 0.0 if math.isinf(deviations) else math.log1p(effect) / deviations


def upper_spread(pairs: FloatArray, confidence: float = 0.8) -> float:
    """s_U = s·√((n − 1)/χ²_{.20, n−1}) of an n-block pilot's paired log ratios: above the truth in 80 %.

    At another confidence c the quantile is 1 − c.

    Raises ValueError for fewer than two blocks.
    """
    degrees = pairs.shape[-1] - 1
    if degrees < 1:
        raise ValueError(f"a spread needs at least two blocks, got {degrees + 1}")
    quantile = 2 * gammaincinv(degrees / 2, round(1 - confidence, 12))
    return float(np.std(pairs, ddof=1) * math.sqrt(degrees / quantile))


def resolution_sentence(
    time_s: float,
    trial_s: float,
    trials_per_block: int,
    *,
    effect: float = 0.03,
    pooled: bool = True,
    contrasts: int = 1,
    alpha: float = 0.05,
    trial_spread: float = 0.07,
    blocks_max: int | None = None,
    blocks_per_copy: int = 1,
) -> str:
    """What a time limit can resolve, in one sentence, to be said before the first trial.

    time_s: the limit; trial_s: what one trial takes with its preparation; trial_spread: a spread of single
    trials to compare with (7 % is what a shared virtual machine shows); blocks_max caps the blocks.
    blocks_per_copy: how many of them run on one set of copies, which counts once.
    """
    terms = {"pooled": pooled, "contrasts": contrasts, "alpha": alpha}
    block_s = trial_s * trials_per_block
    blocks = int(time_s / block_s + 1e-9)
    if blocks_max is not None:
        blocks = min(blocks, blocks_max)
    # "2 minutes" for 100 s would be more than there is.
    limit = duration(time_s) if 90 <= time_s < 60 * round(time_s / 60) else duration_rounded(time_s)
    given = f"{limit} {'is' if time_s == 60 else 'are'} about {plural(blocks, 'block')} of "
    if blocks_max is not None and blocks == blocks_max:
        given = f"The limit is {plural(blocks, 'block')} of "
    given += f"{trials_per_block} trials"
    sets = minimum_blocks(pooled=pooled, contrasts=contrasts, alpha=alpha)
    least = sets * blocks_per_copy
    counted = _counted(sets, blocks_per_copy)
    # The blocks of a set are one row, whose mean spreads less; copies are taken for alike.
    alike = math.sqrt(blocks_per_copy)
    rows = blocks_for_detection(trial_spread * math.sqrt(2) / alike, effect, **terms)  # type: ignore[arg-type]
    wanted = rows * blocks_per_copy
    otherwise = (
        f"at a trial-to-trial spread of {percent_rounded(trial_spread)} it takes {plural(wanted, 'block')}, "
        f"about {duration_rounded(wanted * block_s)}"
    )
    spread = alike * resolvable_spread(blocks // blocks_per_copy, effect, **terms)  # type: ignore[arg-type]
    if blocks < least or spread <= 0:
        if duration_rounded(time_s) == duration_rounded(least * block_s):
            # "3 minutes are too few for what takes 3 minutes" is a riddle.
            given = given.replace(duration_rounded(time_s), duration(time_s), 1)
            needed = duration(least * block_s)
        else:
            needed = duration_rounded(least * block_s)
        return (
            f"{given}, too few for a verdict, which takes at least {plural(least, 'block')} "
            f"({needed}); to resolve {percent_rounded(effect)}, {otherwise}.{counted}"
        )
    single = percent_rounded(spread / math.sqrt(2))
    return (
        f"{given}: they resolve {percent_rounded(effect)} if the trials of a block differ from each other by "
        f"at most {percent_rounded(spread)} (single trials spread by {single}); "
        f"{otherwise}.{counted}"
    )


def _counted(sets: int, blocks_per_copy: int) -> str:
    """How blocks count that run on the same copies, as a further sentence; '' where each has its own."""
    if blocks_per_copy <= 1:
        return ""
    return (
        f" Each {blocks_per_copy} blocks run on one set of copies, which counts once: a verdict takes at "
        f"least {sets} sets, {sets * blocks_per_copy} blocks."
    )
