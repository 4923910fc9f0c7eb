"""How near a device is to the most that it delivers, by bytes and by requests."""

from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.descriptive.device_use import BEATEN

# As near as this to its ceiling, a device is full: both are measured with an error of some percent.
FULL = 0.85
# A limit delivers less than it says to requests that come one by one: the kernel lets them pass in slices and
# on its timer's ticks (block/blk-throttle.c), at 25 requests a second 20.
FULL_OF_LIMIT = 0.7


def fractions(evidence: Evidence) -> dict[str, float]:
    """How full the device is, by 'read_mb_s' and 'read_iops', as far as ceilings are known.

    A measured ceiling that the device beat is none; a limit may be exceeded for a moment, and stays one.
    """
    flow, ceiling = evidence.device, evidence.ceiling
    found = {}
    if flow is not None and ceiling.read_mb_s:
        found["read_mb_s"] = flow.read_mb_s / ceiling.read_mb_s
    if flow is not None and flow.reads_s is not None and ceiling.read_iops:
        found["read_iops"] = flow.reads_s / ceiling.read_iops
    return {
        name: fraction
        for name, fraction in found.items()
        if fraction <= BEATEN or getattr(ceiling, f"{name}_from") == "limit"
    }


def is_used_up(evidence: Evidence, name: str, fraction: float) -> bool:
    """Whether a device that delivers this fraction of its ceiling `name` is full by it."""
    is_limit = getattr(evidence.ceiling, f"{name}_from") == "limit"
    return fraction >= (FULL_OF_LIMIT if is_limit else FULL)


def is_full(evidence: Evidence) -> bool | None:
    """Whether the device delivers what it can; None when a ceiling is not known."""
    found = fractions(evidence)
    if any(is_used_up(evidence, name, fraction) for name, fraction in found.items()):
        return True
    return False if len(found) == 2 else None
