"""What SQL alone tells of a server whose machine nobody sees: reads beside the reads in flight, processors.

Looks at pg_stat_activity (waits.parquet) say who waits for a read and who for nothing, pg_aios how many
asynchronous reads are on their way, and the cumulative counters (server_reads.parquet) how much was read.
Counters stand still while a statement runs, and a session that is busy hands its own in once a second
(src/backend/utils/activity/pgstat.c, PGSTAT_MIN_INTERVAL). So what is counted in an interval may have been
read as long before it, and the reads in flight are taken from that time on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgassay.analysis.accounts.threads import BACKEND, Span
from pgassay.analysis.causes.read_series import ReadCeiling, ReadInterval, read_ceiling
from pgassay.analysis.causes.sampler_files import read_columns
from pgassay.record.observations import Columns, floats, integers, texts

# The length of an interval of the series, in seconds.
INTERVAL_S = 2.0
# In so many parts at least processes are counted, however short the time.
_PARTS_MIN = 5
_HANDED_IN_S = 1.0
_S = 1e9
# A process that waits here has one read on its way (src/backend/storage/aio/aio_io.c and smgr/md.c); whoever
# waits for an I/O worker or for io_uring is counted by the worker, or by the handles of pg_aios.
_ONE_READ = "DataFileRead"
_WORKING = (BACKEND, "parallel worker")
# These run or wait for a processor where they tell no wait event; of others that is not known.
_COMPUTING = frozenset(
    {*_WORKING, "io worker", "autovacuum", "checkpointer", "background writer", "WAL writer"}
)
# A role without rights is not told what the processes of others are for.
_ALWAYS_THERE = frozenset({"checkpointer", "background writer"})
# Handed to the kernel and not completed yet (src/include/storage/aio_internal.h, PGAIO_HS_SUBMITTED).
_SUBMITTED = "SUBMITTED"

Figures = NDArray[np.float64]
Chosen = NDArray[np.bool_]


@dataclass(frozen=True)
class Looks:
    """Looks at a server's processes, in windows: arrays with a value for each window.

    begin_s, end_s: its edges. count: how many looks it holds. in_flight, at_work, computing: means over these
    of the reads on their way, of connections and parallel workers within a statement, and of processes that
    wait for nothing. at_work is None where in_flight is the server's own count.
    """

    begin_s: Figures
    end_s: Figures
    count: Figures
    in_flight: Figures
    at_work: Figures | None
    computing: Figures


@dataclass(frozen=True)
class Counted:
    """Cumulative counters at moments: arrays with a value for each. requests: None before 18.

    statement_s: for how long the longest statement that waited for a read had been running. writes: with
    flushes; None in records of older pgassay.
    """

    clock_s: Figures
    read_bytes: Figures
    requests: Figures | None
    read_time_s: Figures
    statement_s: Figures
    writes: Figures | None = None


@dataclass(frozen=True)
class SqlEvidence:
    """The evidence of SQL alone over a trial or an interval of a running server.

    intervals: the series of reads. seconds, read_bytes, requests, read_time_s: of the whole; the last is 0
    where the server does not time its reads (track_io_timing). writes: with flushes, those of the WAL too;
    None where they were not recorded. in_flight, computing: means of the whole.
    computing_series: the mean of each interval. ceiling: what these intervals show, or those of all trials on
    the same server. vcpus: the number of the server's processors as the user gave it. is_partial: the role
    may not see other roles' processes, whose reads are counted all the same; then there are no intervals.
    """

    seconds: float = 0.0
    intervals: tuple[ReadInterval, ...] = ()
    read_bytes: float = 0.0
    requests: float | None = None
    read_time_s: float = 0.0
    writes: float | None = None
    in_flight: float = 0.0
    computing: float = 0.0
    computing_series: tuple[float, ...] = field(default=(), repr=False)
    ceiling: ReadCeiling | None = None
    vcpus: float | None = None
    is_partial: bool = False


def sql_evidence(
    folder: Path, spans: Sequence[Span], *, uses_uring: bool, reads_by_workers: bool, vcpus: float | None
) -> SqlEvidence | None:
    """From the files of a trial or an interval; None where sessions were not looked at.

    uses_uring: asynchronous reads are the handles of pg_aios. reads_by_workers: they are I/O workers'.
    """
    waits = read_columns(folder, "waits")
    if not waits.get("clock_ns") or not spans:
        return None
    looks = looks_of(waits, read_columns(folder, "aios") if uses_uring else None)
    counted = _counted(read_columns(folder, "server_reads"))
    made = [
        evidence_of_span(looks, counted, span.begin_ns / _S, span.end_ns / _S, vcpus=vcpus) for span in spans
    ]
    kinds = set(texts(waits, "kind"))
    is_partial = not kinds & _ALWAYS_THERE or (reads_by_workers and "io worker" not in kinds)
    intervals = () if is_partial else tuple(each for one in made for each in one.intervals)
    total_s = sum(one.seconds for one in made)

    def mean(value: Callable[[SqlEvidence], float]) -> float:
        return sum(value(one) * one.seconds for one in made) / total_s if total_s > 0 else 0.0

    requests = [one.requests for one in made if one.requests is not None]
    writes = [one.writes for one in made if one.writes is not None]
    return SqlEvidence(
        seconds=total_s,
        intervals=intervals,
        read_bytes=sum(one.read_bytes for one in made),
        requests=sum(requests) if requests else None,
        read_time_s=sum(one.read_time_s for one in made),
        writes=sum(writes) if writes else None,
        in_flight=mean(lambda one: one.in_flight),
        computing=mean(lambda one: one.computing),
        computing_series=tuple(each for one in made for each in one.computing_series),
        ceiling=read_ceiling(intervals),
        vcpus=vcpus,
        is_partial=is_partial,
    )


def looks_of(waits: Columns, aios: Columns | None) -> Looks:
    """The windows of waits.parquet; with aios (which may be empty) their reads are counted by pg_aios."""
    edges = list(zip(integers(waits, "from_ns"), integers(waits, "clock_ns"), strict=True))
    order = {edge: index for index, edge in enumerate(sorted(set(edges)))}
    seen: list[dict[int, int]] = [{} for _ in order]
    sums = np.zeros((3, len(order)))
    names = ("kind", "activity", "wait_event_type", "wait_event")
    columns = zip(*(texts(waits, name) for name in names), strict=True)
    rows = zip(edges, integers(waits, "pid"), integers(waits, "samples"), columns, strict=True)
    for edge, pid, samples, (kind, activity, event_type, event) in rows:
        index = order[edge]
        seen[index][pid] = seen[index].get(pid, 0) + samples
        # 'idle', 'idle in transaction', and that with '(aborted)'.
        is_working = kind in _WORKING and not activity.startswith("idle")
        sums[0, index] += samples * (event == _ONE_READ)
        sums[1, index] += samples * is_working
        is_computing = kind in _COMPUTING and not event_type and (is_working or kind not in _WORKING)
        sums[2, index] += samples * is_computing
    # A process that was there all the time was seen in each look.
    count = np.array([max(each.values()) for each in seen], dtype=np.float64)
    in_flight, at_work, computing = sums / count
    if aios is not None:
        in_flight = in_flight + _handles(aios, order)
    begin_s, end_s = (np.array([edge[which] for edge in order], dtype=np.float64) / _S for which in (0, 1))
    return Looks(begin_s, end_s, count, in_flight, None if aios is not None else at_work, computing)


def _handles(aios: Columns, order: dict[tuple[int, int], int]) -> Figures:
    """Reads on their way at the end of each window."""
    found = np.zeros(len(order))
    if aios.get("clock_ns"):
        edges = zip(integers(aios, "from_ns"), integers(aios, "clock_ns"), strict=True)
        kinds = zip(texts(aios, "state"), texts(aios, "operation"), integers(aios, "handles"), strict=True)
        for edge, (state, operation, handles) in zip(edges, kinds, strict=True):
            if edge in order and state == _SUBMITTED and operation == "readv":
                found[order[edge]] += handles
    return found


def _counted(columns: Columns) -> Counted | None:
    if len(columns.get("clock_ns", ())) < 2:
        return None
    requests = floats(columns, "reads")
    return Counted(
        clock_s=floats(columns, "clock_ns") / _S,
        read_bytes=floats(columns, "read_bytes"),
        requests=None if np.isnan(requests).any() else requests,
        read_time_s=floats(columns, "read_time_ms") / 1000,
        statement_s=floats(columns, "statement_s"),
        writes=floats(columns, "writes") if "writes" in columns else None,
    )


def evidence_of_span(
    looks: Looks, counted: Counted | None, begin_s: float, end_s: float, *, vcpus: float | None = None
) -> SqlEvidence:
    """The evidence of one stretch of time; the ceiling is left to who has all stretches."""
    within = (looks.begin_s >= begin_s) & (looks.end_s <= end_s)
    if within.any():
        chosen, parts = within, _parts(looks, within, begin_s, end_s)
    else:
        chosen = _mostly_within(looks, begin_s, end_s)
        parts = [chosen]
    read_bytes, requests, read_time_s, writes = 0.0, None, 0.0, None
    if counted is not None:
        read_bytes = _moved(counted.clock_s, counted.read_bytes, begin_s, end_s)
        read_time_s = _moved(counted.clock_s, counted.read_time_s, begin_s, end_s)
        if counted.requests is not None:
            requests = _moved(counted.clock_s, counted.requests, begin_s, end_s)
        if counted.writes is not None:
            writes = _moved(counted.clock_s, counted.writes, begin_s, end_s)
    return SqlEvidence(
        seconds=end_s - begin_s,
        intervals=() if counted is None else intervals_of(looks, counted, begin_s, end_s),
        read_bytes=read_bytes,
        requests=requests,
        read_time_s=read_time_s,
        writes=writes,
        in_flight=_mean(looks, looks.in_flight, chosen),
        computing=_mean(looks, looks.computing, chosen),
        computing_series=tuple(
            _mean(looks, looks.computing, part) for part in parts if looks.count[part].sum() > 0
        ),
        vcpus=vcpus,
    )


def _parts(looks: Looks, within: Chosen, begin_s: float, end_s: float) -> list[Chosen]:
    """The windows within a stretch by the intervals of their middles; all of them, where they lie in none."""
    middle = (looks.begin_s + looks.end_s) / 2
    length_s = min(INTERVAL_S, (end_s - begin_s) / _PARTS_MIN)
    starts = np.arange(begin_s, end_s - length_s + 1e-6, length_s)
    parts = [within & (middle >= start) & (middle < start + length_s) for start in starts]
    return parts if any(part.any() for part in parts) else [within]


def _mostly_within(looks: Looks, begin_s: float, end_s: float) -> Chosen:
    """For a stretch as short as a window or two: those windows of which it took most, none if it met none."""
    taken_s = np.minimum(looks.end_s, end_s) - np.maximum(looks.begin_s, begin_s)
    shares = taken_s / np.maximum(looks.end_s - looks.begin_s, 1e-9)
    chosen: Chosen = (shares > 0) & (shares == shares.max(initial=0.0))
    return chosen


def _mean(looks: Looks, values: Figures, chosen: Chosen) -> float:
    weights = looks.count[chosen]
    return float(np.average(values[chosen], weights=weights)) if weights.sum() > 0 else 0.0


def intervals_of(looks: Looks, counted: Counted, begin_s: float, end_s: float) -> tuple[ReadInterval, ...]:
    """The intervals of a stretch of time, those after the first in which all that is counted was seen.

    What is in flight is a mean from so long before the interval as its counts may come late: over more time
    than they, so that it varies less than the rate would if the one made the other.
    """
    within = (counted.clock_s >= begin_s) & (counted.clock_s <= end_s)
    late_s = _HANDED_IN_S + float(counted.statement_s[within].max(initial=0.0))
    middle = (looks.begin_s + looks.end_s) / 2
    parity = np.arange(len(middle)) % 2
    found = []
    for start_s in np.arange(begin_s + late_s, end_s - INTERVAL_S + 1e-6, INTERVAL_S):
        stop_s = start_s + INTERVAL_S
        chosen = (middle >= start_s - late_s) & (middle < stop_s)
        halves = [chosen & (parity == which) for which in (0, 1)]
        if any(looks.count[half].sum() == 0 for half in halves):
            continue
        found.append(
            ReadInterval(
                seconds=INTERVAL_S,
                read_bytes=_moved(counted.clock_s, counted.read_bytes, start_s, stop_s),
                requests=None
                if counted.requests is None
                else _moved(counted.clock_s, counted.requests, start_s, stop_s),
                in_flight=_both(looks.in_flight, looks.count, halves),
                at_work=None if looks.at_work is None else _both(looks.at_work, looks.count, halves),
            )
        )
    return tuple(found)


def _both(values: Figures, weights: Figures, halves: Sequence[Chosen]) -> tuple[float, float]:
    first, second = (float(np.average(values[half], weights=weights[half])) for half in halves)
    return first, second


def _moved(clock_s: Figures, counter: Figures, begin_s: float, end_s: float) -> float:
    low, high = np.interp((begin_s, end_s), clock_s, counter)
    return float(high - low)
