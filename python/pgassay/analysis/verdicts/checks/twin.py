"""The hidden duplicate of the control: the check of the measurement itself.

Control and twin have the same settings, so any evidence of a difference between them speaks against the
experiment. Where the twin has a copy of the data of its own, that is also the evidence of the copy; where
both run on the copy that was drawn for their block it is not, and `machine_checks` watches the machine.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgassay.analysis.statistics.eprocess import Evidence, FloatArray, gather_evidence, log_evidence
from pgassay.analysis.statistics.sequence import Sequence, confidence_sequence, point_estimate

GATE_EVIDENCE = 100.0


@dataclass(frozen=True)
class TwinCheck:
    """What the pairs (twin, control) of one stratum say; the first measure is the primary metric.

    ok: None while so few blocks could not fire the gate, else whether it has not fired.
    evidence: M after the last block; evidence_max: its running maximum, for the gate.
    pairs: the evidence of the pairs of each measure; level: α, of the interval;
    rows: how many pairs there are.
    """

    ok: bool | None
    evidence: float
    evidence_max: float
    pairs: Evidence
    level: float
    rows: int = 0

    # Only a report, or a gate that fired, asks for these; every look at an experiment makes a check.
    @cached_property
    def effect(self) -> FloatArray:
        """The twin's point estimate per measure (a log ratio)."""
        return point_estimate(self.pairs)

    @cached_property
    def interval(self) -> Sequence:
        """The twin's interval per measure, at level α, of the last block alone."""
        return confidence_sequence(self.pairs, self.level, running=False)

    def bounds(self) -> FloatArray:
        """max(|L|, |U|) per measure: how far from nothing the twin may lie."""
        result: FloatArray = np.maximum(np.abs(self.interval.lower), np.abs(self.interval.upper))
        return result


def mean_evidence_path(pairs: Evidence) -> FloatArray:
    """log M_b after each block: the mean over the measures of the paired twin evidence.

    pairs: of (..., measures, blocks, 2) log speeds, twin first. The mean of e-processes of the same blocks is
    one, however the measures depend on each other. Answer: (..., blocks).
    """
    paths = log_evidence(pairs)
    largest = paths.max(axis=-2, keepdims=True)
    result: FloatArray = np.log(np.exp(paths - largest).mean(axis=-2)) + largest[..., 0, :]
    return result


def can_fire(blocks: int, gates: int = 1) -> bool:
    """Whether so many blocks could fire the gate at all: a paired factor is below 2, so E is below 2ᵇ/2."""
    return 2.0**blocks / 2 >= GATE_EVIDENCE * gates


def check_twin(pairs: FloatArray, alpha: float, gates: int = 1) -> TwinCheck:
    """Check one stratum's twin; pairs: (measures, blocks, 2) log speeds, twin first, primary metric first.

    `gates` is the number of strata that have a twin: each gate's threshold is 100 times that number, so
    that the chance of any false alarm stays what one gate's is.
    """
    evidence = gather_evidence(pairs)
    path = mean_evidence_path(evidence)
    evidence_max = _exp(float(path.max()))
    fired = evidence_max >= GATE_EVIDENCE * gates
    return TwinCheck(
        ok=not fired if can_fire(pairs.shape[-2], gates) else None,
        evidence=_exp(float(path[-1])),
        evidence_max=evidence_max,
        pairs=evidence,
        level=alpha,
        rows=pairs.shape[-2],
    )


def _exp(logarithm: float) -> float:
    return math.exp(min(logarithm, 700.0))
