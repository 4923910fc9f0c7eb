"""The device's rate changed within a trial although the same reads went on: a limit or a credit did.

Per second, the bytes that the device delivered; its change points (`analysis/statistics/change_points.py`)
count where the size of requests did not move along, the server waited for reads on both sides, and writes did
not take what the reads lost, so that it is not the work that changed.
"""

from collections.abc import Sequence
from itertools import pairwise

from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.accounts.wait_groups import READS
from pgassay.analysis.accounts.work_times import WORKING
from pgassay.analysis.causes.base import DEVICE, Answer, Missing, Rule, lifted
from pgassay.analysis.causes.evidence import MB, Evidence
from pgassay.analysis.causes.sampler_files import moved, read_columns
from pgassay.analysis.statistics.change_points import ChangePoint, change_points

_SECONDS_MIN = 12
_RATIO_MIN = 1.33
_SAME_SIZE = 1.25
_READING_MIN = 0.5
# Writes that grew by this share of what the reads fell by have taken their place at the device.
_TAKEN_MIN = 0.5
_S = 1_000_000_000
_READ_AND_WRITTEN = (
    (("read_bytes",), ("write_bytes",)),
    (("reads",), ("writes", "flushes", "discards")),
)


def _throttle(evidence: Evidence) -> Answer:
    if not evidence.server.spans:
        return None
    span = max(evidence.server.spans, key=lambda each: each.end_ns - each.begin_ns)
    seconds = int((span.end_ns - span.begin_ns) / _S)
    if seconds < _SECONDS_MIN:
        return None
    parts = [Span(span.begin_ns + at * _S, span.begin_ns + (at + 1) * _S, False) for at in range(seconds)]
    rates = [moved(evidence.server.folder, "device", ("read_bytes",), [part]) for part in parts]
    if any(rate is None for rate in rates):
        return Missing("the device's rate in each second")
    points = change_points([rate[0] / MB for rate in rates if rate is not None])
    edges = [0, *(point.index for point in points), seconds]
    for number, point in enumerate(points):
        if not 1 / _RATIO_MIN < point.ratio < _RATIO_MIN and _is_same_work(
            evidence,
            _between(span, edges[number], point.index),
            _between(span, point.index, edges[number + 2]),
            is_slower=point.ratio < 1,
        ):
            lost_s = _lost_s(evidence, points, edges)
            return lifted(evidence, lost_s, _figures(point), lifts=DEVICE)
    return None


def _lost_s(evidence: Evidence, points: Sequence[ChangePoint], edges: Sequence[int]) -> float:
    """By how much the slower parts would have been shorter, had their bytes come at the fastest one's rate.

    In the time of all who work, and no more than they waited for reads.
    """
    rates = [points[0].before, *(point.after for point in points)]
    parts = [last - first for first, last in pairwise(edges)]
    saved_s = sum(part * (1 - rate / max(rates)) for part, rate in zip(parts, rates, strict=True))
    times = evidence.times
    return min(times.read_s, times.total_s * saved_s / evidence.server.elapsed_s)


def _between(span: Span, first: int, last: int) -> Span:
    return Span(span.begin_ns + first * _S, span.begin_ns + last * _S, False)


def _figures(point: ChangePoint) -> dict[str, float | str]:
    return {"changed_at_s": float(point.index), "from_mb_s": point.before, "to_mb_s": point.after}


def _is_same_work(evidence: Evidence, before: Span, after: Span, is_slower: bool) -> bool:
    sizes = []
    for span in (before, after):
        counters = moved(evidence.server.folder, "device", ("read_bytes", "reads"), [span])
        if counters is None or counters[1] <= 0 or _reading_share(evidence, span) < _READING_MIN:
            return False
        sizes.append(counters[0] / counters[1])
    if _is_taken_by_writes(evidence, *((before, after) if is_slower else (after, before))):
        return False
    growth = sizes[1] / sizes[0]
    # Work that changes moves size and rate alike (from a scan to single pages). Requests that are held back
    # wait together and are merged (block/blk-merge.c): a lower rate with larger ones is the device's.
    return growth >= 1 / _SAME_SIZE if is_slower else growth <= _SAME_SIZE


def _is_taken_by_writes(evidence: Evidence, faster: Span, slower: Span) -> bool:
    """Whether more was written while fewer reads came, by bytes or by requests: a checkpoint, for one."""

    def per_second(names: Sequence[str], span: Span) -> float:
        counters = moved(evidence.server.folder, "device", names, [span]) or [0.0]
        return sum(counters) * _S / (span.end_ns - span.begin_ns)

    for read, written in _READ_AND_WRITTEN:
        fallen = per_second(read, faster) - per_second(read, slower)
        if per_second(written, slower) - per_second(written, faster) >= _TAKEN_MIN * fallen > 0:
            return True
    return False


def _reading_share(evidence: Evidence, span: Span) -> float:
    """The share of looks at working processes in the span that found them waiting for reads."""
    waits = read_columns(evidence.server.folder, "waits")
    total = reading = 0.0
    if not waits.get("clock_ns"):
        return 0.0
    names = ("from_ns", "clock_ns", "kind", "wait_event", "samples")
    for begin, end, kind, event, samples in zip(*(waits[name] for name in names), strict=True):
        if str(kind) in WORKING and span.begin_ns <= (begin + end) / 2 <= span.end_ns:
            total += samples
            reading += samples if str(event) in READS else 0.0
    return reading / total if total else 0.0


CHANGE = Rule(
    cause="throttle-change",
    kind="fault",
    layer="infrastructure",
    phrase="the device's rate changed during the run",
    remedy=(
        "Find what changed the device's rate (a burst credit, a quota, a neighbour), and measure each "
        "phase separately."
    ),
    next_step="Check the volume's burst credits and limits at that time.",
    find=_throttle,
)
