"""The times of a trial's threads from what was written down of them (threads.parquet, waits.parquet)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgassay.analysis.accounts.times import Times, TrialTimes
from pgassay.record.observations import Columns, floats, integers, texts

Clocks = NDArray[np.float64]
_NS = 1e-9
# /proc counts a thread's start in ticks of 10 ms, downwards.
_START_TICK_NS = 20e6
# The rate of a counter is taken over at least so long.
_RATE_OVER_NS = 0.2e9
# A connection that did nothing may yet be woken by the server, some microseconds at a time.
_IDLE_CPU_SHARE_MAX = 1e-4
BACKEND = "backend"
IDLE_SESSION = "idle session"
POSTMASTER = "postmaster"
OTHER = "other"


@dataclass(frozen=True)
class Span:
    """A part of the trial that was measured, in nanoseconds of the monotonic clock.

    is_marked: counters were written down just before and just after it, while the measured session was idle.
    """

    begin_ns: float
    end_ns: float
    is_marked: bool


@dataclass(frozen=True)
class _Thread:
    """One thread's rows in the order of time.

    written: the clock of the row; read: when its counters were read, which for a thread that has gone is
    the last time that it was there; gone_ns: when it ended, infinite when it did not.
    """

    pid: int
    kind: str
    written: Clocks
    read: Clocks
    run: Clocks
    delay: Clocks
    children: Clocks
    start_ns: float
    gone_ns: float


def trial_times(
    threads: Columns, waits: Columns, spans: Sequence[Span], rate_hz: float, *, sets_idle_apart: bool = True
) -> TrialTimes:
    """Add up what happened within the spans.

    threads, waits: the columns of the two files; rate_hz: looks per second, for the moment at which a
    thread that was not there any more had ended; sets_idle_apart: whether sessions that waited for their
    client in all of the spans are a kind of their own.
    """
    if not threads.get("clock_ns"):
        return TrialTimes(0.0, {}, {})
    edges = np.unique(floats(threads, "clock_ns"))
    members = _threads(threads, 0.5e9 / rate_hz if rate_hz > 0 else 0.0)
    kinds: dict[str, Times] = {}
    connections: dict[int, Times] = {}
    for span in spans:
        limits = _limits(span, edges)
        for member in members:
            times = _within(member, span, limits)
            if times is not None:
                kinds.setdefault(member.kind, Times()).add(times)
                if member.kind == BACKEND:
                    connections.setdefault(member.pid, Times()).add(times)
        _add_unseen(kinds, members, limits)
    _add_samples(kinds, connections, waits, spans)
    if sets_idle_apart:
        _set_idle_apart(kinds, connections)
    measured_s = sum(span.end_ns - span.begin_ns for span in spans) * _NS
    return TrialTimes(measured_s, kinds, connections)


def _set_idle_apart(kinds: dict[str, Times], connections: dict[int, Times]) -> None:
    """Make connections that never worked, such as one left open in a transaction, a kind of their own.

    The work is not theirs: their wait for a client would be taken for a wait of those who do it.
    """
    idle = {pid: times for pid, times in connections.items() if _is_idle(times)}
    if idle and len(idle) == len(connections):
        kinds[IDLE_SESSION] = kinds.pop(BACKEND)
        connections.clear()
    for pid in idle.keys() & connections.keys():
        times = connections.pop(pid)
        kinds[BACKEND].remove(times)
        kinds.setdefault(IDLE_SESSION, Times()).add(times)


def _is_idle(times: Times) -> bool:
    waits = {(event_type, event) for event_type, event, _ in times.seen}
    return waits == {("Client", "ClientRead")} and times.run_s <= _IDLE_CPU_SHARE_MAX * times.wall_s


def _threads(columns: Columns, half_interval_ns: float) -> list[_Thread]:
    rows: dict[tuple[int, int], list[int]] = {}
    for index, key in enumerate(zip(integers(columns, "pid"), integers(columns, "thread"), strict=True)):
        rows.setdefault(key, []).append(index)
    arrays = {
        name: floats(columns, name)
        for name in ("clock_ns", "seen_ns", "run_ns", "delay_ns", "children_cpu_ns")
    }
    kinds = texts(columns, "kind")
    starts_ns, seen_ns = integers(columns, "start_ns"), integers(columns, "seen_ns")
    members = []
    for (pid, _thread), indices in rows.items():
        last = indices[-1]
        is_gone = not columns["alive"][last]
        members.append(
            _Thread(
                pid=pid,
                # What the server says of itself comes with the first look, after the process's title.
                kind=kinds[last],
                written=arrays["clock_ns"][indices],
                read=arrays["seen_ns"][indices],
                run=arrays["run_ns"][indices],
                delay=arrays["delay_ns"][indices],
                children=arrays["children_cpu_ns"][indices],
                start_ns=float(starts_ns[indices[0]]),
                gone_ns=float(seen_ns[last]) + half_interval_ns if is_gone else np.inf,
            )
        )
    return members


def _limits(span: Span, edges: Clocks) -> tuple[float, float]:
    """Between which readings of the counters the span's are: its marks, or the span itself."""
    if not span.is_marked:
        return span.begin_ns, span.end_ns
    before, after = edges[edges <= span.begin_ns], edges[edges >= span.end_ns]
    begin = float(before[-1]) if before.size else span.begin_ns
    end = float(after[0]) if after.size else float(edges[-1])
    return begin, end


