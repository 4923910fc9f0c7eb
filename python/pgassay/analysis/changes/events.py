"""What happened while a trial was measured: from its log, threads, control group, device and statements."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pgassay.analysis.causes.evidence import WRITES_SHARE_MIN
from pgassay.analysis.changes.rate_series import MB, FloatArray, measured_s, rates_of, read
from pgassay.analysis.changes.server_log import log_events
from pgassay.analysis.changes.volume_series import ended_s
from pgassay.analysis.descriptive.device_use import AT_LIMIT, BEATEN
from pgassay.model.changes import Event, EventKind
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredTrial
from pgassay.record.observations import Columns, integers, server_log, texts

_S = 1e9
# An autovacuum worker that only looks whether there is something to do has gone by then.
_WORKER_S_MIN = 0.5
# Throttled for at least this share of a bin.
_THROTTLED_MIN = 0.05
_BIN_S = 0.5
_BREAK_BINS_MAX = 4
_SPAN_BINS_MIN = 2
# I/O workers that come or go within this of each other are one event.
_TOGETHER_S = 0.5


def trial_events(
    trial: StoredTrial, ceiling: ArmCeiling | None = None, *, shares_ceiling: bool = False
) -> tuple[Event, ...]:
    """The events of one trial, in seconds of its measured part, in the order in which they began.

    ceiling: what the arm's device delivers at most (`by_arm` of experiment.json's ceilings). shares_ceiling:
    the limits of its storage are for reads and writes together. A source that the record doesn't hold tells
    nothing.
    """
    record, span_s = trial.record, measured_s(trial.record)
    if record.clock_ns is None or span_s <= 0:
        return ()
    logged = log_events(server_log(trial.folder), record)
    threads = read(trial, "threads")
    found = [
        *logged.events,
        *_workers(threads, record, logged.workers),
        *_io_workers(threads, record),
        *_throttling(read(trial, "control_group"), record, span_s),
        *(_at_limit(read(trial, "device"), record, ceiling, shares_ceiling) if ceiling else ()),
        *_burst_credits(trial),
        *_statements(record),
    ]
    within = [event for event in found if _overlaps(event, span_s)]
    return tuple(sorted(within, key=lambda event: event.began_s if event.began_s is not None else 0.0))


def _overlaps(event: Event, span_s: float) -> bool:
    began_s = event.began_s if event.began_s is not None else event.ended_s
    return (began_s is None or began_s <= span_s) and (event.ended_s is None or event.ended_s >= 0)


def _processes(threads: Columns, record: TrialRecord, kind: str) -> list[tuple[int, float, float | None]]:
    """Process, start and end of each process of a kind in seconds of the measured part; None: it lives on."""
    if record.clock_ns is None or not {"clock_ns", "kind", "pid", "start_ns", "alive"} <= threads.keys():
        return []
    zero_ns = record.clock_ns[0]
    processes: dict[int, tuple[float, float | None]] = {}
    figures = (integers(threads, name) for name in ("pid", "start_ns", "clock_ns", "alive"))
    for found, pid, start_ns, clock_ns, alive in zip(texts(threads, "kind"), *figures, strict=True):
        if found == kind:
            ended_s = None if alive else round((clock_ns - zero_ns) / _S, 2)
            processes[pid] = (round((start_ns - zero_ns) / _S, 2), ended_s)
    return sorted((pid, *process) for pid, process in processes.items())


def _workers(threads: Columns, record: TrialRecord, logged: frozenset[int]) -> Iterator[Event]:
    """Autovacuum workers that the log has not told of: those still at work at the end."""
    processes = _processes(threads, record, "autovacuum")
    if not processes:
        return
    # The launcher has the same kind and is there before any worker.
    launcher = min(processes, key=lambda process: process[1])
    for process in processes:
        pid, began_s, ended_s = process
        lasted_s = (ended_s if ended_s is not None else measured_s(record)) - began_s
        if process is not launcher and pid not in logged and lasted_s >= _WORKER_S_MIN:
            yield Event(kind="autovacuum", what="an autovacuum worker", began_s=began_s, ended_s=ended_s)


def _io_workers(threads: Columns, record: TrialRecord) -> Iterator[Event]:
    """The number of I/O workers changed: from 19 on the server itself starts and ends them."""
    processes = _processes(threads, record, "io worker")
    steps = [(began_s, 1) for _, began_s, _ in processes if began_s > 0]
    steps += [(ended_s, -1) for _, _, ended_s in processes if ended_s is not None and ended_s > 0]
    count = len(processes) - sum(1 for _, began_s, _ in processes if began_s > 0)
    steps.sort()
    while steps:
        at_s = steps[0][0]
        together = [step for step in steps if step[0] <= at_s + _TOGETHER_S]
        steps = steps[len(together) :]
        after = count + sum(change for _, change in together)
        if after != count:
            what = f"the number of I/O workers went from {count} to {after}"
            yield Event(kind="I/O workers", what=what, began_s=at_s, ended_s=at_s)
        count = after


def _throttling(group: Columns, record: TrialRecord, span_s: float) -> Iterator[Event]:
    """The processors' quota stopped the server (the control group's throttled time)."""
    edges = _edges(span_s)
    rates = rates_of(group, record, ("throttled_s",), edges)
    if rates is not None:
        yield from _spans("throttling", "throttling by the CPU quota", rates[0] >= _THROTTLED_MIN, edges)


def _at_limit(
    device: Columns, record: TrialRecord, ceiling: ArmCeiling, shares_ceiling: bool
) -> Iterator[Event]:
    """The device gave, to whoever used it, what is known to be its most: reads, and writes that count."""
    edges = _edges(measured_s(record))
    rates = rates_of(device, record, ("read_bytes", "reads"), edges)
    if rates is None:
        return
    written = _written(device, record, edges)
    is_mixed = written[1].sum() >= WRITES_SHARE_MIN * (rates[1] + written[1]).sum() > 0
    for name, unit, delivered, beside in (
        ("read_mb_s", "MB/s", rates[0] / MB, written[0] / MB),
        ("read_iops", "reads/s", rates[1], written[1]),
    ):
        limit, is_limit = getattr(ceiling, name), getattr(ceiling, f"{name}_from") == "limit"
        if limit is None or limit <= 0:
            continue
        values, what = delivered, f"reading at the device's maximum ({limit:,.0f} {unit})"
        most = float((delivered + beside).max())
        # More than the most that a probe measured of reads: the device takes writes beside these.
        counts = is_mixed and (is_limit or most <= BEATEN * limit)
        if counts and ceiling.is_of_writes(name, shares_ceiling=shares_ceiling):
            unit = "requests/s" if unit == "reads/s" else unit
            what = f"reading and writing at the device's maximum ({limit:,.0f} {unit})"
            values = delivered + beside
        if float(values.max()) <= BEATEN * limit:
            yield from _spans("device limit", what, values >= AT_LIMIT * limit, edges)


def _written(device: Columns, record: TrialRecord, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bytes, and writes with flushes and discards, a second; zeros where they were not recorded."""
    nothing = np.zeros(len(edges) - 1)
    found = rates_of(device, record, ("write_bytes", "writes"), edges) or [nothing, nothing]
    others = rates_of(device, record, ("flushes", "discards"), edges) or [nothing]
    return found[0], found[1] + sum(others, nothing)


