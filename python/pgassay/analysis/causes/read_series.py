"""What rates of reads say of storage that nobody can look at: a ceiling, or the time that each read takes.

By Little's law (Operations Research 9, 1961) the reads in flight are the rate times the time of a read.
Where each read takes as long as ever, twice as many in flight bring twice the rate; at a ceiling they bring
nothing. So intervals with few reads in flight are set beside intervals with many. A steady rate alone says
nothing: one client that waits 8 ms for each read gives 120 a second all day long.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

# Fewer intervals than this tell nothing.
INTERVALS_MIN = 10
# What is in flight must differ by half between the third of intervals with least and that with most.
RATIO_MIN = 1.5
# One read at a time has no ceiling but its own time.
IN_FLIGHT_MIN = 2.0
# A flat rate varies by no more than this, as a coefficient of variation ...
VARIATION_MAX = 0.2
# ... and grows by no more than this power of the reads in flight, at 95 % confidence (1: as they do).
GROWTH_MAX = 1 / 3
# From this power on, at 95 % confidence, each read takes about as long however many there are.
GROWTH_OF_LATENCY_MIN = 1 / 2
# Up to this many in flight no more was asked of the storage than one read after another.
SHALLOW_MAX = 1.5
_CONFIDENCE = 0.95
# A storage that gives this little at a time is limited by requests, one that gives more by bytes, where reads
# of one size alone were seen, so that both rates were flat.
_SMALL_REQUEST_BYTES = 32768
_STEPS_MAX = 60

Rates = NDArray[np.float64]
CeilingName = Literal["read_mb_s", "read_iops"]


@dataclass(frozen=True)
class ReadInterval:
    """A part of the time: what was read in it, and how many reads were in flight.

    seconds: its length. requests: None where the server counts blocks alone (before 18). in_flight: reads
    that processes waited for, a mean by each of two disjoint halves of the looks. at_work: connections and
    parallel workers within a statement, likewise; None where the reads in flight are counted by the server
    itself (pg_aios). What the system reads ahead of a process hides behind its work, so that waiting alone
    can vary without any change in what the storage is asked for.
    """

    seconds: float
    read_bytes: float
    requests: float | None
    in_flight: tuple[float, float]
    at_work: tuple[float, float] | None = None


@dataclass(frozen=True)
class Growth:
    """How a rate grew with the reads in flight.

    in_flight_low, in_flight_high: the means of the lower and the upper third of the intervals. rate: that of
    the upper third, in units per second; variation: the coefficient of variation of all. power_low,
    power_high: 95 % limits (each one-sided) of the power of the reads in flight by which it grew.
    """

    intervals: int
    in_flight_low: float
    in_flight_high: float
    rate: float
    variation: float
    power_low: float
    power_high: float

    @property
    def is_flat(self) -> bool:
        """Whether the rate stayed where it was although much more was asked for."""
        return self.variation <= VARIATION_MAX and self.power_high <= GROWTH_MAX

    @property
    def is_of_latency(self) -> bool:
        """Whether it grew as what was asked for did."""
        return self.power_low >= GROWTH_OF_LATENCY_MIN


@dataclass(frozen=True)
class ReadCeiling:
    """A rate that stayed flat: the most that storage gives, in 10⁶ bytes or in requests per second.

    request_bytes: the mean size of a read, None where requests are not counted.
    """

    name: CeilingName
    rate: float
    request_bytes: float | None
    growth: Growth


def growth(intervals: Sequence[ReadInterval], rates: Rates) -> Growth | None:
    """How these rates (one for each interval, > 0) grew with the reads in flight.

    None with fewer than INTERVALS_MIN of them, or where what was in flight varied by less than half. One half
    of the looks sorts the intervals and the other half is read off, and the other way round: so what chance
    puts into a look does not count as a variation of its own.
    """
    if len(intervals) < INTERVALS_MIN:
        return None
    in_flight = np.array([each.in_flight for each in intervals], dtype=np.float64)
    at_work = [each.at_work for each in intervals if each.at_work is not None]
    if _ratio(in_flight) < RATIO_MIN:
        return None
    if len(at_work) == len(intervals) and _ratio(np.array(at_work, dtype=np.float64)) < RATIO_MIN:
        return None
    thirds = [_thirds(in_flight[:, half]) for half in (0, 1)]
    low, high = (
        float(np.mean([in_flight[each[which], 1 - half].mean() for half, each in enumerate(thirds)]))
        for which in (0, 1)
    )
    power = _power(np.log(rates), np.log(in_flight))
    return power and Growth(
        intervals=len(intervals),
        in_flight_low=low,
        in_flight_high=high,
        rate=float(np.mean([rates[upper].mean() for _, upper in thirds])),
        variation=float(rates.std(ddof=1) / rates.mean()),
        power_low=power[0],
        power_high=power[1],
    )


def _thirds(values: Rates) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The intervals with the smallest and with the largest values."""
    order = np.argsort(values, kind="stable")
    third = len(values) // 3
    return order[:third], order[-third:]


