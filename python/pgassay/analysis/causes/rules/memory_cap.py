"""A cap on memory makes the server read again what it had just read.

workingset_refault_file counts pages that were evicted and soon needed again
(Documentation/admin-guide/cgroup-v2.rst; mm/workingset.c).
"""

from pgassay.analysis.causes.base import Answer, Missing, Rule, lifted, raising
from pgassay.analysis.causes.evidence import Evidence

_PAGE_BYTES = 4096
_AGAIN_MIN = 0.1
_SHARE_MIN = 0.05


def _memory(evidence: Evidence) -> Answer:
    cap_bytes = evidence.server.caps.memory_bytes
    if cap_bytes is None:
        return None
    pages = evidence.server.group.get("workingset_refault_file")
    if pages is None or evidence.machine.device is None:
        return Missing("pages that had to be read again")
    again, read = pages * _PAGE_BYTES, evidence.machine.device.read_bytes
    if again <= 0 or again < _AGAIN_MIN * read or evidence.times.share(evidence.times.read_s) < _SHARE_MIN:
        return None
    seconds = evidence.times.read_s * min(1.0, again / read) if read > 0 else 0.0
    figures: dict[str, float | str] = {
        "memory_cap_bytes": float(cap_bytes),
        "read_again_bytes": again,
        "device_read_bytes": read,
    }
    return lifted(evidence, seconds, figures, reads_as_much=False)


MEMORY = Rule(
    cause="memory",
    kind="fault",
    layer="infrastructure",
    phrase="the cap on memory made the server read pages again",
    remedy="Give the server more memory, or make it read less data.",
    next_step="Check the memory limit of the container, and shared_buffers within it.",
    find=_memory,
    settings=raising("memory"),
    otherwise="Make the server read less data.",
)
