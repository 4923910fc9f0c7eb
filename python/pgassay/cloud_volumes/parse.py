"""A volume as typed, `gp3,size=400GiB,iops=12000,instance=m6g.large`, checked against the catalogue."""

import math
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from pgassay.errors import UsageError
from pgassay.model.volumes.catalogue import Catalogue, InstanceEntry, Range, Rate, VolumeEntry
from pgassay.model.volumes.offer import VolumeSpec
from pgassay.value_syntax import option_lists, quantities

KEYS = ("size", "iops", "throughput", "credits", "flush_latency", "first_touch", "instance", "region")
GIB = 1024**3
Value = TypeVar("Value", int, float)
# A flush or a chunk that takes longer is no storage that a database is run on.
_WAIT_S_MIN, _WAIT_S_MAX = 1e-6, 60.0
_CREDITS = re.compile(r"full|empty|\d{1,3}(?:\.\d{1,6})?%|\d{1,18}")


def parse_volume(text: str, catalogue: Catalogue) -> VolumeSpec:
    """The volume that the text orders; raises UsageError naming the part that can't be had."""
    name, *parts = (part.strip() for part in option_lists.split(text))
    name = _known(name, catalogue.volumes, text)
    entry = catalogue.volumes[name]
    given = option_lists.pairs(parts, f"the volume '{text}'", KEYS)
    size_gib = _size(name, entry, given.get("size"), text)
    spec = VolumeSpec(
        name=name,
        size_gib=size_gib,
        iops=_number("iops", given.get("iops"), text, "operations a second, as iops=3000", int),
        throughput=_number(
            "throughput",
            given.get("throughput"),
            text,
            f"{entry.throughput_unit}, without the unit, as throughput=250",
            float,
        ),
        credits=given.get("credits", "full"),
        flush_latency_ms=_wait_ms("flush_latency", given.get("flush_latency"), text),
        first_touch_ms=_wait_ms("first_touch", given.get("first_touch"), text),
        instance=_instance(name, entry, given.get("instance"), catalogue),
        region=_region(entry, given.get("region"), catalogue),
    )
    if spec.first_touch_ms is not None and entry.instance is not None:
        raise UsageError(f"{name} is a local disk, which no snapshot is restored to: leave first_touch out.")
    _check_orders(spec, entry)
    if "credits" in given:
        # A local disk is not behind what the instance allows its remote volumes.
        is_behind = entry.instance is None and spec.instance is not None
        behind = catalogue.instances[str(spec.instance)] if is_behind else None
        _check_credits(spec, entry, behind)
    return spec


def range_of(entry: VolumeEntry, size_gib: int) -> Range:
    """What the entry says of this size, which it has."""
    return next(each for each in entry.ranges if each.from_gib <= size_gib <= each.to_gib)


def is_fixed(entry: VolumeEntry) -> bool:
    """Whether it has one size alone."""
    return entry.ranges[0].from_gib == entry.ranges[-1].to_gib


def operations_of(spec: VolumeSpec, entry: VolumeEntry) -> float | None:
    """The operations per second that it gives without credits; None where the type counts none."""
    rate = range_of(entry, spec.size_gib).operations
    if rate is None:
        return None
    return float(spec.iops) if spec.iops is not None else rate.of_size(spec.size_gib)


def plain(value: float) -> str:
    """A number for a sentence, without a decimal point that says nothing."""
    return str(int(value)) if float(value).is_integer() else f"{value:.6g}"


def _known(name: str, table: Iterable[str], text: str) -> str:
    names = {each.lower(): each for each in table}
    if name.lower() in names:
        return names[name.lower()]
    raise UsageError(
        f"There is no volume '{name}' in the catalogue (in '{text}'): "
        f"the volumes are {', '.join(names.values())}."
    )


def _size(name: str, entry: VolumeEntry, value: str | None, text: str) -> int:
    least, most = entry.ranges[0].from_gib, entry.ranges[-1].to_gib
    if value is None:
        if is_fixed(entry):
            return least
        raise UsageError(f"'{text}' has no size: type {name},size={max(least, min(100, most))}GiB.")
    size_bytes = quantities.size_bytes(value, f"'{text}': size", example="100GiB")
    size_gib, rest = divmod(size_bytes, GIB)
    if rest:
        raise UsageError(
            f"'size={value}' in '{text}' is not a whole number of GiB: type size={size_gib + 1}GiB."
        )
    if not least <= size_gib <= most:
        sizes = f"has {least} GiB" if is_fixed(entry) else f"has sizes from {least} to {most} GiB"
        raise UsageError(f"{name} {sizes}: 'size={value}' in '{text}' is not one of them.")
    return size_gib


def _number(key: str, value: str | None, text: str, what: str, kind: Callable[[str], Value]) -> Value | None:
    if value is None:
        return None
    try:
        number = kind(value)
    except ValueError:
        number = kind("0")
    if not (math.isfinite(number) and 0 < number < 1e9):
        raise UsageError(f"'{key}={value}' in '{text}' is not a number above 0: type {what}.")
    return number


