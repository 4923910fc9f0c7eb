"""Volumes as lines for a person or one document for scripts; pure."""

from collections.abc import Sequence

from pgassay.model.volumes.offer import (
    Delivery,
    LimitOffer,
    Phase,
    Price,
    SimulatedLoad,
    VolumeOffer,
    VolumesResult,
    VolumeType,
)
from pgassay.report.page import json_text
from pgassay.report.text import aligned, ascii_only, clean, duration
from pgassay.words import figure

_MIB = 1024**2
_LABEL_WIDTH = 22
# Keys that are no part of what a volume is, so that the list names them once.
_NEARLY_ALL = ("flush_latency", "first_touch", "instance", "region")


def render(result: VolumesResult, *, unicode: bool = True) -> str:
    """The list, or each volume with its limits, what loads get, latency, price, assumptions and sources."""
    if result.volumes:
        lines = [line for offer in result.volumes for line in (*_offer_lines(offer, result), "")][:-1]
        if result.simulated:
            lines += ["", *_simulated_lines(result.simulated)]
    else:
        lines = _list_lines(result)
    text = "\n".join(lines) + "\n"
    return text if unicode else ascii_only(text)


def render_json(result: VolumesResult) -> str:
    """One JSON document with a newline at its end; schema in schemas/volumes.schema.json."""
    return json_text(result)


def _list_lines(result: VolumesResult) -> list[str]:
    rows = [["VOLUME, AS AN EXAMPLE", "SIZES, GiB", "IOPS", "MiB/S", "A MONTH", "ALSO", "WHAT IT IS"]]
    for kind in result.types:
        sizes = f"{kind.size_min_gib:,}"
        if kind.size_max_gib != kind.size_min_gib:
            sizes += f" to {kind.size_max_gib:,}"
        month = kind.price.per_month
        rows.append(
            [
                clean(kind.example),
                sizes,
                _from_to(kind.limits, "operations"),
                _from_to(kind.limits, "bytes"),
                "" if month is None else f"{month:,.2f} {clean(kind.price.currency or '')}",
                " ".join(key for key in kind.keys if key not in ("size", *_NEARLY_ALL)),
                clean(kind.title),
            ]
        )
    instances = ", ".join(clean(instance.name) for instance in result.instances)
    return [
        *_columns(rows),
        "",
        "IOPS, MiB/s and price are those of the example; of two figures the second is a burst's.",
        "Where no price stands, the catalogue has none.",
        *_others_words(result.types),
        f"Instances: {instances}.",
        _catalogue_line(result),
        "'pgassay volumes gp2,size=100GiB,instance=m6g.large' explains one.",
    ]


def _from_to(limits: Sequence[LimitOffer], unit: str) -> str:
    """The rate of the tightest limit of this unit, and its peak where it bursts; '' where none has it."""
    here = [limit for limit in limits if limit.unit == unit]
    if not here:
        return ""
    limit = min(here, key=lambda each: each.rate_per_s)
    rates = [limit.rate_per_s] if limit.peak_per_s is None else [limit.rate_per_s, limit.peak_per_s]
    return " - ".join(f"{rate:,}" if unit == "operations" else _mib(rate) for rate in rates)


def _others_words(types: Sequence[VolumeType]) -> list[str]:
    """Which keys nearly all have, and who lacks some."""
    lacking = {kind.name: [key for key in _NEARLY_ALL if key not in kind.keys] for kind in types}
    words = [f"All take {' '.join(_NEARLY_ALL)}"]
    words += [f"{clean(name)} without {' '.join(keys)}" for name, keys in lacking.items() if keys]
    return [f"{', '.join(words)}."]


def _offer_lines(offer: VolumeOffer, result: VolumesResult) -> list[str]:
    lines = [f"{clean(offer.model.name)}: {clean(offer.title)}", ""]
    heads = ["LIMIT", "ALWAYS", "IN A BURST", "LASTS", "REFILLED IN"]
    rows = [heads, *(_limit_row(limit) for limit in offer.limits)]
    bursts = any(limit.peak_per_s is not None for limit in offer.limits)
    lines += aligned(rows if bursts else [row[:2] for row in rows])
    lines.append("")
    for delivery in offer.deliveries:
        for number, words in enumerate(_phase_words(delivery)):
            lines.append(_labelled("" if number else delivery.load, words))
    latency = offer.latency
    known = "assumed" if latency.assumed else "from the sources"
    lines += [
        _labelled(
            "latency",
            f"{latency.median_ms:g} ms median (between {latency.low_ms:g} and {latency.high_ms:g}), "
            f"{figure(latency.p99_ms)} ms p99: {known}",
        ),
        *_wait_lines(offer),
        *_price_lines(offer.price),
    ]
    if offer.memory_gib is not None:
        lines.append(_labelled("memory", f"{offer.memory_gib:g} GiB ({clean(offer.spec.instance or '')})"))
    if offer.assumed:
        lines.append(_labelled("assumed", clean("; ".join(offer.assumed))))
    for number, source in enumerate(offer.sources):
        where = f", {clean(source.url)}" if source.url else ""
        lines.append(_labelled("" if number else "sources", f"{clean(source.title)} ({source.read}){where}"))
    lines.append(_labelled("catalogue", _catalogue_line(result)))
    return lines


