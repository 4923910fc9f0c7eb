"""A load that is simulated on volumes, as typed: `depth=32,size=8kB,order=random,duration=60s,writes=30%`."""

import os
import re
from collections.abc import Sequence

from pgassay.environment.storage.options import parse_bytes, split_options
from pgassay.errors import UsageError
from pgassay.model.volumes.offer import SimulatedLoad, VolumeOffer
from pgassay.native.simulate import PatternSpec, Simulated, simulate

KEYS = ("depth", "size", "order", "duration", "writes", "flush")
ORDERS = ("random", "sequential")
_DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,6})?)(s|m|min|h)?")
_SECONDS = {"s": 1, None: 1, "m": 60, "min": 60, "h": 3600}
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%")
_DEPTH_MAX = 65_536
_REQUEST_MAX = 1024**3
_FLUSH_MAX = 1_000_000
_DURATION_MAX_S = 86_400.0


def parse_pattern(text: str) -> PatternSpec:
    """The load that a text describes; what it leaves out is one request of 8 kB at a time, for a minute.

    Raises UsageError naming the part that is wrong.
    """
    pattern: PatternSpec = {"depth": 1, "request_bytes": 8192, "order": "random", "duration_s": 60.0}
    seen = set()
    for part in split_options(text):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in KEYS or not equals or not value or key in seen:
            wrong = "stands twice" if key in seen else "is no option with a value"
            raise UsageError(f"'{part.strip()}' in '{text}' {wrong}: a load has {', '.join(KEYS)}.")
        seen.add(key)
        if key == "depth":
            pattern["depth"] = _whole(part, value, 1, _DEPTH_MAX)
        elif key == "size":
            pattern["request_bytes"] = _whole(part, str(parse_bytes(key, value, text)), 1, _REQUEST_MAX)
        elif key == "order":
            if value not in ORDERS:
                raise UsageError(f"'{part}' in '{text}': an order is {' or '.join(ORDERS)}.")
            pattern["order"] = value
        elif key == "duration":
            pattern["duration_s"] = _duration(part, value)
        elif key == "writes":
            pattern["write_share"] = _share(part, value)
        else:
            pattern["flush_after"] = _whole(part, value, 0, _FLUSH_MAX)
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


def _whole(part: str, value: str, least: int, most: int) -> int:
    if not value.isdecimal() or len(value) > 18 or not least <= int(value) <= most:
        raise UsageError(f"'{part.strip()}' must be a whole number from {least} to {most}.")
    return int(value)


def _share(part: str, value: str) -> float:
    match = _PERCENT.fullmatch(value)
    if match is None or float(match[1]) > 100:
        raise UsageError(f"'{part.strip()}' is no share: type for example writes=30%.")
    return float(match[1]) / 100


def _duration(part: str, value: str) -> float:
    match = _DURATION.fullmatch(value)
    seconds = 0.0 if match is None else float(match[1]) * _SECONDS[match[2]]
    if not 0.001 <= seconds <= _DURATION_MAX_S:
        raise UsageError(f"'{part.strip()}' is no duration up to a day: type for example duration=60s.")
    return seconds
