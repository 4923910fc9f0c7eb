"""Two experiments compared: which effects both measured, and how each of them changed.

The experiments are independent, and each interval is taken at half the error rate (of the smaller of
the two contracts), so by the union bound all intervals of both hold together with the full one. While
they do, the ratio of two effects lies between low_B / high_A and high_B / low_A: no assumption about
the noise is added to those of the sequences. The statements are a second family, treated alike.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pgassay.analysis.diff.differences import Difference, find_differences
from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.verdicts.compare import analyse
from pgassay.analysis.verdicts.study import gather_study
from pgassay.analysis.verdicts.verdict import DOUBTS, interval_of
from pgassay.model.arm import Arm
from pgassay.model.result import ArmResult, CompareResult
from pgassay.record.experiment import StoredExperiment

Ends = tuple[float | None, float | None]
Levels = tuple[tuple[str, str], ...]
Word = Literal["larger", "smaller", "unchanged", "inconclusive"]
Key = tuple[str, str]


@dataclass(frozen=True)
class EffectChange:
    """One effect in both experiments; ratios are speed over the control's.

    `ratio` is the second effect over the first, `interval` its ends (0 or None below, None above:
    not bounded); both are None where one of the effects moved during its experiment. `word`: 'larger'
    when the arm does better against its control in the second. `median_first`, `median_second`: the
    arm's own metric, in `unit`; of a statement its seconds.
    `statement`: whose time it is, '' for the primary metric.
    """

    name: str
    stratum: str
    control: str
    first: ArmResult
    second: ArmResult
    ratio: float | None
    interval: Ends | None
    word: Word
    median_first: float | None
    median_second: float | None
    statement: str = ""


@dataclass(frozen=True)
class Diff:
    """The comparison of two experiments.

    `statements`: the changes of statements that both ran with the same SQL, a second family.
    `only_first`, `only_second`: names of arms without a partner. `margin`: the wider of the two, as a
    fraction; `alpha`: the error rate over all changes of a family together. `unit` is '' where the
    metrics differ.
    """

    first: CompareResult
    second: CompareResult
    changes: tuple[EffectChange, ...]
    statements: tuple[EffectChange, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    differences: tuple[Difference, ...]
    margin: float
    alpha: float
    unit: str


def compare_experiments(first: StoredExperiment, second: StoredExperiment) -> Diff:
    """Pair the arms by their levels and compare their effects; raises UsageError as `analyse`."""
    alpha = min(first.experiment.contract.alpha, second.experiment.contract.alpha)
    margin = max(first.experiment.contract.margin, second.experiment.contract.margin)
    results = analyse(_at_level(first, alpha / 2)), analyse(_at_level(second, alpha / 2))
    same_metric = results[0].metric == results[1].metric
    comparable = _comparable(results)
    sides = [_by_levels(stored) for stored in (first, second)]
    shared = [key for key in sides[0] if key in sides[1]]
    pairs = tuple((sides[0][key], sides[1][key]) for key in shared)
    # Without an arm in common the first ones still tell how data and workload differ.
    pairs = pairs or ((first.experiment.arms[0], second.experiment.arms[0]),)
    return Diff(
        first=results[0],
        second=results[1],
        changes=tuple(_change(*arms, margin) for arms in comparable) if same_metric else (),
        statements=tuple(_statement_changes((first, second), results, comparable, alpha / 2, margin)),
        only_first=tuple(arm.name for key, arm in sides[0].items() if key not in sides[1]),
        only_second=tuple(arm.name for key, arm in sides[1].items() if key not in sides[0]),
        differences=find_differences(first, second, pairs),
        margin=margin,
        alpha=alpha,
        unit=results[0].metric.unit if same_metric else "",
    )


def _at_level(stored: StoredExperiment, alpha: float) -> StoredExperiment:
    contract = stored.experiment.contract.model_copy(update={"alpha": alpha})
    experiment = stored.experiment.model_copy(update={"contract": contract})
    return replace(stored, experiment=experiment)


def _key(levels: dict[str, str]) -> Levels:
    return tuple(sorted(levels.items()))


def _by_levels(stored: StoredExperiment) -> dict[Levels, Arm]:
    return {_key(arm.levels): arm for arm in stored.experiment.arms if arm.role != "twin"}


def _comparable(results: tuple[CompareResult, CompareResult]) -> list[tuple[ArmResult, ArmResult, str]]:
    """Arms that both have, against a control that has the same levels in both, with the control's name."""
    sides = [{_key(arm.levels): arm for arm in result.arms} for result in results]
    controls = [{arm.stratum: arm for arm in result.arms if arm.verdict == "control"} for result in results]
    found = []
    for key, first in sides[0].items():
        second = sides[1].get(key)
        if second is None or "control" in (first.verdict, second.verdict):
            continue
        mine, other = controls[0].get(first.stratum), controls[1].get(second.stratum)
        if mine is None or other is None or _key(mine.levels) != _key(other.levels):
            continue
        found.append((first, second, mine.name))
    return found


