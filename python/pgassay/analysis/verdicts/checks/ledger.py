"""The ledger of a machine: what its experiments say of copies, positions and neighbours, one after another.

One experiment's checks are weak; a machine that favours something shows it over several. And a machine that
was clean for a year may begin to. So the ledger does not multiply (a long clean past would have to be
outweighed first) but looks for a change: the Shiryaev–Roberts detector on e-values, R_n = (1 + R_{n−1})·E_n,
one for each kind of check. It is the sum of the products from every possible beginning of the change to now.
If the machine is clean, R_n − n has expectation 0 at most, so at an alarm at R ≥ A at least A experiments
have passed on average (Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential
change detection", New England Journal of Statistics in Data Science 2024). The mean over the kinds is such a
detector too, however the kinds depend on each other; the alarm is on the mean, so at least ALARM clean
experiments lie between false alarms of all kinds together.

After an alarm the detectors begin anew, so a machine that is still biased raises the next one after a few
experiments. The alarm ends when the experiments since it speak 20 to 1 for a clean machine: the same bets the
other way round, W_n = min(1, W_{n−1})·E_n ≤ 1/20, which begins anew whenever they speak against it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from pgassay.analysis.verdicts.checks.machine_checks import check_machine
from pgassay.analysis.verdicts.primary_family import check_twins
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.model.base import Recorded
from pgassay.record.experiment import StoredExperiment

KINDS = ("copy", "position", "predecessor")
ALARM = 1000.0
CLEAN = 20.0
# JSON knows no infinity, and an evidence of 0 would bury every other beginning of the change.
EVIDENCE_MIN, EVIDENCE_MAX = 1e-300, 1e300


class _Machine(Recorded):
    """Of one machine: the final evidence of each experiment by kind, in the order in which they began."""

    experiments: dict[str, dict[str, float]] = Field(default_factory=dict)


class _Ledger(Recorded):
    """home()/ledger.json: the evidence of machines by their identifier."""

    machines: dict[str, _Machine] = Field(default_factory=dict)


@dataclass(frozen=True)
class Alarm:
    """An alarm that has not ended. since: the experiment that raised it first; clean: 1/W, 20 ends it."""

    kind: str
    since: str
    clean: float


@dataclass(frozen=True)
class LedgerState:
    """Where a machine's detectors stand. detectors: R by kind; evidence: their mean, 1000 is the alarm."""

    experiments: int
    detectors: dict[str, float]
    evidence: float
    alarms: tuple[Alarm, ...]


def experiment_evidence(stored: StoredExperiment) -> dict[str, float]:
    """What a stored experiment adds to the ledger: its final evidence by kind.

    A kind on which it can't speak is left out, and its detector stands still. Where the twin has a copy of
    its own (experiments of earlier versions), the evidence between twin and control is that of the copy.
    """
    study = gather_study(stored)
    found = {check.kind: check.evidence for check in check_machine(study)}
    if "copy" not in found and study.blocks and _has_copy_of_its_own(study):
        twins = check_twins(study)
        found["copy"] = math.fsum(twin.evidence for twin in twins.values()) / len(twins)
    return found


def _has_copy_of_its_own(study: Study) -> bool:
    arms = study.arms
    pairs = [(item.control_id, item.twin_id) for item in study.experiment.contrasts if item.twin_id]
    return (
        study.experiment.design.data_copies == 0
        and bool(pairs)
        and all(arms[control].data_copy != arms[twin].data_copy for control, twin in pairs)
    )


def ledger_update(
    ledger: Mapping[str, object], machine: str, experiment: str, evidence: Mapping[str, float]
) -> dict[str, object]:
    """The ledger with one experiment's final evidence entered; the one given is left as it is.

    `{"machines": {MACHINE: {"experiments": {EXPERIMENT: {KIND: evidence}}}}}`. Entering the same experiment
    again replaces its value in its place (it was resumed and has more blocks). The detectors are computed
    from the values, so nothing else has to be mended: the products over blocks of experiments that took turns
    are still products of bets, each made before its draw. Raises ValueError for evidence that is negative or
    not a number.
    """
    for kind, value in evidence.items():
        if not value >= 0:
            raise ValueError(f"the {kind} evidence of {experiment} must be 0 or more, got {value}")
    known = _Ledger.model_validate(ledger)
    entry = known.machines.get(machine, _Machine())
    bounded = {kind: min(max(value, EVIDENCE_MIN), EVIDENCE_MAX) for kind, value in evidence.items()}
    entry = entry.updated(experiments={**entry.experiments, experiment: bounded})
    return known.updated(machines={**known.machines, machine: entry}).model_dump()


def ledger_of_twins(stored: Mapping[str, object]) -> dict[str, object]:
    """A ledger of format 1, which held one evidence for each experiment, in the present form.

    It was that of a twin with its own copy of the data against its control, so it is kept as that of the
    copy.
    """
    machines: dict[str, object] = {}
    for machine, entry in _TwinLedger.model_validate(stored).machines.items():
        machines[machine] = {
            "experiments": {name: {"copy": value} for name, value in entry.experiments.items()}
        }
    return {"machines": machines}


class _TwinMachine(Recorded):
    experiments: dict[str, float] = Field(default_factory=dict)


class _TwinLedger(Recorded):
    machines: dict[str, _TwinMachine] = Field(default_factory=dict)


def ledger_state(ledger: Mapping[str, object], machine: str) -> LedgerState:
    """Where the detectors of a machine stand after its last experiment."""
    experiments = _Ledger.model_validate(ledger).machines.get(machine, _Machine()).experiments
    log_detectors = dict.fromkeys(KINDS, -math.inf)
    alarms: dict[str, Alarm] = {}
    for name, evidence in experiments.items():
        known = {kind: _log(evidence[kind]) for kind in KINDS if kind in evidence}
        for kind, log_evidence in known.items():
            log_detectors[kind] = _log_one_plus(log_detectors[kind]) + log_evidence
        if _mean(log_detectors) >= ALARM:
            kind = max(KINDS, key=lambda each: log_detectors[each])
            since = alarms[kind].since if kind in alarms else name
            alarms[kind] = Alarm(kind, since, 1.0)
            log_detectors = dict.fromkeys(KINDS, -math.inf)
            continue
        for kind in [each for each in alarms if each in known]:
            clean = max(1.0, alarms[kind].clean) * _exp(-known[kind])
            if clean >= CLEAN:
                del alarms[kind]
            else:
                alarms[kind] = Alarm(kind, alarms[kind].since, clean)
    detectors = {kind: _exp(value) for kind, value in log_detectors.items()}
    return LedgerState(len(experiments), detectors, _mean(log_detectors), tuple(alarms.values()))


def _mean(log_detectors: Mapping[str, float]) -> float:
    return math.fsum(_exp(value) for value in log_detectors.values()) / len(log_detectors)


def _log(value: float) -> float:
    return math.log(min(max(value, EVIDENCE_MIN), EVIDENCE_MAX))


def _log_one_plus(logarithm: float) -> float:
    """log(1 + R) of log R."""
    return max(logarithm, 0.0) + math.log1p(math.exp(-abs(logarithm)))


def _exp(logarithm: float) -> float:
    return math.exp(min(logarithm, 690.0))
