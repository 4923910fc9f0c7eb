"""perf stat: what the processor's own counters say of some processes, on machines that have them.

It prints every 100 ms what was counted since, so that a part of the time can be told from the rest of it.
"""

import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

from pgassay.environment.linux.perf import STOP_TIMEOUT_S, Perf, end_perf, perf_environment

EVENTS = ("instructions", "cycles")
_INTERVAL_MS = 100
_BEGUN_TIMEOUT_S = 5.0
_UNKNOWN = "<not supported>"


@dataclass(frozen=True)
class Reading:
    """One line: when the interval ended, on perf's own clock, and what was counted of an event in it."""

    seconds: float
    event: str
    count: float


@cache
def has_counters(perf: Perf) -> bool:
    """Whether perf can count EVENTS here, tried out on a process of its own: few virtual machines can."""
    command = [*_stat(perf, EVENTS), "--", "true"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, env=perf_environment(), timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    counted = [line for line in lines if any(event in line for event in EVENTS) and _UNKNOWN not in line]
    return done.returncode == 0 and len(counted) >= len(EVENTS)


def _stat(perf: Perf, events: Sequence[str]) -> list[str]:
    """The command that counts, without what it counts; it writes to its output what -x parts by commas."""
    names = [event if perf.has_kernel else f"{event}:u" for event in events]
    return [perf.path, "stat", "-x", ",", "--log-fd", "1", "-e", ",".join(names)]


def reading_of(line: str) -> Reading | None:
    """A line of `perf stat -x , -I …`: seconds, count, unit, event, …; None for any other."""
    parts = line.strip().split(",")
    if len(parts) < 4:
        return None
    try:
        # Where none of the processes ran it says '<not counted>'.
        count = 0.0 if parts[1].startswith("<") else float(parts[1])
        return Reading(float(parts[0]), parts[3].partition(":")[0], count)
    except ValueError:
        return None


def counted_within(
    readings: Sequence[tuple[int, Reading]], first_ns: int, last_ns: int
) -> dict[str, float] | None:
    """What was counted of each event from first_ns to last_ns; None where readings don't reach that far.

    readings: each with CLOCK_MONOTONIC at its arrival, in their order. Of an interval that lies partly within
    the same part counts.
    """
    if not readings:
        return None
    # A line comes late and never early: the one that came soonest says what perf's clock began at.
    zero_ns = min(arrived_ns - round(reading.seconds * 1e9) for arrived_ns, reading in readings)
    found: dict[str, float] = {}
    ends: dict[str, int] = {}
    for _, reading in readings:
        end = zero_ns + round(reading.seconds * 1e9)
        begin = ends.get(reading.event, zero_ns)
        ends[reading.event] = end
        within = max(0, min(end, last_ns) - max(begin, first_ns))
        share = within / (end - begin) if end > begin else 0.0
        found[reading.event] = found.get(reading.event, 0.0) + share * reading.count
    reaches = zero_ns <= first_ns and min(ends.values()) >= last_ns
    return found if reaches else None


class PerfCounting:
    """perf counts events of some processes, and of whatever they fork, from `__enter__` to `__exit__`."""

    def __init__(self, perf: Perf, process_ids: Sequence[int], events: Sequence[str] = EVENTS) -> None:
        self._command = [
            *_stat(perf, events),
            *("-I", str(_INTERVAL_MS), "-p", ",".join(map(str, process_ids))),
        ]
        self._events = tuple(events)
        self._readings: list[tuple[int, Reading]] = []
        self._has_begun = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=perf_environment(),
            start_new_session=True,  # Ctrl-C is for us: what runs is stopped below
        )
        self._thread.start()
        # What is to be counted must not begin before it.
        self._has_begun.wait(_BEGUN_TIMEOUT_S)
        return self

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            reading = reading_of(line)
            if reading is not None:
                self._readings.append((time.monotonic_ns(), reading))
                self._has_begun.set()
        self._has_begun.set()

    def __exit__(self, *details: object) -> None:
        if self._process is None:
            return
        end_perf(self._process)
        self._thread.join(STOP_TIMEOUT_S)

    def counts(self, first_ns: int, last_ns: int) -> dict[str, float]:
        """What was counted of each event within these readings of CLOCK_MONOTONIC; {} where perf failed.

        A profile without counters is one: nothing is raised.
        """
        found = counted_within(self._readings, first_ns, last_ns) or {}
        return found if found.keys() >= {*self._events} else {}
