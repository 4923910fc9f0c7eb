"""Volumes that sustain, without credits, what another one gave while its credits lasted."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pgassay.cloud_volumes.explain import text_of
from pgassay.cloud_volumes.parse import is_fixed, parse_volume, range_of
from pgassay.cloud_volumes.price import price_of
from pgassay.cloud_volumes.volume_limits import KIB, limits_of
from pgassay.errors import UsageError
from pgassay.model.volumes.catalogue import BYTES_OF, Catalogue, Range, VolumeEntry
from pgassay.model.volumes.offer import VolumeSpec

# Storage of a managed service is no choice for a server of one's own, nor the reverse.
_SERVICES = ("rds-",)


@dataclass(frozen=True)
class SustainedVolume:
    """A volume that can be ordered, with its price a month where the catalogue knows it."""

    volume: str
    per_month: float | None
    currency: str | None


def sustained_volumes(
    spec: VolumeSpec, catalogue: Catalogue, operations_per_s: float, bytes_per_s: float
) -> tuple[SustainedVolume, ...]:
    """The same type where a larger size lasts, and the cheapest other type of the same provider.

    No instance is part of it: where one is the limit, no volume helps.
    """
    demand = operations_per_s, bytes_per_s
    same = _grown(spec, catalogue, demand)
    others = [
        each
        for name, entry in catalogue.volumes.items()
        if name != spec.name and _is_choice(spec, name, catalogue)
        for each in _of_type(name, entry, spec, catalogue, demand)
    ]
    priced = sorted((_priced(each, catalogue) for each in others), key=_by_price(spec, catalogue))
    return (*([_priced(same, catalogue)] if same is not None else []), *priced[:1])


def cheapest_sustained(
    spec: VolumeSpec, catalogue: Catalogue, operations_per_s: float, bytes_per_s: float
) -> VolumeSpec | None:
    """The cheapest volume of the same provider that gives so much for ever, without an instance.

    Of the same type if there is one, with more size, operations or throughput ordered; else of another.
    """
    demand = operations_per_s, bytes_per_s
    for is_same in (True, False):
        found = [
            each
            for name, entry in catalogue.volumes.items()
            if (name == spec.name) == is_same and _is_choice(spec, name, catalogue)
            for each in _of_type(name, entry, spec, catalogue, demand)
        ]
        if found:
            by_price = _by_price(spec, catalogue)
            return min(found, key=lambda each: by_price(_priced(each, catalogue)))
    return None


def _is_choice(spec: VolumeSpec, name: str, catalogue: Catalogue) -> bool:
    entry = catalogue.volumes[name]
    is_of_service = [any(each.startswith(prefix) for prefix in _SERVICES) for each in (spec.name, name)]
    same_provider = entry.provider == catalogue.volumes[spec.name].provider
    return same_provider and is_of_service[0] == is_of_service[1] and entry.instance is None


def _by_price(
    spec: VolumeSpec, catalogue: Catalogue
) -> Callable[[SustainedVolume], tuple[bool, bool, float]]:
    """The key of the cheapest: that in the currency of the volume first, as rates of exchange are unknown."""
    currency = price_of(spec, catalogue).currency

    def key(each: SustainedVolume) -> tuple[bool, bool, float]:
        return each.per_month is None, each.currency != currency, each.per_month or 0.0

    return key


def _priced(spec: VolumeSpec, catalogue: Catalogue) -> SustainedVolume:
    price = price_of(spec, catalogue)
    currency = None if price.per_month is None else price.currency
    return SustainedVolume(text_of(spec), price.per_month, currency)


def _lasts(spec: VolumeSpec, catalogue: Catalogue, demand: tuple[float, float]) -> bool:
    """Whether every limit of it lets that much through without credits."""
    operations, transferred = demand
    for limit in limits_of(spec, catalogue):
        # One operation transfers a whole unit at most, so that so many bytes need so many of them.
        counted = max(operations, transferred / limit.quantum_bytes)
        needed = counted if limit.unit == "operations" else transferred
        if limit.unit == "bytes" and limit.quantum_bytes > 1:
            # A type that counts bytes in large units charges each operation for a whole one.
            needed = max(transferred, operations * limit.quantum_bytes)
        if limit.rate < needed:
            return False
    return True


def _grown(spec: VolumeSpec, catalogue: Catalogue, demand: tuple[float, float]) -> VolumeSpec | None:
    """The smallest larger size of the same type; more gives no less, so that halving finds it."""
    entry = catalogue.volumes[spec.name]
    least, most = spec.size_gib, entry.ranges[-1].to_gib

    def of_size(size_gib: int) -> VolumeSpec:
        return spec.model_copy(update={"size_gib": size_gib, "credits": "full", "instance": None})

    if is_fixed(entry) or not _lasts(of_size(most), catalogue, demand):
        return None
    while least < most:
        middle = (least + most) // 2
        if _lasts(of_size(middle), catalogue, demand):
            most = middle
        else:
            least = middle + 1
    return of_size(most)


def _of_type(
    name: str, entry: VolumeEntry, spec: VolumeSpec, catalogue: Catalogue, demand: tuple[float, float]
) -> Iterator[VolumeSpec]:
    """This type with what must be ordered, at the size that is held or the next that gives enough."""
    last = entry.ranges[-1].to_gib
    least = max(spec.size_gib, entry.ranges[0].from_gib)
    sizes = {least}
    # A larger volume may include what a smaller one can't even be ordered with, or be ordered with more.
    sizes |= {each.from_gib for each in entry.ranges}
    for each in entry.ranges:
        settable = None if each.operations is None else each.operations.settable
        if settable is not None and settable.per_gib is not None:
            held = max(spec.size_gib, each.from_gib)
            sizes.add(math.ceil(_operations_needed(each, entry, held, demand) / settable.per_gib))
    for size_gib in sorted(size for size in sizes if least <= size <= last):
        here = range_of(entry, size_gib)
        words = [name, f"size={size_gib}GiB", *_orders(here, entry, size_gib, demand)]
        try:
            made = parse_volume(",".join(words), catalogue)
        except UsageError:
            continue
        grown = made if _lasts(made, catalogue, demand) else _grown(made, catalogue, demand)
        if grown is not None:
            yield grown


def _operations_needed(here: Range, entry: VolumeEntry, size_gib: int, demand: tuple[float, float]) -> float:
    """The operations a second to order for so many, and for so many bytes."""
    operations, throughput = here.operations, here.throughput
    needed, transferred = demand
    if operations is not None and operations.quantum_kib is not None:
        needed = max(needed, transferred / (operations.quantum_kib * KIB))
    if throughput is not None:
        wanted = math.ceil(transferred / BYTES_OF[entry.throughput_unit])
        # So much throughput can be had with so many operations alone.
        for each, included in (
            (throughput.per_operation, throughput.minimum or 0),
            (throughput.settable and throughput.settable.per_operation, throughput.of_size(size_gib)),
        ):
            if each and wanted > included:
                needed = max(needed, wanted / each)
    return needed


def _orders(here: Range, entry: VolumeEntry, size_gib: int, demand: tuple[float, float]) -> Iterator[str]:
    operations, throughput = here.operations, here.throughput
    if operations is not None and operations.settable is not None:
        needed = _operations_needed(here, entry, size_gib, demand)
        iops = math.ceil(max(needed, operations.settable.minimum or 0))
        if iops > operations.of_size(size_gib):
            yield f"iops={iops}"
    if throughput is not None and throughput.settable is not None:
        wanted = math.ceil(demand[1] / BYTES_OF[entry.throughput_unit])
        if wanted > throughput.of_size(size_gib):
            yield f"throughput={wanted}"
