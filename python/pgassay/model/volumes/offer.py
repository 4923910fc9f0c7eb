"""What a volume gives, for how long, at what price: what `pgassay volumes` prints.

Operations are counted as the provider counts them; bytes per second are bytes, whatever unit the provider's
documents use.
"""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen

VOLUMES_SCHEMA = 1
Scope = Literal["volume", "stripes", "instance"]
Unit = Literal["operations", "bytes"]


class Limiter(Frozen):
    """One limiter of the model (`Limiter` of crates/volume/src/model.rs, where the fields are explained)."""

    name: str
    scope: Scope
    unit: Unit
    rate: int
    peak: int
    capacity: int
    fill: int
    quantum_bytes: int
    merging: bool
    reset_period_s: int | None


class Stripes(Frozen):
    """Equal volumes side by side, with the bytes on one before the next one's turn."""

    count: int
    width_bytes: int


class Distribution(Frozen):
    """A lognormal latency, and the speed at which the bytes of one request are transferred."""

    median_ns: float
    sigma: float
    bytes_per_second: int | None


class Latency(Frozen):
    """By kind of request."""

    read: Distribution
    write: Distribution
    flush: Distribution


class FirstTouch(Frozen):
    """What the first request to each chunk of a volume takes longer, which was restored from a snapshot."""

    chunk_bytes: int
    latency: Distribution


class VolumeModel(Frozen):
    """What the native code simulates and imitates (`Model` of crates/volume/src/model.rs).

    Of a stripe set, limiters of the scope `volume` are those of one of its volumes. `first_touch`: None for a
    volume all of which is there.
    """

    name: str
    stripes: Stripes
    limiters: tuple[Limiter, ...]
    latency: Latency
    first_touch: FirstTouch | None = None


class VolumeSpec(Frozen):
    """A volume as it was ordered. `throughput` is in the provider's unit.

    `credits`: full, empty, a share as '50%', or a number of the volume's credits. `flush_latency_ms`: what a
    flush waits for beside the volume, such as a second zone. `first_touch_ms`: what the first request to each
    chunk takes longer, of a volume that was restored from a snapshot.
    """

    name: str
    size_gib: int
    iops: int | None = None
    throughput: float | None = None
    credits: str = "full"
    flush_latency_ms: float | None = None
    first_touch_ms: float | None = None
    instance: str | None = None
    region: str | None = None


class LimitOffer(Frozen):
    """One limit as it is sold: of a stripe set, of all its volumes together.

    `peak_per_s` and what follows are None where it can't burst. `burst_s`: how long the peak lasts on full
    credits; `refill_s`: how long an unused volume takes to fill empty ones. `reset_period_s`: they come back
    after this time and not before.
    """

    name: str
    scope: Scope
    unit: Unit
    rate_per_s: int
    peak_per_s: int | None
    credits: int | None
    burst_s: float | None
    refill_s: float | None
    reset_period_s: int | None


class Phase(Frozen):
    """A stretch of time in which a load gets a constant rate; `until_s` is None for ever.

    `limited_by`: the limits that bind in it.
    """

    until_s: float | None
    requests_per_s: float
    bytes_per_s: float
    limited_by: tuple[str, ...]


class Delivery(Frozen):
    """What a load without pauses gets from all limits together, by closed form, from the credits ordered."""

    load: str
    request_bytes: int
    sequential: bool
    phases: tuple[Phase, ...]


class PricePart(Frozen):
    """One line of a bill; `amount` in the price's currency, per month."""

    what: str
    amount: float


class Price(Frozen):
    """A month of 730 hours, of the volume and, where one was named, the instance.

    `per_month` is None where the catalogue has no price for a part; `missing` says of which.
    """

    per_month: float | None
    currency: str | None
    region: str | None
    date: str | None
    parts: tuple[PricePart, ...]
    missing: tuple[str, ...]


class LatencyOffer(Frozen):
    """The latency of a read that meets no limit; the median lies between `low_ms` and `high_ms`."""

    median_ms: float
    low_ms: float
    high_ms: float
    p99_ms: float
    sigma: float
    flush_ms: float
    assumed: bool


class SourceOffer(Frozen):
    """Where figures were read, and when."""

    title: str
    url: str
    read: str


class CatalogueFacts(Frozen):
    """Which catalogue it was: its date, and the files that add to it or correct it."""

    date: str
    files: tuple[str, ...]


class VolumeOffer(Frozen):
    """One volume explained. `assumed` names what no document of the provider says."""

    spec: VolumeSpec
    title: str
    provider: str
    memory_gib: float | None
    limits: tuple[LimitOffer, ...]
    deliveries: tuple[Delivery, ...]
    latency: LatencyOffer
    price: Price
    assumed: tuple[str, ...]
    sources: tuple[SourceOffer, ...]
    model: VolumeModel


class VolumeType(Frozen):
    """One line of the list: what can be ordered. `example` can be typed; `limits` and `price` are its own."""

    name: str
    provider: str
    title: str
    size_min_gib: int
    size_max_gib: int
    keys: tuple[str, ...]
    example: str
    limits: tuple[LimitOffer, ...]
    price: Price


class InstanceType(Frozen):
    """An instance whose limits the catalogue knows."""

    name: str
    provider: str
    memory_gib: float | None


class SimulatedLoad(Frozen):
    """What the simulator answers for one volume. `ended_s`: the second at which the first credits ended."""

    volume: str
    elapsed_s: float
    requests: int
    requests_per_s: float
    bytes_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    queued_ms: float
    ended_s: float | None


class VolumesResult(Frozen):
    """What `pgassay volumes --json` prints: the list, or the volumes that were named."""

    schema_: int = Field(default=VOLUMES_SCHEMA, alias="schema")
    catalogue: CatalogueFacts
    types: tuple[VolumeType, ...] = ()
    instances: tuple[InstanceType, ...] = ()
    volumes: tuple[VolumeOffer, ...] = ()
    simulated: tuple[SimulatedLoad, ...] = ()