def _wait_ms(key: str, value: str | None, text: str) -> float | None:
    if value is None:
        return None
    where = f"'{text}': {key}"
    return 1e3 * quantities.seconds(value, where, least=_WAIT_S_MIN, most=_WAIT_S_MAX, example="2ms or 500us")


def _check_orders(spec: VolumeSpec, entry: VolumeEntry) -> None:
    here = range_of(entry, spec.size_gib)
    if here.operations is not None:
        _check_iops(spec, here.operations)
    elif spec.iops is not None:
        raise UsageError(f"{spec.name} limits bytes only: leave iops out.")
    rate = here.throughput
    if spec.throughput is None:
        return
    unit = entry.throughput_unit
    if rate is None or rate.settable is None:
        raise UsageError(
            f"{spec.name} of {spec.size_gib} GiB has no throughput to order: leave throughput out."
        )
    included = rate.of_size(spec.size_gib)
    _check_bounds(spec.name, "throughput", unit, spec.throughput, included, rate.settable.maximum)
    if rate.settable.per_operation is not None:
        iops = operations_of(spec, entry) or 0
        allowed = max(included, rate.settable.per_operation * iops)
        if spec.throughput > allowed:
            raise UsageError(
                f"{spec.name} gives at most {plain(rate.settable.per_operation)} {unit} per IOPS: "
                f"{plain(iops)} IOPS allow {plain(allowed)}"
            )


def _check_iops(spec: VolumeSpec, rate: Rate) -> None:
    if spec.iops is None:
        if rate.settable is not None and rate.settable.required:
            raise UsageError(f"{spec.name} is ordered with its IOPS: type {spec.name},…,iops=3000.")
        return
    if rate.settable is None:
        raise UsageError(
            f"{spec.name} of {spec.size_gib} GiB has no IOPS to order, its size decides them: leave iops out."
        )
    least = rate.settable.minimum
    if least is not None and spec.iops < least:
        raise UsageError(
            f"{spec.name} is ordered with at least {plain(least)} IOPS: type iops={plain(least)} or more."
        )
    included = rate.of_size(spec.size_gib)
    if rate.settable.per_gib is not None:
        allowed = max(included, rate.settable.per_gib * spec.size_gib)
        if spec.iops > allowed and allowed < rate.settable.maximum:
            raise UsageError(
                f"{spec.name} gives at most {plain(rate.settable.per_gib)} IOPS per GiB: "
                f"{spec.size_gib}GiB allows {plain(allowed)}"
            )
    _check_bounds(spec.name, "iops", "IOPS", spec.iops, included, rate.settable.maximum)


def _check_bounds(name: str, key: str, unit: str, value: float, included: float, most: float) -> None:
    if value < included:
        raise UsageError(f"{name} includes {plain(included)} {unit}: leave {key} out, or order more of it.")
    if value > most:
        raise UsageError(f"{name} gives at most {plain(most)} {unit}: {plain(value)} is more.")


def _check_credits(spec: VolumeSpec, entry: VolumeEntry, instance: InstanceEntry | None) -> None:
    value = spec.credits
    if not _CREDITS.fullmatch(value) or (value.endswith("%") and float(value[:-1]) > 100):
        raise UsageError(f"'credits={value}' is not a fill: type full, empty, a share as 50%, or a number.")
    here = range_of(entry, spec.size_gib)
    of_type = [
        (rate, rate.burst)
        for rate in (here.operations, here.throughput)
        if rate is not None and rate.burst is not None
    ]
    # A large volume of a type that bursts gives its peak for ever.
    bursting = [
        rate for rate, burst in of_type if burst.peak_of_size(spec.size_gib) > rate.of_size(spec.size_gib)
    ]
    instance_bursts = instance is not None and any(
        rate is not None and rate.burst is not None for rate in (instance.operations, instance.throughput)
    )
    if not bursting and not instance_bursts:
        size = f" of {spec.size_gib} GiB" if of_type else ""
        raise UsageError(f"{spec.name}{size} has no burst credits: leave credits out.")
    if value.isdecimal() and len(bursting) != 1:
        raise UsageError(
            f"{spec.name} has {len(bursting)} buckets of credits: type credits=full, empty or 50%."
        )


def _instance(name: str, entry: VolumeEntry, value: str | None, catalogue: Catalogue) -> str | None:
    if value is None:
        return entry.instance
    if value not in catalogue.instances:
        known = ", ".join(catalogue.instances)
        raise UsageError(
            f"The catalogue doesn't know the instance '{value}': it has {known}; "
            "others can be added in a file of your own (--catalogue FILE)."
        )
    if entry.instance not in (None, value):
        raise UsageError(f"{name} is a disk of {entry.instance}, not of {value}: leave instance out.")
    provider = catalogue.instances[value].provider
    if provider != entry.provider:
        raise UsageError(f"{value} is an instance of {provider} and {name} a volume of {entry.provider}.")
    return value


def _region(entry: VolumeEntry, value: str | None, catalogue: Catalogue) -> str | None:
    if value is None:
        return None
    regions = [prices.region for prices in catalogue.prices.values() if prices.provider == entry.provider]
    if value not in regions:
        have = f"it has {', '.join(regions)}" if regions else "it has none of this provider"
        raise UsageError(f"The catalogue has no prices for '{value}': {have}.")
    return value
