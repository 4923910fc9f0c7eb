"""From the experiments of one run to the gate's result: what is found, and what the command ends with."""

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from pgassay import __version__
from pgassay.analysis.gate.detector import (
    FALSE_ALARMS_PER_YEAR,
    RUNS_PER_YEAR,
    DetectorState,
    detector_state,
    earlier_runs,
    rule_of,
)
from pgassay.analysis.gate.units import is_short_of_time, judge_units, units_of
from pgassay.analysis.statistics.power import blocks_for_detection
from pgassay.analysis.statistics.starts import starts_for
from pgassay.analysis.verdicts.study import gather_study
from pgassay.model.experiment import Experiment
from pgassay.model.gates.gate import GatedSystem, GateResult, GateRule, GateUnit, GateWorkload, Outcome
from pgassay.model.result import Stopped
from pgassay.record.experiment import StoredExperiment
from pgassay.words import comparison, duration_rounded, join, percent_rounded, plural, span

NOTHING_DIFFERS = "Nothing that the gate runs differs from its baseline, so nothing was measured."
EXIT_SLOW_DOWN = 1
EXIT_UNDECIDED = 4
EXIT_INTERRUPTED = 130
_EXITS: dict[Outcome, int] = {
    "none found": 0,
    "slow-down": EXIT_SLOW_DOWN,
    "undecided": EXIT_UNDECIDED,
    "interrupted": EXIT_INTERRUPTED,
}
FAILED = "it ended early, since its trials failed; its report says why"
# Of those that slowed down, how many are named in the sentence; the table has them all.
_NAMED_MAX = 5
# Of single trials, where so few blocks tell none.
_SPREAD_UNKNOWN = 0.07
# A difference of so many standard errors, or of twice the time, is worth a sentence.
_ERRORS_MIN, _RATIO_MAX = 3.0, 0.5
_POWER = 0.9
_ONE_EACH: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Gated:
    """One workload's experiment as it ended; folder: its name within the gate's.

    must_find: the slow-down that it has to be able to find with 90 %, None where nothing is asked.
    """

    name: str
    stored: StoredExperiment
    promise: str = ""
    folder: str = ""
    must_find: float | None = None
    warnings: tuple[str, ...] = ()


def baseline_identity(experiment: Experiment) -> str:
    """A hash of all that decides the baseline's arm: evidence of several runs is about one baseline."""
    control = next(arm for arm in experiment.arms if arm.role == "control")
    return hashlib.sha256(control.spec.model_dump_json().encode()).hexdigest()[:16]


def gate_result(
    gated: Sequence[Gated],
    *,
    systems: tuple[GatedSystem, GatedSystem],
    earlier: Sequence[GateResult],
    created_at: str,
    file: str,
    folder: str,
    runs_per_year: float = RUNS_PER_YEAR,
    false_alarms_per_year: float = FALSE_ALARMS_PER_YEAR,
    warnings: tuple[str, ...] = (),
    interrupted_of: int | None = None,
) -> GateResult:
    """Judge all units of all workloads together; systems: (baseline, change); earlier: oldest first.

    The threshold is for the units that were planned, whether a trial of them succeeded or not.
    interrupted_of: so many units were planned, and it was interrupted; None: it came to its end.
    """
    count = sum(len(units_of(each.stored.experiment.arms[0].spec.workload)) for each in gated)
    count = count if interrupted_of is None else interrupted_of
    rule = rule_of(max(count, 1), runs_per_year, false_alarms_per_year)
    known = earlier_runs(earlier, {each.name: baseline_identity(each.stored.experiment) for each in gated})
    counted = len({run.run for runs in known.values() for run in runs})
    units: list[GateUnit] = []
    for each in gated:

        def state(statement: str, name: str = each.name) -> DetectorState:
            return detector_state(known.get((name, statement), ()))

        units += judge_units(each.name, gather_study(each.stored), rule, state, each.must_find)
    outcome = outcome_of(units, failed=any(each.stored.stopped == "failed" for each in gated))
    workloads = {each.name: _workload(each) for each in gated}
    pooled = all(each.stored.experiment.contract.pool_twin for each in gated)
    by_starts = {each.name for each in gated if each.stored.experiment.contract.unit == "start"}
    per_row = {each.name: gather_study(each.stored).blocks_per_row(0) for each in gated}
    suspected = suspicions(units, rule, workloads, pooled=pooled, by_starts=by_starts, blocks_per_row=per_row)
    failed = [each.name for each in workloads.values() if each.stopped == "failed"]
    verdict = sentence_of(units, list(suspected), failed)
    if interrupted_of is not None:
        outcome = "interrupted"
        verdict = interrupted_sentence(units, interrupted_of)
    return GateResult(
        schema=1,
        pgassay_version=__version__,
        created_at=created_at,
        file=file,
        folder=folder,
        baseline=systems[0],
        change=systems[1],
        rule=rule,
        outcome=outcome,
        exit_code=_EXITS[outcome],
        verdict=verdict,
        units=tuple(units),
        workloads=tuple(workloads.values()),
        earlier_runs=counted,
        warnings=(*warnings, *_uncounted(len(earlier), counted)),
    )


