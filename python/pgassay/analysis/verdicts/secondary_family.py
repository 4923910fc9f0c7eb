"""The second family: statements and secondary metrics, with the false discovery rate controlled by e-BH."""

from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics import ebh
from pgassay.analysis.statistics.contrasts import ContrastSet
from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray, gather_evidence
from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.statistics.sequence import Sequence, confidence_sequence
from pgassay.analysis.verdicts.blocks import Measure, cpu_measure, latency_measures
from pgassay.analysis.verdicts.checks.failures import judge_failures
from pgassay.analysis.verdicts.checks.imitation import look_for_imitation, withhold_imitated
from pgassay.analysis.verdicts.checks.twin import TwinCheck
from pgassay.analysis.verdicts.layouts import widened
from pgassay.analysis.verdicts.primary_family import findings_of, twin_bound, twin_pairs
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import Finding, Judgement, judge


@dataclass(frozen=True)
class SecondaryFamily:
    """Findings and judgements per measure (statements, then server CPU) and contrast; `size` is M."""

    measures: tuple[Measure, ...]
    findings: tuple[tuple[Finding, ...], ...]
    judgements: tuple[tuple[Judgement, ...], ...]
    size: int


def analyse_secondary(study: Study, twins: dict[str, TwinCheck]) -> SecondaryFamily:
    """Select the discoveries by e-BH over all (measure, contrast), and judge those alone.

    Each comparison has two evidences: of a difference, and of equivalence. At most one of their two
    hypotheses is true ("no effect", or "an effect of the margin or more"), so among all 2M at most M are, and
    e-BH with thresholds for M keeps the rate of false discoveries of both kinds together.

    The current evidence counts, not its running maximum. Intervals: at level α·k*/M for differences, at
    twice that for equivalence (whose two one-sided tests have the level each), and at α/M for the others,
    which stay inconclusive.
    """
    measures, logs = _measures(study)
    size = len(measures) * len(study.experiment.contrasts)
    if size == 0 or study.blocks == 0:
        return SecondaryFamily((), (), (), 0)
    contract = study.experiment.contract
    contrasts = study.contrast_set(logs)
    chosen = _select(contrasts, contract.alpha, contract.margin)
    intervals = contrasts.intervals(contract.alpha / size, running=False)
    for selected, sides in ((chosen.different, 1), (chosen.equivalent, 2)):
        if selected.any():
            narrow = contrasts.intervals(sides * chosen.level, running=False)
            intervals = Sequence(
                np.where(selected, narrow.lower, intervals.lower),
                np.where(selected, narrow.upper, intervals.upper),
            )
    level = contract.alpha / size
    findings = widened(study, findings_of(contrasts, intervals, level, running=False), logs, level)
    judgements = tuple(
        _judge_measure(study, twins, measure, row, chosen.row(index))
        for index, (measure, row) in enumerate(zip(measures, findings, strict=True))
    )
    return SecondaryFamily(measures, findings, judgements, size)


@dataclass(frozen=True)
class _Chosen:
    """The discoveries of both kinds, (measures, contrasts) or (contrasts,), and the level α·k*/M of each."""

    different: BoolArray
    equivalent: BoolArray
    level: float

    def row(self, index: int) -> "_Chosen":
        return _Chosen(self.different[index], self.equivalent[index], self.level)


def _select(contrasts: ContrastSet, alpha: float, margin: float) -> _Chosen:
    different = contrasts.log_evidence()
    evidences = np.stack([different, contrasts.log_equivalence(log_margin(margin))])
    selection = ebh.select(evidences.ravel(), alpha, true_max=different.size)
    selected = selection.selected.reshape(evidences.shape)
    return _Chosen(selected[0], selected[1], ebh.selected_level(alpha, selection))


def _measures(study: Study) -> tuple[tuple[Measure, ...], FloatArray]:
    """The statements; server CPU and other percentiles when every trial of the complete blocks has them.

    In a start that arms share, the CPU of an arm is that of its observed execution alone. The first of them
    pays for what is in no cache yet, and three starts leave that to one arm too often: it is not judged.
    """
    measures, logs = list(study.measures[1:]), list(study.logs[1:])
    cpu = () if study.counts_starts else (cpu_measure(study.experiment),)
    for measure in (*cpu, *latency_measures(study.experiment.contract)):
        found = study.table.logs(measure)
        if found.size and not np.isnan(found[study.table.present]).any():
            measures.append(measure)
            logs.append(found)
    return tuple(measures), np.stack(logs) if logs else np.empty((0, study.blocks, len(study.columns)))


def _judge_measure(
    study: Study,
    twins: dict[str, TwinCheck],
    measure: Measure,
    findings: tuple[Finding, ...],
    chosen: _Chosen,
) -> tuple[Judgement, ...]:
    judgements = []
    imitated = look_for_imitation(study)
    for index, (contrast, finding) in enumerate(zip(study.experiment.contrasts, findings, strict=True)):
        is_different, is_equivalent = bool(chosen.different[index]), bool(chosen.equivalent[index])
        if not (is_different or is_equivalent) or len(study.rows[index].blocks) < study.rows_min(index):
            judgements.append(Judgement("inconclusive"))
            continue
        if measure.kind in ("cpu", "latency"):
            bound = _own_bound(study, twins, measure, contrast.stratum)
        else:
            bound = twin_bound(twins, contrast.stratum, study.measures.index(measure))
        judgement = judge(finding, study.experiment.contract.margin, twin_bound=bound)
        if judgement.verdict == "equivalent" and not is_different:
            # That it excludes no effect was not tested at the level that a direction takes.
            judgement = Judgement("equivalent")
        level = chosen.level * (2 if judgement.verdict == "equivalent" else 1)
        judgement = judge_failures(study, contrast, measure, judgement, level, running=False)
        judgements.append(withhold_imitated(judgement, imitated[index]))
    return tuple(judgements)


def _own_bound(study: Study, twins: dict[str, TwinCheck], measure: Measure, stratum: str) -> float | None:
    """As primary_family.twin_bound: server CPU is not part of the gate; one that fired holds for it too."""
    check = twins.get(stratum)
    if check is None or check.ok is not False:
        return None
    contrast = next(item for item in study.experiment.contrasts if item.stratum == stratum and item.twin_id)
    logs = study.table.logs(measure)[np.newaxis]
    pairs = twin_pairs(study, logs, contrast.control_id, str(contrast.twin_id))
    ends = confidence_sequence(gather_evidence(pairs), study.experiment.contract.alpha, running=False)
    return float(max(abs(ends.lower[0]), abs(ends.upper[0])))
