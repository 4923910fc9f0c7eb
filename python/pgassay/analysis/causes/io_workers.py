"""All I/O workers are at work and the device has room: more of them would read more.

With io_method=worker each worker carries one read at a time, from the system call to the checksum
(src/backend/storage/aio/method_worker.c), so io_workers bounds the reads in flight.
"""

from pgassay.analysis.causes.base import Answer, Found, Missing, Rule, gain
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.storage import is_full

_BUSY_MIN = 0.9
_IDLE = "IoWorkerMain"
_WORKING_SHARE_MIN = 0.05


def _too_few(evidence: Evidence) -> Answer:
    workers = evidence.accounts.get("io worker")
    if workers is None or workers.wall_s <= 0:
        return None
    if evidence.times.share(evidence.times.read_s) < _WORKING_SHARE_MIN:
        return None
    idle_s = sum(item.seconds for item in workers.items if item.wait_event == _IDLE)
    busy = 1 - idle_s / workers.wall_s
    if busy < _BUSY_MIN:
        return None
    full = is_full(evidence)
    if full is None:
        return Missing("the ceiling of the device ('pgassay probe' measures it)")
    if full:
        return None
    seconds = evidence.times.read_s
    figures: dict[str, float | str] = {
        "io_workers": workers.threads,
        "busy_share": busy,
        "read_mb_s": evidence.device.read_mb_s if evidence.device else 0.0,
    }
    return Found(seconds, figures, gain(evidence, seconds))


TOO_FEW = Rule(
    "too-few-io-workers",
    "limit",
    "infrastructure",
    "Raise io_workers (io_max_workers from 19 on).",
    _too_few,
)
