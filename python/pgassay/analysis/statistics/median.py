"""The guard: an anytime-valid interval for the median of paired differences.

A mean-like estimate is fooled by an arm that changes the shape of the noise and not its centre. The median
sequence assumes nothing but that half of the paired differences lie on either side of the median.
"""

import numpy as np
from scipy.special import betaln

from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.statistics.sequence import Sequence


def log_sign_evidence(positives: FloatArray, blocks: int) -> FloatArray:
    """log of 2ⁿ·B(S + ½, n − S + ½) / B(½, ½) for S positives among n blocks.

    The likelihood ratio of a coin of unknown fairness (Jeffreys' prior) against a fair one.
    """
    result: FloatArray = (
        blocks * np.log(2.0) + betaln(positives + 0.5, blocks - positives + 0.5) - betaln(0.5, 0.5)
    )
    return result


def median_sequence(pairs: FloatArray, level: float) -> Sequence:
    """The interval of the median of paired differences, shape (..., blocks), at level `level`.

    Its ends are the order statistics between which the sign evidence stays below 1/level.
    """
    blocks = pairs.shape[-1]
    counts = np.arange(blocks // 2 + 1, dtype=np.float64)
    accepted = log_sign_evidence(counts, blocks) < np.log(1.0 / level)
    shape = pairs.shape[:-1]
    # The even split is never evidence against the median, so at least one count is accepted.
    fewest = int(np.argmax(accepted))
    if fewest == 0:
        return Sequence(np.full(shape, -np.inf), np.full(shape, np.inf))
    ordered = np.sort(pairs, axis=-1)
    return Sequence(ordered[..., fewest - 1], ordered[..., blocks - fewest])
