"""One run of a gate's workload: every unit with its figures, its evidence and what is found."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.gate.detector import DetectorState, EarlierRun, proving, suspected
from pgassay.analysis.statistics.contrasts import ContrastSet
from pgassay.analysis.statistics.eprocess import FloatArray, differences
from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.statistics.power import resolvable_effect
from pgassay.analysis.statistics.starts import resolvable_by_starts
from pgassay.analysis.verdicts.blocks import Measure
from pgassay.analysis.verdicts.checks.carry_over import look_for_carry_over, withhold
from pgassay.analysis.verdicts.checks.failures import first_attempts, judge_failures
from pgassay.analysis.verdicts.checks.load_checks import client_bound
from pgassay.analysis.verdicts.primary_family import check_twins, findings_of, twin_bound
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import (
    DISTRIBUTION_CHANGED,
    MOVED,
    TWIN_DIFFERS,
    Finding,
    Judgement,
    doubt,
    interval_of,
    judge,
    ratio_of,
)
from pgassay.model.gates.gate import Finding as Word
from pgassay.model.gates.gate import GateRule, GateUnit
from pgassay.model.workload import WorkloadSpec
from pgassay.words import percent_rounded, plural

# A spread of fewer blocks than these says nothing.
BLOCKS_MIN = 3
TOO_FEW = "too few blocks for an interval: give it more time, or gate fewer statements"
_MUST_FIND = "had to be found with 90 %"
StateOf = Callable[[str], DetectorState]


@dataclass(frozen=True)
class Figures:
    """What the blocks of one experiment's only contrast say of each measure; arrays are (measures,).

    log_ratio: NaN without a block; standard_error: of it, and spread: of a single trial's log speed, both NaN
    below three blocks.
    """

    measures: tuple[Measure, ...]
    blocks: int
    log_ratio: FloatArray
    standard_error: FloatArray
    spread: FloatArray


def judged_measures(study: Study) -> tuple[int, ...]:
    """The places of the measures that are judged: all, or the first where there is but one statement.

    A single statement's time is the total; to judge it twice would only raise the threshold.
    """
    return (0,) if len(study.measures) <= 2 else tuple(range(len(study.measures)))


def units_of(workload: WorkloadSpec) -> tuple[str, ...]:
    """The units of a workload: '' for the whole, then each of its statements where there are several.

    Of loads, the parts of a series and the statements of a replay are timed one by one.
    """
    names = [statement.name for statement in workload.statements]
    is_one = len(names) <= 1 or (workload.kind == "load" and not workload.times_statements)
    return ("",) if is_one else ("", *names)


def figures_of(study: Study, contrast: int = 0) -> Figures:
    """The estimate of one contrast on each measure, with its standard error and the trials' spread."""
    places = list(judged_measures(study))
    measures = tuple(study.measures[place] for place in places)
    contrasts = study.contrast_set(study.logs[places])
    return _figures(contrasts, measures, contrast)


def _figures(contrasts: ContrastSet, measures: tuple[Measure, ...], contrast: int) -> Figures:
    members = contrasts.all_members(contrast)
    count, blocks, size = len(measures), members.shape[1], members.shape[2]
    error, spread = np.full(count, np.nan), np.full(count, np.nan)
    if blocks >= BLOCKS_MIN:
        deviation = differences(members).std(axis=-1, ddof=1)
        error = deviation / math.sqrt(blocks)
        spread = deviation / math.sqrt(1 + 1 / (size - 1))
    log_ratio = contrasts.effects()[:, contrast] if blocks else np.full(count, np.nan)
    return Figures(measures, blocks, log_ratio, error, spread)


def judge_units(
    name: str, study: Study, rule: GateRule, state: StateOf, must_find: float | None = None
) -> tuple[GateUnit, ...]:
    """Judge every unit of one workload by its blocks and by what earlier runs say of it (`detector.py`).

    The experiment has one contrast: the change against the baseline. The evidence after any block counts, so
    the interval is the running one; both say the same. must_find: the slow-down that the run has to be able
    to find with 90 %; where it was not, a unit without a finding is undecided.
    """
    places, margin = list(judged_measures(study)), study.experiment.contract.margin
    if not study.blocks or not study.rows[0].blocks:
        measures = [study.measures[place] for place in places]
        return tuple(_empty(name, measure, margin) for measure in measures)
    contrasts = study.contrast_set(study.logs[places])
    intervals = contrasts.intervals(rule.level, running=True)
    findings = [row[0] for row in findings_of(contrasts, intervals, rule.level)]
    figures = _figures(contrasts, tuple(study.measures[place] for place in places), 0)
    last, highest = (each[:, 0] for each in contrasts.log_evidence_slower())
    states = [state(_statement(measure)) for measure in figures.measures]
    alarms = [
        float(evidence) + each.log_earlier >= math.log(rule.threshold)
        for evidence, each in zip(highest, states, strict=True)
    ]
    judgements = _judgements(study, places, findings, rule.level, alarms)
    contrast = study.experiment.contrasts[0]
    of_client = client_bound(study, (contrast.arm_id, contrast.control_id)).removeprefix("withheld: ")
    units = []
    for place, measure in enumerate(figures.measures):
        spread = _finite(figures.spread[place])
        case = _Case(
            finding=findings[place],
            judgement=judgements[place],
            margin=margin,
            rule=rule,
            state=states[place],
            must_find=must_find,
            last=float(last[place]),
            highest=float(highest[place]),
            rows=figures.blocks,
            standard_error=_finite(figures.standard_error[place]),
            spread=spread,
            findable=None if spread is None else _findable(figures.blocks, spread, rule, study),
            of_client=of_client,
        )
        units.append(_unit(name, study, measure, case))
    return tuple(units)


