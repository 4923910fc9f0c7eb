"""Stored gates and experiments in the order of time: each effect over the runs, and where it changed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.gate.units import figures_of, judged_measures
from pgassay.analysis.statistics.shifts import LEVEL, Shift, shifts
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.errors import UsageError
from pgassay.model.gates.gate import GateResult
from pgassay.model.gates.history import HistoryChange, HistoryPoint, HistoryResult, HistoryRun, HistorySeries
from pgassay.record.experiment import StoredExperiment
from pgassay.words import amount, comparison, plural

_SENTENCES_MAX = 10
# Below this a percentage with one decimal shows nothing.
_NO_DIFFERENCE = 0.0005


@dataclass(frozen=True)
class _Entry:
    """One run with the points of its units by name; margins beside them."""

    run: HistoryRun
    points: dict[str, HistoryPoint]
    margins: dict[str, float]


def history_of(
    folder: str,
    gates: Sequence[tuple[str, GateResult]],
    experiments: Sequence[tuple[str, StoredExperiment]],
    *,
    alpha: float = LEVEL,
    skipped: tuple[str, ...] = (),
) -> HistoryResult:
    """Put gates and experiments, each with its name, in the order of time and look for changes.

    A series needs four runs before a change can be found. An experiment that can't be analysed is skipped
    with a sentence.
    """
    entries = [_of_gate(name, gate) for name, gate in gates]
    sentences = list(skipped)
    for name, stored in experiments:
        try:
            entries.append(_of_experiment(name, stored))
        except UsageError as error:
            sentences.append(f"{name}: {error}")
    entries.sort(key=lambda entry: (entry.run.created_at, entry.run.name))
    runs = tuple(entry.run for entry in entries)
    series = _series(entries, alpha)
    return HistoryResult(
        schema=1,
        folder=folder,
        alpha=alpha,
        runs=runs,
        series=series,
        verdict=sentence_of(runs, series),
        skipped=tuple(sentences),
    )


def _of_gate(name: str, gate: GateResult) -> _Entry:
    run = HistoryRun(
        name=name,
        created_at=gate.created_at,
        revision=gate.change.revision,
        baseline_revision=gate.baseline.revision,
        outcome=gate.outcome,
    )
    points, margins = {}, {}
    for unit in gate.units:
        if unit.ratio is not None:
            points[unit.name] = HistoryPoint(
                run=0,
                ratio=unit.ratio,
                interval=unit.interval,
                standard_error=unit.standard_error,
                finding=unit.finding,
            )
            margins[unit.name] = unit.margin
    return _Entry(run, points, margins)


def _of_experiment(name: str, stored: StoredExperiment) -> _Entry:
    """An experiment's arms, and the statements of each where it has several."""
    study = gather_study(stored)
    points: dict[str, HistoryPoint] = {}
    for index, contrast in enumerate(study.experiment.contrasts):
        if study.rows[index].blocks:
            arm, control = study.arms[contrast.arm_id], study.arms[contrast.control_id]
            workload = study.experiment.arms[0].spec.workload.text
            title = f"{workload}: {arm.name} against {control.name}"
            points |= _points(title, study, index)
    run = HistoryRun(name=name, created_at=study.experiment.created_at)
    return _Entry(run, points, dict.fromkeys(points, study.experiment.contract.margin))


def _points(title: str, study: Study, contrast: int) -> dict[str, HistoryPoint]:
    figures = figures_of(study, contrast)
    places = list(judged_measures(study))
    level = study.experiment.contract.alpha / study.contrast_count
    intervals = study.contrast_set(study.logs[places]).intervals(level, running=False)
    found = {}
    for place, measure in enumerate(figures.measures):
        ends = float(intervals.lower[place, contrast]), float(intervals.upper[place, contrast])
        error = float(figures.standard_error[place])
        name = f"{title}/{measure.name}" if measure.kind == "statement" else title
        log_ratio = float(figures.log_ratio[place])
        if not math.isfinite(log_ratio) or abs(log_ratio) > 700:
            continue
        lower, upper = (math.exp(end) if abs(end) < 700 else None for end in ends)
        found[name] = HistoryPoint(
            run=0,
            ratio=math.exp(log_ratio),
            interval=(lower, upper),
            standard_error=error if math.isfinite(error) else None,
        )
    return found


def _series(entries: Sequence[_Entry], alpha: float) -> tuple[HistorySeries, ...]:
    names = list(dict.fromkeys(name for entry in entries for name in entry.points))
    values = np.full((len(names), len(entries)), np.nan)
    errors = np.full(values.shape, np.nan)
    for column, entry in enumerate(entries):
        for row, name in enumerate(names):
            point = entry.points.get(name)
            if point is not None:
                values[row, column] = math.log(point.ratio)
                errors[row, column] = point.standard_error if point.standard_error else np.nan
    found = shifts(values, errors, level=alpha)
    return tuple(
        HistorySeries(
            name=name,
            margin=next(entry.margins[name] for entry in reversed(entries) if name in entry.margins),
            points=tuple(
                entry.points[name].model_copy(update={"run": column})
                for column, entry in enumerate(entries)
                if name in entry.points
            ),
            changes=tuple(map(_change, found[row])),
        )
        for row, name in enumerate(names)
    )


def _change(shift: Shift) -> HistoryChange:
    return HistoryChange(
        run=shift.index,
        earliest=shift.earliest,
        latest=shift.latest,
        before=math.exp(shift.before),
        after=math.exp(shift.after),
    )


def sentence_of(runs: Sequence[HistoryRun], series: Sequence[HistorySeries]) -> str:
    """The changes in sentences, the largest first; that there is none, or too few runs to tell."""
    changed = [(each, change) for each in series for change in each.changes]
    if not runs:
        return "There are no gates and no experiments."
    if not changed:
        longest = max((len(each.points) for each in series), default=0)
        if longest < 4:
            return (
                f"{plural(len(runs), 'run')}: too few to find a change, which takes at least 4 of one unit."
            )
        return f"No change was found in {len(series)} series over {plural(len(runs), 'run')}."
    changed.sort(key=lambda pair: -abs(math.log(pair[1].after / pair[1].before)))
    lines = [change_sentence(runs, each, change) for each, change in changed[:_SENTENCES_MAX]]
    if len(changed) > _SENTENCES_MAX:
        lines.append(f"{plural(len(changed) - _SENTENCES_MAX, 'more change')}: see the table.")
    return "\n".join(lines)


def change_sentence(runs: Sequence[HistoryRun], series: HistorySeries, change: HistoryChange) -> str:
    """'orders/q7 became 5 % slower: as fast as its baseline before, 5 % slower than it since; …'."""
    first = runs[change.run]
    at = f" ({first.revision[:12]})" if first.revision else ""
    within = ""
    if change.earliest != change.latest:
        within = f", or another run from {runs[change.earliest].name} to {runs[change.latest].name}"
    return (
        f"{series.name} became {amount(change.after / change.before)}: {_against_baseline(change.before)} "
        f"its baseline before, {_against_baseline(change.after)} it since; the first run after the change is "
        f"{first.name}{at}{within}."
    )


def _against_baseline(ratio: float) -> str:
    """'4.7 % slower than', or 'as fast as' where no decimal would show a difference."""
    return "as fast as" if abs(ratio - 1) < _NO_DIFFERENCE else comparison(ratio)
