"""How near each arm came to what its device can deliver, and what can help one that is at the limit."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Literal

from pgassay.analysis.accounts.arm_accounts import measured_spans
from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.causes.evidence import MB, DeviceFlow
from pgassay.analysis.causes.sampler_files import Requests, moved, requests
from pgassay.model.base import MIB_BYTES
from pgassay.model.experiment import ArmCeiling
from pgassay.model.result import DeviceUse
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.words import figure, percent_fixed

Unit = Literal["MB/s", "reads/s", "requests/s"]
# From this share of its ceiling on, a device delivers the most that it can.
AT_LIMIT = 0.95
# A device that delivered so many times its ceiling for a moment was slower when that was measured.
BEATEN = 1.2
# Above its ceiling by more than this, the ceiling is not this device's.
BEYOND = 1.1
# Below this share of a trial's reads from the device, it was not the device that was measured.
_SHARE_MIN = 0.05
_BYTES: Unit = "MB/s"
_READS: Unit = "reads/s"
_REQUESTS: Unit = "requests/s"
_LIMIT = "its limit"
_OF_LIMIT = "limit"


def device_use(stored: StoredExperiment) -> tuple[DeviceUse, ...]:
    """One entry for each arm whose device's ceiling is known and whose trials read from it."""
    by_arm = stored.experiment.ceilings.by_arm
    made = []
    for arm in stored.experiment.arms:
        ceiling = by_arm.get(arm.name)
        if arm.role == "twin" or ceiling is None:
            continue
        trials = [
            trial for trial in stored.trials if trial.record.status == "ok" and trial.record.arm_id == arm.id
        ]
        flows = [flow for trial in trials if (flow := _flow(trial)) is not None]
        found = _use(arm.name, ceiling, flows, shares_ceiling=arm.spec.storage.shares_ceiling)
        if found is not None:
            made.append(found)
    return tuple(made)


def _flow(trial: StoredTrial) -> DeviceFlow | None:
    """What the device delivered and took while statements read from it."""
    record = trial.record
    read = [item for item in record.statements if item.device_read_bytes]
    elapsed = sum(item.counted_s for item in read)
    if read and not all(item.counted_s for item in read):
        return None
    if elapsed > 0:
        bytes_read = sum(item.device_read_bytes or 0 for item in read)
        requests_read = sum(item.device_read_requests or 0 for item in read)
        spans = [Span(*item.clock_ns, True) for item in read if item.clock_ns]
        # Of a part of them the writes are not told.
        known = len(spans) == len(read)
        return _with_writes(trial.folder, spans if known else [], elapsed, bytes_read, requests_read)
    delivered = record.verification.device_read_bytes
    elapsed = record.load.elapsed_s if record.load is not None else _mix_s(record)
    if elapsed > 0 and delivered is not None:
        spans = measured_spans(record)
        counted = moved(trial.folder, "device", ("reads",), spans) if spans else None
        return _with_writes(trial.folder, spans, elapsed, delivered, counted[0] if counted else None)
    return None


def _with_writes(
    folder: Path, spans: Sequence[Span], seconds: float, read_bytes: float, reads: float | None
) -> DeviceFlow:
    written = requests(folder, spans) if spans else Requests()
    return DeviceFlow(
        read_bytes=float(read_bytes),
        read_mb_s=read_bytes / seconds / MB,
        reads_s=None if reads is None else reads / seconds,
        seconds=seconds,
        service_s=None,
        **asdict(written),
    )


def _mix_s(record: TrialRecord) -> float:
    """How long clients executed statements at once; 0 for a trial that did not."""
    if not record.is_mix or record.clock_ns is None:
        return 0.0
    return (record.clock_ns[1] - record.clock_ns[0]) / 1e9


def _use(
    name: str, ceiling: ArmCeiling, flows: Sequence[DeviceFlow], *, shares_ceiling: bool
) -> DeviceUse | None:
    if not flows:
        return None
    candidates = []
    for unit, name_of in ((_BYTES, "read_mb_s"), (_REQUESTS, "read_iops")):
        most, origin = getattr(ceiling, name_of), getattr(ceiling, f"{name_of}_from")
        if not most:
            continue
        counts = ceiling.is_of_writes(name_of, shares_ceiling=shares_ceiling)
        read, both = _rates(flows, unit)
        # More than the reads that a probe measured as the most: the device takes writes beside these.
        with_writes = counts and both > read and (origin == _OF_LIMIT or both <= BEYOND * most)
        value = both if with_writes else read
        candidates.append((value / most, value, most, unit, origin, with_writes))
    nothing = (0.0, 0.0, 0.0, _BYTES, "", False)
    share, value, most, unit, origin, with_writes = max(candidates, key=lambda each: each[0], default=nothing)
    if share < _SHARE_MIN:
        return None
    if unit == _REQUESTS and not with_writes:
        unit = _READS
    source = _LIMIT if origin == _OF_LIMIT else "the probe of its device"
    return DeviceUse(
        arm=name,
        value=value,
        ceiling=float(most),
        unit=unit,
        fraction=share,
        sentence=_sentence(name, value, float(most), unit, source, with_writes=with_writes),
    )


def _rates(flows: Sequence[DeviceFlow], unit: Unit) -> tuple[float, float]:
    """A trial's reads in this unit, and its reads and writes: the reads again where few are written."""
    is_mixed = 2 * sum(flow.is_mixed for flow in flows) > len(flows)
    pairs = [
        (flow.read_mb_s, flow.write_mb_s) if unit == _BYTES else (flow.reads_s or 0.0, flow.writes_s)
        for flow in flows
    ]
    read = median(each for each, _ in pairs)
    return read, median(each + (written or 0.0) for each, written in pairs) if is_mixed else read


def _sentence(name: str, value: float, ceiling: float, unit: str, source: str, *, with_writes: bool) -> str:
    share = value / ceiling
    limit = f"{ceiling:,.0f} {unit} by {source}"
    # Typed in MiB, as read_mb_s of a storage.
    if unit == _BYTES and source == _LIMIT:
        limit += f", {ceiling * 1e6 / MIB_BYTES:,.0f} MiB/s"
    did = "read and wrote" if with_writes else "read"
    sentence = f"{name} {did} {value:,.0f} {unit}, {percent_fixed(share)} of the device ({limit})"
    if share > BEYOND and source == _LIMIT:
        # Nothing is to be probed where pgassay itself set it.
        return f"{sentence}: a limit lets more through for a moment after a pause, so make trials longer."
    if share > BEYOND:
        return f"{sentence}: more than its recorded maximum, so measure it again with 'pgassay probe'."
    if share >= AT_LIMIT:
        # Neighbouring pages read in one request leave room for others (io_combine_limit, read-ahead).
        remedy = "no setting can help" if unit == _BYTES else "only fewer or larger requests can help"
        if unit == _BYTES and with_writes:
            # Checkpoints, full-page images and compression of the WAL are settings.
            remedy = "only fewer bytes, read or written, can help"
        return f"{sentence}: {remedy}."
    # Not how much faster anything would be: what else limits it is told among the causes.
    return f"{sentence}: the device can deliver {figure(1 / share, 2)} × as much."