def _burst_credits(trial: StoredTrial) -> Iterator[Event]:
    """The moment at which the credits of an imitated volume first ended."""
    facts = trial.record.facts
    for file, name, known in (
        ("volume", "the volume", facts.volume),
        ("wal_volume", "the WAL's volume", facts.wal_volume),
    ):
        at_s = ended_s(read(trial, file), known, trial.record)
        if at_s is not None:
            what = f"the burst credits of {name} ended"
            yield Event(kind="burst credits", what=what, began_s=round(at_s, 2), ended_s=round(at_s, 2))


def _edges(span_s: float) -> FloatArray:
    return np.linspace(0.0, span_s, max(1, round(span_s / _BIN_S)) + 1)


def _spans(kind: EventKind, what: str, holds: NDArray[np.bool_], edges: FloatArray) -> Iterator[Event]:
    """Where something held; a span at an end of the measured part began or ended outside of it.

    Short breaks are none, and what held for one bin alone is no span: rates near a threshold flicker.
    """
    marks = np.concatenate(([False], holds, [False]))
    turns = np.flatnonzero(marks[1:] != marks[:-1]).tolist()
    last = len(edges) - 1
    whole: list[tuple[int, int]] = []
    for begin, end in list(pairwise(turns))[::2]:
        if whole and begin - whole[-1][1] <= _BREAK_BINS_MAX:
            whole[-1] = (whole[-1][0], end)
        else:
            whole.append((begin, end))
    for begin, end in whole:
        if end - begin < _SPAN_BINS_MIN and end - begin < last:
            continue
        yield Event(
            kind=kind,
            what=what,
            began_s=None if begin == 0 else round(float(edges[begin]), 2),
            ended_s=None if end == last else round(float(edges[end]), 2),
        )


def _statements(record: TrialRecord) -> Iterator[Event]:
    for statement in record.statements:
        if statement.clock_ns and record.clock_ns:
            began_s, ended_s = ((clock - record.clock_ns[0]) / _S for clock in statement.clock_ns)
            yield Event(
                kind="statement",
                what=f"statement {statement.name}",
                began_s=round(began_s, 3),
                ended_s=round(ended_s, 3),
            )
