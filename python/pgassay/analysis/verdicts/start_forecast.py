"""How many more starts a comparison is likely to take, by continuing the evidence in hand.

As `forecast`, for evidence of `starts`: effects and spreads between starts are drawn from what the starts so
far say, further starts from them, and the evidence goes on by its own rules until a verdict. No verdict
depends on this.
"""

import numpy as np

from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray, differences
from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.statistics.forecast import EFFECT_SCALE, PATHS, DecisionRules
from pgassay.analysis.statistics.starts import gather_start_evidence

STARTS_BEFORE = 2
# Further starts beyond which nothing is said; most continuations are decided within the first few.
HORIZON_STARTS, _FIRST_STARTS = 200, 16
# Starts of this spread count as seen before the first: two starts say next to nothing of a spread.
_PRIOR_DEGREES, _PRIOR_SPREAD = 2, 0.01
_CANDIDATES = 6


def further_starts(members: FloatArray, decision: DecisionRules, deviation: float, seed: int) -> FloatArray:
    """Starts until the verdict of each simulated continuation; (contrasts, starts, n) → (contrasts, PATHS).

    `members` are the log speeds of the complete starts, the arm first; deviation: by how much a start may
    change a ratio. Infinite where there is no verdict within HORIZON_STARTS. Deterministic for a seed and a
    number of starts. Raises ValueError with fewer than STARTS_BEFORE starts.
    """
    starts = members.shape[-2]
    if starts < STARTS_BEFORE:
        raise ValueError(f"a forecast needs at least {STARTS_BEFORE} starts, got {starts}")
    found = np.empty((len(members), PATHS))
    for row, difference in enumerate(differences(members)):
        random = np.random.default_rng([seed, starts])
        further = _drawn(difference, random)
        paths = np.concatenate([np.broadcast_to(difference, (PATHS, starts)), further], axis=-1)
        times = _times(paths[:, : starts + _FIRST_STARTS], starts, decision, deviation)
        late = ~np.isfinite(times)
        if late.any():
            times[late] = _times(paths[late], starts, decision, deviation)
        found[row] = times
    return np.maximum(found, max(1, decision.blocks_min - starts))


def _drawn(difference: FloatArray, random: np.random.Generator) -> FloatArray:
    """Log ratios of further starts, (PATHS, HORIZON_STARTS); each path has an effect and a spread.

    Effects are weighted as in `forecast`: most that people measure are of a few percent, unless the starts
    say otherwise.
    """
    starts, mean = len(difference), difference.mean()
    squares = ((difference - mean) ** 2).sum() + _PRIOR_DEGREES * _PRIOR_SPREAD**2
    amount = PATHS * _CANDIDATES
    spreads = np.sqrt(squares / random.chisquare(starts - 1 + _PRIOR_DEGREES, amount))
    effects = mean + spreads * random.standard_normal(amount) / np.sqrt(starts)
    weights = 1 / (1 + (effects / EFFECT_SCALE) ** 2)
    chosen = random.choice(amount, PATHS, p=weights / weights.sum())
    noise = random.standard_normal((PATHS, HORIZON_STARTS))
    result: FloatArray = effects[chosen, np.newaxis] + spreads[chosen, np.newaxis] * noise
    return result


def _times(paths: FloatArray, starts: int, decision: DecisionRules, deviation: float) -> FloatArray:
    """After how many further starts each path has its verdict, infinite where it has none; (paths,)."""
    evidence = gather_start_evidence(np.stack([paths, np.zeros_like(paths)], axis=-1), deviation)
    directed = np.maximum(evidence.log_highest_above(0.0), evidence.log_highest_below(0.0))
    decided: BoolArray = directed >= np.log(2 / decision.level)
    edge = log_margin(decision.margin)
    inside = np.minimum(evidence.log_highest_above(-edge), evidence.log_highest_below(edge))
    decided |= inside >= np.log(2 / decision.equivalence_level)
    decided = decided[:, starts:]
    first: FloatArray = np.where(decided.any(axis=-1), decided.argmax(axis=-1) + 1.0, np.inf)
    return first
