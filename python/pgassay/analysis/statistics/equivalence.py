"""Equivalence within a margin, with optional stopping."""

from typing import Literal

import numpy as np

from pgassay.analysis.statistics.eprocess import (
    AnyEvidence,
    BoolArray,
)


def log_margin(margin: float) -> float:
    """The margin as a log ratio: log(1 + δ), the same in both directions.

    The lower edge is therefore 1/(1 + δ), so exchanging arm and control leaves the answer as it is.
    """
    return float(np.log1p(margin))


def interval_level(level: float, equivalence: Literal["shared", "each"]) -> float:
    """The level of the sequence that lies inside the margin when equivalence is reached at `level`.

    'shared': the two one-sided tests have half of `level` each. 'each': either has all of it, since only one
    of the two hypotheses can be true, so that a false answer takes a false rejection of that one (Schuirmann,
    Journal of Pharmacokinetics and Biopharmaceutics 1987). The interval is then the one at 1 − 2·level.
    """
    return 2 * level if equivalence == "each" else level


def equivalence_path(evidence: AnyEvidence, margin: float, level: float) -> BoolArray:
    """After each block whether the sequence of this level lies inside the margin, shape (..., blocks).

    max_b E⁺(−log(1 + δ)) and max_b E⁻(log(1 + δ)) both at least 2/level: the two one-sided hypotheses are
    each rejected at some block so far. It is the running confidence sequence lying inside the margin. With
    `interval_level` it answers either kind of equivalence.
    """
    target = np.log(2.0 / level)
    edge = log_margin(margin)
    above, below = evidence.log_highest_above(-edge), evidence.log_highest_below(edge)
    result: BoolArray = (above >= target) & (below >= target)
    return result
