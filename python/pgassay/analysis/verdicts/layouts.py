"""What the order of a server's functions does to its speed, and intervals that hold it.

Each build is measured in K layouts, again and again. Blocks alone would say ever more sharply how these K
compare; the claim is of the trees, of which they are samples. So the unit is the layout: the interval of a
contrast of two builds is never narrower than that of a nested analysis of variance (trials in layouts,
layouts in builds; t with as many degrees of freedom as layouts leave), of all builds of a stratum together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import Finding
from pgassay.model.experiment import Contrast, Experiment
from pgassay.model.result import LayoutResult

# Fewer degrees of freedom of the trials' own noise don't tell it from what layouts do.
NOISE_FREEDOM_MIN = 4
# This interval is of one look, and people look again: at half the level, any look of an experiment errs as
# often as it may (`tests/statistics/layouts`).
_SHARE_OF_LEVEL = 0.5


@dataclass(frozen=True)
class LayoutNoise:
    """What layouts do in one stratum, of one measure's logs.

    mean_square: of the effects of layouts, the trials' noise in them included, with `freedom`; layouts: how
    many each build has; builds: those that were met in all of theirs. deviation: of layouts alone; share: of
    a trial's variance that is theirs; both None while the noise is not known well enough.
    """

    mean_square: float
    freedom: int
    layouts: int
    deviation: float | None
    share: float | None
    builds: frozenset[str] = frozenset()

    def half_width(self, level: float) -> float:
        """Of the interval of a contrast of two builds at error rate `level`, as a log ratio."""
        quantile = float(stdtrit(self.freedom, 1 - level * _SHARE_OF_LEVEL / 2))
        return quantile * math.sqrt(2 * self.mean_square / self.layouts)


def layout_noise(study: Study, logs: FloatArray, stratum: str) -> LayoutNoise | None:
    """Of a measure's logs, shape (blocks, arms); None where none are drawn, or fewer than two builds met all.

    A build that rested early, or never ran, says nothing, and takes nothing from the others.
    """
    count = study.experiment.design.layouts
    arms = [arm for arm in study.experiment.arms if arm.stratum == stratum]
    places = study.table.places_with([arm.id for arm in arms if arm.role != "arm"])
    cells: list[tuple[int, str, str, float]] = []
    met: dict[str, set[int]] = {}
    for place in places if count else ():
        plan = study.plans.get(study.table.numbers[place])
        for arm in arms:
            value = float(logs[place, study.columns[arm.id]])
            if plan is not None and arm.id in plan.layouts and math.isfinite(value):
                build = arm.spec.build.bin_directory
                cells.append((place, arm.id, f"{build} {plan.layouts[arm.id]}", value))
                met.setdefault(build, set()).add(plan.layouts[arm.id])
    builds = frozenset(build for build, layouts in met.items() if len(layouts) == count)
    if len(builds) < 2:
        return None
    ids = {arm.id for arm in arms if arm.spec.build.bin_directory in builds}
    return replace(_fitted([cell for cell in cells if cell[1] in ids], count), builds=builds)


def widened(
    study: Study, findings: Sequence[tuple[Finding, ...]], logs: FloatArray, level: float
) -> tuple[tuple[Finding, ...], ...]:
    """The findings of every measure with intervals no narrower than what layouts allow.

    logs: (measures, blocks, arms); level: the error rate of one contrast's interval.
    """
    if not study.experiment.design.layouts:
        return tuple(findings)
    strata = _strata(study.experiment.contrasts)
    found = []
    for row, of_measure in zip(findings, logs, strict=True):
        noises = {stratum: layout_noise(study, of_measure, stratum) for stratum in strata}
        found.append(
            tuple(
                _wider(study, index, finding, noises[contrast.stratum], level)
                for index, (contrast, finding) in enumerate(zip(study.experiment.contrasts, row, strict=True))
            )
        )
    return tuple(found)


def ends_with_layouts(
    study: Study,
    logs: FloatArray,
    effects: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    levels: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Intervals of many measures, no narrower than what layouts allow.

    logs: (measures, blocks, arms). effects, both ends, and the error rate of each interval: (measures,
    contrasts). Empty intervals stay so.
    """
    lower, upper = (each.copy() for each in ends)
    contrasts = study.experiment.contrasts if study.experiment.design.layouts else ()
    for measure, of_measure in enumerate(logs if contrasts else ()):
        noises = {stratum: layout_noise(study, of_measure, stratum) for stratum in _strata(contrasts)}
        for place, contrast in enumerate(contrasts):
            at, noise = (measure, place), noises[contrast.stratum]
            if noise is not None and _is_of_builds(study, contrast, noise) and lower[at] <= upper[at]:
                half = noise.half_width(float(levels[at]))
                lower[at] = min(lower[at], effects[at] - half)
                upper[at] = max(upper[at], effects[at] + half)
    return lower, upper


