"""How large a difference is: the ratio of two places of a line, with the interval of `compare`."""

import math
from collections.abc import Sequence

import numpy as np

from pgassay.analysis.bisection.block import Block
from pgassay.analysis.statistics.contrasts import evidence_of
from pgassay.analysis.statistics.eprocess import EvidenceRules
from pgassay.analysis.statistics.sequence import confidence_sequence, point_estimate

# As new experiments have them (`experiment/planning/plan.py`, which says why).
RULES = EvidenceRules((0.2, 2.0, 5), weights=(3.0, 12.0, 8.0, 2.0, 8.0), clipped_share=0.4, flips=True)

Sized = tuple[float, tuple[float, float] | None]


def size_of(blocks: Sequence[Block], place: int, control: int, alpha: float = 0.05) -> Sized | None:
    """Speed at `place` over that at `control`, over all blocks that have both; None without any.

    The interval holds at any look; None where an end is not known yet. A control with several members in a
    block counts with all of them.
    """
    rows = [
        (_at(block, place)[0], *_at(block, control))
        for block in blocks
        if {place, control} <= {*block.places}
    ]
    if not rows:
        return None
    members = min(len(row) for row in rows)
    evidence = evidence_of(np.array([row[:members] for row in rows], dtype=np.float64), None, RULES)
    ends = confidence_sequence(evidence, alpha, running=True)
    low, high = float(ends.lower), float(ends.upper)
    interval = (math.exp(low), math.exp(high)) if math.isfinite(low) and math.isfinite(high) else None
    return math.exp(float(point_estimate(evidence))), interval


def _at(block: Block, place: int) -> list[float]:
    return [value for where, value in zip(block.places, block.logs, strict=True) if where == place]
