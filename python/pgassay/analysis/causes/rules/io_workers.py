"""I/O workers: all at work while the device has room, or more of them awake than processors can serve.

With io_method=worker each worker carries one read at a time, from the system call to the checksum, so
io_workers bounds the reads in flight; each one that is given a read wakes two others
(src/backend/storage/aio/method_worker.c), which want a processor then, a read for them or not.
"""

from pgassay.analysis.causes.base import Answer, Found, Missing, Rule, SettingRemedy, lifted, raising
from pgassay.analysis.causes.ceilings import is_full
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.rules.processors import is_machine_full

_BUSY_MIN = 0.9
_IDLE = "IoWorkerMain"
_WORKING_SHARE_MIN = 0.05
# Awake at a time for each processor. Eight of them on two processors cost as little as three (up to 2.7 awake
# for each), 32 half as much time again (5).
_AWAKE_MAX = 3.0


def _too_few(evidence: Evidence) -> Answer:
    workers = evidence.server.accounts.get("io worker")
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
        "read_mb_s": evidence.machine.device.read_mb_s if evidence.machine.device else 0.0,
    }
    return lifted(evidence, seconds, figures)


def _too_many(evidence: Evidence) -> Answer:
    """The processors are full, and several workers for each of them are running or waiting to.

    What they copy and verify has to be done by somebody; how much sooner fewer would be done can't be told.
    """
    workers, processors, times = (
        evidence.server.accounts.get("io worker"),
        evidence.machine.processors,
        evidence.times,
    )
    if workers is None:
        return None
    cpu_s = sum(item.seconds for item in workers.items if item.kind == "cpu")
    queue_s = sum(item.seconds for item in workers.items if item.kind == "runnable")
    awake = (cpu_s + queue_s) / evidence.server.elapsed_s
    if processors is None:
        return Missing("the machine's processor time") if awake > _AWAKE_MAX else None
    if awake <= _AWAKE_MAX * processors.count or not is_machine_full(evidence):
        return None
    if times.share(times.read_s + times.runnable_s) < _WORKING_SHARE_MIN:
        return None
    figures: dict[str, float | str] = {
        "io_workers": workers.threads,
        "awake_at_a_time": awake,
        "processors": processors.count,
        "workers_cpu_s": cpu_s,
        "workers_runnable_s": queue_s,
        "runnable_s": times.runnable_s,
    }
    # The queue of connections behind the workers, as the processors' time is shared among both.
    used_s = cpu_s + times.cpu_s
    return Found(times.runnable_s * cpu_s / used_s if used_s > 0 else 0.0, figures)


_FEWER = tuple(SettingRemedy(name, "lower", f"Lowering {name}") for name in ("io_workers", "io_max_workers"))
TOO_FEW = Rule(
    cause="too-few-io-workers",
    kind="limit",
    layer="infrastructure",
    phrase="the number of I/O workers",
    remedy="Raise io_workers (io_max_workers from 19 on).",
    next_step="Check pg_aios: handles that wait for a worker.",
    find=_too_few,
    settings=raising("io_workers", "io_max_workers"),
)
TOO_MANY = Rule(
    cause="too-many-io-workers",
    kind="fault",
    layer="infrastructure",
    phrase="more I/O workers were awake than the processors could serve",
    remedy="Lower io_workers (io_max_workers from 19 on) to a few: the processors are full.",
    next_step=(
        "Compare them on a copy of the data: 'pgassay compare io_workers=2,4,8' (io_max_workers from 19 on)."
    ),
    find=_too_many,
    settings=_FEWER,
)
