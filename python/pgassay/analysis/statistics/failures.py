"""Evidence from trials that failed: whether failing depends on the arm, and what the failures would change.

The unit is the block, and in it the first attempts of a contrast's members (the arm, its control, and its
twin when pooled): a repeated trial is a choice by outcome. The order in a block is drawn at random. So if
failures do not depend on the arm, each member of a block is as likely as any other to have had any of its
places, those that failed among them. That holds whatever makes trials fail, and a block that a second failure
ended before all members had run is no exception.
"""

import numpy as np

from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray

# Shares of the arm in the failures: quantiles of Jeffreys' prior, Beta(1/2, 1/2), which is the arcsine law,
# so that their mean is the mean under it.
_SHARES: FloatArray = np.sin(np.pi / 2 * (np.arange(64) + 0.5) / 64) ** 2


def log_failure_evidence(failed: BoolArray) -> FloatArray:
    """log of the evidence after each block that failures depend on the arm, (blocks, members) → (blocks,).

    failed: whether a member's first attempt failed; member 0 is the arm. If f of a block's n members failed,
    the arm is among them with probability f/n when failures do not depend on the arm, and with
    ω·f/(ω·f + n − f) when its odds are ω times those of the others (Fisher's noncentral hypergeometric
    distribution). The factor of a block is the ratio of the two, and the evidence the mean of the products
    over the arm's share of single failures, p = ω/(ω + n − 1), with Jeffreys' prior. Each product is a test
    martingale, and so is their mean: it ever reaches 1/α with a probability of at most α (Ville).
    """
    members = failed.shape[-1]
    count = failed.sum(axis=-1)[:, np.newaxis]
    odds = _SHARES * (members - 1) / (1 - _SHARES)
    among = odds * count / (odds * count + members - count)
    of_arm = failed[:, 0][:, np.newaxis]
    # Where none or all failed, the arm is no different from the others.
    informs = (count > 0) & (count < members)
    expected = np.where(informs, count / members, 0.5)
    ratio = np.where(of_arm, among / expected, (1 - among) / (1 - expected))
    products = np.cumsum(np.log(np.where(informs, ratio, 1.0)), axis=0)
    largest = products.max(axis=-1)
    result: FloatArray = largest + np.log(np.exp(products - largest[:, np.newaxis]).mean(axis=-1))
    return result


def counted_worst(values: FloatArray, failed: BoolArray, effect: float = 0.0) -> FloatArray:
    """First attempts, those that failed counted as the worst, less `effect` for the arm; (blocks, members).

    values: log speeds, NaN where the attempt failed or was not run (its block had ended). A failed one counts
    as the slowest valid one so far, one that was not run as the median of the valid ones so far; so far is up
    to and including its block. Blocks before the first valid value are left out. If the arm's speeds are its
    control's times exp(`effect`) and its failures are as frequent, the members of each block could have
    changed places in the answer, since both figures are the same for whichever member.
    """
    moved = values.copy()
    moved[:, 0] -= effect
    rows = []
    for block in range(len(moved)):
        seen = moved[: block + 1]
        valid = seen[~np.isnan(seen)]
        if valid.size:
            row = np.where(failed[block], valid.min(), moved[block])
            rows.append(np.where(np.isnan(row), np.median(valid), row))
    return np.array(rows).reshape(len(rows), values.shape[-1])
