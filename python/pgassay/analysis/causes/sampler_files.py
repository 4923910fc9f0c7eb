"""The samplers' files beside a trial or an interval, read for its causes: counters over spans of time."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from pgassay.analysis.accounts.threads import Span
from pgassay.errors import UsageError
from pgassay.record import observations
from pgassay.record.observations import PROCESSOR_STOLEN, PROCESSOR_USED, Columns, floats, integers

# Columns of host_cpu in which a processor is not to be had, whoever has it.
PROCESSOR_TAKEN = (*PROCESSOR_USED, PROCESSOR_STOLEN)


# A rule asks for the same file again and again; a trial's folder never changes once it is written.
@lru_cache(maxsize=8)
def read_columns(folder: Path, sampler: str) -> Columns:
    """The columns of a sampler's file; {} when there is none, or a damaged one."""
    try:
        return observations.columns(folder, sampler) or {}
    except UsageError:
        return {}


@dataclass(frozen=True)
class Requests:
    """What a device did within spans: rates, mean times of a read and of a write; None: not sampled."""

    writes_s: float | None = None
    write_mb_s: float | None = None
    read_ms: float | None = None
    write_ms: float | None = None


# Counters are sampled five times a second. Of less than this, a rate is a matter of chance ...
_SECONDS_MIN = 1.0
# ... and of less than this share of the time, it is another part's.
_SHARE_MIN = 0.5
# Statements one after the other, between which nothing else is done.
_BESIDE_NS = 50_000_000
_WRITTEN = ("reads", "writes", "write_bytes", "read_ms", "write_ms")


def requests(folder: Path, spans: Sequence[Span]) -> Requests:
    """Writes with flushes and discards, and latencies, by the device's own counters.

    From sample to sample within the spans, so that nothing counts that was written just before or after.
    """
    known = read_columns(folder, "device")
    clock = integers(known, "clock_ns") if known.get("clock_ns") else []
    within = _sampled(clock, spans)
    seconds, whole_s = (sum(each.end_ns - each.begin_ns for each in some) / 1e9 for some in (within, spans))
    found = moved(folder, "device", _WRITTEN, within) if within else None
    if found is None or seconds < max(_SECONDS_MIN, _SHARE_MIN * whole_s):
        return Requests()
    reads, writes, write_bytes, read_ms, write_ms = found
    others = moved(folder, "device", ("flushes", "discards"), within) or [0.0, 0.0]
    return Requests(
        writes_s=(writes + sum(others)) / seconds,
        write_mb_s=write_bytes / seconds / 1e6,
        read_ms=read_ms / reads if reads > 0 else None,
        write_ms=write_ms / writes if writes > 0 else None,
    )


def _sampled(clock: Sequence[int], spans: Sequence[Span]) -> list[Span]:
    """The spans from their first sample to their last one; those that adjoin are one."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda each: each.begin_ns):
        if joined and span.begin_ns - joined[-1].end_ns <= _BESIDE_NS:
            joined[-1] = replace(joined[-1], end_ns=max(joined[-1].end_ns, span.end_ns))
        else:
            joined.append(span)
    found = []
    for span in joined:
        first, last = bisect_left(clock, span.begin_ns), bisect_right(clock, span.end_ns) - 1
        if last > first:
            found.append(replace(span, begin_ns=clock[first], end_ns=clock[last]))
    return found


def moved(folder: Path, sampler: str, names: Sequence[str], spans: Sequence[Span]) -> list[float] | None:
    """How far cumulative counters of a sampler moved within the spans; None when it left no such file."""
    columns = read_columns(folder, sampler)
    if not columns or not columns.get("clock_ns") or not {*names} <= columns.keys():
        return None
    clock = floats(columns, "clock_ns")
    edges = np.array([[span.begin_ns, span.end_ns] for span in spans])
    found = [np.interp(edges, clock, floats(columns, name)) for name in names]
    return [float((values[:, 1] - values[:, 0]).sum()) for values in found]
