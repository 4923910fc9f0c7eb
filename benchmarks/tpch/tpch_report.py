"""What the experiment of TPC-H says: geometric means over the statements, and each statement's times.

The statements are given: a mean over them is a figure of each trial, and what it may be by chance comes from
the blocks alone. How far the statements lie apart is shown as a table and is no error of the mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pgassay.analysis.statistics.contrasts import ContrastSet
from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.verdicts.compare import analyse
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.errors import UsageError
from pgassay.model.experiment import Contrast
from pgassay.record.experiment import StoredExperiment

FACTOR = "advice"


@dataclass(frozen=True)
class Ends:
    """An interval of a ratio of times."""

    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.lower:.3f} to {self.upper:.3f}"


@dataclass(frozen=True)
class Mean:
    """The geometric mean over the statements of the control's time over an arm's.

    `interval`: at any look and for all arms together, as of every figure of an experiment. `fixed`: Student's
    t over the blocks, 95 % for this arm alone; it holds where the number of blocks was fixed beforehand.
    """

    ratio: float
    interval: Ends
    fixed: Ends


def statement_logs(study: Study) -> tuple[list[str], FloatArray]:
    """The statements' names, and their log speeds, (statements, blocks, arms), over their sets of values."""
    sets: dict[str, list[FloatArray]] = {}
    for measure, logs in zip(study.measures[1:], study.logs[1:], strict=True):
        sets.setdefault(measure.name.partition(" [")[0], []).append(logs)
    return list(sets), np.stack([np.mean(each, axis=0) for each in sets.values()])


def geometric_means(stored: StoredExperiment) -> dict[str, Mean]:
    """Of every arm but the control, by its level.

    The logs of a trial's statements are averaged first, so that each counts alike however long it takes; then
    the blocks are evidence as for any other measure, at the experiment's level shared by all arms.
    """
    study = gather_study(stored)
    means = _means(study, study.contrast_set(_logs_of_means(study)), study.experiment.contrasts)
    return {
        study.arms[each.arm_id].levels[FACTOR]: mean
        for each, mean in zip(study.experiment.contrasts, means, strict=True)
    }


def mean_between(stored: StoredExperiment, arm: str, control: str) -> Mean | None:
    """As `geometric_means`, of an arm against another that is not the experiment's control.

    The experiment's level is shared by this one too. None where either took no part.
    """
    study = gather_study(stored)
    ids = {each.levels.get(FACTOR): each.id for each in study.arms.values() if each.role != "twin"}
    if arm not in ids or control not in ids:
        return None
    contrast = Contrast(arm_id=ids[arm], control_id=ids[control], twin_id=None, stratum="")
    logs = _logs_of_means(study)
    contrasts = ContrastSet(logs, study.columns, (contrast,), pool_twin=False, rules=study.rules)
    return _means(study, contrasts, (contrast,), further=1)[0]


def _logs_of_means(study: Study) -> FloatArray:
    """The mean over the statements of each trial's log speeds, (1, blocks, arms)."""
    return statement_logs(study)[1].mean(axis=0)[np.newaxis]


def _means(study: Study, contrasts: ContrastSet, of: Sequence[Contrast], *, further: int = 0) -> list[Mean]:
    """One for each contrast; `further`: how many share the level beside the experiment's own."""
    alpha = study.experiment.contract.alpha
    effects = contrasts.effects()[0]
    ends = contrasts.intervals(alpha / (study.contrast_count + further), running=False)
    found = []
    for place in range(len(of)):
        # Logs are of speeds: the arm's over the control's is the control's time over the arm's.
        members = contrasts.members(0, place)
        found.append(
            Mean(
                math.exp(effects[place]),
                Ends(math.exp(ends.lower[0, place]), math.exp(ends.upper[0, place])),
                t_interval(members[:, 0] - members[:, 1:].mean(axis=1), alpha),
            )
        )
    return found


def t_interval(differences: FloatArray, alpha: float) -> Ends:
    """Student's interval of exp(mean) of one difference of logs for each block, shape (blocks,)."""
    count = len(differences)
    if count < 2:
        return Ends(0.0, math.inf)
    half = float(stats.t.ppf(1 - alpha / 2, count - 1) * differences.std(ddof=1) / math.sqrt(count))
    middle = float(differences.mean())
    return Ends(math.exp(middle - half), math.exp(middle + half))


def milliseconds(stored: StoredExperiment) -> tuple[list[str], dict[str, list[float]]]:
    """The statements' names, and by the arm's level the geometric mean over blocks of each one's time."""
    study = gather_study(stored)
    names, logs = statement_logs(study)
    found = {}
    for arm_id, column in study.columns.items():
        level = study.arms[arm_id].levels.get(FACTOR)
        if level is not None and study.arms[arm_id].role != "twin":
            found[level] = [1000 * math.exp(-float(each)) for each in np.nanmean(logs[:, :, column], axis=1)]
    return names, found


def print_report(stored: StoredExperiment, judged: str, alike: str) -> int:
    """Print it all; returns 0 where the interval against the arm `judged` lies below 1, else 1.

    `alike`: the arm that takes no more space than `judged`, which is set beside it where both took part.
    """
    found = geometric_means(stored)
    result = analyse(stored)
    totals = {arm.levels[FACTOR]: arm for arm in result.arms if FACTOR in arm.levels}
    _print_table(*milliseconds(stored))
    print(f"{result.blocks} blocks; time with tune over time with:")
    for name, mean in found.items():
        arm = totals[name]
        total = "" if arm.ratio is None else f"; total {arm.ratio:.3f} {_bounds(arm.interval)}"
        print(
            f"  {name:26} geometric mean {mean.ratio:.3f} ({mean.interval}; by Student's t {mean.fixed})"
            f"{total}",
            flush=True,
        )
    mean = mean_between(stored, judged, alike)
    if mean is not None:
        print(
            f"time with {alike} over time with {judged}: geometric mean {mean.ratio:.3f} "
            f"({mean.interval}; by Student's t {mean.fixed})"
        )
    for sentence in result.warning_sentences:
        print(f"warning: {sentence}")
    if judged not in found:
        raise UsageError(f"the experiment has no arm '{judged}'")
    below = [found[judged], mean or found[judged]]
    return int(not all(each.interval.upper < 1 for each in below))


def _print_table(names: Sequence[str], times: dict[str, list[float]]) -> None:
    """Milliseconds of each statement in each arm."""
    width = max(map(len, names))
    print(f"{'ms':{width}}" + "".join(f"  {level:>{max(10, len(level))}}" for level in times))
    for place, name in enumerate(names):
        cells = "".join(f"  {each[place]:>{max(10, len(level))}.2f}" for level, each in times.items())
        print(f"{name:{width}}{cells}")


def _bounds(interval: tuple[float | None, float | None] | None) -> str:
    low, high = interval or (None, None)
    return "" if low is None or high is None else f"({low:.3f} to {high:.3f})"
