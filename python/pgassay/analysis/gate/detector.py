"""When a slow-down counts as found, so that a year of gates has few false alarms.

A unit (a workload, or one of its statements) gives each run an e-value E against "the change is not slower
than its baseline". The Shiryaev–Roberts detector adds the runs up: R_n = (1 + R_{n−1})·E_n, with R_0 = 0. It
is the sum of the products from every possible beginning of a slow-down to now, so evidence that one run did
not have enough of is completed by the next, and a long past without a slow-down weighs nothing (Shin, Ramdas
and Rinaldo, "E-detectors: a nonparametric framework for sequential change detection", New England Journal of
Statistics in Data Science 2024).

The alarm is at R ≥ c, after which R begins anew. While nothing is slower R_n − n plus what was reset is a
supermartingale from 0, so c times the expected number of alarms in n runs is at most n. With c = units · runs
a year / false alarms a year, all units together have at most that many false alarms a year in expectation,
whatever their noise is and however they depend on each other. A run without earlier ones is judged by E ≥ c
alone: Bonferroni over its units, at a level for each run that sums up to the same number over a year.

Within a run the highest evidence after any block counts: the first block at which (1 + R)·E reaches c is a
stopping time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgassay.model.gates.gate import GateResult, GateRule

RUNS_PER_YEAR = 365.0
FALSE_ALARMS_PER_YEAR = 2.0
# However many false alarms are allowed: what less evidence says is hardly more than what chance does.
THRESHOLD_MIN = 20.0
# What a detector is kept below: a sum that overflows says no more than this.
_LOG_MAX = 600.0


@dataclass(frozen=True)
class EarlierRun:
    """A unit in one earlier run: its evidence, the estimate with its error, and whether it was an alarm.

    log_ratio, standard_error: None where the run had too few blocks for them.
    """

    run: str
    log_evidence: float
    log_ratio: float | None
    standard_error: float | None
    is_alarm: bool


@dataclass(frozen=True)
class DetectorState:
    """What earlier runs say of a unit: log(1 + R) before this run, and those since the last alarm."""

    log_earlier: float = 0.0
    runs: tuple[EarlierRun, ...] = ()


def rule_of(
    units: int,
    runs_per_year: float = RUNS_PER_YEAR,
    false_alarms_per_year: float = FALSE_ALARMS_PER_YEAR,
) -> GateRule:
    """The threshold for so many units; raises ValueError where a number is not above 0."""
    if not (units > 0 and runs_per_year > 0 and false_alarms_per_year > 0):
        raise ValueError(
            f"units, runs and false alarms must be above 0, got {units}, {runs_per_year} and "
            f"{false_alarms_per_year}"
        )
    threshold = max(units * runs_per_year / false_alarms_per_year, THRESHOLD_MIN)
    return GateRule(
        units=units,
        runs_per_year=runs_per_year,
        false_alarms_per_year=false_alarms_per_year,
        threshold=threshold,
        level=2.0 / threshold,
    )


def detector_state(earlier: Sequence[EarlierRun]) -> DetectorState:
    """Add up a unit's earlier runs, in the order of time; an alarm begins anew."""
    log_r = -math.inf
    since: list[EarlierRun] = []
    for run in earlier:
        if run.is_alarm:
            log_r, since = -math.inf, []
            continue
        log_r = min(_log_one_plus(log_r) + run.log_evidence, _LOG_MAX)
        since.append(run)
    return DetectorState(_log_one_plus(log_r), tuple(since))


def _log_one_plus(log_r: float) -> float:
    """log(1 + exp(log_r)), without overflow."""
    if log_r == -math.inf:
        return 0.0
    return max(log_r, 0.0) + math.log1p(math.exp(-abs(log_r)))


def suspected(state: DetectorState, log_evidence: float) -> tuple[EarlierRun, ...]:
    """The earlier runs from which on the evidence speaks most for a slow-down, this run's included.

    () where this run alone speaks more than any sequence of runs that ends with it.
    """
    best, total, first = log_evidence, log_evidence, len(state.runs)
    for place in range(len(state.runs) - 1, -1, -1):
        total += state.runs[place].log_evidence
        if total > best:
            best, first = total, place
    return state.runs[first:]


def proving(state: DetectorState, log_evidence: float, least: float) -> list[tuple[EarlierRun, ...]]:
    """The earlier runs of each sequence that ends with this run and has so much evidence, shortest first."""
    found, total = [], log_evidence
    for first in range(len(state.runs), -1, -1):
        if first < len(state.runs):
            total += state.runs[first].log_evidence
        if total >= least:
            found.append(state.runs[first:])
    return found


def earlier_runs(
    gates: Sequence[GateResult], baselines: Mapping[str, str]
) -> dict[tuple[str, str], list[EarlierRun]]:
    """What earlier gates say of each unit, (workload, statement), oldest first.

    baselines: by workload what its baseline is now; what was measured against another one does not count.
    Where the unit was undecided, the measurement was in doubt, and its evidence counts only as far as it
    speaks against a slow-down: less evidence than there was is still valid.
    """
    found: dict[tuple[str, str], list[EarlierRun]] = {}
    for gate in gates:
        same = {each.name: each.baseline == baselines.get(each.name) for each in gate.workloads}
        for key in [key for key in found if same.get(key[0]) is False]:
            del found[key]
        for unit in gate.units:
            if not same.get(unit.workload):
                continue
            evidence = unit.log_evidence if unit.finding != "undecided" else min(unit.log_evidence, 0.0)
            run = EarlierRun(
                run=gate.created_at,
                log_evidence=evidence,
                log_ratio=None if not unit.ratio else math.log(unit.ratio),
                standard_error=unit.standard_error,
                is_alarm=unit.finding == "slow-down",
            )
            found.setdefault((unit.workload, unit.statement), []).append(run)
    return found
