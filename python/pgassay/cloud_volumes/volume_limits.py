"""The limits of a volume that was ordered: of the volume, of its stripes, of its instance; and its model."""

from dataclasses import dataclass

from pgassay.cloud_volumes.parse import operations_of, plain, range_of
from pgassay.errors import UsageError
from pgassay.model.volumes.catalogue import (
    BYTES_OF,
    Catalogue,
    InstanceEntry,
    LatencyEntry,
    Range,
    Rate,
    Units,
    VolumeEntry,
)
from pgassay.model.volumes.offer import (
    Distribution,
    FirstTouch,
    Latency,
    Limiter,
    Scope,
    Stripes,
    Unit,
    VolumeModel,
    VolumeSpec,
)

KIB = 1024
# Credits of throughput are counted in MiB where they are no seconds.
MIB = 1024**2
HOUR_S = 3600
# What the native code counts with at most (crates/volume/src/model.rs), in operations or bytes.
_RATE_MAX, _CAPACITY_MAX = 10**12, 10**18
# Snapshots of EBS are kept in blocks of this size ("Concepts for EBS direct APIs", block indexes).
SNAPSHOT_BLOCK_BYTES = 512 * KIB


@dataclass(frozen=True)
class Limit:
    """One limit in operations or bytes; of `volumes` equal volumes, what all of them give together."""

    name: str
    scope: Scope
    unit: Unit
    rate: float
    peak: float
    capacity: float
    fill: float
    quantum_bytes: int
    merging: bool
    reset_period_s: int | None
    volumes: int

    @property
    def bursts(self) -> bool:
        """Whether there is more than the rate while credits last."""
        return self.peak > self.rate


def limits_of(spec: VolumeSpec, catalogue: Catalogue) -> tuple[Limit, ...]:
    """The chain of limits; raises UsageError for more credits than its bucket holds."""
    entry = catalogue.volumes[spec.name]
    limits = _limits_of_volume(spec, entry)
    # A local disk is not behind what the instance allows its remote volumes.
    if spec.instance is not None and entry.instance is None:
        limits += _limits_of_instance(spec, catalogue.instances[spec.instance])
    return tuple(limits)


def model_of(spec: VolumeSpec, catalogue: Catalogue, name: str) -> VolumeModel:
    """The document for the native code; raises UsageError for more credits than a bucket holds."""
    entry = catalogue.volumes[spec.name]
    here = range_of(entry, spec.size_gib)
    return VolumeModel(
        name=name,
        stripes=Stripes(count=here.stripes, width_bytes=here.stripe_kib * KIB),
        limiters=tuple(_limiter(limit) for limit in limits_of(spec, catalogue)),
        latency=_latency(entry.latency, spec.flush_latency_ms or 0.0),
        first_touch=_first_touch(entry.latency, spec.first_touch_ms),
    )


def instance_of(model: VolumeModel) -> VolumeModel | None:
    """The limits of the instance in a model, as one that takes no time; None where it has none."""
    limiters = tuple(each for each in model.limiters if each.scope == "instance")
    at_once = Distribution(median_ns=0.0, sigma=0.0, bytes_per_second=None)
    return (
        VolumeModel(
            name="instance",
            stripes=Stripes(count=1, width_bytes=model.stripes.width_bytes),
            limiters=limiters,
            latency=Latency(read=at_once, write=at_once, flush=at_once),
        )
        if limiters
        else None
    )


def without_instance(model: VolumeModel) -> VolumeModel:
    """The same volume without the limits of its instance."""
    limiters = tuple(each for each in model.limiters if each.scope != "instance")
    return model.model_copy(update={"limiters": limiters})


def _limiter(limit: Limit) -> Limiter:
    def of_one(total: float) -> int:
        return round(total / limit.volumes)

    capacity = of_one(limit.capacity) if limit.bursts else 0
    return Limiter(
        name=limit.name,
        scope=limit.scope,
        unit=limit.unit,
        rate=max(1, of_one(limit.rate)),
        peak=max(1, of_one(limit.peak if capacity else limit.rate)),
        capacity=capacity,
        fill=min(of_one(limit.fill), capacity),
        quantum_bytes=limit.quantum_bytes,
        merging=limit.merging,
        reset_period_s=limit.reset_period_s if limit.bursts else None,
    )