def _uncounted(stored: int, counted: int) -> list[str]:
    if counted >= stored:
        return []
    whose = "its" if stored - counted == 1 else "their"
    return [
        f"{stored - counted} of {plural(stored, 'earlier run')} had another baseline or other workloads, so "
        f"{whose} evidence does not count"
    ]


def _workload(gated: Gated) -> GateWorkload:
    stored = gated.stored
    experiment = stored.experiment
    stopped: Stopped = "running"
    for word in get_args(Stopped):
        stopped = word if word == stored.stopped else stopped
    return GateWorkload(
        name=gated.name,
        workload=experiment.arms[0].spec.workload.text,
        folder=gated.folder,
        margin=experiment.contract.margin,
        time_max_s=experiment.contract.time_max_s,
        blocks=gather_study(stored).blocks,
        trials=len(stored.trials),
        seconds=stored.seconds_used,
        stopped=stopped,
        promise=gated.promise,
        baseline=baseline_identity(experiment),
        warnings=(*gated.warnings, *([FAILED] if stored.stopped == "failed" else [])),
    )


def outcome_of(units: Sequence[GateUnit], *, failed: bool = False) -> Outcome:
    """A slow-down where any unit has one, else undecided where nothing can be said of some.

    Without a unit nothing differed, so nothing is slower. failed: an experiment ended before its time.
    """
    findings = {unit.finding for unit in units}
    if "slow-down" in findings:
        return "slow-down"
    return "undecided" if failed or "undecided" in findings else "none found"


def sentence_of(units: Sequence[GateUnit], suspected: Sequence[str] = (), failed: Sequence[str] = ()) -> str:
    """The gate's verdict in a few sentences, the slow-downs first, then what looks like one.

    suspected: the sentences of `suspicions`. failed: the workloads whose experiment ended before its time.
    """
    if not units:
        return NOTHING_DIFFERS
    counted = Counter(unit.finding for unit in units)
    slow = sorted((unit for unit in units if unit.finding == "slow-down"), key=lambda unit: unit.ratio or 1.0)
    lines = [unit_sentence(unit) for unit in slow[:_NAMED_MAX]]
    if len(slow) > _NAMED_MAX:
        lines.append(f"{len(slow) - _NAMED_MAX} more are slower: see the table.")
    lines += suspected[:_NAMED_MAX]
    if len(suspected) > _NAMED_MAX:
        lines.append(f"{len(suspected) - _NAMED_MAX} more look slower: see the table.")
    judged = len(units) - counted["undecided"]
    if not slow and judged:
        proven = "proven" if suspected else "found"
        lines.append(f"No slow-down was {proven} in {plural(judged, 'unit')}.")
    undecided = [unit for unit in units if unit.finding == "undecided" and not looks_slower(unit)]
    if undecided:
        named = join([unit.name for unit in undecided[:_NAMED_MAX]])
        rest = f" and {len(undecided) - _NAMED_MAX} more" if len(undecided) > _NAMED_MAX else ""
        lines.append(f"Undecided: {named}{rest}: {undecided[0].note}.")
    lines += [f"Undecided: {name}: {FAILED}." for name in failed]
    return "\n".join(lines)


