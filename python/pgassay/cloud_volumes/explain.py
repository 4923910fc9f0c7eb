"""A volume explained: limits, what loads get, latency, price, and what of it is assumed."""

import math
from collections.abc import Sequence

from pgassay.cloud_volumes.catalogue import LoadedCatalogue
from pgassay.cloud_volumes.closed_forms import deliveries, offer_of
from pgassay.cloud_volumes.parse import is_fixed, parse_volume, plain, range_of
from pgassay.cloud_volumes.price import price_of
from pgassay.cloud_volumes.volume_limits import limits_of, model_of
from pgassay.errors import UsageError
from pgassay.model.volumes.catalogue import Catalogue, InstanceEntry, PriceList, VolumeEntry
from pgassay.model.volumes.offer import (
    CatalogueFacts,
    InstanceType,
    LatencyOffer,
    SourceOffer,
    VolumeOffer,
    VolumeSpec,
    VolumesResult,
    VolumeType,
)

# The normal quantile of 0.99.
_Z_99 = 2.3263478740408408
# What an example of a type orders.
_USUAL_GIB, _USUAL_IOPS = 500, 10_000


def list_types(loaded: LoadedCatalogue) -> VolumesResult:
    """What can be ordered, with an example of each that can be typed."""
    catalogue = loaded.catalogue
    return VolumesResult(
        catalogue=_facts(loaded),
        types=tuple(_type_of(name, catalogue) for name in catalogue.volumes),
        instances=tuple(
            InstanceType(name=name, provider=entry.provider, memory_gib=entry.memory_gib)
            for name, entry in catalogue.instances.items()
        ),
    )


def explain(texts: Sequence[str], loaded: LoadedCatalogue) -> VolumesResult:
    """The volumes that the texts order; raises UsageError for one that can't be had."""
    specs = [parse_volume(text, loaded.catalogue) for text in texts]
    return VolumesResult(
        catalogue=_facts(loaded),
        volumes=tuple(offer(spec, loaded.catalogue) for spec in specs),
    )


def text_of(spec: VolumeSpec) -> str:
    """The text that orders this volume."""
    parts = [spec.name, f"size={spec.size_gib}GiB"]
    if spec.iops is not None:
        parts.append(f"iops={spec.iops}")
    if spec.throughput is not None:
        parts.append(f"throughput={plain(spec.throughput)}")
    if spec.credits != "full":
        parts.append(f"credits={spec.credits}")
    for key, wait_ms in (("flush_latency", spec.flush_latency_ms), ("first_touch", spec.first_touch_ms)):
        parts += [] if wait_ms is None else [f"{key}={wait_ms:.9g}ms"]
    parts += [
        f"{key}={value}" for key, value in (("instance", spec.instance), ("region", spec.region)) if value
    ]
    return ",".join(parts)


def offer(spec: VolumeSpec, catalogue: Catalogue) -> VolumeOffer:
    """One volume; raises UsageError for more credits than its bucket holds."""
    entry = catalogue.volumes[spec.name]
    instance = None if spec.instance is None else catalogue.instances[spec.instance]
    price = price_of(spec, catalogue)
    lists = [
        prices
        for prices in catalogue.prices.values()
        if (prices.provider, prices.region) == (entry.provider, price.region)
    ]
    entries: list[VolumeEntry | InstanceEntry | PriceList] = [
        entry,
        *([instance] if instance else []),
        *(lists[:1] if price.parts else []),
    ]
    limits = limits_of(spec, catalogue)
    return VolumeOffer(
        spec=spec,
        title=entry.title,
        provider=entry.provider,
        memory_gib=None if instance is None else instance.memory_gib,
        limits=tuple(offer_of(limit) for limit in limits),
        deliveries=deliveries(limits),
        latency=LatencyOffer(
            median_ms=entry.latency.median_ms,
            low_ms=entry.latency.low_ms,
            high_ms=entry.latency.high_ms,
            p99_ms=entry.latency.median_ms * math.exp(entry.latency.sigma * _Z_99),
            sigma=entry.latency.sigma,
            flush_ms=entry.latency.flush_ms + (spec.flush_latency_ms or 0.0),
            assumed="latency" in entry.assumed,
        ),
        price=price,
        assumed=tuple(dict.fromkeys(word for each in entries for word in each.assumed)),
        sources=tuple(
            SourceOffer(title=source.title, url=source.url, read=source.read)
            for source in (
                catalogue.sources[name]
                for name in dict.fromkeys(name for each in entries for name in each.sources)
            )
        ),
        model=model_of(spec, catalogue, text_of(spec)),
    )


def _facts(loaded: LoadedCatalogue) -> CatalogueFacts:
    return CatalogueFacts(date=loaded.catalogue.date, files=loaded.files)


def _type_of(name: str, catalogue: Catalogue) -> VolumeType:
    entry = catalogue.volumes[name]
    rates = [(here.operations, here.throughput) for here in entry.ranges]
    settable = [
        key
        for key, position in (("iops", 0), ("throughput", 1))
        if any((rate := pair[position]) is not None and rate.settable is not None for pair in rates)
    ]
    bursts = any(rate is not None and rate.burst is not None for pair in rates for rate in pair)
    keys = [*([] if is_fixed(entry) else ["size"]), *settable, *(["credits"] if bursts else [])]
    keys += ["flush_latency"] if entry.instance else ["flush_latency", "first_touch"]
    keys += ["region"] if entry.instance else ["instance", "region"]
    first, last = entry.ranges[0], entry.ranges[-1]
    example, ordered = _example(name, catalogue)
    return VolumeType(
        name=name,
        provider=entry.provider,
        title=entry.title,
        size_min_gib=first.from_gib,
        size_max_gib=last.to_gib,
        keys=tuple(keys),
        example=example,
        limits=tuple(offer_of(limit) for limit in limits_of(ordered, catalogue)),
        price=price_of(ordered, catalogue),
    )


def _example(name: str, catalogue: Catalogue) -> tuple[str, VolumeSpec]:
    """A text that orders the type, of its largest size where the usual one is not sold with its operations.

    Raises UsageError for a type that can't be ordered so.
    """
    entry = catalogue.volumes[name]
    first, last = entry.ranges[0], entry.ranges[-1]
    usual_gib = max(first.from_gib, min(_USUAL_GIB, last.to_gib))
    text = _text_of_size(name, entry, usual_gib)
    try:
        return text, parse_volume(text, catalogue)
    except UsageError:
        text = _text_of_size(name, entry, last.to_gib)
        return text, parse_volume(text, catalogue)


def _text_of_size(name: str, entry: VolumeEntry, size_gib: int) -> str:
    """The volume of this size; where operations must be ordered with the usual ones, or what is sold."""
    text = name if is_fixed(entry) else f"{name},size={size_gib}GiB"
    rate = range_of(entry, size_gib).operations
    if rate is None or rate.settable is None or not rate.settable.required:
        return text
    sold, included = rate.settable, rate.of_size(size_gib)
    most = sold.maximum
    if sold.per_gib is not None:
        most = min(most, max(included, sold.per_gib * size_gib))
    return f"{text},iops={math.ceil(max(sold.minimum or 1, included, math.floor(min(_USUAL_IOPS, most))))}"