def _statement(measure: Measure) -> str:
    return measure.name if measure.kind == "statement" else ""


def _judgements(
    study: Study, places: list[int], findings: list[Finding], level: float, alarms: list[bool]
) -> list[Judgement]:
    """The verdict of each measure with all that may withhold it; alarms: where all evidence says slower."""
    contrast, twins = study.experiment.contrasts[0], check_twins(study)
    margin = study.experiment.contract.margin
    bounds = [twin_bound(twins, contrast.stratum, place) for place in places]
    found = []
    for place, finding, bound in zip(places, findings, bounds, strict=True):
        judgement = judge(finding, margin, twin_bound=bound)
        found.append(judge_failures(study, contrast, study.measures[place], judgement, level, running=True))
    (carried,) = look_for_carry_over(study, found[:1])
    found[0] = withhold(found[0], carried, margin)
    for place, judgement in enumerate(found):
        # What this run's own interval does not say was not looked at yet.
        if alarms[place] and judgement.verdict in ("inconclusive", "faster") and not judgement.withheld:
            measure = study.measures[places[place]]
            slower = _judged_slower(study, measure, findings[place], bounds[place], level)
            found[place] = slower if slower.withheld else judgement
    return found


def _judged_slower(
    study: Study, measure: Measure, finding: Finding, bound: float | None, level: float
) -> Judgement:
    """What withholds a slow-down that only this run and earlier ones together show."""
    contrast, slower = study.experiment.contrasts[0], Judgement("slower")
    if bound is not None and finding.upper >= -bound:
        return Judgement("inconclusive", withheld=True, note=TWIN_DIFFERS)
    # Failures of the change itself do not make it look slower than it is.
    if first_attempts(study, contrast).failed[:, 1:].any():
        slower = judge_failures(study, contrast, measure, slower, level, running=True)
    if measure is study.measures[0]:
        (carried,) = look_for_carry_over(study, [slower])
        slower = withhold(slower, carried, study.experiment.contract.margin)
    return slower


@dataclass(frozen=True)
class _Case:
    """All that a unit's finding rests on.

    last, highest: this run's evidence that the change is slower, natural logarithms, after its last block
    and at its highest; rows: the units of evidence. of_client: why its figures are the load generator's and
    not the server's, '' where they are not.
    """

    finding: Finding
    judgement: Judgement
    margin: float
    rule: GateRule
    state: DetectorState
    must_find: float | None
    last: float
    highest: float
    rows: int
    standard_error: float | None
    spread: float | None
    findable: float | None
    of_client: str


def _unit(name: str, study: Study, measure: Measure, case: _Case) -> GateUnit:
    found, note, since = _found(case)
    contrast = study.experiment.contrasts[0]
    return GateUnit(
        workload=name,
        statement=_statement(measure),
        unit=measure.unit,
        better="higher" if measure.sign > 0 else "lower",
        margin=case.margin,
        ratio=ratio_of(case.finding.estimate),
        interval=_without_infinities(interval_of(case.finding.lower, case.finding.upper)),
        finding=found,
        blocks=study.blocks_of(contrast.arm_id),
        starts=study.counts_starts,
        median_baseline=_median(study, measure, contrast.control_id),
        median_change=_median(study, measure, contrast.arm_id),
        log_evidence=case.last,
        log_evidence_max=case.highest,
        log_evidence_earlier=case.state.log_earlier,
        since=since,
        standard_error=case.standard_error,
        spread=case.spread,
        findable=case.findable,
        note=note,
    )


