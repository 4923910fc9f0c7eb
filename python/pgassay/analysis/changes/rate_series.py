"""A trial's rates over its measured part, in equal bins of time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgassay.errors import UsageError
from pgassay.model.changes import SeriesName
from pgassay.model.trial import TrialRecord
from pgassay.record import observations
from pgassay.record.experiment import StoredTrial
from pgassay.record.observations import Columns, floats

FloatArray = NDArray[np.float64]
MB = 1e6
_S = 1_000_000_000


@dataclass(frozen=True)
class RateSeries:
    """One value a second of the measured part, in `unit`."""

    name: SeriesName
    unit: str
    values: tuple[float, ...]


def read(trial: StoredTrial, sampler: str) -> Columns:
    """The columns of a sampler's file; {} when there is none, or a damaged one."""
    try:
        return observations.columns(trial.folder, sampler) or {}
    except UsageError:
        return {}


def measured_s(record: TrialRecord) -> float:
    """The length of the measured part; 0 of a trial that has none."""
    return (record.clock_ns[1] - record.clock_ns[0]) / _S if record.clock_ns else 0.0


def by_second(trial: StoredTrial) -> tuple[RateSeries, ...]:
    """The series whose changes are looked for; those that the record doesn't hold are left out."""
    load, seconds = trial.record.load, math.floor(measured_s(trial.record))
    found: list[RateSeries] = []
    if load is not None:
        # The last second may be a part of one.
        whole = load.per_second[:seconds] if seconds else load.per_second
        found.append(RateSeries("throughput", "transactions/s", tuple(float(count) for count in whole)))
        latencies = [value for value in load.per_second_p99_ms[: len(whole)] if value is not None]
        if latencies and len(latencies) == len(whole):
            found.append(RateSeries("latency p99", "ms", tuple(latencies)))
    edges = np.arange(seconds + 1, dtype=np.float64)
    device = counter_rates(trial, "device", ("read_bytes", "write_bytes"), edges)
    names: tuple[SeriesName, SeriesName] = ("device reads", "device writes")
    for name, values in zip(names, device or (), strict=False):
        found.append(RateSeries(name, "MB/s", tuple((values / MB).tolist())))
    return tuple(found)


def counter_rates(
    trial: StoredTrial, sampler: str, names: Sequence[str], edges_s: FloatArray
) -> list[FloatArray] | None:
    """What cumulative counters moved by per second, between edges in seconds of the measured part.

    Each (edges − 1,); None when the sampler left no such file, or too little of it.
    """
    return rates_of(read(trial, sampler), trial.record, names, edges_s)


def rates_of(
    columns: Columns, record: TrialRecord, names: Sequence[str], edges_s: FloatArray
) -> list[FloatArray] | None:
    """As `counter_rates`, of columns that have been read."""
    clock = columns.get("clock_ns")
    if not clock or len(clock) < 2 or record.clock_ns is None or edges_s.size < 2:
        return None
    if not {*names} <= columns.keys():
        return None
    clock_s = (floats(columns, "clock_ns") - record.clock_ns[0]) / _S
    widths = np.diff(edges_s)
    moved = (np.diff(np.interp(edges_s, clock_s, floats(columns, name))) for name in names)
    return [values / widths for values in moved]
