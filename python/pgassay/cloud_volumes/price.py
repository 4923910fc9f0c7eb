"""What a volume and its instance cost in a month, from the catalogue's price lists."""

from collections.abc import Sequence
from itertools import pairwise

from pgassay.cloud_volumes.parse import operations_of, plain, range_of
from pgassay.model.volumes.catalogue import Catalogue, PriceList, Tier, VolumePrice
from pgassay.model.volumes.offer import Price, PricePart, VolumeSpec

# As providers count a month.
HOURS = 730


def price_of(spec: VolumeSpec, catalogue: Catalogue) -> Price:
    """The bill of a month; of several regions the one ordered, else the first of the catalogue."""
    entry = catalogue.volumes[spec.name]
    lists = [
        prices
        for prices in catalogue.prices.values()
        if prices.provider == entry.provider and spec.region in (None, prices.region)
    ]
    if not lists:
        return _sum([], [spec.name, *([spec.instance] if spec.instance else [])], None)
    prices = next((each for each in lists if spec.name in each.volumes), lists[0])
    parts: list[PricePart] = []
    missing: list[str] = []
    volume = prices.volumes.get(spec.name)
    if volume is None:
        missing.append(spec.name)
    else:
        parts += _of_volume(spec, catalogue, volume)
    if spec.instance is not None:
        per_hour = prices.instances_per_hour.get(spec.instance)
        if per_hour is None:
            missing.append(spec.instance)
        else:
            what = f"{spec.instance}, {HOURS} hours at {plain(per_hour)}"
            parts.append(PricePart(what=what, amount=per_hour * HOURS))
    return _sum(parts, missing, prices)


def _of_volume(spec: VolumeSpec, catalogue: Catalogue, price: VolumePrice) -> list[PricePart]:
    entry = catalogue.volumes[spec.name]
    parts = []
    if price.per_month:
        parts.append(PricePart(what=f"{spec.name}, {spec.size_gib} GiB", amount=price.per_month))
    if price.per_gib:
        what = f"{spec.size_gib} GiB at {plain(price.per_gib)}"
        parts.append(PricePart(what=what, amount=price.per_gib * spec.size_gib))
    here = range_of(entry, spec.size_gib)
    iops = operations_of(spec, entry) or 0.0
    throughput = spec.throughput
    if throughput is None and here.throughput is not None:
        throughput = here.throughput.of_size(spec.size_gib)
    for tiers, amount, unit in (
        (price.operations, iops, "IOPS"),
        (price.throughput, throughput or 0.0, entry.throughput_unit),
    ):
        parts += _by_tiers(tiers, amount, unit)
    return parts


def _by_tiers(tiers: Sequence[Tier], amount: float, unit: str) -> list[PricePart]:
    parts = []
    ends = [*(after.above for _, after in pairwise(tiers)), amount]
    for tier, end in zip(tiers, ends, strict=False):
        share = min(end, amount) - tier.above
        if share > 0:
            what = f"{plain(share)} {unit} above {plain(tier.above)} at {plain(tier.price)}"
            parts.append(PricePart(what=what.replace(" above 0 at", " at"), amount=share * tier.price))
    return parts


def _sum(parts: Sequence[PricePart], missing: Sequence[str], prices: PriceList | None) -> Price:
    return Price(
        per_month=None if missing else round(sum(part.amount for part in parts), 2),
        currency=None if prices is None else prices.currency,
        region=None if prices is None else prices.region,
        date=None if prices is None else prices.date,
        parts=tuple(part.model_copy(update={"amount": round(part.amount, 4)}) for part in parts),
        missing=tuple(missing),
    )
