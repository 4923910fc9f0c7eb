"""What an imitated volume gave before its burst credits ended and after, from its series."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.causes.sampler_files import read_columns
from pgassay.analysis.changes.volume_series import counters, ended_s
from pgassay.model.storage import ImitatedFacts, LastingFacts, VolumeFacts
from pgassay.model.trial import TrialRecord
from pgassay.record.observations import Columns, floats

_S = 1e9
# Less than this before the end is no rate: then it is what the volume gives in a burst.
_BEFORE_S_MIN = 1.0
# As near as this to its limit it is full, as a device to its ceiling.
_FULL = 0.85


@dataclass(frozen=True)
class BurstEnd:
    """The end of a volume's burst credits within a trial's measured part.

    at_s: in seconds of it, 0 where they ended before it. unit: 'operations' or 'bytes', what those credits
    are. before, after: of that unit a second, of all requests. after_s: how long the measured part went on.
    sustained: what its limit gives without credits. is_known_before: whether `before` was seen for long
    enough; else it is what the limit gives in a burst, which this work may not reach.
    """

    volume: str
    at_s: float
    unit: str
    before: float
    after: float
    after_s: float
    sustained: float
    would_last: tuple[LastingFacts, ...] = ()
    is_known_before: bool = True

    @property
    def is_full(self) -> bool:
        """Whether it gave all that it gives without credits: then who waited at all waited for it."""
        return self.after >= _FULL * self.sustained > 0

    @property
    def lost_s(self) -> float:
        """By how much the rest would have been shorter, had as much come at the rate before."""
        return max(0.0, self.after_s * (1 - self.after / self.before)) if self.before > 0 else 0.0


def burst_ends(folder: Path, record: TrialRecord, spans: Sequence[Span]) -> tuple[BurstEnd, ...]:
    """Of the volume of the data and that of the WAL, those whose credits ended within the spans."""
    facts, storage = record.facts, record.facts.storage
    known = [("volume", facts.volume, storage.volume)]
    if storage.wal is not None:
        known.append(("wal_volume", facts.wal_volume, storage.wal.volume))
    found = (
        _of(read_columns(folder, file), given, imitated, record, spans)
        for file, given, imitated in known
        if given.credits_ended_s is not None
    )
    return tuple(each for each in found if each is not None)


def _of(
    columns: Columns, given: VolumeFacts, imitated: ImitatedFacts, record: TrialRecord, spans: Sequence[Span]
) -> BurstEnd | None:
    ended = ended_s(columns, given, record)
    grown = counters(columns)
    if ended is None or not grown or record.clock_ns is None:
        return None
    at_ns = int(record.clock_ns[0] + ended * _S)
    before = [Span(each.begin_ns, min(each.end_ns, at_ns), False) for each in spans if each.begin_ns < at_ns]
    after = [Span(max(each.begin_ns, at_ns), each.end_ns, False) for each in spans if each.end_ns > at_ns]
    limiter = _limiter(imitated, given.credits_ended_of)
    unit, before_s, after_s = str(limiter.get("unit", "")), _length_s(before), _length_s(after)
    if not unit or after_s <= 0:
        return None
    is_known = before_s >= _BEFORE_S_MIN
    return BurstEnd(
        volume=imitated.name or "",
        at_s=max(0.0, ended),
        unit=unit,
        before=_done(grown, unit, before) / before_s if is_known else _of_all(imitated, limiter, "peak"),
        after=_done(grown, unit, after) / after_s,
        after_s=after_s,
        sustained=_of_all(imitated, limiter, "rate"),
        would_last=given.would_last,
        is_known_before=is_known,
    )


def _length_s(spans: Sequence[Span]) -> float:
    return sum(each.end_ns - each.begin_ns for each in spans) / _S


def _done(grown: Columns, unit: str, spans: Sequence[Span]) -> float:
    names = ("operations",) if unit == "operations" else ("bytes_read", "bytes_written")
    clock = floats(grown, "clock_ns")
    edges = np.array([[each.begin_ns, each.end_ns] for each in spans], np.float64)
    found = (np.interp(edges, clock, floats(grown, name)) for name in names)
    return sum(float((values[:, 1] - values[:, 0]).sum()) for values in found)


def _limiter(imitated: ImitatedFacts, name: str | None) -> dict[str, object]:
    """The limiter of this name of the model; {} where the record does not have it."""
    limiters = imitated.model.get("limiters")
    for each in limiters if isinstance(limiters, list) else []:
        if isinstance(each, dict) and each.get("name") == name:
            return each
    return {}


def _of_all(imitated: ImitatedFacts, limiter: dict[str, object], field: str) -> float:
    """The limiter's `rate` or `peak`, of all volumes of a stripe set."""
    stripes = imitated.model.get("stripes")
    count = stripes.get("count", 1) if isinstance(stripes, dict) and limiter.get("scope") == "volume" else 1
    return float(str(limiter.get(field, 0))) * float(count)