def _statement_changes(
    experiments: tuple[StoredExperiment, StoredExperiment],
    results: tuple[CompareResult, CompareResult],
    comparable: list[tuple[ArmResult, ArmResult, str]],
    alpha: float,
    margin: float,
) -> Iterator[EffectChange]:
    """The changes of statements of one name that are the same SQL in both experiments."""
    sides = [
        statement_arms(stored, result, alpha) for stored, result in zip(experiments, results, strict=True)
    ]
    texts = [_statement_texts(stored) for stored in experiments]
    for first, second, control in comparable:
        mine = sides[0].get((first.name, first.stratum), {})
        other = sides[1].get((second.name, second.stratum), {})
        for name in mine:
            same_sql = texts[0][_key(first.levels)].get(name) == texts[1][_key(second.levels)].get(name)
            if name in other and same_sql:
                yield _change(mine[name], other[name], control, margin, name)


def _statement_texts(stored: StoredExperiment) -> dict[Levels, dict[str, str]]:
    """The SQL of each arm's statements by name."""
    return {
        key: {statement.name: statement.sql for statement in arm.spec.workload.statements}
        for key, arm in _by_levels(stored).items()
    }


def _change(
    first: ArmResult, second: ArmResult, control: str, margin: float, statement: str = ""
) -> EffectChange:
    interval = _interval(first.interval, second.interval)
    ratio = second.ratio / first.ratio if first.ratio and second.ratio and interval else None
    is_open = any(arm.withheld or arm.note in DOUBTS for arm in (first, second))
    return EffectChange(
        name=first.name,
        stratum=first.stratum,
        control=control,
        first=first,
        second=second,
        ratio=ratio,
        interval=interval,
        word="inconclusive" if interval is None or is_open else _word(interval, margin),
        median_first=first.median,
        median_second=second.median,
        statement=statement,
    )


def _interval(first: Ends | None, second: Ends | None) -> Ends | None:
    if first is None or second is None:
        return None
    low_first, high_first = first
    low_second, high_second = second
    low = low_second / high_first if low_second and high_first and math.isfinite(high_first) else None
    high = high_second / low_first if high_second and low_first else None
    return low, high if high is None or math.isfinite(high) else None


def _word(interval: Ends, margin: float) -> Word:
    low = math.log(interval[0]) if interval[0] else -math.inf
    high = math.log(interval[1]) if interval[1] else math.inf
    edge = log_margin(margin)
    if low >= -edge and high <= edge:
        return "unchanged"
    if low > 0:
        return "larger"
    return "smaller" if high < 0 else "inconclusive"


def statement_arms(
    stored: StoredExperiment, result: CompareResult, alpha: float
) -> dict[Key, dict[str, ArmResult]]:
    """Arm results by (arm's name, stratum), then by statement; raises UsageError as `analyse`.

    Their intervals hold all together with probability 1 − alpha at any moment. `result` is what
    `analyse` made of the same experiment; an arm is withheld where its stratum's twin differs.
    """
    study = gather_study(stored)
    measures = study.measures[1:]
    if not measures or not study.blocks:
        return {}
    level = alpha / (len(measures) * study.contrast_count)
    ends = study.contrast_set(study.logs[1:]).intervals(level, running=True)
    doubted = {twin.stratum for twin in result.twins if twin.ok is False}
    shown = {
        (arm.name, arm.stratum, statement.name): arm
        for statement in result.statements
        for arm in statement.arms
    }
    found: dict[Key, dict[str, ArmResult]] = {}
    for place, contrast in enumerate(study.experiment.contrasts):
        arm = study.arms[contrast.arm_id]
        for row, measure in enumerate(measures):
            own = shown[arm.name, arm.stratum, measure.name]
            interval = interval_of(float(ends.lower[row, place]), float(ends.upper[row, place]))
            changes = {"interval": interval, "withheld": arm.stratum in doubted}
            found.setdefault((arm.name, arm.stratum), {})[measure.name] = own.model_copy(update=changes)
    return found
