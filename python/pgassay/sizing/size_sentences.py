"""What was found, in sentences."""

import math
from collections.abc import Iterator, Mapping, Sequence

from pgassay.model.volumes.size import Dimension, Knee, SizedGroup, SizedVolume, StorageBound
from pgassay.sizing.server_volumes import CandidateVolume
from pgassay.words import amount as amount_of
from pgassay.words import (
    duration,
    figure,
    is_multiple,
    join,
    percent_rounded,
    plural,
    quantity,
    ratio,
    seconds,
)

# A prediction that is further off than this is a warning.
ERROR_MAX = 0.1
# Times that are nearer than this are equal.
EQUAL_MAX = 0.02
# With fewer looks an interval is wide, and its formula rough.
LOOKS_MIN = 100
_MIB = 1024**2
_UNITS: dict[Dimension, str] = {"operations": "IOPS", "throughput": "MiB/s", "latency": "ms"}


def sentences_of(group: SizedGroup, slow_down: float) -> Iterator[str]:
    """The recommendation, the knees, and how far the predictions were right."""
    head = f"{group.name}: " if group.name else ""
    volumes = {each.volume: each for each in group.volumes}
    allowed = f"at most {percent_rounded(slow_down)} slower than {group.against}"
    sure = [volumes[name] for name in group.recommended if volumes[name].within == "yes"]
    unsure = [volumes[name] for name in group.recommended if volumes[name].within != "yes"]
    if sure:
        yield f"{head}the cheapest volume that is {allowed}: {_offer(sure[0], group)}."
    elif unsure:
        yield f"{head}no volume with a price is {allowed} over the whole range of its assumed latency."
    else:
        yield f"{head}no volume with a price is {allowed}."
    if unsure:
        first = unsure[0]
        least, most = first.slow_down_low or 0.0, first.slow_down_high or 0.0
        # Where both have the same latency, a limit matters less the longer that is.
        end = "low" if least <= most else "high"
        what = "cheaper" if sure else "the cheapest that may be"
        yield (
            f"{head}{what}, if its latency is as {end} as it may be: {_offer(first, group)}; it would be "
            f"{_slower(least)} to {_slower(most)} at the ends of the range that is assumed."
        )
    yield from (f"{head}{line}" for line in _on_credits(group, slow_down, sure[0] if sure else None))
    enough = [
        f"{'latency below ' if knee.dimension == 'latency' else ''}{amount(knee)}"
        for knee in group.knees
        if knee.value is not None
    ]
    if enough:
        tolerance = percent_rounded(group.knees[0].tolerance)
        yield f"{head}beyond {join(enough)} nothing is gained (within {tolerance})."
    without = [knee.dimension for knee in group.knees if knee.value is None]
    if without:
        yield f"{head}improving {join(without)} helps up to the best available value."
    fair = [check for check in group.checks if check.is_fair]
    if fair:
        worst = max(fair, key=lambda check: abs(check.ratio - 1))
        yield (
            f"{head}predictions that were measured: {len(fair)}; the worst is {ratio(worst.ratio)} of what "
            f"was measured ({worst.storage})."
        )


def _on_credits(group: SizedGroup, slow_down: float, chosen: SizedVolume | None) -> Iterator[str]:
    """The cheapest that would do while its burst credits last, where it is cheaper than what was chosen."""
    most = group.against_s * (1 + slow_down)
    for each in group.volumes:
        if chosen is not None and (each.price_per_month or 0.0) >= (chosen.price_per_month or 0.0):
            return
        burst_s, lasting_s = each.burst_seconds_per_unit, each.credits_last_s
        if burst_s is None or lasting_s is None or each.price_per_month is None or burst_s > most:
            continue
        price = f"{each.price_per_month:,.2f} {each.currency} a month"
        what = "enough" if chosen is None else "cheaper, and enough"
        yield (
            f"{what} while its burst credits last: {each.volume}, {price}, {seconds(burst_s)} a "
            f"{group.unit} for {duration(lasting_s)} of this workload without a pause, and then "
            f"{seconds(each.seconds_per_unit)}."
        )
        return


