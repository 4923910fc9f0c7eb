"""Volumes: the list of the catalogue, or what each of some gives, for how long, at what price."""

from collections.abc import Iterator, Sequence
from functools import partial

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
from pgassay.report.page import Page
from pgassay.report.section import QUIET, Cell, Column, Group, Paragraph, Row, Section, Table, plain_table
from pgassay.words import duration, figure

_MIB = 1024**2
# Keys that are no part of what a volume is, so that the list names them once.
_NEARLY_ALL = ("flush_latency", "first_touch", "instance", "region")
_TYPE = ("volume, as an example", "sizes, GiB", "IOPS", "MiB/s", "a month", "also", "description")
_LIMIT = ("limit", "always", "in a burst", "lasts", "refilled in")
_LOAD = ("simulated", "requests/s", "MiB/s", "p50", "p99", "burst ended")
Labelled = tuple[str, str]


def page_of(result: VolumesResult) -> Page:
    """The list, or each volume with its limits, what loads get, latency, price, assumptions and sources."""
    return Page("Volumes", result, partial(_sections, result), is_wrapped=False)


def _sections(result: VolumesResult) -> list[Section]:
    if not result.volumes:
        return [_types(result)]
    sections = [_offer(offer, result) for offer in result.volumes]
    if result.simulated:
        sections.append(Section("Simulated", "simulated", (_loads(result.simulated),)))
    return sections


def _types(result: VolumesResult) -> Section:
    rows = [_type_cells(kind) for kind in result.types]
    words = ("volume, as an example", "also", "description")
    columns = tuple(Column(head, is_figure=head not in words) for head in _TYPE)
    table = Table(columns, (Group(tuple(Row(tuple(map(Cell, row))) for row in rows)),))
    instances = ", ".join(instance.name for instance in result.instances)
    notes = (
        "IOPS, MiB/s and price are those of the example; if there are two figures, the second is for a "
        "burst. No price means that the catalogue has none.",
        _others_words(result.types),
        f"Instances: {instances}.",
        _catalogue_line(result),
        "'pgassay volumes gp2,size=100GiB,instance=m6g.large' explains one.",
    )
    return Section("", "types", (table, *(Paragraph(note, QUIET) for note in notes)))


def _type_cells(kind: VolumeType) -> tuple[str, ...]:
    sizes = f"{kind.size_min_gib:,}"
    if kind.size_max_gib != kind.size_min_gib:
        sizes += f" to {kind.size_max_gib:,}"
    month = kind.price.per_month
    return (
        kind.example,
        sizes,
        _from_to(kind.limits, "operations"),
        _from_to(kind.limits, "bytes"),
        "" if month is None else f"{month:,.2f} {kind.price.currency or ''}",
        " ".join(key for key in kind.keys if key not in ("size", *_NEARLY_ALL)),
        kind.title,
    )


def _from_to(limits: Sequence[LimitOffer], unit: str) -> str:
    """The rate of the tightest limit of this unit, and its peak where it bursts; '' where none has it."""
    here = [limit for limit in limits if limit.unit == unit]
    if not here:
        return ""
    limit = min(here, key=lambda each: each.rate_per_s)
    rates = [limit.rate_per_s] if limit.peak_per_s is None else [limit.rate_per_s, limit.peak_per_s]
    return " - ".join(f"{rate:,}" if unit == "operations" else _mib(rate) for rate in rates)


def _others_words(types: Sequence[VolumeType]) -> str:
    """Which keys nearly all have, and who lacks some."""
    lacking = {kind.name: [key for key in _NEARLY_ALL if key not in kind.keys] for kind in types}
    words = [f"All take {' '.join(_NEARLY_ALL)}"]
    words += [f"{name} without {' '.join(keys)}" for name, keys in lacking.items() if keys]
    return f"{', '.join(words)}."


