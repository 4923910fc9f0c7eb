"""How near each arm came to what its device can deliver; where it is at the limit, no setting can help."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from pgassay.model.result import DeviceUse
from pgassay.model.trial import TrialRecord
from pgassay.record.read import StoredExperiment
from pgassay.words import percent_fixed

AT_LIMIT = 0.95
# Above its ceiling by more than this, the ceiling is not this device's.
_BEYOND = 1.1
# Below this share of a trial's reads from the device, it was not the device that was measured.
_WORTH_TELLING = 0.05


def device_use(stored: StoredExperiment) -> tuple[DeviceUse, ...]:
    """One entry for each arm whose device's ceiling is known and whose trials read from it."""
    by_arm = stored.experiment.ceilings.get("by_arm")
    if not isinstance(by_arm, Mapping):
        return ()
    made = []
    for arm in stored.experiment.arms:
        ceiling = by_arm.get(arm.name)
        if arm.role == "twin" or not isinstance(ceiling, Mapping):
            continue
        records = [
            trial.record
            for trial in stored.trials
            if trial.record.status == "ok" and trial.record.arm_id == arm.id
        ]
        rates = [rate for record in records if (rate := _rates(record)) is not None]
        found = _use(arm.name, ceiling, rates)
        if found is not None:
            made.append(found)
    return tuple(made)


def _rates(record: TrialRecord) -> tuple[float, float] | None:
    """MB (10⁶ bytes) and requests a second that the device delivered while statements read from it."""
    read = [item for item in record.statements if item.device_read_bytes]
    elapsed = sum(item.elapsed_s for item in read)
    if elapsed > 0:
        bytes_read = sum(item.device_read_bytes or 0 for item in read)
        return bytes_read / elapsed / 1e6, sum(item.device_read_requests or 0 for item in read) / elapsed
    delivered = record.verification.get("device_read_bytes")
    if record.load is not None and record.load.elapsed_s > 0 and isinstance(delivered, int | float):
        return delivered / record.load.elapsed_s / 1e6, 0.0
    return None


def _use(name: str, ceiling: Mapping[str, Any], rates: list[tuple[float, float]]) -> DeviceUse | None:
    if not rates:
        return None
    mb_s, iops = (median(rate[place] for rate in rates) for place in (0, 1))
    shares = {
        key: value / ceiling[key]
        for key, value in (("read_mb_s", mb_s), ("read_iops", iops))
        if ceiling.get(key)
    }
    if not shares or max(shares.values()) < _WORTH_TELLING:
        return None
    nearest = max(shares, key=lambda key: shares[key])
    value = mb_s if nearest == "read_mb_s" else iops
    unit = "MB/s" if nearest == "read_mb_s" else "reads/s"
    source = "its limit" if ceiling.get(f"{nearest}_from") == "limit" else "the probe of its device"
    return DeviceUse(
        arm=name,
        value=value,
        ceiling=float(ceiling[nearest]),
        unit=unit,
        fraction=shares[nearest],
        sentence=_sentence(name, value, float(ceiling[nearest]), unit, source),
    )


def _sentence(name: str, value: float, ceiling: float, unit: str, source: str) -> str:
    share = value / ceiling
    limit = f"{ceiling:,.0f} {unit} by {source}"
    told = f"{name} read {value:,.0f} {unit}, {percent_fixed(share)} of the device ({limit})"
    if share > _BEYOND:
        return f"{told}: more than it is said to deliver, so 'pgassay probe' should measure it again."
    if share >= AT_LIMIT:
        return f"{told}: no setting can help."
    return f"{told}: at most {percent_fixed(1 / share - 1)} more could be had."
