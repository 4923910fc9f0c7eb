"""The first family: every arm against its control on the primary metric."""

import math
from dataclasses import dataclass, replace

import numpy as np

from pgassay.analysis.statistics.contrasts import ContrastSet
from pgassay.analysis.statistics.covariate import adjust
from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.statistics.power import PILOT_BLOCKS_MIN, blocks_to_decide, upper_spread
from pgassay.analysis.statistics.sequence import Sequence
from pgassay.analysis.verdicts.failures import judge_failures
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.analysis.verdicts.twin import TwinCheck, check_twin
from pgassay.analysis.verdicts.verdict import Finding, Judgement, judge
from pgassay.record.read import StoredExperiment


@dataclass(frozen=True)
class PrimaryResult:
    """Findings and judgements in the order of the contrasts; twins by stratum.

    blocks_more: per contrast the blocks that an undecided verdict is likely still to take; None when it is
    decided, or when there are too few blocks to say.
    """

    findings: tuple[Finding, ...]
    judgements: tuple[Judgement, ...]
    twins: dict[str, TwinCheck]
    blocks_more: tuple[int | None, ...]


def twin_pairs(study: Study, logs: FloatArray, control_id: str, twin_id: str) -> FloatArray:
    """(twin, control) of every block, shape (measures, blocks, 2), adjusted for the covariate."""
    index = [study.columns[twin_id], study.columns[control_id]]
    pairs = logs[:, :, index]
    return pairs if study.covariate is None else adjust(pairs, study.covariate[:, index])


def check_twins(study: Study) -> dict[str, TwinCheck]:
    """Each stratum's twin, on the primary metric and the statements; needs at least one block."""
    found = {
        item.stratum: (item.control_id, item.twin_id)
        for item in study.experiment.contrasts
        if item.twin_id is not None
    }
    alpha = study.experiment.contract.alpha
    return {
        stratum: check_twin(twin_pairs(study, study.logs, control, twin), alpha, gates=len(found))
        for stratum, (control, twin) in found.items()
    }


def findings_of(contrasts: ContrastSet, intervals: Sequence, level: float) -> tuple[tuple[Finding, ...], ...]:
    """The findings of every measure, each in the order of the contrasts.

    intervals: (measures, contrasts); level: that of the guard. The intervals at half of it are computed only
    where an estimate lies outside the median's.
    """
    effects, guard = contrasts.effects(), contrasts.median_intervals(level)
    guard_at_half, half = contrasts.median_intervals(level / 2), None
    if ((effects < guard_at_half.lower) | (effects > guard_at_half.upper)).any():
        half = contrasts.intervals(level / 2, running=False)

    def finding(place: tuple[int, int]) -> Finding:
        lower, upper = _ends(intervals, place)
        median_lower, median_upper = _ends(guard, place)
        found = Finding(float(effects[place]), lower, upper, median_lower, median_upper)
        if half is None:
            return found
        return replace(found, half_level=_ends(half, place), median_half_level=_ends(guard_at_half, place))

    rows, columns = effects.shape
    return tuple(tuple(finding((row, column)) for column in range(columns)) for row in range(rows))


def _ends(intervals: Sequence, place: tuple[int, int]) -> tuple[float, float]:
    return float(intervals.lower[place]), float(intervals.upper[place])


def twin_bound(twins: dict[str, TwinCheck], stratum: str, measure: int) -> float | None:
    """How far a verdict must lie from no effect, on this measure; None while the gate has not fired."""
    check = twins.get(stratum)
    if check is None or check.ok is not False:
        return None
    return float(check.bounds()[measure])


def analyse_primary(study: Study) -> PrimaryResult:
    """Judge every contrast at level α/m by its running confidence sequence; needs at least one block."""
    contract = study.experiment.contract
    level = contract.alpha / study.contrast_count
    contrasts = study.contrast_set(study.logs[:1])
    intervals = contrasts.intervals(level, running=True)
    (findings,) = findings_of(contrasts, intervals, level)
    twins = check_twins(study)
    judgements = []
    for contrast, finding in zip(study.experiment.contrasts, findings, strict=True):
        if study.blocks < study.blocks_min:
            judgements.append(Judgement("inconclusive"))
            continue
        bound = twin_bound(twins, contrast.stratum, 0)
        judgement = judge(finding, contract.margin, twin_bound=bound)
        judgements.append(judge_failures(study, contrast, study.measures[0], judgement, level, running=True))
    more = tuple(
        _blocks_more(study, contrasts.pairs(0, index), finding) if _is_open(judgement) else None
        for index, (finding, judgement) in enumerate(zip(findings, judgements, strict=True))
    )
    return PrimaryResult(findings, tuple(judgements), twins, more)


def _is_open(judgement: Judgement) -> bool:
    """Whether more blocks alone could decide it."""
    return judgement.verdict == "inconclusive" and not judgement.note


def _blocks_more(study: Study, pairs: FloatArray, finding: Finding) -> int | None:
    if study.blocks < PILOT_BLOCKS_MIN or not np.isfinite(finding.estimate):
        return None
    contract = study.experiment.contract
    needed = blocks_to_decide(
        upper_spread(pairs),
        finding.estimate,
        contract.margin,
        pooled=study.is_pooled,
        contrasts=study.contrast_count,
        alpha=contract.alpha,
    )
    return max(1, needed - study.blocks)


def single_trial_spread(stored: StoredExperiment) -> float | None:
    """The upper bound (80 %) of the spread of a single trial's log speed, from control and twin.

    Both are the same arm, so their difference is noise alone: √2 times a single trial's. The largest
    over the strata; None with fewer than three complete blocks, or without a twin.
    """
    study = gather_study(stored)
    spreads = []
    for contrast in study.experiment.contrasts:
        if contrast.twin_id is None or study.blocks < PILOT_BLOCKS_MIN:
            continue
        columns = study.columns
        pairs = study.logs[0][:, columns[contrast.twin_id]] - study.logs[0][:, columns[contrast.control_id]]
        spreads.append(upper_spread(np.asarray(pairs)) / math.sqrt(2))
    return max(spreads, default=None)
