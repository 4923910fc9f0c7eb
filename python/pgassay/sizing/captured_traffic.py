"""How long captured traffic takes on a volume: between two recordings by latency, and as limits let through.

Sessions of a replay wait for each other, so what one waits for is another's request, and no trace of requests
tells which. Without limits the time grows with the latency of requests, along the straight line through a
recording without latency and one with; and no volume lets through more than its limits do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgassay.errors import UsageError
from pgassay.model.volumes.offer import Distribution, Limiter, VolumeModel
from pgassay.native.simulate import RecordedFacts, Simulated
from pgassay.sizing.recordings import MeasuredRecording
from pgassay.sizing.server_volumes import Attached

HOW_TO_RECORD = (
    "a replay is sized by two recordings without limits, of which one has a latency: 'pgassay size "
    "--workload replay:DIR,speed=max' makes them, as does storage=volume:unlimited,trace=yes,"
    "volume:unlimited,latency=1ms,trace=yes"
)
_WAL_APART = "a replay is sized with its WAL on the volume of the data: leave --wal out"


@dataclass(frozen=True)
class TrafficTime:
    """The seconds of a statement; when the first credits end, None where they outlast the traffic.

    `credits_last_s`: how long they last if the traffic goes on as it is; None where none are used up.
    """

    seconds_per_unit: float
    credits_ended_s: float | None
    credits_last_s: float | None


class CapturedTraffic:
    """The line through two recordings; raises UsageError where there are not two of the kind."""

    def __init__(self, found: Sequence[tuple[MeasuredRecording, RecordedFacts]]) -> None:
        ordered = sorted(found, key=lambda each: each[0].seconds_per_unit)
        (self._fast, _), (self._slow, facts) = ordered[0], ordered[-1]
        models = [VolumeModel.model_validate(each.model) for each, _ in (ordered[0], ordered[-1])]
        if any(each.wal_model is not None for each, _ in found):
            raise UsageError(_WAL_APART)
        self._reads, self._log_writes, self._flushes = facts["reads"], facts["log_writes"], facts["flushes"]
        requests = max(1, facts["reads"] + facts["writes"])
        self._request_bytes = facts["bytes"] / requests
        self._fast_s, self._slow_s = (self._waited_s(model) for model in models)
        if any(model.limiters for model in models) or self._slow_s <= self._fast_s:
            raise UsageError(HOW_TO_RECORD)

    def time(self, volume: Attached, answer: Simulated) -> TrafficTime:
        """What a statement takes; `answer` says how many operations and bytes the volume counts."""
        if volume.wal is not None:
            raise UsageError(_WAL_APART)
        model = volume.data
        if model.first_touch is not None:
            raise UsageError(
                f"{model.name}: what a restored volume's first touch takes is not known of a replay: leave "
                "first_touch out"
            )
        share = max(0.0, (self._waited_s(model) - self._fast_s) / (self._slow_s - self._fast_s))
        fast_s, slow_s = self._fast.seconds_per_unit, self._slow.seconds_per_unit
        units, limits = self._slow.units, [LimitUse.of(each, model, answer) for each in model.limiters]
        unhindered_s = max([units * (fast_s + share * (slow_s - fast_s)), *(each.peak_s for each in limits)])
        lasting = [each.credits_last_s(unhindered_s) for each in limits]
        last_s = min((each for each in lasting if each is not None), default=None)
        return TrafficTime(
            max([unhindered_s, *(each.base_s for each in limits)]) / units,
            last_s if last_s is not None and last_s < unhindered_s else None,
            last_s,
        )

    def _waited_s(self, model: VolumeModel) -> float:
        """What the requests that are waited for take on it, one after the other and without its limits."""
        kinds = ((self._reads, model.latency.read), (self._log_writes, model.latency.write))
        flushed_s = self._flushes * _mean_s(model.latency.flush, 0.0)
        return flushed_s + sum(count * _mean_s(each, self._request_bytes) for count, each in kinds)


def _mean_s(latency: Distribution, request_bytes: float) -> float:
    """The mean of a lognormal latency, with the transfer of so many bytes."""
    if latency.median_ns == 0:
        return 0.0
    moved_s = request_bytes / latency.bytes_per_second if latency.bytes_per_second else 0.0
    return latency.median_ns / 1e9 * math.exp(latency.sigma**2 / 2) + moved_s


@dataclass(frozen=True)
class LimitUse:
    """What is asked of a limiter of the model, of all stripes together, and what it gives a second."""

    asked: float
    rate: float
    peak: float
    fill: float

    @classmethod
    def of(cls, limiter: Limiter, model: VolumeModel, answer: Simulated) -> "LimitUse":
        """Of a volume's replay, which counts operations as the volume does."""
        asked = answer["operations"] if limiter.unit == "operations" else answer["bytes"]
        count = model.stripes.count if limiter.scope == "volume" else 1
        return cls(asked, count * max(1, limiter.rate), count * max(1, limiter.peak), count * limiter.fill)

    @property
    def peak_s(self) -> float:
        """In which time it lets all through while its credits last."""
        return self.asked / self.peak

    @property
    def base_s(self) -> float:
        """In which time it lets all through with the credits that it has."""
        return max(0.0, self.asked - self.fill) / self.rate

    def credits_last_s(self, whole_s: float) -> float | None:
        """How long its credits last if so much is asked for in so many seconds, again and again."""
        used_per_s = self.asked / whole_s - self.rate
        return self.fill / used_per_s if self.fill and used_per_s > 0 else None
