"""The native observer of threads and waits, as a diagnosis of a running server uses it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pgassay.analysis.accounts.samples import IDLE_CONNECTION
from pgassay.native.observer import ObservedServer, ObserverWindow, Ready, Row
from pgassay.running_server.open_server import OpenServer

# Samples per second of threads and waits, for few connections; for more of them as many fewer. A sample takes
# a millisecond of the server and of the sampler each, where processors have other things in their caches.
RATE_HZ = 2.0
_RATE_HZ_MIN = 0.5
_CONNECTIONS_AT_FULL_RATE = 64
# Where looks are all that there is, more of them are needed: each interval of the series has ten.
RATE_ELSEWHERE_HZ = 5.0
_OUTPUT_ELSEWHERE_S = 0.5
# Reading all counters of all threads costs as much as several samples; between two readings nothing is lost.
_OUTPUT_S = 2.0
_OUTPUT_S_MAX = 10.0
_OWN = "pgassay"


def rate_hz(connections: int, *, is_local: bool = True) -> float:
    """Samples per second of a server with so many connections, for a cost that stays about the same.

    is_local: whether its processes are on this machine.
    """
    most = RATE_HZ if is_local else RATE_ELSEWHERE_HZ
    return max(_RATE_HZ_MIN, min(most, most * _CONNECTIONS_AT_FULL_RATE / max(1, connections)))


def output_s(connections: int, *, is_local: bool = True) -> float:
    """How often the counters of all threads are read, likewise; of a server elsewhere there are none."""
    if not is_local:
        return _OUTPUT_ELSEWHERE_S
    return min(_OUTPUT_S_MAX, _OUTPUT_S * max(1.0, connections / _CONNECTIONS_AT_FULL_RATE))


def sources(target: OpenServer, application_name: str) -> ObservedServer:
    """What of a target is sampled.

    Where the role may not see what others' sessions do, /proc alone is read: a server that hides a session's
    state would pass for one whose sessions are of no known kind.
    """
    observed = target.observed(application_name)
    if not target.reads_all_stats and target.local is not None:
        observed["connect"] = None
    return observed


def mark_own_and_idle(
    ready: Ready, windows: Iterable[ObserverWindow], session_pid: int
) -> list[ObserverWindow]:
    """Windows in which `session_pid`, the other session of pgassay, is of the kind of its own sessions, and
    connections without work are told from those that wait for their client (IDLE_CONNECTION)."""
    return [
        replace(
            window,
            threads=_own_threads(ready.thread_columns, window.threads, session_pid),
            waits=_idle_connections(ready.wait_columns, window.waits),
        )
        for window in windows
    ]


def _own_threads(columns: Sequence[str], rows: Sequence[Row], session_pid: int) -> list[Row]:
    kind, pid = columns.index("kind"), columns.index("pid")
    return [_with(row, kind, _OWN) if row[pid] == session_pid else row for row in rows]


def _idle_connections(columns: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    kind, activity = columns.index("kind"), columns.index("activity")
    scheduler, event = columns.index("scheduler_state"), columns.index("wait_event")

    def is_idle(row: Row) -> bool:
        # One that runs is about to begin or has just ended something.
        is_at_rest = row[kind] == "backend" and row[activity] == "idle" and row[scheduler] != "R"
        return is_at_rest and row[event] in ("ClientRead", "")

    return [_with(row, kind, IDLE_CONNECTION) if is_idle(row) else row for row in rows]


def _with(row: Row, position: int, value: str) -> Row:
    return [*row[:position], value, *row[position + 1 :]]


def sessions_cpu_s(ready: Ready, windows: Iterable[ObserverWindow]) -> float | None:
    """CPU seconds of all sessions of pgassay in this server; None where its processes are not seen.

    windows: as `with_own_and_idle_marked` makes them.
    """
    if not ready.threads:
        return None
    pid, kind, run = (ready.thread_columns.index(name) for name in ("pid", "kind", "run_ns"))
    seen: dict[int, list[int]] = {}
    for window in windows:
        for row in window.threads:
            if row[kind] == _OWN:
                seen.setdefault(int(row[pid]), []).append(int(row[run]))
    return sum(max(values) - min(values) for values in seen.values()) / 1e9
