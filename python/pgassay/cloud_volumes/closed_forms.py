"""What a volume gives a load without pauses, and for how long: by closed form, without a simulation.

While credits last a limit gives its peak, then its rate; a load gets what the tightest limit gives. Between
two moments at which credits end, all rates are constant, so each stretch and its end follow from a division.
"""

import math
from collections.abc import Sequence

from pgassay.cloud_volumes.volume_limits import Limit
from pgassay.model.volumes.offer import Delivery, LimitOffer, Phase

PAGE_BYTES = 8192
STREAM_BYTES = 128 * 1024
# Where there is an allowance of a day, what would end later is not told: by then it is whole again.
HORIZON_S = 86_400.0
# Limits within this share of the tightest bind with it.
_ALIKE = 1e-9


def offer_of(limit: Limit) -> LimitOffer:
    """The limit, with how long its burst lasts and how long an unused volume takes to fill its bucket."""
    bursts = limit.bursts
    refills = bursts and limit.reset_period_s is None
    return LimitOffer(
        name=limit.name,
        scope="stripes" if limit.volumes > 1 else limit.scope,
        unit=limit.unit,
        rate_per_s=round(limit.rate),
        peak_per_s=round(limit.peak) if bursts else None,
        credits=round(limit.capacity) if bursts else None,
        burst_s=limit.capacity / (limit.peak - limit.rate) if bursts else None,
        refill_s=limit.capacity / limit.rate if refills else None,
        reset_period_s=limit.reset_period_s if bursts else None,
    )


def cost(limit: Limit, request_bytes: int, *, sequential: bool) -> float:
    """What one request costs on average, in the limit's unit; adjacent ones are merged where it merges."""
    units: float = math.ceil(request_bytes / limit.quantum_bytes)
    if sequential and limit.merging:
        units = request_bytes / limit.quantum_bytes
    return units if limit.unit == "operations" else units * limit.quantum_bytes


def delivery(load: str, limits: Sequence[Limit], request_bytes: int, *, sequential: bool) -> Delivery:
    """The phases of a load that always has requests waiting; of a day where an allowance comes back."""
    costs = [cost(limit, request_bytes, sequential=sequential) for limit in limits]
    left = [limit.fill for limit in limits]
    horizon_s = HORIZON_S if any(limit.reset_period_s is not None for limit in limits) else math.inf
    phases: list[Phase] = []
    now_s = 0.0
    while True:
        given = [
            (limit.peak if credits > 0 else limit.rate) / units
            for limit, credits, units in zip(limits, left, costs, strict=True)
        ]
        rate = min(given)
        drains = [rate * units - limit.rate for limit, units in zip(limits, costs, strict=True)]
        ends = [
            credits / drain
            for credits, drain in zip(left, drains, strict=True)
            if credits > 0 and drain > _ALIKE * rate
        ]
        length_s = min(ends, default=math.inf)
        if now_s + length_s > horizon_s:
            length_s = math.inf
        phase = Phase(
            until_s=None if math.isinf(length_s) else now_s + length_s,
            requests_per_s=rate,
            bytes_per_s=rate * request_bytes,
            limited_by=tuple(
                limit.name for limit, each in zip(limits, given, strict=True) if each <= rate * (1 + _ALIKE)
            ),
        )
        # Credits of a limit that doesn't bind may end without a change of the rate.
        if (
            phases
            and math.isclose(phases[-1].requests_per_s, rate)
            and phases[-1].limited_by == phase.limited_by
        ):
            phases.pop()
        phases.append(phase)
        if math.isinf(length_s):
            return Delivery(
                load=load, request_bytes=request_bytes, sequential=sequential, phases=tuple(phases)
            )
        now_s += length_s
        left = [
            0.0
            if drain > 0 and credits - drain * length_s <= _ALIKE * limit.capacity
            else min(limit.capacity, credits - drain * length_s)
            if limit.reset_period_s is None or drain > 0
            else credits
            for limit, credits, drain in zip(limits, left, drains, strict=True)
        ]


def deliveries(limits: Sequence[Limit]) -> tuple[Delivery, ...]:
    """The two loads that a database knows: single pages here and there, and a scan."""
    return (
        delivery("random 8 kB", limits, PAGE_BYTES, sequential=False),
        delivery("sequential 128 kB", limits, STREAM_BYTES, sequential=True),
    )