def _ratio(halves: Rates) -> float:
    """How many times as large the upper third is, as the half shows it that did not sort; array (n, 2)."""
    logs = []
    for half in (0, 1):
        lower, upper = _thirds(halves[:, half])
        low, high = halves[lower, 1 - half].mean(), halves[upper, 1 - half].mean()
        if low <= 0 or high <= 0:
            return 0.0
        logs.append(math.log(high / low))
    return math.exp(sum(logs) / 2)


def _power(rates: Rates, halves: Rates) -> tuple[float, float] | None:
    """Between which powers of the reads in flight a rate grew, from logarithms of shapes (n,) and (n, 2).

    The slope of a line, with the error of what is in flight taken out: the two halves of the looks share
    nothing but what was really in flight, so that their covariance is its variance (regression with an
    instrument; Reiersøl, "Confluence analysis by means of instrumental sets of variables", 1945). None where
    they don't vary together.
    """
    count = len(rates)
    centred = halves - halves.mean(axis=0)
    shared = float((centred[:, 0] * centred[:, 1]).mean())
    if shared <= 0:
        return None
    asked, grown = centred.mean(axis=1), rates - rates.mean()
    slope = float((grown * asked).mean()) / shared
    spread = math.sqrt(float(((grown - slope * asked) ** 2).sum()) / (count - 2))
    error = spread * math.sqrt(float((asked**2).sum())) / (count * shared)
    reach = float(stdtrit(count - 2, _CONFIDENCE)) * error
    return slope - reach, slope + reach


def read_ceiling(intervals: Sequence[ReadInterval]) -> ReadCeiling | None:
    """The ceiling that the intervals show, by bytes or by requests; None where they show none.

    Intervals in which the storage was not asked for as much as it can give are no part of a flat rate: those
    with the fewest reads in flight are left out, one by one or in _STEPS_MAX equal steps, as long as
    INTERVALS_MIN remain.
    """
    kept = [each for each in intervals if each.read_bytes > 0 and min(each.in_flight) > 0]
    kept.sort(key=lambda each: -sum(each.in_flight))
    for count in range(len(kept), INTERVALS_MIN - 1, -max(1, len(kept) // _STEPS_MAX)):
        found = _ceiling_of(kept[:count])
        if found is not None:
            return found
    return None


def growth_of_bytes(intervals: Sequence[ReadInterval]) -> Growth | None:
    """How the bytes per second grew with the reads in flight, in those intervals that count any."""
    kept = [each for each in intervals if each.read_bytes > 0 and min(each.in_flight) > 0]
    return growth(kept, np.array([each.read_bytes / each.seconds for each in kept], dtype=np.float64))


def _ceiling_of(intervals: Sequence[ReadInterval]) -> ReadCeiling | None:
    by_bytes = _flat(intervals, lambda each: each.read_bytes / each.seconds / 1e6)
    if any(each.requests is None or each.requests <= 0 for each in intervals):
        return None if by_bytes is None else ReadCeiling("read_mb_s", by_bytes.rate, None, by_bytes)
    by_requests = _flat(intervals, lambda each: (each.requests or 0.0) / each.seconds)
    size = sum(each.read_bytes for each in intervals) / sum(each.requests or 0.0 for each in intervals)
    if by_bytes is not None and (by_requests is None or size >= _SMALL_REQUEST_BYTES):
        return ReadCeiling("read_mb_s", by_bytes.rate, size, by_bytes)
    return None if by_requests is None else ReadCeiling("read_iops", by_requests.rate, size, by_requests)


def _flat(intervals: Sequence[ReadInterval], rate: Callable[[ReadInterval], float]) -> Growth | None:
    found = growth(intervals, np.array([rate(each) for each in intervals], dtype=np.float64))
    is_ceiling = found is not None and found.is_flat and found.in_flight_high >= IN_FLIGHT_MIN
    return found if is_ceiling else None