def _first_touch(entry: LatencyEntry, first_touch_ms: float | None) -> FirstTouch | None:
    if first_touch_ms is None:
        return None
    # The wait itself, whose spread no provider tells: the volume's own is taken.
    wait = Distribution(median_ns=first_touch_ms * 1e6, sigma=entry.sigma, bytes_per_second=None)
    return FirstTouch(chunk_bytes=SNAPSHOT_BLOCK_BYTES, latency=wait)


def _latency(entry: LatencyEntry, flush_latency_ms: float) -> Latency:
    def distribution(median_ms: float, sigma: float) -> Distribution:
        stream = None if entry.stream_mb_s is None else round(entry.stream_mb_s * 1e6)
        return Distribution(median_ns=median_ms * 1e6, sigma=sigma, bytes_per_second=stream)

    return Latency(
        read=distribution(entry.median_ms, entry.sigma),
        write=distribution(entry.write_median_ms or entry.median_ms, entry.sigma),
        flush=distribution(entry.flush_ms + flush_latency_ms, entry.sigma),
    )


def _limits_of_volume(spec: VolumeSpec, entry: VolumeEntry) -> list[Limit]:
    here = range_of(entry, spec.size_gib)
    limits = []
    iops = operations_of(spec, entry)
    if here.operations is not None and iops is not None:
        limits.append(_limit("operations", "volume", here.operations, iops, spec, None, here))
    if here.throughput is not None:
        amount = spec.throughput if spec.throughput is not None else here.throughput.of_size(spec.size_gib)
        if here.throughput.per_operation is not None and iops is not None:
            amount = min(amount, max(here.throughput.per_operation * iops, here.throughput.minimum or 0))
        limits.append(
            _limit("throughput", "volume", here.throughput, amount, spec, entry.throughput_unit, here)
        )
    return limits


def _limits_of_instance(spec: VolumeSpec, entry: InstanceEntry) -> list[Limit]:
    limits = []
    for name, rate, unit in (
        ("instance operations", entry.operations, None),
        ("instance throughput", entry.throughput, entry.throughput_unit),
    ):
        if rate is not None:
            limits.append(_limit(name, "instance", rate, rate.of_size(0), spec, unit, None))
    return limits


def _limit(
    name: str,
    scope: Scope,
    rate: Rate,
    amount: float,
    spec: VolumeSpec,
    unit: Units | None,
    here: Range | None,
) -> Limit:
    """A limit whose base is `amount` in the unit of the catalogue; operations have no unit."""
    scale = 1 if unit is None else BYTES_OF[unit]
    base, peak, capacity = amount * scale, amount * scale, 0.0
    burst = rate.burst
    if burst is not None:
        peak = max(base, burst.peak_of_size(spec.size_gib) * scale)
        if burst.seconds is not None:
            capacity = (peak - base) * burst.seconds
        else:
            capacity = burst.credits + burst.credits_per_gib * spec.size_gib
            capacity *= 1 if unit is None else MIB
    if peak > _RATE_MAX or capacity > _CAPACITY_MAX:
        raise UsageError(
            f"{spec.name} of {spec.size_gib} GiB: its {name} would be more than anything that is sold gives: "
            "correct the catalogue's file."
        )
    hours = None if burst is None else burst.once_in_hours
    return Limit(
        name=name,
        scope=scope,
        unit="operations" if unit is None else "bytes",
        rate=base,
        peak=peak,
        capacity=capacity if peak > base else 0.0,
        fill=_fill(spec, scope, capacity) if peak > base else 0.0,
        quantum_bytes=(rate.quantum_kib or 0) * KIB or 1,
        merging=rate.merging,
        reset_period_s=None if hours is None else hours * HOUR_S,
        volumes=1 if here is None else here.stripes,
    )


def _fill(spec: VolumeSpec, scope: Scope, capacity: float) -> float:
    """The credits at the beginning; a number is the volume's own, and its instance has all of its."""
    if spec.credits == "full" or (spec.credits.isdecimal() and scope == "instance"):
        return capacity
    if spec.credits == "empty":
        return 0.0
    if spec.credits.endswith("%"):
        return capacity * float(spec.credits[:-1]) / 100
    fill = float(spec.credits)
    if fill > capacity:
        raise UsageError(f"{spec.name} holds {plain(capacity)} credits: credits={spec.credits} is more.")
    return fill
