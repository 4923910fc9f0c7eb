"""The volumes under one server: that of the data, and that of the WAL where it has one of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from pgassay.cloud_volumes.explain import text_of
from pgassay.cloud_volumes.volume_limits import instance_of, without_instance
from pgassay.model.volumes.offer import (
    Distribution,
    Latency,
    LatencyOffer,
    Limiter,
    VolumeModel,
    VolumeOffer,
)
from pgassay.native.simulate import BesideSpec


@dataclass(frozen=True)
class Attached:
    """Their models; `wal` is None where the WAL lies with the data.

    `instance`: the limits that both share, which their own models have not; None where there are none.
    """

    data: VolumeModel
    wal: VolumeModel | None = None
    instance: VolumeModel | None = None

    @classmethod
    def of(cls, data: VolumeModel, wal: VolumeModel) -> Self:
        """Both on the instance whose limits both have; what one alone has of an instance stays its own."""
        shared = instance_of(data)
        if shared is None or instance_of(wal) is None:
            return cls(data, wal)
        return cls(without_instance(data), without_instance(wal), shared)

    @property
    def beside(self) -> BesideSpec | None:
        """What the native code is told of the volume of the WAL."""
        if self.wal is None:
            return None
        instance = None if self.instance is None else self.instance.model_dump(mode="json")
        return {"wal": self.wal.model_dump(mode="json"), "instance": instance}

    def with_data(self, data: VolumeModel) -> Self:
        """The same with another volume for the data, behind no instance."""
        return type(self)(data, self.wal)

    @property
    def credits(self) -> tuple[int, ...]:
        """Those at the beginning, in the order in which a replay tells what is left of them."""
        models = [each for each in (self.data, self.wal, self.instance) if each is not None]
        return tuple(
            limiter.fill
            for model in models
            for limiter in model.limiters
            if limiter.capacity > 0
            for _ in range(model.stripes.count if limiter.scope == "volume" else 1)
        )

    def bursting(self) -> Self:
        """The same with credits that never end."""
        return self._limited(
            # Without credits there is nothing that a period would make whole again.
            lambda each: {"rate": each.peak, "capacity": 0, "fill": 0, "reset_period_s": None}
        )

    def sustained(self) -> Self:
        """The same with all credits used up: what is given for ever."""
        return self._limited(lambda _: {"fill": 0})

    def _limited(self, change: Callable[[Limiter], Mapping[str, int | None]]) -> Self:
        def changed(model: VolumeModel | None) -> VolumeModel | None:
            if model is None:
                return None
            limiters = tuple(
                each.model_copy(update=change(each)) if each.capacity > 0 else each for each in model.limiters
            )
            return model.model_copy(update={"limiters": limiters})

        data = changed(self.data) or self.data
        return type(self)(data, changed(self.wal), changed(self.instance))

    def at_latency(self, data: float, wal: float = 1.0) -> Self:
        """The same where reads and writes take so many times as long."""
        return type(self)(
            _at_latency(self.data, data),
            None if self.wal is None else _at_latency(self.wal, wal),
            self.instance,
        )


@dataclass(frozen=True)
class CandidateVolume:
    """Volumes that may be bought together; `wal` is None where the WAL lies with the data.

    `wal_model`: that of the WAL's volume on the instance of the data's; or of one that nobody sells, whose
    `wal` is None.
    """

    data: VolumeOffer
    wal: VolumeOffer | None = None
    wal_model: VolumeModel | None = None

    @property
    def name(self) -> str:
        """As it is typed behind `--storage volume:`."""
        name = self.data.model.name
        return name if self.wal is None else f"{name},wal=volume:{self.wal.model.name}"

    @property
    def sustained_name(self) -> str:
        """The same as it is imitated: with no credits left, where a volume or its instance has any.

        Whose prices count is nothing that can be imitated.
        """
        texts = []
        for each in (self.data, self.wal):
            if each is not None:
                has_credits = any(limit.credits for limit in each.limits)
                credits = "empty" if has_credits else each.spec.credits
                texts.append(text_of(each.spec.model_copy(update={"credits": credits, "region": None})))
        return ",wal=volume:".join(texts)

    @property
    def title(self) -> str:
        """What the types are called."""
        return self.data.title if self.wal is None else f"{self.data.title}; WAL: {self.wal.title}"

    @property
    def price_per_month(self) -> float | None:
        """Of all volumes and the instance, which is paid for once; None where a part has no price.

        A volume of the WAL that nobody sells is no part.
        """
        prices = [each.price.per_month for each in (self.data, self.wal) if each is not None]
        known = [price for price in prices if price is not None]
        return round(sum(known), 2) if len(known) == len(prices) else None

    @property
    def wal_per_month(self) -> float | None:
        """The part of the price that is the WAL's volume; None without one."""
        return None if self.wal is None else self.wal.price.per_month

    @property
    def latencies(self) -> tuple[LatencyOffer | None, ...]:
        """Those of the data's and of the WAL's volume."""
        return self.data.latency, None if self.wal is None else self.wal.latency

    @property
    def latency_span(self) -> float:
        """By how many times a time may be longer or shorter where latency is at its ends; 1.5 at least."""
        offers = [each for each in self.latencies if each is not None]
        return max(
            1.5,
            *(max(each.median_ms / each.low_ms, each.high_ms / each.median_ms) for each in offers),
        )

    @property
    def latency_assumed(self) -> bool:
        """Whether no document says how soon one of them answers."""
        return any(each is not None and each.assumed for each in self.latencies)

    @property
    def attached(self) -> Attached:
        """Their models."""
        wal = self.wal_model
        if wal is None and self.wal is not None:
            wal = self.wal.model
        return Attached(self.data.model) if wal is None else Attached.of(self.data.model, wal)

    def at_ends(self) -> tuple[Attached, Attached]:
        """With the latencies at the lower and at the upper ends of their ranges."""
        offers = [each for each in self.latencies if each is not None]
        low = [each.low_ms / each.median_ms for each in offers]
        high = [each.high_ms / each.median_ms for each in offers]
        # A volume of the WAL that nobody sells has no range.
        return self.attached.at_latency(*low), self.attached.at_latency(*high)


def _at_latency(model: VolumeModel, factor: float) -> VolumeModel:
    def scaled(distribution: Distribution) -> Distribution:
        return distribution.model_copy(update={"median_ns": distribution.median_ns * factor})

    latency: Latency = model.latency
    return model.model_copy(
        update={
            "latency": latency.model_copy(
                update={"read": scaled(latency.read), "write": scaled(latency.write)},
            )
        }
    )
