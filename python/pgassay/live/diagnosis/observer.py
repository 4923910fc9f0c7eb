"""The native observer of threads and waits, for a server that runs already."""

from collections.abc import Callable
from typing import Any

from pgassay.analysis.diagnosis.interval import IDLE_CONNECTION
from pgassay.live.target import Target
from pgassay.trial.observe.server_observer import ServerObserver

# Looks per second at threads and waits, for few connections; for more of them as many fewer. A look takes a
# millisecond of the server and of the sampler each, where processors have other things in their caches.
RATE_HZ = 2.0
_RATE_HZ_MIN = 0.5
_CONNECTIONS_AT_FULL_RATE = 64
# Reading all counters of all threads costs as much as several looks; between two readings nothing is lost.
_OUTPUT_S = 2.0
_OUTPUT_S_MAX = 10.0
_OWN = "pgassay"


def rate_hz(connections: int) -> float:
    """Looks per second at a server with so many connections, for a cost that stays about the same."""
    return max(_RATE_HZ_MIN, min(RATE_HZ, RATE_HZ * _CONNECTIONS_AT_FULL_RATE / max(1, connections)))


def output_s(connections: int) -> float:
    """How often the counters of all threads are read, likewise."""
    return min(_OUTPUT_S_MAX, _OUTPUT_S * max(1.0, connections / _CONNECTIONS_AT_FULL_RATE))


class _Running:
    """What the observer asks of a server; nobody starts this one again or marks anything in it."""

    def __init__(self, observed: dict[str, Any]) -> None:
        self.on_edge: Callable[[], None] | None = None
        self.on_restart: Callable[[], None] | None = None
        self._observed = observed

    def observed(self) -> dict[str, Any]:
        return self._observed


class LiveObserver(ServerObserver):
    """Samples a target; connections without work are told from those that wait for their client.

    Where the role may not see what others' sessions do, /proc alone is read: a server that hides a session's
    state would pass for one whose sessions are of no known kind.
    """

    def __init__(self, target: Target, application_name: str, connections: int, session_pid: int) -> None:
        """`connections`: how many the server has; `session_pid`: the process of pgassay's other one."""
        observed = target.observed(application_name)
        if not target.reads_all_stats and target.local is not None:
            observed["connect"] = None
        self._session_pid = session_pid
        super().__init__(_Running(observed), rate_hz(connections), output_s(connections))

    def _take(self, document: dict[str, Any]) -> None:
        if "window" in document:
            place = self._names("thread_columns").index("kind")
            for row in document["window"]["threads"]:
                if row[0] == self._session_pid:
                    row[place] = _OWN
            names = self._names("wait_columns")
            kind, state, asleep = (names.index(each) for each in ("kind", "activity", "scheduler_state"))
            event = names.index("wait_event")
            for row in document["window"]["waits"]:
                # One that runs is about to begin or has just ended something.
                if row[kind] == "backend" and row[state] == "idle" and row[asleep] != "R":
                    row[kind] = IDLE_CONNECTION if row[event] in ("ClientRead", "") else row[kind]
        super()._take(document)

    @property
    def sessions_cpu_s(self) -> float | None:
        """CPU seconds of all sessions of pgassay in this server; None where its processes are not seen."""
        if self._ready is None or not self._ready.get("threads"):
            return None
        names = self._names("thread_columns")
        pid, kind, run = (names.index(each) for each in ("pid", "kind", "run_ns"))
        seen: dict[int, list[int]] = {}
        for window in self._windows:
            for row in window["threads"]:
                if row[kind] == _OWN:
                    seen.setdefault(row[pid], []).append(row[run])
        return sum(max(values) - min(values) for values in seen.values()) / 1e9
