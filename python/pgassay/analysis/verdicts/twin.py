"""The hidden duplicate of the control: the check of the measurement itself.

Control and twin have the same settings, so any evidence of a difference between them speaks against the
experiment. One experiment's gate is weak; the ledger multiplies the evidence of all experiments of a
machine, which is again a test martingale.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from pgassay.analysis.statistics.eprocess import FloatArray, gather_evidence, log_evidence
from pgassay.analysis.statistics.sequence import Sequence, confidence_sequence, point_estimate
from pgassay.model.base import Recorded

GATE_EVIDENCE = 100.0
LEDGER_ALARM_EVIDENCE = 1000.0


@dataclass(frozen=True)
class TwinCheck:
    """What the pairs (twin, control) of one stratum say; the first measure is the primary metric.

    ok: None while so few blocks could not fire the gate, else whether it has not fired.
    evidence: M after the last block, for the ledger; evidence_max: its running maximum, for the gate.
    effect: the twin's point estimate per measure (a log ratio); interval: per measure, at level α, of the
    last block alone.
    """

    ok: bool | None
    evidence: float
    evidence_max: float
    effect: FloatArray
    interval: Sequence

    def bounds(self) -> FloatArray:
        """max(|L|, |U|) per measure: how far from nothing the twin may lie."""
        result: FloatArray = np.maximum(np.abs(self.interval.lower), np.abs(self.interval.upper))
        return result


def mean_evidence_path(pairs: FloatArray) -> FloatArray:
    """log M_b after each block: the mean over the measures of the paired twin evidence.

    pairs: (..., measures, blocks, 2), twin first. The mean of e-processes of the same blocks is one, however
    the measures depend on each other. Answer: (..., blocks).
    """
    paths = log_evidence(gather_evidence(pairs))
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
    path = mean_evidence_path(pairs)
    evidence_max = _exp(float(path.max()))
    fired = evidence_max >= GATE_EVIDENCE * gates
    evidence = gather_evidence(pairs)
    return TwinCheck(
        ok=not fired if can_fire(pairs.shape[-2], gates) else None,
        evidence=_exp(float(path[-1])),
        evidence_max=evidence_max,
        effect=point_estimate(evidence),
        interval=confidence_sequence(evidence, alpha, running=False),
    )


def _exp(logarithm: float) -> float:
    return math.exp(min(logarithm, 700.0))


class _MachineEvidence(Recorded):
    """Of one machine: each experiment's final evidence; the logarithm of the highest product ever seen."""

    experiments: dict[str, float] = Field(default_factory=dict)
    log_evidence_max: float = 0.0


class _Ledger(Recorded):
    """home()/ledger.json: the evidence of machines by their identifier."""

    machines: dict[str, _MachineEvidence] = Field(default_factory=dict)


def ledger_update(
    ledger: Mapping[str, object], machine: str, experiment: str, evidence: float
) -> dict[str, object]:
    """The ledger with one experiment's final evidence entered; the one given is left as it is.

    `{"machines": {MACHINE: {"experiments": {EXPERIMENT: evidence}, "log_evidence_max": x}}}`. Entering the
    same experiment again replaces its value (it was resumed and has more blocks). `log_evidence_max` is the
    highest product ever seen, kept because an alarm does not end when later evidence is low. Raises
    ValueError for evidence that is negative or not a number.
    """
    if not evidence >= 0:
        raise ValueError(f"the evidence of {experiment} must be 0 or more, got {evidence}")
    known = _Ledger.model_validate(ledger)
    entry = known.machines.get(machine, _MachineEvidence())
    experiments = {**entry.experiments, experiment: evidence}
    highest = max(entry.log_evidence_max, _log_product(experiments))
    entry = entry.updated(experiments=experiments, log_evidence_max=highest)
    return known.updated(machines={**known.machines, machine: entry}).model_dump()


def _log_product(experiments: dict[str, float]) -> float:
    # An evidence of 0 would bury every later alarm; below 1e-300 it is as good as 0 anyway.
    return math.fsum(math.log(max(value, 1e-300)) for value in experiments.values())


def ledger_evidence(ledger: Mapping[str, object], machine: str) -> float:
    """The product of the final evidences of a machine's experiments; 1 when it has none."""
    entry = _Ledger.model_validate(ledger).machines.get(machine, _MachineEvidence())
    return _exp(_log_product(entry.experiments))


def ledger_alarm(ledger: Mapping[str, object], machine: str) -> bool:
    """Whether the product was ever 1000 or more: this machine does not treat equals alike."""
    entry = _Ledger.model_validate(ledger).machines.get(machine, _MachineEvidence())
    return entry.log_evidence_max >= math.log(LEDGER_ALARM_EVIDENCE)