def _wait_lines(offer: VolumeOffer) -> list[str]:
    """What a flush and the first touch of a chunk take longer, where they do."""
    lines = []
    if offer.latency.flush_ms > 0:
        lines.append(_labelled("flush", f"{offer.latency.flush_ms:g} ms median"))
    first = offer.model.first_touch
    if first is not None:
        chunk = f"{first.chunk_bytes // 1024} KiB"
        wait = f"{first.latency.median_ns / 1e6:g} ms median beyond that, once for each {chunk}"
        lines.append(_labelled("first touch", wait))
    return lines


def _labelled(label: str, words: str) -> str:
    return f"  {label:<{_LABEL_WIDTH}}{words}"


def _limit_row(limit: LimitOffer) -> list[str]:
    always = _rate(limit.rate_per_s, limit.unit)
    if limit.peak_per_s is None or limit.burst_s is None:
        return [limit.name, always, "", "", ""]
    refill = "" if limit.refill_s is None else duration(limit.refill_s)
    if limit.reset_period_s is not None:
        refill = f"whole every {duration(limit.reset_period_s)}"
    return [limit.name, always, _rate(limit.peak_per_s, limit.unit), duration(limit.burst_s), refill]


def _rate(per_s: float, unit: str) -> str:
    return f"{per_s:,.0f} a second" if unit == "operations" else f"{_mib(per_s)} MiB/s"


def _mib(bytes_per_s: float) -> str:
    amount = bytes_per_s / _MIB
    return f"{amount:,.0f}" if amount >= 1000 or amount == int(amount) else figure(amount, 4)


def _phase_words(delivery: Delivery) -> list[str]:
    words = []
    before_s = 0.0
    for phase in delivery.phases:
        rate = f"{phase.requests_per_s:,.0f} a second, {_mib(phase.bytes_per_s)} MiB/s"
        words.append(f"{rate}{_length(phase, before_s, is_only=len(delivery.phases) == 1)}")
        before_s = phase.until_s or before_s
    return words


def _length(phase: Phase, before_s: float, *, is_only: bool) -> str:
    limits = f" (limit: {' and '.join(phase.limited_by)})"
    if phase.until_s is None:
        return limits if is_only else f" from then on{limits}"
    length_s = phase.until_s - before_s
    return f" for {length_s:,.0f} s ({duration(length_s)}){limits}"


def _price_lines(price: Price) -> list[str]:
    bill = "; ".join(f"{clean(part.what)} = {part.amount:,.2f}" for part in price.parts)
    where = f"{clean(price.region or '')}, prices of {price.date}"
    if price.per_month is not None:
        total = f"{price.per_month:,.2f} {clean(price.currency or '')} a month"
        return [_labelled("price", f"{total} ({where}): {bill or 'in the price of its instance'}")]
    known = f"; without it {bill} ({where})" if bill else ""
    return [_labelled("price", f"the catalogue has no price of {clean(' and '.join(price.missing))}{known}")]


def _simulated_lines(simulated: Sequence[SimulatedLoad]) -> list[str]:
    rows = [["SIMULATED", "REQUESTS/S", "MiB/S", "P50", "P99", "BURST ENDED"]]
    rows += [
        [
            clean(load.volume),
            f"{load.requests_per_s:,.0f}",
            _mib(load.bytes_per_s),
            _milliseconds(load.p50_ms),
            _milliseconds(load.p99_ms),
            "" if load.ended_s is None else f"after {load.ended_s:,.1f} s",
        ]
        for load in simulated
    ]
    return aligned(rows)


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{figure(value)} ms"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with every column to the left: all are words."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _catalogue_line(result: VolumesResult) -> str:
    own = f", with {clean(', '.join(result.catalogue.files))}" if result.catalogue.files else ""
    return f"compared with the providers' documents on {result.catalogue.date}{own}"
