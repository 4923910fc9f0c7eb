"""Stored gates and experiments in the order of time: each effect over the runs, and where it changed."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgassay.analysis.gate.units import figures_of, judged_measures
from pgassay.analysis.statistics.shifts import LEVEL, Shift, shifts
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.gates.gate import GateResult
from pgassay.model.gates.history import HistoryChange, HistoryPoint, HistoryResult, HistoryRun, HistorySeries
from pgassay.record.experiment import StoredExperiment
from pgassay.words import amount, comparison, plural

_SENTENCES_MAX = 10
# Below this a percentage with one decimal shows nothing.
_NO_DIFFERENCE = 0.0005


# The name of a unit, and against which baseline, or on which data: effects of different ones are no series.
_Unit = tuple[str, str]
# In place of a baseline that one run alone has.
_OWN = "a baseline of its own each"


@dataclass(frozen=True)
class _Entry:
    """One run with the points of its units, their margins, and the workloads of a gate that they are of."""

    run: HistoryRun
    points: dict[_Unit, HistoryPoint]
    margins: dict[_Unit, float]
    workloads: dict[_Unit, str]


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
    entries = _with_moving_baselines(entries)
    runs = tuple(entry.run for entry in entries)
    series = _series(entries, alpha)
    verdict = "\n".join([sentence_of(runs, series), *_moved(entries)])
    return HistoryResult(
        schema=1,
        folder=folder,
        alpha=alpha,
        runs=runs,
        series=series,
        verdict=verdict,
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
    baselines = {each.name: each.baseline for each in gate.workloads}
    points, margins, workloads = {}, {}, {}
    for unit in gate.units:
        if unit.ratio is not None:
            key = (unit.name, baselines.get(unit.workload, ""))
            workloads[key] = unit.workload
            points[key] = HistoryPoint(
                run=0,
                ratio=unit.ratio,
                interval=unit.interval,
                standard_error=unit.standard_error,
                finding=unit.finding,
            )
            margins[key] = unit.margin
    return _Entry(run, points, margins, workloads)


def _with_moving_baselines(entries: Sequence[_Entry]) -> list[_Entry]:
    """The runs of a unit whose baseline no other run has, as one series: each night's is the night before."""
    counted = Counter(unit for entry in entries for unit in entry.workloads)
    alone = Counter(name for (name, _), count in counted.items() if count == 1)

    def known(unit: _Unit) -> _Unit:
        return (unit[0], _OWN) if counted[unit] == 1 and alone[unit[0]] > 1 else unit

    return [
        replace(
            entry,
            points={known(unit): point for unit, point in entry.points.items()},
            margins={known(unit): margin for unit, margin in entry.margins.items()},
            workloads={known(unit): workload for unit, workload in entry.workloads.items()},
        )
        for entry in entries
    ]


def _of_experiment(name: str, stored: StoredExperiment) -> _Entry:
    """An experiment's arms, and the statements of each where it has several."""
    study = gather_study(stored)
    points: dict[_Unit, HistoryPoint] = {}
    for index, contrast in enumerate(study.experiment.contrasts):
        if study.rows[index].blocks:
            arm, control = study.arms[contrast.arm_id], study.arms[contrast.control_id]
            workload = study.experiment.arms[0].spec.workload.text
            title = f"{workload}: {arm.name} against {control.name}"
            found = _points(title, study, index)
            data = _data_words(arm.spec.dataset)
            points |= {(unit, data): point for unit, point in found.items()}
    run = HistoryRun(name=name, created_at=study.experiment.created_at)
    return _Entry(run, points, dict.fromkeys(points, study.experiment.contract.margin), {})


def _data_words(dataset: DatasetSpec) -> str:
    """'scale 10', or which other data."""
    return (
        f"scale {dataset.scale}" if dataset.kind == "pgbench" else f"{dataset.kind} {dataset.source}".strip()
    )


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
    units = list(dict.fromkeys(unit for entry in entries for unit in entry.points))
    names = _names(entries, units)
    values = np.full((len(units), len(entries)), np.nan)
    errors = np.full(values.shape, np.nan)
    for column, entry in enumerate(entries):
        for row, unit in enumerate(units):
            point = entry.points.get(unit)
            if point is not None:
                values[row, column] = math.log(point.ratio)
                errors[row, column] = point.standard_error if point.standard_error else np.nan
    found = shifts(values, errors, level=alpha)
    return tuple(
        HistorySeries(
            name=names[unit],
            margin=next(entry.margins[unit] for entry in reversed(entries) if unit in entry.margins),
            points=tuple(
                entry.points[unit].model_copy(update={"run": column})
                for column, entry in enumerate(entries)
                if unit in entry.points
            ),
            changes=tuple(map(_change, found[row])),
        )
        for row, unit in enumerate(units)
    )


def _names(entries: Sequence[_Entry], units: Sequence[_Unit]) -> dict[_Unit, str]:
    """What each series is called: by its unit; where there are several of it by what they are against.

    That is the baseline of a gate, named by its first run, and an experiment's data.
    """
    counted = Counter(name for name, _ in units)
    first = {unit: entry for entry in reversed(entries) for unit in entry.points}
    names = {}
    for unit in units:
        entry, (name, data) = first[unit], unit
        against = f"against {_OWN}" if data == _OWN else f"against the baseline of {entry.run.name}"
        several = against if unit in entry.workloads else f"({data})"
        names[unit] = name if counted[name] == 1 else f"{name} {several}"
    return names


def _moved(entries: Sequence[_Entry]) -> list[str]:
    """A sentence for each workload whose baseline changed."""
    baselines: dict[str, set[str]] = {}
    for entry in entries:
        for unit, workload in entry.workloads.items():
            baselines.setdefault(workload, set()).add(unit[1])
    return [
        f"{workload} was compared with {len(known)} baselines: each is a series of its own."
        for workload, known in baselines.items()
        if len(known) > 1
    ]


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