def equivalents_of(groups: Sequence[SizedGroup], offers: Mapping[str, CandidateVolume]) -> Iterator[str]:
    """What the levels of other factors are worth in operations a second, each beside the first group's.

    What a volume has already is worth nothing: one that its throughput limits gets no faster by operations.
    """
    first = groups[0]
    volume = first.recommended[0] if first.recommended else first.against
    for other in groups[1:]:
        of_first, of_other = _time_on(volume, first), _time_on(volume, other)
        if of_first is None or of_other is None:
            continue
        if max(of_first / of_other, of_other / of_first) <= 1 + EQUAL_MAX:
            yield f"on {volume} {other.name} is as fast as {first.name}."
            continue
        slow, fast = (first, other) if of_first > of_other else (other, first)
        least_s, most_s = sorted((of_first, of_other))
        yield (
            f"on {volume} {fast.name} takes {seconds(least_s)} a {fast.unit} and {slow.name} "
            f"{seconds(most_s)}: {_worth(least_s, slow, offers.get(volume))}."
        )


def _time_on(volume: str, group: SizedGroup) -> float | None:
    return next((each.seconds_per_unit for each in group.volumes if each.volume == volume), None)


def _worth(wanted_s: float, group: SizedGroup, offer: CandidateVolume | None) -> str:
    """What a volume would have to give beyond what it has, so that a unit takes no longer."""
    operations, throughput = (_needed(wanted_s, group, each) for each in ("operations", "throughput"))
    if operations is None or throughput is None:
        return "no number of IOPS makes up for that"
    # A curve has no limit of the other dimension, and the volume has.
    lacks_operations = operations > _given(offer, "operations")
    lacks_throughput = throughput > _given(offer, "throughput")
    iops, rate = _amount(operations, "operations"), _amount(throughput, "throughput")
    if lacks_operations:
        return f"it would take {iops}{f' and {rate}' if lacks_throughput else ''} for that"
    return f"no number of IOPS makes up for that{f', but {rate} would' if lacks_throughput else ''}"


def _needed(wanted_s: float, group: SizedGroup, dimension: Dimension) -> float | None:
    """The least of a dimension with which a unit takes no longer, of what is on the curve."""
    for knee in group.knees:
        if knee.dimension == dimension:
            enough = [
                point.value for point in knee.curve if point.seconds_per_unit <= wanted_s * (1 + EQUAL_MAX)
            ]
            return min(enough, default=None)
    return None


def _given(offer: CandidateVolume | None, dimension: Dimension) -> float:
    """What a volume gives of a dimension for ever; 0 where nobody knows."""
    if offer is None:
        return 0.0
    unit, scale = ("operations", 1) if dimension == "operations" else ("bytes", _MIB)
    rates = [limit.rate_per_s / scale for limit in offer.data.limits if limit.unit == unit]
    return min(rates, default=math.inf)


def warnings_of(groups: Sequence[SizedGroup]) -> Iterator[str]:
    """What makes the predictions doubtful, and the comparison of prices."""
    for group in groups:
        yield from _of_predictions(group)
    yield from _of_prices(groups)


def _of_predictions(group: SizedGroup) -> Iterator[str]:
    head = f"{group.name}: " if group.name else ""
    for recording in group.recordings:
        if not recording.is_complete:
            yield f"{head}the trace of trial {recording.trial} ends early: what follows is not predicted."
        elif recording.lost > (recording.reads + recording.writes) / 1000:
            yield f"{head}the trace of trial {recording.trial} lacks {recording.lost:,} requests."
    if group.floor_s is None:
        yield (
            f"{head}requests were recorded on one volume alone: computation hidden behind its latency is "
            "not seen, so fast volumes may look faster than they are. Record on volume:unlimited and on "
            "volume:unlimited,latency=1ms."
        )
    for check in group.checks:
        if check.is_fair and abs(check.ratio - 1) > ERROR_MAX:
            yield (
                f"{head}on {check.storage} a {group.unit} was predicted to take "
                f"{seconds(check.predicted_s)} and took {seconds(check.measured_s)}: predictions of "
                "such volumes have that error."
            )
    if not any(check.is_fair for check in group.checks):
        yield f"{head}no prediction was measured: run the neighbours as a proof (--prove)."


