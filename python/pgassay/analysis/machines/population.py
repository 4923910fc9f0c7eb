"""What machines say of others like them: the machine is the unit, however many blocks it ran.

Machines of one kind are not equal: each has an effect of its own, and more blocks only make that effect more
certain. So each machine leaves one figure. If the effects of all machines of the kind are symmetric about θ,
then so is this figure about θ, for a pair's difference of exchangeable trials is symmetric, whatever the
noise. Its sign is then a fair coin given its size, and the factors of `statistics.eprocess` for pairs have
expectation 1. n machines can say no more than 2ⁿ to 1 in favour of a direction.

A machine enters when it has ended, and its figure does not change after that: so one may look after every
machine, and add machines after having looked.
"""

import numpy as np

from pgassay.analysis.statistics.eprocess import Evidence, EvidenceRules, FloatArray, gather_evidence

# Few machines must say much: sharper than the rules of blocks, of which there are more. The spread between
# machines that is assumed before the first is 2 %, of the ratio.
MACHINE_RULES = EvidenceRules(sharpness=(0.5, 8.0, 5), first_scale=0.02)


def machine_figure(pairs: FloatArray) -> FloatArray:
    """The centre of a machine's log ratios arm : control, (..., blocks) → (...).

    The median of the means of any two of them, each with itself included (Hodges and Lehmann, "Estimates of
    location based on rank tests", Annals of Mathematical Statistics 1963): as symmetric as the pairs are, and
    little moved by a slow trial.
    """
    first, second = np.triu_indices(pairs.shape[-1])
    result: FloatArray = np.median((pairs[..., first] + pairs[..., second]) / 2, axis=-1)
    return result


def population_evidence(figures: FloatArray) -> Evidence:
    """The evidence of machines' figures, (..., machines) in the order in which they ended."""
    return gather_evidence(np.stack([figures, np.zeros_like(figures)], axis=-1), MACHINE_RULES)


def machines_needed(level: float) -> int:
    """The least number of machines that could exclude anything at this level: 2ⁿ > 2/level. Six at 5 %."""
    return int(np.floor(np.log2(2.0 / level))) + 1
