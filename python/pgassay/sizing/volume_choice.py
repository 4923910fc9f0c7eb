"""Each volume judged, what to buy of them, and what proves that."""

from collections.abc import Iterable, Sequence

from pgassay.cloud_volumes.price import HOURS
from pgassay.model.volumes.size import SizedVolume, Within
from pgassay.sizing.predict import Predicted
from pgassay.sizing.server_volumes import CandidateVolume
from pgassay.sizing.size_sentences import EQUAL_MAX

RECOMMENDED_MAX = 5
_MILLION = 1e6


def judged(
    offer: CandidateVolume,
    predicted: dict[str, Predicted],
    ends: dict[str, tuple[float, float]],
    reference: tuple[float, float, float],
    allowed: float,
    front: frozenset[str],
) -> SizedVolume:
    """A volume with its price, its times, and whether it is within `allowed` of the reference."""
    name = offer.name
    found = predicted[name]
    low_s, high_s = ends.get(name, (None, None))
    against_s, against_low_s, against_high_s = reference
    slow_low = None if low_s is None else low_s / against_low_s - 1
    slow_high = None if high_s is None else high_s / against_high_s - 1
    slow_down = found.seconds_per_unit / against_s - 1
    price = offer.price_per_month
    per_month = HOURS * 3600 / found.seconds_per_unit
    return SizedVolume(
        volume=name,
        title=offer.title,
        provider=offer.data.provider,
        price_per_month=price,
        wal_per_month=offer.wal_per_month,
        currency=offer.data.price.currency,
        seconds_per_unit=found.seconds_per_unit,
        low_s=low_s,
        high_s=high_s,
        slow_down=slow_down,
        slow_down_low=slow_low,
        slow_down_high=slow_high,
        within=_within(slow_down, slow_low, slow_high, allowed),
        price_per_million=None if price is None else price / per_month * _MILLION,
        credits_ended_s=found.credits_ended_s,
        is_on_front=name in front,
        is_recommended=False,
        latency_assumed=offer.latency_assumed,
        unserved_share=found.unserved_share,
    )


def _within(slow_down: float, low: float | None, high: float | None, allowed: float) -> Within:
    """Whether it holds wherever in its range the latency lies."""
    ends = [end for end in (low, slow_down, high) if end is not None]
    if max(ends) <= allowed:
        return "yes"
    return "no" if min(ends) > allowed else "depends on latency"


def reference_of(
    offer: CandidateVolume, against: CandidateVolume, against_s: float, ends: dict[str, tuple[float, float]]
) -> tuple[float, float, float]:
    """What an offer is compared with: the other's time, and that at both ends of the range of latency.

    Of a type with the same latency the ends are compared with each other: whatever it is, both have it.
    """
    if offer.latencies != against.latencies:
        return against_s, against_s, against_s
    return against_s, *ends[against.name]


def burst_of(volume: SizedVolume, burst: Predicted | None) -> dict[str, float | None]:
    """What is told of its credits, where they make a difference."""
    # None that are there from the beginning make no difference either.
    if burst is None or not burst.credits_last_s:
        return {}
    if volume.seconds_per_unit <= burst.seconds_per_unit * (1 + EQUAL_MAX):
        return {}
    return {
        "burst_seconds_per_unit": burst.seconds_per_unit,
        "credits_last_s": burst.credits_last_s,
    }


def recommended_of(volumes: Sequence[SizedVolume]) -> tuple[str, ...]:
    """Those within what is allowed, cheapest first, and cheaper ones that are if their latency is good.

    Of a provider none that is dearer than another one of these and not faster. `volumes`: cheapest first.
    """
    priced = [each for each in volumes if each.price_per_month is not None]
    within = [each for each in priced if each.within == "yes"]
    perhaps = [
        each
        for each in priced
        if each.within == "depends on latency"
        and (not within or (each.price_per_month or 0.0) < (within[0].price_per_month or 0.0))
    ]
    return tuple(each.volume for group in (within, perhaps) for each in _worth_it(group)[:RECOMMENDED_MAX])


def _worth_it(volumes: Iterable[SizedVolume]) -> list[SizedVolume]:
    kept: list[SizedVolume] = []
    for each in volumes:
        as_fast_s = each.seconds_per_unit * (1 + EQUAL_MAX)
        if not any(other.provider == each.provider and other.seconds_per_unit <= as_fast_s for other in kept):
            kept.append(each)
    return kept


def neighbours_of(volumes: Sequence[SizedVolume], recommended: Sequence[str]) -> tuple[str, ...]:
    """What proves a recommendation: it, the next cheaper one that is too slow, and the next faster one."""
    if not recommended:
        return ()
    index = next(place for place, each in enumerate(volumes) if each.volume == recommended[0])
    chosen = volumes[index]
    slower = [
        each
        for each in volumes[:index]
        if each.is_on_front and each.seconds_per_unit > chosen.seconds_per_unit
    ]
    faster = [
        each
        for each in volumes[index + 1 :]
        if each.is_on_front and each.seconds_per_unit < chosen.seconds_per_unit
    ]
    return tuple(each.volume for each in (*slower[-1:], chosen, *faster[:1]))
