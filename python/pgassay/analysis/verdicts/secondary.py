"""The second family: statements and secondary metrics, with the false discovery rate controlled by e-BH."""

from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics import ebh
from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray, gather_evidence
from pgassay.analysis.statistics.sequence import Sequence, confidence_sequence
from pgassay.analysis.verdicts.metrics import Measure, cpu_measure
from pgassay.analysis.verdicts.primary import findings_of, twin_bound, twin_pairs
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.twin import TwinCheck
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

    The current evidence counts, not its running maximum. Intervals: at level α·k*/M for the selected, and at
    α/M for the others, which stay inconclusive.
    """
    measures, logs = _measures(study)
    size = len(measures) * len(study.experiment.contrasts)
    if size == 0 or study.blocks == 0:
        return SecondaryFamily((), (), (), 0)
    contract = study.experiment.contract
    contrasts = study.contrast_set(logs)
    selection = ebh.select(contrasts.log_evidence().ravel(), contract.alpha)
    chosen = selection.selected.reshape(len(measures), -1)
    intervals = contrasts.intervals(contract.alpha / size, running=False)
    if selection.count > 1:
        wide, narrow = (
            intervals,
            contrasts.intervals(ebh.selected_level(contract.alpha, selection), running=False),
        )
        intervals = Sequence(
            np.where(chosen, narrow.lower, wide.lower), np.where(chosen, narrow.upper, wide.upper)
        )
    effects = contrasts.effects()
    guard = contrasts.median_intervals(contract.alpha / size)
    findings = tuple(findings_of(effects, intervals, guard, index) for index in range(len(measures)))
    judgements = tuple(
        _judge_measure(study, twins, measure, row, chosen[index])
        for index, (measure, row) in enumerate(zip(measures, findings, strict=True))
    )
    return SecondaryFamily(measures, findings, judgements, size)


def _measures(study: Study) -> tuple[tuple[Measure, ...], FloatArray]:
    """The statements, and server CPU when every trial of the complete blocks has it."""
    measures, logs = list(study.measures[1:]), list(study.logs[1:])
    cpu = cpu_measure(study.experiment)
    found = study.table.logs(cpu)
    if found.size and not np.isnan(found[study.table.present]).any():
        measures.append(cpu)
        logs.append(found)
    return tuple(measures), np.stack(logs) if logs else np.empty((0, study.blocks, len(study.columns)))


def _judge_measure(
    study: Study,
    twins: dict[str, TwinCheck],
    measure: Measure,
    findings: tuple[Finding, ...],
    chosen: BoolArray,
) -> tuple[Judgement, ...]:
    judgements = []
    each = zip(study.experiment.contrasts, findings, chosen, strict=True)
    for index, (contrast, finding, is_chosen) in enumerate(each):
        if not is_chosen or len(study.rows[index].blocks) < study.rows_min(index):
            judgements.append(Judgement("inconclusive"))
            continue
        if measure.kind == "cpu":
            bound = _cpu_bound(study, twins, measure, contrast.stratum)
        else:
            bound = twin_bound(twins, contrast.stratum, study.measures.index(measure))
        judgements.append(judge(finding, study.experiment.contract.margin, twin_bound=bound))
    return tuple(judgements)


def _cpu_bound(study: Study, twins: dict[str, TwinCheck], measure: Measure, stratum: str) -> float | None:
    """As primary.twin_bound: server CPU is not part of the gate, but a gate that fired holds for it too."""
    check = twins.get(stratum)
    if check is None or check.ok is not False:
        return None
    contrast = next(item for item in study.experiment.contrasts if item.stratum == stratum and item.twin_id)
    logs = study.table.logs(measure)[np.newaxis]
    pairs = twin_pairs(study, logs, contrast.control_id, str(contrast.twin_id))
    ends = confidence_sequence(gather_evidence(pairs), study.experiment.contract.alpha, running=False)
    return float(max(abs(ends.lower[0]), abs(ends.upper[0])))
