"""Noise over some seconds: gaps in a loop that never waits, the spread of a fixed task, steal.

What interrupts a loop that only reads the clock interrupts a server as well.
"""

import hashlib
import math
import statistics
import time
from array import array

from pgassay.environment.doctor.base import ok, warning
from pgassay.environment.linux import machine
from pgassay.model.machines.doctor import Finding

GROUP = "noise"
NAMES = ("interruptions", "speed", "steal")
# Shorter than this is the loop itself: reading the clock and going round again.
GAP_NS_MIN = 10_000
GAP_MAX_MS = 10.0
STEAL_FRACTION_MAX = 0.01
SPREAD_MAX = 0.05
_BLOCK = bytes(range(256)) * 4096
_BLOCKS = 8


def noise(seconds: float) -> list[Finding]:
    """Spin for half of the time, repeat a fixed task for the other half; steal over the whole."""
    before = machine.cpu_times()
    gaps = spin(seconds / 2)
    tasks = repeat_task(seconds / 2)
    after = machine.cpu_times()
    findings = [_gaps(gaps, seconds / 2), _tasks(tasks)]
    if before is None or after is None:
        findings.append(ok(GROUP, "steal", "steal: not reported by this system"))
    else:
        findings.append(_steal((after - before).steal_s, seconds))
    return findings


def spin(seconds: float) -> "array[int]":
    """Nanoseconds of every gap above 10 µs in a loop that reads the clock for so long."""
    gaps = array("q")
    clock = time.perf_counter_ns
    last = clock()
    end = last + int(seconds * 1e9)
    while last < end:
        now = clock()
        if now - last > GAP_NS_MIN:
            gaps.append(now - last)
        last = now
    return gaps


def repeat_task(seconds: float) -> list[float]:
    """Seconds of each repetition (at least two) of hashing 8 MB: one core, no I/O."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 2 or time.perf_counter() < end:
        begin = time.perf_counter()
        digest = hashlib.sha256()
        for _ in range(_BLOCKS):
            digest.update(_BLOCK)
        digest.digest()
        times.append(time.perf_counter() - begin)
    return times


def quantile(values: list[float], fraction: float) -> float:
    """The smallest value that at least `fraction` of the values do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)] if ordered else 0.0


def _gaps(gaps: "array[int]", seconds: float) -> Finding:
    gaps_ms = [gap / 1e6 for gap in gaps]
    p99_ms, max_ms = quantile(gaps_ms, 0.99), max(gaps_ms, default=0.0)
    lost = sum(gaps_ms) / 1e3 / seconds
    text = (
        f"interruptions: {len(gaps_ms) / seconds:.0f} per second of more than 10 µs, p99 {p99_ms:.2f} ms, "
        f"longest {max_ms:.1f} ms, {lost:.1%} of the time"
    )
    figures = {"gaps": len(gaps_ms), "p99_ms": p99_ms, "max_ms": max_ms, "lost_fraction": lost}
    if max_ms <= GAP_MAX_MS:
        return ok(GROUP, "interruptions", text, **figures)
    remedy = "other processes or virtual machines take the processor: end them, or use longer trials"
    return warning(GROUP, "interruptions", text, remedy, **figures)


def _tasks(times: list[float]) -> Finding:
    mean = statistics.fmean(times)
    spread = statistics.stdev(times) / mean
    slowest = max(times) / min(times)
    text = (
        f"speed: a fixed task of {mean * 1e3:.1f} ms spreads by {spread:.1%} (standard deviation), "
        f"slowest {slowest:.2f} times the fastest, {len(times)} times"
    )
    figures = {
        "mean_ms": mean * 1e3,
        "spread_fraction": spread,
        "slowest_ratio": slowest,
        "repetitions": len(times),
    }
    if spread <= SPREAD_MAX:
        return ok(GROUP, "speed", text, **figures)
    remedy = (
        "its speed changes on its own or with its neighbours: pgassay calibrate shows what can be detected"
    )
    return warning(GROUP, "speed", text, remedy, **figures)


def _steal(steal_s: float, seconds: float) -> Finding:
    fraction = steal_s / seconds
    text = f"steal: {fraction:.1%} of a processor's time went to other virtual machines"
    if fraction <= STEAL_FRACTION_MAX:
        return ok(GROUP, "steal", text, steal_fraction=fraction)
    remedy = "measure at another hour or on another host; the verdict needs more blocks here"
    return warning(GROUP, "steal", text, remedy, steal_fraction=fraction)