def _within(member: _Thread, span: Span, limits: tuple[float, float]) -> Times | None:
    """The thread's times in the span; None when it did not exist then."""
    begin, end = limits
    first_ns = float(member.read[0])
    if first_ns <= begin:
        from_ns = span.begin_ns
    elif _is_started_after(member, begin):
        from_ns = min(max(member.start_ns, span.begin_ns), first_ns)
    else:
        from_ns = first_ns
    # One that was missed only after the span may have gone after it as well.
    to_ns = min(span.end_ns, member.gone_ns) if member.written[-1] <= end else span.end_ns
    if to_ns <= from_ns or (span.is_marked and member.written[0] > end):
        return None
    return Times(
        wall_s=(to_ns - from_ns) * _NS,
        run_s=_moved(member, member.run, limits, is_marked=span.is_marked) * _NS,
        delay_s=_moved(member, member.delay, limits, is_marked=span.is_marked) * _NS,
    )


def _is_started_after(member: _Thread, begin: float) -> bool:
    return member.start_ns > begin - _START_TICK_NS


def _moved(member: _Thread, counter: Clocks, limits: tuple[float, float], *, is_marked: bool) -> float:
    """How far a counter moved: between the rows written at the marks, or along straight lines between rows.

    That of a thread that was started within began at 0; one that was there until the end and never read again
    went on as before.
    """
    begin, end = limits
    is_started = member.written[0] > begin and _is_started_after(member, begin)
    if is_marked:
        low_index, high_index = np.searchsorted(member.written, limits, side="right") - 1
        before = 0.0 if is_started else float(counter[0])
        low, high = (float(counter[index]) if index >= 0 else before for index in (low_index, high_index))
        return high - low
    clock = member.read
    if is_started:
        clock = np.concatenate(([min(max(member.start_ns, begin), clock[0] - 1)], clock))
        counter = np.concatenate(([0.0], counter))
    if clock[-1] < end < member.written[-1] and clock.size > 1:
        clock, counter = np.append(clock, end), np.append(counter, counter[-1] + _more(clock, counter, end))
    low, high = np.interp(limits, clock, counter)
    return float(high - low)


def _more(clock: Clocks, counter: Clocks, end: float) -> float:
    """How far a counter would move from its last reading until `end`, at the rate of the time before that.

    The last two readings may be a moment apart, which is no rate. No thread runs faster than time.
    """
    before = max(0, int(np.searchsorted(clock, clock[-1] - _RATE_OVER_NS)) - 1)
    rate = (counter[-1] - counter[before]) / max(1.0, clock[-1] - clock[before])
    return float(min(1.0, rate) * (end - clock[-1]))


def _add_unseen(kinds: dict[str, Times], members: Sequence[_Thread], limits: tuple[float, float]) -> None:
    """CPU time of processes that ended, beyond what was seen of them: the postmaster is told the whole of it.

    (wait4(2) adds it to the parent's children's time.) It goes to the kind of which most ended.
    """
    begin, end = limits
    postmaster = next((member for member in members if member.kind == POSTMASTER), None)
    if postmaster is None:
        return
    # It moves by leaps, whenever a child ends: nothing lies between two rows.
    reported = _moved(postmaster, postmaster.children, limits, is_marked=True)
    ended = [
        member
        for member in members
        if member.gone_ns < np.inf and begin < member.written[-1] <= end and member is not postmaster
    ]
    if reported <= 0 and not ended:
        return
    seen = sum(float(member.run[-1]) for member in ended)
    names = [member.kind for member in ended]
    kind = max(set(names), key=names.count) if names else OTHER
    unseen_s = (reported - seen) * _NS
    times = kinds.setdefault(kind, Times())
    times.unseen_s += unseen_s
    times.run_s += unseen_s


def _add_samples(
    kinds: dict[str, Times], connections: dict[int, Times], waits: Columns, spans: Sequence[Span]
) -> None:
    """Count the samples whose window lies within a span."""
    if not waits.get("clock_ns"):
        return
    middle = (floats(waits, "from_ns") + floats(waits, "clock_ns")) / 2
    inside = np.zeros(middle.shape, dtype=bool)
    for span in spans:
        inside |= (middle >= span.begin_ns) & (middle <= span.end_ns)
    pids, samples_of, kinds_of = integers(waits, "pid"), integers(waits, "samples"), texts(waits, "kind")
    names = ("wait_event_type", "wait_event", "scheduler_state")
    event_columns = [texts(waits, name) for name in names]
    for index in np.flatnonzero(inside).tolist():
        pid, kind, samples = pids[index], kinds_of[index], samples_of[index]
        event_type, event, state = (column[index] for column in event_columns)
        seen = (event_type, event, state)
        if kind in kinds:
            kinds[kind].seen[seen] += samples
        if kind == BACKEND and pid in connections:
            connections[pid].seen[seen] += samples
