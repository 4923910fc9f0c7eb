"""A load that is simulated on volumes, as typed: `depth=32,size=8kB,order=random,duration=60s,writes=30%`."""

import os
from collections.abc import Sequence

from pgassay.errors import UsageError
from pgassay.model.volumes.offer import SimulatedLoad, VolumeOffer
from pgassay.native.simulate import PatternSpec, Simulated, simulate
from pgassay.value_syntax import option_lists, quantities

KEYS = ("depth", "size", "order", "duration", "writes", "flush")
ORDERS = ("random", "sequential")
_DEPTH_MAX = 65_536
_REQUEST_MAX = 1024**3
_FLUSH_MAX = 1_000_000
_DURATION_S_MIN, _DURATION_S_MAX = 0.001, 86_400.0


def parse_pattern(text: str) -> PatternSpec:
    """The load that a text describes; what it leaves out is one request of 8 kB at a time, for a minute.

    Raises UsageError naming the part that is wrong.
    """
    pattern: PatternSpec = {"depth": 1, "request_bytes": 8192, "order": "random", "duration_s": 60.0}
    for key, value in option_lists.pairs(option_lists.split(text), "a load", KEYS).items():
        if key == "depth":
            pattern["depth"] = quantities.whole(value, key, least=1, most=_DEPTH_MAX)
        elif key == "size":
            request_bytes = quantities.size_bytes(value, key, default_unit="B", example="8kB")
            if not 1 <= request_bytes <= _REQUEST_MAX:
                raise UsageError(f"size: '{value}' is out of range: write a size from 1B to 1GB")
            pattern["request_bytes"] = request_bytes
        elif key == "order":
            if value not in ORDERS:
                raise UsageError(f"order: '{value}' is not known: write {' or '.join(ORDERS)}")
            pattern["order"] = value
        elif key == "duration":
            pattern["duration_s"] = quantities.seconds(
                value, key, least=_DURATION_S_MIN, most=_DURATION_S_MAX, example="60s"
            )
        elif key == "writes":
            pattern["write_share"] = _share(key, value)
        else:
            pattern["flush_after"] = quantities.whole(value, key, most=_FLUSH_MAX)
    return pattern


def simulate_load(offers: Sequence[VolumeOffer], pattern: PatternSpec) -> tuple[SimulatedLoad, ...]:
    """What each volume gives the load, by the native simulator.

    Raises UsageError where there is no native binary, MeasurementError where it failed.
    """
    models = [offer.model.model_dump(mode="json") for offer in offers]
    # Alike for all: volumes of different sizes then meet the same load.
    span_bytes = min(offer.spec.size_gib for offer in offers) * 1024**3
    span_bytes = max(span_bytes, pattern["request_bytes"])
    answers = simulate(models, pattern={**pattern, "span_bytes": span_bytes}, threads=os.cpu_count() or 1)
    return tuple(_told(answer) for answer in answers)


def _told(answer: Simulated) -> SimulatedLoad:
    latency = answer["latency_ms"]
    ended = [credits["ended_s"] for credits in answer["credits"] if credits["ended_s"] is not None]
    return SimulatedLoad(
        volume=answer["model"],
        elapsed_s=answer["elapsed_s"],
        requests=answer["requests"],
        requests_per_s=answer["requests_per_s"],
        bytes_per_s=answer["bytes_per_s"],
        p50_ms=None if latency is None else latency["p50"],
        p99_ms=None if latency is None else latency["p99"],
        queued_ms=answer["queued_ms"],
        ended_s=min(ended, default=None),
    )


def _share(key: str, value: str) -> float:
    share = quantities.fraction(value, key)
    if not 0 <= share <= 1:
        raise UsageError(f"{key}: '{value}' is out of range: write a share from 0% to 100%")
    return share
