"""The first family: every arm against its control on the primary metric."""

import math
from dataclasses import dataclass, replace

import numpy as np

from pgassay.analysis.statistics.contrasts import ContrastSet
from pgassay.analysis.statistics.covariate import adjust
from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.statistics.equivalence import interval_level
from pgassay.analysis.statistics.forecast import BLOCKS_BEFORE, DecisionRules, further_blocks, quantiles
from pgassay.analysis.statistics.power import PILOT_BLOCKS_MIN, upper_spread
from pgassay.analysis.statistics.sequence import Sequence
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.analysis.verdicts.twin import TwinCheck, check_twin
from pgassay.analysis.verdicts.verdict import Finding, Judgement, judge
from pgassay.record.read import StoredExperiment

BlocksForecast = tuple[int | None, int | None, int | None]


@dataclass(frozen=True)
class PrimaryResult:
    """Findings and judgements in the order of the contrasts; twins by stratum.

    forecasts: per contrast the further blocks that an undecided verdict is likely to take (p10, median, p90,
    None beyond what can be said); None when it is decided, or when there are too few blocks to say.
    """

    findings: tuple[Finding, ...]
    judgements: tuple[Judgement, ...]
    twins: dict[str, TwinCheck]
    forecasts: tuple[BlocksForecast | None, ...]


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


def findings_of(
    effects: FloatArray,
    intervals: Sequence,
    guard: Sequence,
    measure: int,
    equivalence: Sequence | None = None,
) -> tuple[Finding, ...]:
    """One measure's findings, in the order of the contrasts; all arrays are (measures, contrasts)."""
    ends = (intervals.lower, intervals.upper, guard.lower, guard.upper)
    findings = []
    for index, effect in enumerate(effects[measure]):
        lower, upper, median_lower, median_upper = (float(end[measure, index]) for end in ends)
        found = Finding(float(effect), lower, upper, median_lower, median_upper)
        if equivalence is not None:
            inside = float(equivalence.lower[measure, index]), float(equivalence.upper[measure, index])
            found = replace(found, equivalence=inside)
        findings.append(found)
    return tuple(findings)


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
    equivalence = None
    if contract.equivalence == "each":
        equivalence = contrasts.intervals(interval_level(level, contract.equivalence), running=True)
    guard = contrasts.median_intervals(level)
    findings = findings_of(contrasts.effects(), intervals, guard, 0, equivalence)
    twins = check_twins(study)
    judgements = []
    for contrast, finding in zip(study.experiment.contrasts, findings, strict=True):
        if study.blocks < study.blocks_min:
            judgements.append(Judgement("inconclusive"))
            continue
        bound = twin_bound(twins, contrast.stratum, 0)
        judgements.append(judge(finding, contract.margin, twin_bound=bound))
    return PrimaryResult(findings, tuple(judgements), twins, _forecasts(study, contrasts, judgements))


def _is_open(judgement: Judgement) -> bool:
    """Whether more blocks alone could decide it."""
    return judgement.verdict == "inconclusive" and not judgement.note


def _forecasts(
    study: Study, contrasts: ContrastSet, judgements: list[Judgement]
) -> tuple[BlocksForecast | None, ...]:
    contract = study.experiment.contract
    level = contract.alpha / study.contrast_count
    decision = DecisionRules(
        contract.margin, level, interval_level(level, contract.equivalence), study.blocks_min
    )
    found: list[BlocksForecast | None] = [None] * len(judgements)
    # Contrasts of one shape together: blocks and members may differ between them.
    shapes: dict[tuple[int, ...], dict[int, FloatArray]] = {}
    for index, judgement in enumerate(judgements):
        members = contrasts.members(0, index)
        if _is_open(judgement) and len(members) >= BLOCKS_BEFORE:
            shapes.setdefault(members.shape, {})[index] = members
    for group in shapes.values():
        times = further_blocks(np.stack(list(group.values())), study.rules, decision, contract.seed)
        for index, of_contrast in zip(group, times, strict=True):
            found[index] = quantiles(of_contrast)
    return tuple(found)


def single_trial_spread(stored: StoredExperiment, confidence: float = 0.8) -> float | None:
    """The upper bound (80 %, or at another confidence) of the spread of a single trial's log speed.

    From control and twin.

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
        spreads.append(upper_spread(np.asarray(pairs), confidence) / math.sqrt(2))
    return max(spreads, default=None)