def _offer(offer: VolumeOffer, result: VolumesResult) -> Section:
    bursts = any(limit.peak_per_s is not None for limit in offer.limits)
    shown = len(_LIMIT) if bursts else 2
    limits = plain_table(_LIMIT[:shown], [_limit_cells(limit)[:shown] for limit in offer.limits])
    facts = plain_table(("", ""), list(_facts(offer, result)), names=2)
    title = f"{offer.model.name}: {offer.title}"
    return Section(title, offer.model.name.replace(" ", "-"), (limits, facts))


def _facts(offer: VolumeOffer, result: VolumesResult) -> Iterator[Labelled]:
    """What else there is to say of a volume, each with its label; further lines of one have none."""
    for delivery in offer.deliveries:
        yield from _labelled(delivery.load, _phase_words(delivery))
    latency = offer.latency
    known = "assumed" if latency.assumed else "from the sources"
    yield (
        "latency",
        f"{figure(latency.median_ms, 6)} ms median (between {figure(latency.low_ms, 6)} and "
        f"{figure(latency.high_ms, 6)}), {figure(latency.p99_ms)} ms p99: {known}",
    )
    if offer.latency.flush_ms > 0:
        yield "flush", f"{figure(offer.latency.flush_ms, 6)} ms median"
    first = offer.model.first_touch
    if first is not None:
        chunk = f"{first.chunk_bytes // 1024} KiB"
        wait = f"{figure(first.latency.median_ns / 1e6, 6)} ms median beyond that, once for each {chunk}"
        yield "first touch", wait
    yield "price", _price_words(offer.price)
    if offer.memory_gib is not None:
        yield "memory", f"{figure(offer.memory_gib, 6)} GiB ({offer.spec.instance or ''})"
    if offer.assumed:
        yield "assumed", "; ".join(offer.assumed)
    sources = [
        f"{source.title} ({source.read}){f', {source.url}' if source.url else ''}" for source in offer.sources
    ]
    yield from _labelled("sources", sources)
    yield "catalogue", _catalogue_line(result)


def _labelled(label: str, lines: Sequence[str]) -> Iterator[Labelled]:
    for number, line in enumerate(lines):
        yield "" if number else label, line


def _limit_cells(limit: LimitOffer) -> tuple[str, ...]:
    always = _rate(limit.rate_per_s, limit.unit)
    if limit.peak_per_s is None or limit.burst_s is None:
        return limit.name, always, "", "", ""
    refill = "" if limit.refill_s is None else duration(limit.refill_s)
    if limit.reset_period_s is not None:
        refill = f"full again every {duration(limit.reset_period_s)}"
    return limit.name, always, _rate(limit.peak_per_s, limit.unit), duration(limit.burst_s), refill


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


def _price_words(price: Price) -> str:
    bill = "; ".join(f"{part.what} = {part.amount:,.2f}" for part in price.parts)
    where = f"{price.region or ''}, prices as of {price.date}"
    if price.per_month is not None:
        total = f"{price.per_month:,.2f} {price.currency or ''} a month"
        return f"{total} ({where}): {bill or 'in the price of its instance'}"
    known = f"; without it {bill} ({where})" if bill else ""
    return f"the catalogue has no price for {' and '.join(price.missing)}{known}"


def _loads(simulated: Sequence[SimulatedLoad]) -> Table:
    rows = [
        (
            load.volume,
            f"{load.requests_per_s:,.0f}",
            _mib(load.bytes_per_s),
            _milliseconds(load.p50_ms),
            _milliseconds(load.p99_ms),
            "" if load.ended_s is None else f"after {load.ended_s:,.1f} s",
        )
        for load in simulated
    ]
    return plain_table(_LOAD, rows)


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{figure(value)} ms"


def _catalogue_line(result: VolumesResult) -> str:
    own = f", with {', '.join(result.catalogue.files)}" if result.catalogue.files else ""
    return f"compared with the providers' documents on {result.catalogue.date}{own}"
