"""What changed within the trials: transactions by second, latencies, and single trials over time."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.record import observations
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report.charts.timelines import ArmTimeline, arm_timelines
from pgassay.report.compare.latency_map import MapCell, cells_of
from pgassay.report.labels import compared_factors, short_name
from pgassay.report.text import clean

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class SecondRow:
    """Transactions in one second of the measured interval, over an arm's valid trials."""

    stratum: str
    group: str
    second: int
    median: float
    low: float
    high: float
    trials: int


@dataclass(frozen=True)
class LatencyRow:
    """Latencies of all transactions of an arm's valid trials, in milliseconds, by percentile."""

    stratum: str
    group: str
    trials: int
    transactions: int
    percentiles_ms: tuple[float, ...]
    max_ms: float


@dataclass(frozen=True)
class ObservedSeries:
    """All series of an experiment; `unreadable` holds a sentence for each damaged file."""

    seconds: tuple[SecondRow, ...] = ()
    latencies: tuple[LatencyRow, ...] = ()
    latency_map: tuple[MapCell, ...] = ()
    timelines: tuple[ArmTimeline, ...] = ()
    timeline_stratum: str = ""
    unreadable: tuple[str, ...] = ()


def observe(stored: StoredExperiment) -> ObservedSeries:
    """Read what the trials' folders hold; what is missing is left out, what is damaged is named."""
    arms = {arm.id: arm for arm in stored.experiment.arms}
    by_arm: dict[str, list[StoredTrial]] = {arm_id: [] for arm_id in arms}
    for trial in stored.trials:
        if trial.record.status == "ok" and trial.record.arm_id in arms:
            by_arm[trial.record.arm_id].append(trial)
    factors = compared_factors(stored.experiment.arms)
    damaged: list[str] = []
    seconds: list[SecondRow] = []
    latencies: list[LatencyRow] = []
    cells: list[MapCell] = []
    for arm_id, trials in by_arm.items():
        arm = arms[arm_id]
        group = "twin" if arm.role == "twin" else short_name(arm, factors)
        seconds += _seconds(arm, group, trials)
        latencies += _latencies(arm, group, trials, damaged)
        if arm.role != "twin":
            cells += cells_of(clean(arm.stratum), group, trials, damaged)
    stratum, timelines = arm_timelines(stored, damaged)
    return ObservedSeries(tuple(seconds), tuple(latencies), tuple(cells), timelines, stratum, tuple(damaged))


def _seconds(arm: Arm, group: str, trials: list[StoredTrial]) -> Iterator[SecondRow]:
    series = [trial.record.load.per_second for trial in trials if trial.record.load]
    for second in range(max(map(len, series), default=0)):
        values = [counts[second] for counts in series if second < len(counts)]
        yield SecondRow(
            clean(arm.stratum), group, second + 1, median(values), min(values), max(values), len(values)
        )


def _latencies(arm: Arm, group: str, trials: list[StoredTrial], damaged: list[str]) -> Iterator[LatencyRow]:
    """One row from the merged histograms: percentiles of trials can't be averaged."""
    merged, count = None, 0
    for trial in trials:
        try:
            found = observations.histogram(trial.folder)
        except UsageError as error:
            damaged.append(str(error))
            continue
        if found is None:
            continue
        count += 1
        if merged is None:
            merged = found
        else:
            merged.add(found)
    if merged is not None and merged.get_total_count():
        yield LatencyRow(
            stratum=clean(arm.stratum),
            group=group,
            trials=count,
            transactions=merged.get_total_count(),
            percentiles_ms=tuple(merged.get_value_at_percentile(each) / 1000 for each in PERCENTILES),
            max_ms=merged.get_max_value() / 1000,
        )
