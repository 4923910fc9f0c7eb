"""How near each arm came to what its device can deliver, and what can help one that is at the limit."""

from statistics import median

from pgassay.model.base import MIB_BYTES
from pgassay.model.experiment import ArmCeiling
from pgassay.model.result import DeviceUse
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredExperiment
from pgassay.words import figure, percent_fixed

# From this share of its ceiling on, a device delivers the most that it can.
AT_LIMIT = 0.95
# A device that delivered so many times its ceiling for a moment was slower when that was measured.
BEATEN = 1.2
# Above its ceiling by more than this, the ceiling is not this device's.
_BEYOND = 1.1
# Below this share of a trial's reads from the device, it was not the device that was measured.
_SHARE_MIN = 0.05
_REQUESTS = "reads/s"
_BYTES = "MB/s"
_LIMIT = "its limit"


def device_use(stored: StoredExperiment) -> tuple[DeviceUse, ...]:
    """One entry for each arm whose device's ceiling is known and whose trials read from it."""
    by_arm = stored.experiment.ceilings.by_arm
    made = []
    for arm in stored.experiment.arms:
        ceiling = by_arm.get(arm.name)
        if arm.role == "twin" or ceiling is None:
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
    delivered = record.verification.device_read_bytes
    elapsed = record.load.elapsed_s if record.load is not None else _mix_s(record)
    if elapsed > 0 and delivered is not None:
        return delivered / elapsed / 1e6, 0.0
    return None


def _mix_s(record: TrialRecord) -> float:
    """How long clients executed statements at once; 0 for a trial that did not."""
    if not record.is_mix or record.clock_ns is None:
        return 0.0
    return (record.clock_ns[1] - record.clock_ns[0]) / 1e9


def _use(name: str, ceiling: ArmCeiling, rates: list[tuple[float, float]]) -> DeviceUse | None:
    if not rates:
        return None
    mb_s, iops = (median(rate[index] for rate in rates) for index in (0, 1))
    candidates = (
        (mb_s, ceiling.read_mb_s, _BYTES, ceiling.read_mb_s_from),
        (iops, ceiling.read_iops, _REQUESTS, ceiling.read_iops_from),
    )
    shares = [(value / most, value, most, unit, origin) for value, most, unit, origin in candidates if most]
    share, value, most, unit, origin = max(shares, key=lambda each: each[0], default=(0.0, 0.0, 0.0, "", ""))
    if share < _SHARE_MIN:
        return None
    source = _LIMIT if origin == "limit" else "the probe of its device"
    return DeviceUse(
        arm=name,
        value=value,
        ceiling=float(most),
        unit=unit,
        fraction=share,
        sentence=_sentence(name, value, float(most), unit, source),
    )


def _sentence(name: str, value: float, ceiling: float, unit: str, source: str) -> str:
    share = value / ceiling
    limit = f"{ceiling:,.0f} {unit} by {source}"
    # Typed in MiB, as read_mb_s of a storage.
    if unit == _BYTES and source == _LIMIT:
        limit += f", {ceiling * 1e6 / MIB_BYTES:,.0f} MiB/s"
    sentence = f"{name} read {value:,.0f} {unit}, {percent_fixed(share)} of the device ({limit})"
    if share > _BEYOND:
        return f"{sentence}: more than its recorded maximum, so measure it again with 'pgassay probe'."
    if share >= AT_LIMIT:
        # Neighbouring pages read in one request leave room for others (io_combine_limit, read-ahead).
        remedy = "only fewer or larger requests can help" if unit == _REQUESTS else "no setting can help"
        return f"{sentence}: {remedy}."
    # Not how much faster anything would be: what else limits it is told among the causes.
    return f"{sentence}: the device can deliver {figure(1 / share, 2)} × as much."
