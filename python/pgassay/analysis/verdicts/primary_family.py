"""The first family: every arm against its control on the primary metric."""

import math
from dataclasses import dataclass, replace

import numpy as np

from pgassay.analysis.statistics.contrasts import ContrastSet
from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.statistics.equivalence import interval_level
from pgassay.analysis.statistics.forecast import BLOCKS_BEFORE, DecisionRules, further_blocks, quantiles
from pgassay.analysis.statistics.power import PILOT_BLOCKS_MIN, upper_spread
from pgassay.analysis.statistics.sequence import Sequence
from pgassay.analysis.verdicts.checks.carry_over import CarryOver, look_for_carry_over, withhold
from pgassay.analysis.verdicts.checks.failures import judge_failures
from pgassay.analysis.verdicts.checks.imitation import look_for_imitation, withhold_imitated
from pgassay.analysis.verdicts.checks.load_checks import withhold_client_bound
from pgassay.analysis.verdicts.checks.twin import TwinCheck, check_twin
from pgassay.analysis.verdicts.layouts import widened
from pgassay.analysis.verdicts.start_forecast import STARTS_BEFORE, further_starts
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.analysis.verdicts.verdict import DISTRIBUTION_CHANGED, MOVED, Finding, Judgement, judge
from pgassay.record.experiment import StoredExperiment

BlocksForecast = tuple[int | None, int | None, int | None]


@dataclass(frozen=True)
class PrimaryResult:
    """Findings and judgements in the order of the contrasts; twins by stratum.

    carried: per contrast what is known of its carry-over, None for one that had no verdict to be doubted.
    """

    findings: tuple[Finding, ...]
    judgements: tuple[Judgement, ...]
    twins: dict[str, TwinCheck]
    carried: tuple[CarryOver | None, ...] = ()


def twin_pairs(study: Study, logs: FloatArray, control_id: str, twin_id: str) -> FloatArray:
    """(twin, control) of every row, shape (measures, rows, 2), adjusted for the covariate."""
    return study.pairs(logs, control_id, twin_id)


def check_twins(study: Study) -> dict[str, TwinCheck]:
    """The twin of each stratum that has a row, on the primary metric and the statements."""
    found = {
        item.stratum: (item.control_id, item.twin_id)
        for item in study.experiment.contrasts
        if item.twin_id is not None
    }
    alpha = study.experiment.contract.alpha
    pairs = {stratum: twin_pairs(study, study.logs, *both) for stratum, both in found.items()}
    return {
        stratum: check_twin(rows, alpha, gates=len(found)) for stratum, rows in pairs.items() if rows.shape[1]
    }


def findings_of(
    contrasts: ContrastSet,
    intervals: Sequence,
    level: float,
    equivalence: Sequence | None = None,
    *,
    running: bool = True,
) -> tuple[tuple[Finding, ...], ...]:
    """The findings of every measure, each in the order of the contrasts.

    intervals: (measures, contrasts); level: that of the guard; equivalence: the intervals that must lie
    inside the margin, where those are others; running: of the intervals. The guard's at half the level are
    computed only where an estimate lies outside the median's.
    """
    effects, guard = contrasts.effects(), contrasts.median_intervals(level)
    guard_at_half, half = contrasts.median_intervals(level / 2), None
    if ((effects < guard_at_half.lower) | (effects > guard_at_half.upper)).any():
        half = contrasts.intervals(level / 2, running=False)

    def finding(place: tuple[int, int]) -> Finding:
        lower, upper = _ends(intervals, place)
        median_lower, median_upper = _ends(guard, place)
        found = Finding(
            float(effects[place]),
            lower,
            upper,
            median_lower,
            median_upper,
            rests_on_bound=bool(on_bound[place]),
        )
        if equivalence is not None:
            found = replace(found, equivalence=_ends(equivalence, place))
        if half is None:
            return found
        return replace(found, half_level=_ends(half, place), median_half_level=_ends(guard_at_half, place))

    on_bound = contrasts.rests_on_bound(level, running=running)
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
    levels = [level] if contract.equivalence != "each" else [level, interval_level(level, "each")]
    intervals, *other = contrasts.intervals_at(levels, running=True)
    equivalence = other[0] if other else None
    (findings,) = widened(study, findings_of(contrasts, intervals, level, equivalence), study.logs[:1], level)
    twins = check_twins(study)
    judgements = []
    for index, (contrast, finding) in enumerate(zip(study.experiment.contrasts, findings, strict=True)):
        if len(study.rows[index].blocks) < study.rows_min(index):
            judgements.append(Judgement("inconclusive"))
            continue
        bound = twin_bound(twins, contrast.stratum, 0)
        judgement = judge(finding, contract.margin, twin_bound=bound)
        judgements.append(judge_failures(study, contrast, study.measures[0], judgement, level, running=True))
    carried = look_for_carry_over(study, judgements)
    judgements = [
        withhold(judgement, each, contract.margin)
        for judgement, each in zip(judgements, carried, strict=True)
    ]
    judgements = [
        withhold_imitated(judgement, each)
        for judgement, each in zip(judgements, look_for_imitation(study), strict=True)
    ]
    judgements = withhold_client_bound(study, judgements)
    return PrimaryResult(findings, tuple(judgements), twins, carried)


def _is_open(judgement: Judgement) -> bool:
    """Whether more blocks alone could decide it."""
    return (
        judgement.verdict == "inconclusive"
        and not judgement.withheld
        and judgement.note not in (MOVED, DISTRIBUTION_CHANGED)
    )


def forecasts(study: Study, primary: PrimaryResult) -> tuple[BlocksForecast | None, ...]:
    """Per contrast the further blocks that an undecided verdict is likely to take: p10, median, p90.

    Each is None beyond what can be said. None for a contrast that is decided, or has too few blocks to say.
    Not a part of `analyse_primary`: to know whether an experiment is decided takes no forecast.
    """
    contract, judgements = study.experiment.contract, primary.judgements
    if not judgements:
        return ()
    contrasts = study.contrast_set(study.logs[:1])
    level = contract.alpha / study.contrast_count
    found: list[BlocksForecast | None] = [None] * len(judgements)
    # Contrasts of one shape together: blocks and members may differ between them.
    shapes: dict[tuple[int, ...], dict[int, FloatArray]] = {}
    for index, judgement in enumerate(judgements):
        members = contrasts.all_members(index)[0]
        before = STARTS_BEFORE if study.counts_starts else BLOCKS_BEFORE
        if _is_open(judgement) and len(members) >= before:
            shapes.setdefault(members.shape, {})[index] = members
    for group in shapes.values():
        first = next(iter(group))
        decision = DecisionRules(
            contract.margin, level, interval_level(level, contract.equivalence), study.rows_min(first)
        )
        members = np.stack(list(group.values()))
        if study.counts_starts:
            times = further_starts(members, decision, contract.start_deviation, contract.seed)
        else:
            times = further_blocks(members, study.rules, decision, contract.seed)
        for index, of_contrast in zip(group, times, strict=True):
            further = of_contrast * study.blocks_per_row(index) - study.blocks_begun(index)
            found[index] = quantiles(np.maximum(further, 1.0))
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
        if contrast.twin_id is None:
            continue
        columns = study.columns
        differences = (
            study.logs[0][:, columns[contrast.twin_id]] - study.logs[0][:, columns[contrast.control_id]]
        )
        pairs = differences[list(study.table.places_with((contrast.twin_id, contrast.control_id)))]
        if len(pairs) < PILOT_BLOCKS_MIN:
            continue
        spreads.append(upper_spread(np.asarray(pairs), confidence) / math.sqrt(2))
    return max(spreads, default=None)
