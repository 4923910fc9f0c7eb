"""An imitated volume over a trial: what it delivered, the queue for its limits, what was left of its credits.

The series has a row for each second that it was imposed, which begins before the measured part.
"""

import numpy as np

from pgassay.analysis.changes.rate_series import MB, FloatArray, rates_of
from pgassay.model.storage import ImitatedFacts, VolumeFacts
from pgassay.model.trial import TrialRecord
from pgassay.record.observations import Columns, floats

_S = 1e9
CREDITS = "credits_"
# What is counted in each second, not a level at its end.
_COUNTED = ("reads", "writes", "flushes", "operations", "bytes_read", "bytes_written", "queued_ms")
Drawn = tuple[str, dict[str, FloatArray]]


def counters(columns: Columns) -> Columns:
    """The series as counters that only grow, from the moment on at which the volume was imposed."""
    if not columns.get("clock_ns") or not {"elapsed_s", *_COUNTED} <= columns.keys():
        return {}
    began_ns = imposed_ns(columns)
    clock = [began_ns, *(int(each) for each in floats(columns, "clock_ns"))]
    grown = {name: [0.0, *np.cumsum(floats(columns, name)).tolist()] for name in _COUNTED}
    return {"clock_ns": clock, **grown}


def imposed_ns(columns: Columns) -> int:
    """When it was imposed (CLOCK_MONOTONIC): the first row tells when it ended and how long it was."""
    return int(floats(columns, "clock_ns")[0] - floats(columns, "elapsed_s")[0] * _S)


def ended_s(columns: Columns, facts: VolumeFacts, record: TrialRecord) -> float | None:
    """The second of the measured part at which credits ended, below 0 before it; None where they lasted."""
    if facts.credits_ended_s is None or record.clock_ns is None or not columns.get("clock_ns"):
        return None
    return (imposed_ns(columns) + float(facts.credits_ended_s) * _S - record.clock_ns[0]) / _S


def capacities(imitated: ImitatedFacts) -> dict[str, float]:
    """What each limiter's credits can be, of all volumes of a stripe set together."""
    found: dict[str, float] = {}
    limiters, stripes = imitated.model.get("limiters"), imitated.model.get("stripes")
    count = stripes.get("count", 1) if isinstance(stripes, dict) else 1
    for limiter in limiters if isinstance(limiters, list) else []:
        if isinstance(limiter, dict) and limiter.get("capacity"):
            volumes = count if limiter.get("scope") == "volume" else 1
            found[str(limiter["name"])] = float(limiter["capacity"]) * volumes
    return found


def drawn(
    columns: Columns, imitated: ImitatedFacts, record: TrialRecord, edges: FloatArray, name: str
) -> list[Drawn]:
    """What is shown of the volume `name` over the bins between edges: titles with their series."""
    grown = counters(columns)
    rates = rates_of(grown, record, _COUNTED, edges)
    if rates is None or record.clock_ns is None:
        return []
    by_name = dict(zip(_COUNTED, rates, strict=True))
    requests = by_name["reads"] + by_name["writes"]
    with np.errstate(invalid="ignore", divide="ignore"):
        waited = np.where(requests > 0, by_name["queued_ms"] / requests, np.nan)
    found: list[Drawn] = [
        (f"{name}: operations/s as it counts them", {"operations": by_name["operations"]}),
        (f"{name}: MB/s", {"reads": by_name["bytes_read"] / MB, "writes": by_name["bytes_written"] / MB}),
        (f"{name}: in the queue for its limits, ms a request", {"queue": waited}),
    ]
    clock_s = (floats(columns, "clock_ns") - record.clock_ns[0]) / _S
    middles = (edges[:-1] + edges[1:]) / 2
    left = {
        limiter: np.interp(middles, clock_s, 100 * floats(columns, column) / capacity)
        for limiter, capacity in capacities(imitated).items()
        if (column := CREDITS + limiter.replace(" ", "_")) in columns
    }
    return [*found, (f"{name}: credits left, %", left)] if left else found