def _of_prices(groups: Sequence[SizedGroup]) -> Iterator[str]:
    """That prices are in several currencies, whose rates of exchange nobody knows here."""
    priced = (each for group in groups for each in group.volumes if each.price_per_month is not None)
    currencies = sorted({str(each.currency) for each in priced})
    if len(currencies) > 1:
        yield (
            f"prices are in {join(currencies)}, and compared as if these were equal: name volumes of one "
            "currency only (--provider, --volume), or give the prices of the others in it (--catalogue)."
        )


def sentences_of_bound(bound: StorageBound) -> Iterator[str]:
    """How much there is to gain at most on a server elsewhere, and what that rests on."""
    head = f"{bound.name}: " if bound.name else ""
    low, high = bound.gain_interval
    if bound.gain_at_most is None:
        yield (
            f"{head}there is no upper bound on the gain from faster storage: all activity seen on "
            f"{bound.server} waited for storage, or for a session that did."
        )
    else:
        ends = f"at least {figure(low)}" if high is None else f"{figure(low)} to {figure(high)}"
        yield (
            f"{head}if storage took no time at all, a {bound.unit} of {seconds(bound.seconds_per_unit)} on "
            f"{bound.server} would be at most {figure(bound.gain_at_most)} × as fast (95 %: {ends})."
        )
    parts = [
        f"{percent_rounded(share)} {what}"
        for share, what in (
            (bound.reads_share, "for pages of tables and indexes"),
            (bound.wal_share, "for the WAL"),
            (bound.other_files_share, "for temporary and other files"),
            (bound.others_share, "for other sessions, which may have waited for storage"),
        )
        if share >= 0.0005
    ]
    if parts:
        yield f"{head}of their time connections waited {join(parts)}."


def warnings_of_bound(bound: StorageBound) -> Iterator[str]:
    """What makes a bound doubtful, or looser than it need be."""
    head = f"{bound.name}: " if bound.name else ""
    if bound.other_sessions > 0:
        yield (
            f"{head}{plural(bound.other_sessions, 'other session')} worked on {bound.server} meanwhile: "
            "their waits are in the bound, which may be too high."
        )
    if bound.timed_share is None:
        yield (
            f"{head}{bound.server} does not time its input and output: with track_io_timing=on (and "
            "track_wal_io_timing) its own timings would complement the samples."
        )
    elif bound.timed_share >= bound.share > 0:
        yield (f"{head}{bound.server} timed more I/O than the samples found: the bound uses its timing.")
    if bound.looks < LOOKS_MIN:
        yield (
            f"{head}connections were sampled only {bound.looks} times: measure longer, or with "
            "--observe fast."
        )


def amount(knee: Knee) -> str:
    """The knee with its unit; raises nothing where there is none."""
    return "" if knee.value is None else _amount(knee.value, knee.dimension)


def _amount(value: float, dimension: Dimension) -> str:
    """Three digits, as the steps of a curve have no more."""
    return f"{figure(value)} {_UNITS[dimension]}"


def _offer(volume: SizedVolume, group: SizedGroup) -> str:
    price = f"{volume.price_per_month:,.2f} {volume.currency} a month"
    million = quantity(volume.price_per_million, volume.currency or "")
    # A million runs of a list of statements are nobody's question.
    each = f", {million} for a million without a pause" if million and group.unit != "run" else ""
    return f"{volume.volume}, {price}, {seconds(volume.seconds_per_unit)} a {group.unit}{each}"


def _slower(share: float) -> str:
    """A slow-down, which is more time, in words; a negative one is a gain."""
    if abs(share) < 0.005:
        return "as fast"
    if share > -1 and is_multiple(1 / (1 + share)):
        return amount_of(1 / (1 + share))
    return f"{percent_rounded(abs(share))} {'slower' if share > 0 else 'faster'}"