def _found(case: _Case) -> tuple[Word, str, str]:
    """The finding, what qualifies it, and since which run."""
    finding, edge = case.finding, log_margin(case.margin)
    if case.of_client:
        # Both sides are as fast as the client, whatever the change does to the server.
        return "undecided", case.of_client, ""
    withheld = case.judgement.note.removeprefix("withheld: ") if case.judgement.withheld else ""
    doubted = withheld or doubt(finding)
    if case.highest + case.state.log_earlier >= math.log(case.rule.threshold):
        return ("undecided", doubted, "") if doubted else _slower(case)
    # What speaks against a word is no reason for alarm where nothing speaks for one.
    if doubted in (MOVED, DISTRIBUTION_CHANGED):
        return "undecided", doubted, ""
    if finding.lower == -math.inf or case.rows < BLOCKS_MIN:
        return "undecided", TOO_FEW, ""
    if doubted:
        return "none found", doubted, ""
    if finding.lower >= -edge:
        return "excluded", "", ""
    if case.must_find is not None and not (case.findable is not None and case.findable <= case.must_find):
        least = "none" if case.findable is None else percent_rounded(case.findable)
        wanted = percent_rounded(case.must_find)
        return "undecided", f"a slow-down of {wanted} {_MUST_FIND}; here only {least} is", ""
    return "none found", "", ""


def is_short_of_time(note: str) -> bool:
    """Whether a unit's note is no more than that more blocks would say more."""
    return not note or note == TOO_FEW or _MUST_FIND in note


def _slower(case: _Case) -> tuple[Word, str, str]:
    """Whether what is certainly slower is so beyond the margin, by the runs that the evidence is of.

    Any sequence of runs up to this one that proves it counts, the shortest first: a slow-down of today is not
    made smaller by the nights before it. Where only all together do, it is by those that speak most for one.
    """
    sequences = [
        *proving(case.state, case.highest, math.log(case.rule.threshold)),
        suspected(case.state, case.last),
    ]
    for runs in sequences:
        estimate = combined(case.finding.estimate, case.standard_error, runs)
        if estimate <= -log_margin(case.margin):
            return "slow-down", _with_earlier(runs), runs[0].run if runs else ""
    return "within the margin", _with_earlier(sequences[-1]), sequences[-1][0].run if sequences[-1] else ""


def _with_earlier(runs: Sequence[EarlierRun]) -> str:
    return f"with the evidence of {plural(len(runs), 'earlier run')}" if runs else ""


def combined(log_ratio: float, standard_error: float | None, runs: Sequence[EarlierRun]) -> float:
    """The estimate of this run and of earlier ones together, weighed by their precision; a log ratio.

    Those without a standard error, or with one of 0, do not count.
    """
    pairs = [(log_ratio, standard_error), *((run.log_ratio, run.standard_error) for run in runs)]
    known = [(value, 1 / error**2) for value, error in pairs if value is not None and error]
    if not known:
        return log_ratio
    return math.fsum(value * weight for value, weight in known) / math.fsum(weight for _, weight in known)


def _findable(blocks: int, spread: float, rule: GateRule, study: Study) -> float | None:
    """The slow-down that so many rows find in 90 of 100 runs at this spread of single trials; None: none."""
    pooled = study.is_pooled and len(study.rows[0].arm_ids) > 2
    return findable_effect(blocks, spread, rule, pooled=pooled, by_starts=study.counts_starts)


def findable_effect(
    blocks: int, spread: float, rule: GateRule, *, pooled: bool, by_starts: bool = False
) -> float | None:
    """As `_findable`, by the formulas of `statistics/power.py` at the gate's threshold.

    Those are of a family whose threshold is 2m/α; the gate's is units/α with α = false alarms for each run.
    by_starts: a row is a start of one server in which both sides took turns.
    """
    if by_starts:
        found = resolvable_by_starts(blocks, spread, rule.threshold, members=3 if pooled else 2)
        return found if math.isfinite(found) else None
    alpha = 2 * rule.units / rule.threshold
    effect = resolvable_effect(
        blocks, spread * math.sqrt(2), pooled=pooled, power=0.9, contrasts=rule.units, alpha=alpha
    )
    return effect if math.isfinite(effect) else None


def _empty(name: str, measure: Measure, margin: float) -> GateUnit:
    return GateUnit(
        workload=name,
        statement=_statement(measure),
        unit=measure.unit,
        better="higher" if measure.sign > 0 else "lower",
        margin=margin,
        ratio=None,
        interval=None,
        finding="undecided",
        blocks=0,
        note="no block is complete",
    )


def _median(study: Study, measure: Measure, arm: str) -> float | None:
    values = [value for record in study.table.valid[arm] if (value := measure.value(record)) is not None]
    return float(np.median(values)) if values else None


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _without_infinities(
    ends: tuple[float | None, float | None] | None,
) -> tuple[float | None, float | None] | None:
    if ends is None:
        return None
    lower, upper = (end if end is not None and math.isfinite(end) else None for end in ends)
    return lower, upper