def layout_results(study: Study) -> tuple[LayoutResult, ...]:
    """What layouts did to the primary metric, by stratum; () where none are drawn."""
    count = study.experiment.design.layouts
    found = []
    for stratum in dict.fromkeys(each.stratum for each in study.experiment.contrasts) if count else ():
        noise = layout_noise(study, study.logs[0], stratum)
        deviation = None if noise is None or noise.deviation is None else math.expm1(noise.deviation)
        share = None if noise is None else noise.share
        found.append(LayoutResult(stratum=stratum, layouts=count, deviation=deviation, share=share))
    return tuple(found)


def layout_warnings(experiment: Experiment) -> tuple[str, ...]:
    """What builds that are compared as they were linked can't say."""
    builds = {arm.spec.build.bin_directory: arm.spec.build for arm in experiment.arms}
    is_of_trees = len(builds) > 1 and all(build.source is not None for build in builds.values())
    if experiment.design.layouts or not is_of_trees:
        return ()
    return (
        "Each tree was linked once: where its functions lie in memory moves results by up to some percents, "
        "whatever a patch does. --layouts 4 separates the two.",
    )


def _wider(study: Study, index: int, finding: Finding, noise: LayoutNoise | None, level: float) -> Finding:
    if (
        noise is None
        or not _is_of_builds(study, study.experiment.contrasts[index], noise)
        or finding.is_empty
    ):
        return finding
    half = noise.half_width(level)

    def around(ends: tuple[float, float], half: float) -> tuple[float, float]:
        return min(ends[0], finding.estimate - half), max(ends[1], finding.estimate + half)

    lower, upper = around((finding.lower, finding.upper), half)
    equivalence = finding.equivalence and around(finding.equivalence, noise.half_width(2 * level))
    return replace(finding, lower=lower, upper=upper, equivalence=equivalence)


def _strata(contrasts: Sequence[Contrast]) -> dict[str, None]:
    return dict.fromkeys(each.stratum for each in contrasts)


def _is_of_builds(study: Study, contrast: Contrast, noise: LayoutNoise) -> bool:
    """Whether two builds are compared whose layouts come again; until then each trial has a new one."""
    arm, control = study.arms[contrast.arm_id], study.arms[contrast.control_id]
    builds = {arm.spec.build.bin_directory, control.spec.build.bin_directory}
    return len(builds) > 1 and builds <= noise.builds


def _fitted(cells: Sequence[tuple[int, str, str, float]], count: int) -> LayoutNoise:
    """Least squares: a level of each block, one of each arm, one of each layout of a build."""
    values = np.array([value for *_, value in cells])
    columns = [_dummies([str(cell[each]) for cell in cells]) for each in (0, 1, 2)]
    rest = np.concatenate(columns[:2], axis=1)
    layouts = columns[2]
    # What blocks and arms leave of both sides is fitted by layouts alone.
    within = layouts - rest @ np.linalg.lstsq(rest, layouts, rcond=None)[0]
    left = values - rest @ np.linalg.lstsq(rest, values, rcond=None)[0]
    inverse = np.linalg.pinv(within.T @ within, rcond=1e-9, hermitian=True)
    effects = inverse @ (within.T @ left)
    builds = layouts.shape[1] // count
    freedom = builds * (count - 1)
    mean_square = float((effects**2).sum()) / freedom
    noise_freedom = len(cells) - int(np.linalg.matrix_rank(np.concatenate([rest, layouts], axis=1)))
    if noise_freedom < NOISE_FREEDOM_MIN:
        return LayoutNoise(mean_square, freedom, count, None, None)
    noise = float(((left - within @ effects) ** 2).sum()) / noise_freedom
    own = max(0.0, mean_square - noise * float(np.trace(inverse)) / freedom)
    total = own + noise
    return LayoutNoise(mean_square, freedom, count, math.sqrt(own), own / total if total else 0.0)


def _dummies(names: Sequence[str]) -> FloatArray:
    known = sorted(set(names))
    return np.array([[float(name == each) for each in known] for name in names])
