"""What changed within the trials: transactions by second, latencies, the device, the processors."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.record import observations
from pgassay.record.read import StoredExperiment, StoredTrial
from pgassay.report.labels import compared_factors, short_name
from pgassay.report.text import clean
from pgassay.report.trials import trial_rows

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
# Beyond this many arms the panels of the machine show the arms of the first stratum alone.
_MACHINE_ARMS_MAX = 8
_BUSY = ("user", "nice", "system", "irq", "softirq")


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
class MachineRow:
    """One figure at `second` of the measured part, in the trial nearest to its arm's median."""

    panel: str
    group: str
    second: float
    value: float


@dataclass(frozen=True)
class Observed:
    """All series of an experiment; `unreadable` holds a sentence for each damaged file."""

    seconds: tuple[SecondRow, ...] = ()
    latencies: tuple[LatencyRow, ...] = ()
    machine: tuple[MachineRow, ...] = ()
    machine_stratum: str = ""
    unreadable: tuple[str, ...] = ()


def observe(stored: StoredExperiment) -> Observed:
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
    for arm_id, trials in by_arm.items():
        arm = arms[arm_id]
        group = "twin" if arm.role == "twin" else short_name(arm, factors)
        seconds += _seconds(arm, group, trials)
        latencies += _latencies(arm, group, trials, damaged)
    stratum, machine = _machine(stored, by_arm, factors, damaged)
    return Observed(tuple(seconds), tuple(latencies), tuple(machine), stratum, tuple(damaged))


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


def _machine(
    stored: StoredExperiment,
    by_arm: dict[str, list[StoredTrial]],
    factors: tuple[str, ...],
    damaged: list[str],
) -> tuple[str, list[MachineRow]]:
    """The device and the processors in one trial of each arm: the one nearest to the arm's median."""
    arms = list(stored.experiment.arms)
    rows_of_trials = [row for row in trial_rows(stored) if row.value is not None]
    values = {(row.block, row.position, row.attempt): row.value for row in rows_of_trials}
    stratum = ""
    if len(arms) > _MACHINE_ARMS_MAX:
        stratum = arms[0].stratum
        arms = [arm for arm in arms if arm.stratum == stratum][:_MACHINE_ARMS_MAX]
    rows: list[MachineRow] = []
    for arm in arms:
        trial = _typical(by_arm[arm.id], values)
        if trial is None:
            continue
        group = "twin" if arm.role == "twin" else short_name(arm, factors)
        try:
            rows += _device_rows(trial, group)
            rows += _processor_rows(trial, group)
        except UsageError as error:
            damaged.append(str(error))
    return clean(stratum), rows


def _typical(
    trials: list[StoredTrial], values: dict[tuple[int, int, int], float | None]
) -> StoredTrial | None:
    known = []
    for trial in trials:
        record = trial.record
        value = values.get((record.block, record.position, record.attempt))
        if value is not None:
            known.append((value, trial))
    if not known:
        return None
    middle = median(value for value, _ in known)
    return min(known, key=lambda pair: abs(pair[0] - middle))[1]


def _rates(
    trial: StoredTrial, name: str, wanted: tuple[str, ...]
) -> Iterator[tuple[float, tuple[float, ...]]]:
    """Seconds since the measured part began, and each wanted counter's increase per second."""
    found = observations.columns(trial.folder, name)
    if found is None or "clock_ns" not in found or not set(wanted) <= found.keys():
        return
    clock = found["clock_ns"]
    began = trial.record.clock_ns[0] if trial.record.clock_ns else clock[0] if clock else 0
    for place in range(1, len(clock)):
        span_s = (clock[place] - clock[place - 1]) / 1e9
        if span_s > 0:
            rates = tuple((found[each][place] - found[each][place - 1]) / span_s for each in wanted)
            second = (clock[place] - began) / 1e9
            # The samplers begin before the warm-up.
            if second >= 0 and all(map(math.isfinite, rates)):
                yield second, rates


def _device_rows(trial: StoredTrial, group: str) -> Iterator[MachineRow]:
    for second, (read, written) in _rates(trial, "device", ("read_bytes", "write_bytes")):
        yield MachineRow("device reads, MB/s", group, second, read / 1048576)
        yield MachineRow("device writes, MB/s", group, second, written / 1048576)


def _processor_rows(trial: StoredTrial, group: str) -> Iterator[MachineRow]:
    for second, rates in _rates(trial, "host_cpu", (*_BUSY, "iowait", "steal")):
        yield MachineRow("processors busy", group, second, math.fsum(rates[: len(_BUSY)]))
        yield MachineRow("processors waiting for I/O", group, second, rates[-2])
        yield MachineRow("processors stolen", group, second, rates[-1])
