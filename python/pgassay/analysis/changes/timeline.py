"""One trial on one time axis: client, server and device in equal bins, and what happened meanwhile."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.changes import volume_series
from pgassay.analysis.changes.arm_changes import trial_changes
from pgassay.analysis.changes.events import trial_events
from pgassay.analysis.changes.rate_series import MB, FloatArray, counter_rates, measured_s, rates_of, read
from pgassay.model.changes import Change, Event
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredTrial
from pgassay.record.observations import PROCESSOR_STOLEN, PROCESSOR_USED, Columns, integers, texts

# More points than this can't be told apart on a page.
_BINS_MAX = 90
_BIN_S_MIN = 0.2
_KINDS_MAX = 5
_KIND_SHARE_MIN = 0.01
_S = 1e9
_WORKING = frozenset({"backend", "parallel worker"})
# Wait event types by what a reader looks for; none at all is a process that works.
_WAITS = {"": "at work", "IO": "I/O", "LWLock": "LWLock", "Lock": "lock", "Client": "client", "IPC": "IPC"}
_OTHER_WAITS = "other waits"


@dataclass(frozen=True)
class Point:
    """A value of `series` in the bin from `begin_s` to `end_s` of the measured part."""

    series: str
    begin_s: float
    end_s: float
    value: float


@dataclass(frozen=True)
class Panel:
    """Series of one unit; `stacked` when they are parts of a whole."""

    title: str
    points: tuple[Point, ...]
    stacked: bool = False


@dataclass(frozen=True)
class Timeline:
    """A trial `measured_s` long: panels from the client down to the device, events, and changes."""

    number: int
    measured_s: float
    panels: tuple[Panel, ...]
    events: tuple[Event, ...]
    changes: tuple[Change, ...]


def timeline(
    trial: StoredTrial, ceiling: ArmCeiling | None = None, *, shares_ceiling: bool = False
) -> Timeline | None:
    """What the record holds of the trial over time; None when nothing was sampled.

    ceiling, shares_ceiling: as for `trial_events`.
    """
    record = trial.record
    span_s = measured_s(record)
    if span_s <= 0:
        return None
    edges = _edges(record, span_s)
    panels = [
        *_client(record, edges),
        *_server(trial, edges),
        *_device(trial, edges),
        *_volumes(trial, edges),
        *_machine(trial, edges),
    ]
    shown = tuple(panel for panel in panels if any(point.value > 0 for point in panel.points))
    events = trial_events(trial, ceiling, shares_ceiling=shares_ceiling)
    if not shown:
        return None
    return Timeline(record.number, span_s, shown, events, trial_changes(trial).changes)


def _edges(record: TrialRecord, span_s: float) -> FloatArray:
    """Whole seconds for a load, whose client counts by them."""
    if record.load is None:
        return np.linspace(0.0, span_s, max(1, min(_BINS_MAX, int(span_s / _BIN_S_MIN))) + 1)
    step = max(1, math.ceil(span_s / _BINS_MAX))
    edges = np.arange(0.0, span_s + 1e-9, step)
    return edges if edges.size > 1 else np.array([0.0, span_s])


def _points(series: str, edges: FloatArray, values: Sequence[float] | FloatArray) -> list[Point]:
    """A point for each bin whose value is known."""
    return [
        Point(series, float(edges[index]), float(edges[index + 1]), float(value))
        for index, value in enumerate(values)
        if math.isfinite(value)
    ]


def _client(record: TrialRecord, edges: FloatArray) -> list[Panel]:
    load = record.load
    if load is None:
        return []
    counts = _by_bin(edges, load.per_second)
    found = [Panel("transactions/s", tuple(_points("transactions", edges, counts)))]
    latencies = [("mean", load.per_second_mean_ms), ("p99", load.per_second_p99_ms)]
    points = [
        point
        for name, seconds in latencies
        for point in _points(
            name, edges, _by_bin(edges, [math.nan if value is None else value for value in seconds])
        )
    ]
    return [*found, Panel("latency, ms", tuple(points))] if points else found


def _by_bin(edges: FloatArray, seconds: Sequence[float]) -> list[float]:
    """Means over the whole seconds of each bin, NaN where there are none."""
    means = []
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        values = [value for value in seconds[round(begin) : round(end)] if math.isfinite(value)]
        means.append(sum(values) / len(values) if values else math.nan)
    return means


def _server(trial: StoredTrial, edges: FloatArray) -> list[Panel]:
    waits, threads = _waits(trial, edges), _cpu(trial, edges)
    return [
        Panel("sessions and parallel workers, by wait", tuple(waits), stacked=True),
        Panel("server CPU, processors", tuple(threads), stacked=True),
    ]


def _waits(trial: StoredTrial, edges: FloatArray) -> list[Point]:
    """How many working processes were, on average, in what: looks of a kind over looks at one process."""
    columns = read(trial, "waits")
    names = ("from_ns", "clock_ns", "pid", "kind", "wait_event_type", "samples")
    if not {*names} <= columns.keys() or trial.record.clock_ns is None:
        return []
    zero_ns, count = trial.record.clock_ns[0], len(edges) - 1
    seen: dict[str, FloatArray] = {}
    windows: dict[int, dict[int, float]] = {}
    indices: dict[int, int] = {}
    for begin, end, pid, kind, wait, samples in zip(*(columns[name] for name in names), strict=True):
        index = _index((begin + end) / 2 - zero_ns, edges)
        if index is None:
            continue
        indices[end] = index
        samples_by_pid = windows.setdefault(end, {})
        samples_by_pid[pid] = samples_by_pid.get(pid, 0.0) + samples
        if kind in _WORKING:
            name = _WAITS.get(wait, _OTHER_WAITS)
            seen.setdefault(name, np.zeros(count))[index] += samples
    total = np.zeros(count)
    for end, samples_by_pid in windows.items():
        total[indices[end]] += max(samples_by_pid.values())
    total[total == 0] = np.nan
    order = [*dict.fromkeys(_WAITS.values()), _OTHER_WAITS]
    return [point for name in order if name in seen for point in _points(name, edges, seen[name] / total)]


def _index(distance_ns: float, edges: FloatArray) -> int | None:
    index = int(np.searchsorted(edges, distance_ns / _S, side="right")) - 1
    return index if 0 <= index < len(edges) - 1 else None


def _cpu(trial: StoredTrial, edges: FloatArray) -> list[Point]:
    """Processors in use by each kind of the server's threads, by the scheduler's count."""
    kinds = _cpu_by_kind(read(trial, "threads"), trial.record, edges)
    ordered = sorted(kinds, key=lambda kind: -float(kinds[kind].sum()))
    total = sum(float(values.sum()) for values in kinds.values())
    named = [kind for kind in ordered[:_KINDS_MAX] if float(kinds[kind].sum()) >= _KIND_SHARE_MIN * total]
    found = [point for kind in named for point in _points(kind, edges, kinds[kind])]
    rest = [kinds[kind] for kind in ordered if kind not in named]
    others = np.sum(rest, axis=0) if rest else np.zeros(0)
    is_shown = float(others.sum()) >= _KIND_SHARE_MIN * total
    return [*found, *_points("others", edges, others)] if is_shown else found


def _cpu_by_kind(threads: Columns, record: TrialRecord, edges: FloatArray) -> dict[str, FloatArray]:
    names = ("pid", "thread", "seen_ns", "run_ns", "start_ns")
    if not {"kind", *names} <= threads.keys() or record.clock_ns is None:
        return {}
    rows: dict[tuple[int, int], list[tuple[float, float]]] = {}
    kinds: dict[tuple[int, int], str] = {}
    figures = (integers(threads, name) for name in names)
    for kind, pid, thread, seen_ns, run_ns, start_ns in zip(texts(threads, "kind"), *figures, strict=True):
        key = (pid, thread)
        kinds[key] = kind
        rows.setdefault(key, [] if start_ns < record.clock_ns[0] else [(start_ns, 0.0)]).append(
            (seen_ns, run_ns)
        )
    found: dict[str, FloatArray] = {}
    for key, readings in rows.items():
        if kinds[key] == "pgassay":
            continue
        clock, run = (np.asarray(column, np.float64) for column in zip(*readings, strict=True))
        used_s = np.diff(np.interp(edges, (clock - record.clock_ns[0]) / _S, run / _S))
        found[kinds[key]] = found.get(kinds[key], 0.0) + used_s / np.diff(edges)
    return {kind: values for kind, values in found.items() if float(values.max()) > 0}


def _device(trial: StoredTrial, edges: FloatArray) -> list[Panel]:
    columns = read(trial, "device")
    panels = []
    for title, names, unit in (
        ("device, MB/s", ("read_bytes", "write_bytes"), MB),
        ("device, requests/s", ("reads", "writes"), 1.0),
    ):
        rates = rates_of(columns, trial.record, names, edges)
        if rates is not None:
            points = [*_points("reads", edges, rates[0] / unit), *_points("writes", edges, rates[1] / unit)]
            panels.append(Panel(title, tuple(points)))
    return panels


def _volumes(trial: StoredTrial, edges: FloatArray) -> list[Panel]:
    """Imitated volumes: of the data, and of the WAL where that has its own."""
    storage = trial.record.facts.storage
    volumes = [("volume", "volume", storage.volume)]
    volumes += [("wal_volume", "WAL's volume", storage.wal.volume)] if storage.wal is not None else []
    panels = []
    for file, name, imitated in volumes:
        for title, shown in volume_series.drawn(read(trial, file), imitated, trial.record, edges, name):
            points = [point for series, values in shown.items() for point in _points(series, edges, values)]
            panels.append(Panel(title, tuple(points)))
    return panels


def _machine(trial: StoredTrial, edges: FloatArray) -> list[Panel]:
    """All the machine's processors, whoever uses them."""
    rates = counter_rates(trial, "host_cpu", (*PROCESSOR_USED, "iowait", PROCESSOR_STOLEN), edges)
    if rates is None:
        return []
    points = [
        *_points("busy", edges, sum(rates[: len(PROCESSOR_USED)], np.zeros(len(edges) - 1))),
        *_points("waiting for I/O", edges, rates[-2]),
        *_points("stolen", edges, rates[-1]),
    ]
    return [Panel("all processors of the machine", tuple(points))]
