"""The catalogue of volumes: the keys of its TOML file.

Sizes are in GiB (2³⁰ bytes). A throughput is in the unit that its provider uses, which `throughput_unit`
names: MiB/s (2²⁰ bytes per second) or MB/s (10⁶). Of an entry, `assumed` names what no document says.
"""

import math
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pgassay.model.base import Frozen

Units = Literal["MiB/s", "MB/s"]
BYTES_OF: dict[Units, int] = {"MiB/s": 1024**2, "MB/s": 1000**2}

# Beyond all that is sold: a slip of the keyboard has its sentence here, and not where it is counted with.
Amount = Annotated[float, Field(ge=0, le=1e12)]
Positive = Annotated[float, Field(gt=0, le=1e12)]
Milliseconds = Annotated[float, Field(gt=0, le=1e6)]
SIZE_GIB_MAX = 2**30
Gib = Annotated[int, Field(gt=0, le=SIZE_GIB_MAX)]
Kib = Annotated[int, Field(gt=0, le=2**20)]
# Between commas, and before the first of them: `gp3,size=100GiB`.
_NAME = re.compile(r"[^\s,=\\](?:[^,=\\]*[^\s,=\\])?")
# Words that stand where a volume does.
RESERVED = ("fit", "mount", "unlimited")


class Source(Frozen):
    """Where figures were read, and when (a month or a day)."""

    title: str = Field(min_length=1)
    url: str = ""
    read: str = Field(pattern=r"^\d{4}-\d{2}(-\d{2})?$")


class Burst(Frozen):
    """What is given beyond the base while credits last.

    The peak is `peak` + `peak_per_gib` · size, at most `peak_maximum`; the bucket holds `credits` +
    `credits_per_gib` · size operations or MiB, or what lasts `seconds` at the peak when nothing flows in but
    the base. With `once_in_hours` it is whole again after that time and not before.
    """

    peak: Amount = 0
    peak_per_gib: Amount = 0
    peak_maximum: Positive | None = None
    credits: Amount = 0
    credits_per_gib: Amount = 0
    seconds: Positive | None = None
    once_in_hours: int | None = Field(default=None, gt=0, le=100_000)

    @model_validator(mode="after")
    def _one_size_of_bucket(self) -> Self:
        if (self.seconds is None) == (self.credits + self.credits_per_gib == 0):
            raise ValueError("give either seconds, or credits with or without credits_per_gib")
        if self.peak + self.peak_per_gib == 0:
            raise ValueError("give peak or peak_per_gib")
        return self

    def peak_of_size(self, size_gib: int) -> float:
        """What a volume of this size gives while credits last; its base may be more."""
        return min(self.peak + self.peak_per_gib * size_gib, self.peak_maximum or math.inf)


class Settable(Frozen):
    """What a user may order: up to `maximum`, `per_gib` · size and, of throughput, `per_operation` · IOPS.

    What is included may always be had. `required`: there is no default; `minimum`: no less is sold.
    """

    minimum: Positive | None = None
    maximum: Positive
    per_gib: Positive | None = None
    per_operation: Positive | None = None
    required: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.minimum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}")
        return self


class Rate(Frozen):
    """Operations or throughput: `base` + `per_gib` · size, no less than `minimum`, no more than `maximum`.

    `per_operation`: of a throughput, no more than so much for each operation per second that the volume has,
    but no less than `minimum`.
    `quantum_kib`: a request is counted in units of up to so many KiB; adjacent ones are merged into a unit
    where `merging` is set. A throughput without a quantum counts bytes.
    """

    base: Amount = 0
    per_gib: Amount = 0
    minimum: Positive | None = None
    maximum: Positive | None = None
    per_operation: Positive | None = None
    quantum_kib: Kib | None = None
    merging: bool = False
    burst: Burst | None = None
    settable: Settable | None = None

    @model_validator(mode="after")
    def _gives_something(self) -> Self:
        ordered = self.settable is not None and self.settable.required
        if self.base + self.per_gib == 0 and self.minimum is None and not ordered:
            raise ValueError("give base, per_gib or minimum")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}")
        return self

    def of_size(self, size_gib: int) -> float:
        """What a volume of this size gives without an order and without credits."""
        rate = max(self.base + self.per_gib * size_gib, self.minimum or 0)
        return min(rate, self.maximum or math.inf)


class Range(Frozen):
    """What holds for a range of sizes, both ends in it; `stripes` equal volumes are one to the user."""

    from_gib: Gib
    to_gib: Gib
    operations: Rate | None = None
    throughput: Rate | None = None
    stripes: int = Field(default=1, gt=0, le=64)
    stripe_kib: Kib = 256

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_gib > self.to_gib:
            raise ValueError(f"from_gib {self.from_gib} is above to_gib {self.to_gib}")
        if self.operations is None and self.throughput is None:
            raise ValueError("give operations, throughput or both")
        _check_quantum(self.operations)
        return self


def _check_quantum(operations: Rate | None) -> None:
    # Without it each byte would be an operation.
    if operations is not None and operations.quantum_kib is None:
        raise ValueError("operations need quantum_kib")


