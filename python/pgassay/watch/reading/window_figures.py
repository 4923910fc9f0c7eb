"""From the native observer's windows to connections, waits, and what threads used."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgassay.model.running_server.watch import AioHandles, SchedulerState, ThreadUse, Wait
from pgassay.native.observer import ObserverWindow, Ready, Value, named

Row = Mapping[str, Value]
_SCHEDULER: dict[str, SchedulerState] = {"R": "running", "S": "asleep", "I": "asleep", "D": "device"}
# Sessions of pgassay's own (control, observer, this one): no part of the server's work.
OWN = "pgassay"
CLIENT_KINDS = ("backend",)
_RESTING = "Activity"


@dataclass(frozen=True)
class SeenThreads:
    """What was seen between two readings, its rows with the names of their columns.

    `threads`: each thread's counters when it was last seen; `aios`: the handles in use at the end.
    """

    from_ns: int
    clock_ns: int
    samples: int
    threads: Sequence[Row]
    waits: Sequence[Row]
    aios: Sequence[Row]


def seen(ready: Ready, windows: Sequence[ObserverWindow]) -> SeenThreads:
    """Several windows in a row, at least one, as one."""
    threads = {_key(row): row for window in windows for row in named(window.threads, ready.thread_columns)}
    return SeenThreads(
        from_ns=windows[0].from_ns,
        clock_ns=windows[-1].clock_ns,
        samples=sum(window.samples for window in windows),
        threads=list(threads.values()),
        waits=[row for window in windows for row in named(window.waits, ready.wait_columns)],
        aios=named(windows[-1].aios, ready.aio_columns),
    )


def states(rows: Iterable[Row], samples: int) -> dict[str, float]:
    """Client connections by their state, as means over the samples ('': PostgreSQL shows none)."""
    counts: Counter[str] = Counter()
    for row in rows:
        if row["kind"] in CLIENT_KINDS and row["pid"] == row["thread"]:
            counts[str(row["activity"])] += int(row["samples"])
    return {state: count / samples for state, count in sorted(counts.items())} if samples else {}


def waits(rows: Iterable[Row], samples: int) -> tuple[Wait, ...]:
    """What threads were at, as means over the samples, the most frequent first.

    Left out are idle connections, and processes that wait for work in their main loop (type Activity):
    neither is work.
    """
    counts: Counter[tuple[str, str, str, str, SchedulerState]] = Counter()
    for row in rows:
        state, event_type = str(row["activity"]), str(row["wait_event_type"])
        if row["kind"] == OWN or state == "idle" or event_type == _RESTING:
            continue
        scheduler = _SCHEDULER.get(str(row["scheduler_state"]), "unknown")
        if not event_type and scheduler == "asleep" and not state:
            # Nothing is known of it but that it sleeps, as most processes of a server do.
            continue
        counts[str(row["kind"]), state, event_type, str(row["wait_event"]), scheduler] += int(row["samples"])
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        Wait(
            kind=kind, state=state, event_type=event_type, event=event, scheduler=scheduler,
            threads=count / samples,
        )
        for (kind, state, event_type, event, scheduler), count in ordered
        if samples
    )  # fmt: skip


def thread_use(
    before: Iterable[Row], after: Iterable[Row], from_ns: int, to_ns: int, *, has_bytes: bool
) -> tuple[ThreadUse, ...]:
    """What the threads of each kind used between two windows' counters, the busiest kind first.

    A thread that is new in `after` began since the last reading, so it counts from nothing; one that ended
    meanwhile is there a last time. `has_bytes`: whether the kernel shows what each reads and writes.
    """
    known = {_key(row): row for row in before}
    seconds = (to_ns - from_ns) / 1e9
    alive: Counter[str] = Counter()
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row in after:
        kind = str(row["kind"])
        alive[kind] += bool(row["alive"])
        old = known.get(_key(row))
        for name in ("run_ns", "delay_ns", "read_bytes", "write_bytes"):
            sums[kind][name] += max(0, int(row[name]) - (int(old[name]) if old else 0))
    if seconds <= 0:
        return ()
    used = [
        ThreadUse(
            kind=kind,
            threads=alive[kind],
            cpu=sums[kind]["run_ns"] / 1e9 / seconds,
            queue=sums[kind]["delay_ns"] / 1e9 / seconds,
            read_bytes_s=sums[kind]["read_bytes"] / seconds if has_bytes else None,
            write_bytes_s=sums[kind]["write_bytes"] / seconds if has_bytes else None,
        )
        for kind in alive
    ]
    return tuple(sorted(used, key=lambda use: (-use.cpu, -use.threads, use.kind)))


def _key(row: Row) -> tuple[int, int, int]:
    """A thread, told apart from a later one of the same number."""
    return int(row["pid"]), int(row["thread"]), int(row["start_ns"])


def aios(rows: Iterable[Row]) -> tuple[AioHandles, ...]:
    """pg_aios by state and operation."""
    return tuple(
        AioHandles(
            state=str(row["state"]),
            operation=str(row["operation"]),
            handles=int(row["handles"]),
            bytes=int(row["bytes"]),
        )
        for row in rows
    )
