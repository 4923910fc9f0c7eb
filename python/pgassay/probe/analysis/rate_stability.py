"""Whether a rate held: a fall during a cell or during the whole probe is found, timed and never averaged
away.

Cloud disks and drives with a small fast part deliver more for a while than they can keep up (burst credits);
a mean over such a run belongs to no state that lasts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from pgassay.analysis.statistics.rank_test import probability_of_fall
from pgassay.model.probe import MeasuredCell

# Falls smaller than this are the noise of short windows.
_FALL_MIN = 0.2
_P_MAX = 1e-3
_SIDE_MIN = 4
_SPLITS_TRIED_MAX = 200


@dataclass(frozen=True)
class Fall:
    """From about `at_s` on only `fraction` of the rate before was left."""

    at_s: float
    fraction: float


Point = tuple[float, float]


def find_fall(points: Sequence[Point]) -> Fall | None:
    """The sharpest lasting fall in a series of (time in s, rate), in order of time; None when there is none.

    Every split with four points on each side is tried. The medians must differ by a fifth, all points after
    it taken together by a rank test (Mann and Whitney 1947) at 0.001, divided by the number of splits tried,
    and the last quarter must still lie below, so that a dip is no fall. Fewer than about a dozen points can't
    show one.
    """
    rates = [rate for _, rate in points]
    splits = range(_SIDE_MIN, len(points) - _SIDE_MIN + 1)
    if not splits or max(rates) <= 0:
        return None
    step = max(1, len(splits) // _SPLITS_TRIED_MAX)
    tried = splits[::step]
    best = max(tried, key=lambda split: _gap(rates, split))
    before, after = rates[:best], rates[best:]
    late = rates[-max(_SIDE_MIN // 2, len(rates) // 4) :]
    level = median(before)
    fraction = median(after) / level if level > 0 else 1.0
    if fraction > 1 - _FALL_MIN or median(late) / level > 1 - _FALL_MIN:
        return None
    chance = probability_of_fall(before, after)
    return Fall(points[best][0], fraction) if chance <= _P_MAX / len(tried) else None


def _gap(rates: list[float], split: int) -> float:
    """How much a split explains: the between-groups sum of squares of a fall."""
    before, after = fmean(rates[:split]), fmean(rates[split:])
    share = split * (len(rates) - split) / len(rates)
    return share * (before - after) ** 2 if before > after else 0.0


def fall_within(cell: MeasuredCell) -> Fall | None:
    """The first run of a cell whose windows fell; `at_s` counts from the start of the probe."""
    for run in cell.runs:
        windows = [(window.start_s, window.mb_s) for window in run.windows]
        fall = find_fall(windows)
        if fall is not None:
            return Fall(run.started_s + fall.at_s, fall.fraction)
    return None


def fall_over(cells: Iterable[MeasuredCell]) -> Fall | None:
    """A fall of the device over the whole probe.

    The runs of the cells that read the device, each divided by its cell's best, in order of time:
    only cells that were run again tell something.
    """
    points: list[Point] = []
    for cell in cells:
        if cell.spec.cache == "cached" or cell.spec.engine in ("null", "write") or len(cell.runs) < 2:
            continue
        best = max(run.mb_s for run in cell.runs)
        if best > 0:
            points += [(run.started_s, run.mb_s / best) for run in cell.runs]
    return find_fall(sorted(points))
