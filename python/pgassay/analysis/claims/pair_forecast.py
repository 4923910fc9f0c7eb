"""How many more blocks a verdict on two arms is likely to take, by how far their trials spread.

For pairs that the experiment itself gives no forecast of: of one statement, and of two arms neither of which
is the control. The width of an interval is no guide early: while blocks are few it falls many times faster
than with their root. No verdict rests on these figures.
"""

import math
from collections.abc import Sequence

import numpy as np

from pgassay.analysis.statistics.power import (
    PILOT_BLOCKS_MIN,
    blocks_for_detection,
    blocks_for_equivalence,
)
from pgassay.model.result import ArmResult, Forecast

# What was expected to suffice and did not is followed by so much more of it.
_FURTHER_SHARE = 0.25
# Two arms by the ends of both their intervals: each has half of the difference.
_OF_TWO_INTERVALS = 2.0


def forecast_of(
    found: ArmResult, other: ArmResult, margin: float, comparisons: int, *, is_between: bool
) -> Forecast | None:
    """The further blocks that the pair `found`, an arm as it compares with `other`, is likely to take.

    comparisons: how many share the error rate. is_between: the pair is judged by both arms' intervals against
    their control. None before the third block, where rows are starts of a server, and where nothing is known.
    """
    blocks, spread = found.blocks, _spread(found.values, other.values)
    if found.ratio is None or spread is None or blocks < PILOT_BLOCKS_MIN or found.starts is not None:
        return None
    away, share = abs(math.log(found.ratio)), _OF_TWO_INTERVALS if is_between else 1.0
    # What is left of the margin if they are alike: a part of what was found is noise.
    within = math.log1p(margin) - max(0.0, away - spread / math.sqrt(blocks))
    rows = [
        blocks_for(spread, math.expm1(room / share), pooled=True, contrasts=max(1, comparisons))
        for blocks_for, room in ((blocks_for_detection, away), (blocks_for_equivalence, within))
        if room > 0
    ]
    if not rows:
        return None
    each_row = blocks / found.replicates if found.replicates else 1.0
    further = max(min(rows) * each_row - blocks, blocks * _FURTHER_SHARE, 1.0)
    return Forecast(blocks=(None, math.ceil(further), None), seconds=(None, None, None))


def _spread(own: Sequence[float], other: Sequence[float]) -> float | None:
    """The standard deviation of the log ratio of two trials of a block: a block has a valid trial of each.

    Beyond the last block that both have, and where a block was voided, it is only nearly so.
    """
    pairs = list(zip(own, other, strict=False))
    if len(pairs) < PILOT_BLOCKS_MIN or not min(map(min, pairs)) > 0:
        return None
    return float(np.std([math.log(first / second) for first, second in pairs], ddof=1))
