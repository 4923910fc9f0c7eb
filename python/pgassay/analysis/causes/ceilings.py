"""How near a device is to the most that it delivers, by bytes and by requests."""

from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.descriptive.device_use import BEATEN, BEYOND

# As near as this to its ceiling, a device is full: both are measured with an error of some percent.
FULL = 0.85
# A limit delivers less than it says to requests that come one by one: the kernel lets them pass in slices and
# on its timer's ticks (block/blk-throttle.c), at 25 requests a second 20.
FULL_OF_LIMIT = 0.7


def fractions(evidence: Evidence) -> dict[str, float]:
    """How full the device is, by 'read_mb_s' and 'read_iops', as far as ceilings are known.

    A measured ceiling that the device beat is none; a limit may be exceeded for a moment, and stays one. What
    is written counts with what is read, where the storage counts both against one ceiling (`counts_writes`).
    """
    flow, ceiling = evidence.machine.device, evidence.machine.ceiling
    found = {}
    if flow is not None and ceiling.read_mb_s:
        written = flow.write_mb_s or 0.0 if counts_writes(evidence, "read_mb_s") else 0.0
        found["read_mb_s"] = (flow.read_mb_s + written) / ceiling.read_mb_s
    if flow is not None and flow.reads_s is not None and ceiling.read_iops:
        written = flow.writes_s or 0.0 if counts_writes(evidence, "read_iops") else 0.0
        found["read_iops"] = (flow.reads_s + written) / ceiling.read_iops
    return {
        name: fraction
        for name, fraction in found.items()
        if fraction <= BEATEN or getattr(ceiling, f"{name}_from") == "limit"
    }


def counts_writes(evidence: Evidence, name: str) -> bool:
    """Whether writes use up the ceiling `name`, too. Few are left out, as nothing follows from them.

    A device that reads and writes more than the most that a probe measured of reads takes writes beside them.
    """
    flow, ceiling = evidence.machine.device, evidence.machine.ceiling
    if flow is None or not flow.is_mixed:
        return False
    if not ceiling.is_of_writes(name, shares_ceiling=evidence.machine.shares_ceiling):
        return False
    read, written = (
        (flow.read_mb_s, flow.write_mb_s) if name == "read_mb_s" else (flow.reads_s, flow.writes_s)
    )
    is_limit, most = getattr(ceiling, f"{name}_from") == "limit", getattr(ceiling, name) or 0.0
    return is_limit or (read or 0.0) + (written or 0.0) <= BEYOND * most


def is_used_up(evidence: Evidence, name: str, fraction: float) -> bool:
    """Whether a device that delivers this fraction of its ceiling `name` is full by it."""
    is_limit = getattr(evidence.machine.ceiling, f"{name}_from") == "limit"
    return fraction >= (FULL_OF_LIMIT if is_limit else FULL)


def is_full(evidence: Evidence) -> bool | None:
    """Whether the device delivers what it can; None when a ceiling is not known."""
    found = fractions(evidence)
    if any(is_used_up(evidence, name, fraction) for name, fraction in found.items()):
        return True
    return False if len(found) == 2 else None
