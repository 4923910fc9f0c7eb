"""The rate of every cell of a probe with its uncertainty, from few and short runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from pgassay.model.probe import CellRun, CellSpec, MeasuredCell, Window
from pgassay.model.result import Interval

# What the runs of one cell differ by before anything is known of this machine (logarithm), and how many
# degrees of freedom that guess is worth.
_PRIOR_SPREAD = 0.1
_PRIOR_FREEDOM = 3.0
# How many degrees of freedom the spread of all cells of a kind is worth beside a cell's own.
_POOL_FREEDOM = 4.0
_LEVEL = 0.95
# How long a cell takes to be in its stride: a cold scan's first 50 ms had 0.6 of the rate of the rest.
_START_S = 0.05
_START_SHARE_MAX = 0.25
_WINDOWS_MIN = 4
# What limits a rate counts in tenths of a second (blk-throttle's slice is HZ / 10, block/blk-throttle.c; the
# quota of a processor's time is one of 100 ms): a volume of 400 MB/s gives 40 MB at once, then nothing until
# the next.
_PERIOD_S = 0.1
_PERIODS_MIN = 2
# Of one degree of freedom: a median of squares over it is a variance that a few wild runs don't move.
_MEDIAN_OF_CHI_SQUARE = 0.4549


@dataclass(frozen=True)
class Estimate:
    """The logarithm of a rate: its mean, standard error and the degrees of freedom of the latter."""

    log_rate: float
    error: float
    freedom: float

    @property
    def rate(self) -> float:
        """The geometric mean of the runs."""
        return math.exp(self.log_rate)

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the rate (Student's t on logarithms)."""
        reach = self.half_width
        return (math.exp(self.log_rate - reach), math.exp(self.log_rate + reach))

    @property
    def half_width(self) -> float:
        """Half the interval's width, on the logarithmic scale."""
        return quantile(self.freedom) * self.error


Estimates = Mapping[CellSpec, Estimate]


def rate_of(spec: CellSpec, run: CellRun) -> float:
    """What a cell is judged by: bytes per second in MB/s; operations per second of a durable write."""
    return run.iops if spec.engine == "write" and spec.pattern == "wal" else _settled_mb_s(run)


def _settled_mb_s(run: CellRun) -> float:
    """The rate without the start, in which look-ahead and read-ahead only grow: a real scan is longer.

    Over whole periods of a limiter, which ends of any other length would count once too often or too rarely.
    """
    since_s = run.elapsed_s - _judged_s(run.elapsed_s)
    parts = [(window.mb_s, _length_after(window, since_s)) for window in run.windows]
    kept = [(mb_s, length_s) for mb_s, length_s in parts if length_s > 0]
    if len(kept) < _WINDOWS_MIN:
        return run.mb_s
    return sum(mb_s * length_s for mb_s, length_s in kept) / sum(length_s for _, length_s in kept)


def _judged_s(elapsed_s: float) -> float:
    """How much of a run, counted from its end, it is judged by."""
    settled_s = elapsed_s - min(_START_S, elapsed_s * _START_SHARE_MAX)
    periods = math.floor(settled_s / _PERIOD_S + 1e-9)
    return periods * _PERIOD_S if periods >= _PERIODS_MIN else settled_s


def _length_after(window: Window, since_s: float) -> float:
    """The part of a window that lies after a time, in s; 0 when nothing of it does."""
    return max(0.0, window.start_s + window.length_s - max(window.start_s, since_s))


def estimate(measured: Iterable[MeasuredCell]) -> dict[CellSpec, Estimate]:
    """The estimate of every cell that has a run with a rate above 0.

    A cell's variance is shrunk towards that of all cells of its kind (reads of a device, of memory, writes),
    and that towards a guess (10 %, or what the two halves of the runs differ by), as in Smyth, "Linear models
    and empirical Bayes methods" (2004), with fixed weights: one run is enough for an interval, and two that
    agree by chance don't make it narrow.
    """
    kinds: dict[str, list[MeasuredCell]] = {}
    for cell in measured:
        kinds.setdefault(_kind(cell.spec), []).append(cell)
    return {spec: made for cells in kinds.values() for spec, made in _estimate_kind(cells).items()}


def _kind(spec: CellSpec) -> str:
    """What a cell's noise comes from: a device's is several times that of memory."""
    if spec.engine == "write":
        return "write"
    return "memory" if spec.engine == "null" or spec.cache == "cached" else "device"


def _estimate_kind(cells: Sequence[MeasuredCell]) -> dict[CellSpec, Estimate]:
    logs = {
        cell.spec: [math.log(rate) for run in cell.runs if (rate := rate_of(cell.spec, run)) > 0]
        for cell in cells
    }
    logs = {spec: values for spec, values in logs.items() if values}
    squares = {spec: _squares(values) for spec, values in logs.items()}
    freedom = sum(len(values) - 1 for values in logs.values())
    guess = max(_PRIOR_SPREAD**2, _halves_variance(cells))
    pooled = (sum(squares.values()) + _PRIOR_FREEDOM * guess) / (freedom + _PRIOR_FREEDOM)
    made = {}
    for spec, values in logs.items():
        own = len(values) - 1 + _POOL_FREEDOM
        variance = (squares[spec] + _POOL_FREEDOM * pooled) / own
        made[spec] = Estimate(fmean(values), math.sqrt(variance / len(values)), own)
    return made


def _halves_variance(cells: Iterable[MeasuredCell]) -> float:
    """The variance of half a run's log rate, from the difference of its halves; 0 where there is none.

    Half a run varies more than a whole one by its own noise, which makes up for slow noise that both share.
    """
    squares = []
    for cell in cells:
        for run in cell.runs:
            rates = [window.mb_s for window in run.windows]
            half = len(rates) // 2
            first, second = sum(rates[:half]), sum(rates[-half:]) if half else 0.0
            if first > 0 and second > 0:
                squares.append(math.log(first / second) ** 2 / 2)
    return median(squares) / _MEDIAN_OF_CHI_SQUARE if squares else 0.0


def _squares(values: list[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values)


def quantile(freedom: float) -> float:
    """The two-sided 95 % quantile of Student's t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + _LEVEL) / 2))