class LatencyEntry(Frozen):
    """The latency of a request that meets no limit: lognormal.

    `median_ms` lies between `low_ms` and `high_ms` as far as is known; `sigma` is the standard deviation of
    its logarithm. `stream_mb_s`: the bytes of one request are transferred at so many 10⁶ per second.
    `write_median_ms` and `flush_ms` differ from reads where they are given.
    """

    median_ms: Milliseconds
    low_ms: Milliseconds
    high_ms: Milliseconds
    sigma: float = Field(ge=0, le=3)
    stream_mb_s: float | None = Field(default=None, ge=0.001, le=1e9)
    write_median_ms: Milliseconds | None = None
    flush_ms: float = Field(default=0, ge=0, le=1e6)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low_ms <= self.median_ms <= self.high_ms:
            raise ValueError(f"median_ms {self.median_ms} is not between low_ms and high_ms")
        return self


class VolumeEntry(Frozen):
    """One type of volume. `instance`: it is a local disk of this one, whose other limits don't concern it."""

    provider: str = Field(min_length=1)
    title: str = Field(min_length=1)
    throughput_unit: Units = "MiB/s"
    ranges: tuple[Range, ...] = Field(min_length=1)
    latency: LatencyEntry
    instance: str | None = None
    sources: tuple[str, ...] = Field(min_length=1)
    assumed: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _ranges_follow_each_other(self) -> Self:
        for before, after in zip(self.ranges, self.ranges[1:], strict=False):
            if after.from_gib != before.to_gib + 1:
                raise ValueError(f"the range from {after.from_gib} GiB does not follow on {before.to_gib}")
        return self


class InstanceEntry(Frozen):
    """The limits that an instance sets to all its volumes together; `memory_gib` as it is sold."""

    provider: str = Field(min_length=1)
    memory_gib: Positive | None = None
    throughput_unit: Units = "MB/s"
    operations: Rate | None = None
    throughput: Rate | None = None
    sources: tuple[str, ...] = Field(min_length=1)
    assumed: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _operations_have_a_size(self) -> Self:
        _check_quantum(self.operations)
        return self


class Tier(Frozen):
    """A price per unit of what is ordered above `above`, up to where the next tier begins."""

    above: Amount
    price: Amount


class VolumePrice(Frozen):
    """A month's price of a volume: fixed, per GiB, and by tiers of IOPS and of throughput."""

    per_month: Amount = 0
    per_gib: Amount = 0
    operations: tuple[Tier, ...] = ()
    throughput: tuple[Tier, ...] = ()

    @model_validator(mode="after")
    def _tiers_rise(self) -> Self:
        for tiers in (self.operations, self.throughput):
            for before, after in pairwise(tiers):
                if after.above <= before.above:
                    raise ValueError(
                        f"the tier above {after.above:g} comes after that above {before.above:g}"
                    )
        return self


class PriceList(Frozen):
    """The prices of a provider in a region; instances by the hour."""

    provider: str = Field(min_length=1)
    region: str = Field(min_length=1)
    currency: str = Field(min_length=1)
    date: str = Field(pattern=r"^(before )?\d{4}(-\d{2}){0,2}$")
    sources: tuple[str, ...] = Field(min_length=1)
    assumed: tuple[str, ...] = ()
    volumes: dict[str, VolumePrice] = Field(default_factory=dict)
    instances_per_hour: dict[str, Positive] = Field(default_factory=dict)


class Catalogue(Frozen):
    """The whole file. `date`: when it was last compared with what the providers say.

    Names of volumes, instances and price lists are the keys of their tables.
    """

    date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    sources: dict[str, Source] = Field(default_factory=dict)
    volumes: dict[str, VolumeEntry] = Field(default_factory=dict)
    instances: dict[str, InstanceEntry] = Field(default_factory=dict)
    prices: dict[str, PriceList] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _sources_are_named(self) -> Self:
        for kind, table in (
            ("volumes", self.volumes),
            ("instances", self.instances),
            ("prices", self.prices),
        ):
            for name, entry in table.items():
                unknown = [source for source in entry.sources if source not in self.sources]
                if unknown:
                    raise ValueError(f"{kind}.{name}: there is no source '{unknown[0]}'")
        for name, volume in self.volumes.items():
            if volume.instance is not None and volume.instance not in self.instances:
                raise ValueError(f"volumes.{name}: there is no instance '{volume.instance}'")
        for name, prices in self.prices.items():
            _check_known(f"prices.{name}.volumes", "volume", prices.volumes, self.volumes)
            _check_known(
                f"prices.{name}.instances_per_hour", "instance", prices.instances_per_hour, self.instances
            )
        return self

    @model_validator(mode="after")
    def _names_can_be_typed(self) -> Self:
        for kind, names in (("volumes", self.volumes), ("instances", self.instances)):
            for name in names:
                if not _NAME.fullmatch(name):
                    raise ValueError(
                        f"{kind}.'{name}': a name has no comma, '=' or backslash, and no space at its ends"
                    )
        # Volumes may be typed in capitals or not.
        alike: dict[str, str] = {}
        for name in self.volumes:
            if name.lower() in RESERVED:
                raise ValueError(
                    f"volumes.{name}: '{name}' has another meaning in the name of a volume: rename it"
                )
            if (other := alike.setdefault(name.lower(), name)) != name:
                raise ValueError(f"volumes.{name}: it differs from volumes.{other} only in capital letters")
        return self


def _check_known(where: str, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"{where}: there is no {what} '{unknown[0]}'")