def interrupted_sentence(units: Sequence[GateUnit], planned: int) -> str:
    """What an interrupted gate says: how far it came, and the slow-downs that were found by then."""
    first = (
        f"Interrupted: {plural(len(units), 'unit')} of {planned} had been measured, and nothing is decided."
    )
    slow = [unit for unit in units if unit.finding == "slow-down"]
    return "\n".join([first, *(unit_sentence(unit) for unit in slow[:_NAMED_MAX])])


def unit_sentence(unit: GateUnit) -> str:
    """What was found of a unit, in a sentence."""
    if unit.ratio is None:
        return f"{unit.name}: undecided: {unit.note}."
    ends = span(unit.interval) if unit.interval is not None else "no interval fits"
    note = f"; {unit.note}" if unit.note else ""
    margin = percent_rounded(unit.margin)
    counted = plural(unit.blocks, "block")
    if unit.finding == "slow-down":
        return f"{unit.name} is {comparison(unit.ratio)} its baseline ({ends}, {counted}{note})."
    if unit.finding == "within the margin":
        small = f"slower than its baseline, but within the margin of {margin}"
        return f"{unit.name} is {small} ({ends}, {counted}{note})."
    if unit.finding == "excluded":
        return f"{unit.name} is not slower by more than the margin of {margin} ({ends}, {counted})."
    if unit.finding == "none found":
        return f"{unit.name}: no slow-down was found ({ends}, {counted})."
    return f"{unit.name}: undecided: {unit.note} ({ends}, {counted})."


def looks_slower(unit: GateUnit) -> bool:
    """Whether a unit without a finding was measured much slower than its baseline."""
    if unit.finding not in ("undecided", "none found") or unit.ratio is None or not unit.ratio > 0:
        return False
    if unit.ratio > 1 / (1 + unit.margin):
        return False
    error = unit.standard_error
    return unit.ratio <= _RATIO_MAX or (error is not None and -math.log(unit.ratio) >= _ERRORS_MIN * error)


def suspicions(
    units: Sequence[GateUnit],
    rule: GateRule,
    workloads: Mapping[str, GateWorkload],
    *,
    pooled: bool,
    by_starts: Collection[str] = (),
    blocks_per_row: Mapping[str, int] = _ONE_EACH,
) -> Iterator[str]:
    """A sentence for each unit that looks slower, the slowest first: why that is not proven.

    That is the time that is missing, unless the unit's note says another reason.

    by_starts: the workloads of which a block is a start of one server for both sides. blocks_per_row: by
    workload the blocks that count once, where both sides own copies of the data; 1 where it is not there.
    """
    slow = sorted((unit for unit in units if looks_slower(unit)), key=lambda unit: unit.ratio or 1.0)
    for unit in slow:
        workload = workloads.get(unit.workload)
        looks = f"{unit.name} looks {comparison(unit.ratio or 1.0)} its baseline, not proven"
        if not is_short_of_time(unit.note):
            # More time is no remedy for it.
            yield f"{looks}: {unit.note}."
            continue
        had_s = (workload.seconds or workload.time_max_s) if workload is not None else 0.0
        if workload is None or not workload.blocks or not had_s:
            yield f"{looks}: give it more time."
            continue
        is_start = unit.workload in by_starts
        rows = _rows_needed(unit, rule, pooled=pooled, by_starts=is_start)
        needed = max(rows * blocks_per_row.get(unit.workload, 1), unit.blocks + 1)
        seconds = had_s / workload.blocks * needed
        yield (
            f"{looks}: {duration_rounded(seconds)} needed, about "
            f"{plural(needed, 'start' if is_start else 'block')}; it had "
            f"{duration_rounded(had_s)} and {plural(unit.blocks, 'start' if is_start else 'block')}."
        )


def _rows_needed(unit: GateUnit, rule: GateRule, *, pooled: bool, by_starts: bool) -> int:
    if by_starts:
        effect, members = 1 / (unit.ratio or 1.0) - 1, 3 if pooled else 2
        return starts_for(effect, unit.spread or _SPREAD_UNKNOWN, rule.threshold, members=members)
    return blocks_for_detection(
        (unit.spread or _SPREAD_UNKNOWN) * math.sqrt(2),
        1 / (unit.ratio or 1.0) - 1,
        pooled=pooled,
        power=_POWER,
        contrasts=rule.units,
        alpha=2 * rule.units / rule.threshold,
    )
