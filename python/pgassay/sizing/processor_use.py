"""Who computed while requests were recorded, on how many processors, and who waited for locks meanwhile."""

from collections.abc import Sequence

import numpy as np

from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredTrial
from pgassay.record.observations import (
    PROCESSOR_STOLEN,
    PROCESSOR_USED,
    columns,
    floats,
    integers,
    texts,
)

Parts = Sequence[tuple[int, int]]
# Waits that end with another transaction. Other locks are held while somebody computes, or for a statement.
_OF_TRANSACTIONS = ("transactionid", "tuple")
_BACKEND = "backend"


def cpu_s(record: TrialRecord, arm: Arm) -> float:
    """How long the server computed, and the clients of a load, with its warm-up; 0 where nobody knows."""
    of_statements = [each.server_cpu_s for each in record.statements]
    known = [each for each in of_statements if each is not None]
    if known and len(known) == len(of_statements):
        return sum(known)
    if record.server_cpu_s is None:
        return 0.0
    if record.load is None or arm.spec.workload.load is None:
        return record.server_cpu_s
    # The clients' is of the measured part alone.
    load = record.load
    with_warmup = 1.0 + arm.spec.workload.load.warmup_s / load.elapsed_s
    return record.server_cpu_s + (load.client_cpu_s or 0.0) * with_warmup


def processors(record: TrialRecord, arm: Arm, experiment: Experiment, elapsed_s: float) -> float:
    """How many those had who computed: of a load as many as there are, of statements as many as were used.

    A statement computes in one process unless its plan is parallel; then its server used more than one.
    """
    there = min(_usable(experiment), arm.spec.cpus or float("inf"))
    if arm.spec.workload.load is not None:
        return max(1.0, min(there, float(arm.spec.workload.load.clients)))
    used = (record.server_cpu_s or 0.0) / elapsed_s
    return max(1.0, min(there, used))


def processors_min(trial: StoredTrial, arm: Arm, experiment: Experiment, parts: Parts) -> float:
    """As many as the clients of a load had at least: those of the machine that nobody else used.

    0 where nobody knows: of statements, of a server that may use only some of them, without the sampler.
    """
    load = arm.spec.workload.load
    read = columns(trial.folder, "host_cpu")
    names = (*PROCESSOR_USED, PROCESSOR_STOLEN)
    if load is None or arm.spec.cpus is not None or not read or not {"clock_ns", *names} <= read.keys():
        return 0.0
    clock = floats(read, "clock_ns")
    edges = np.asarray(parts, dtype=np.float64)
    # The sampler may have begun a little later, or ended sooner.
    seen_s = float(np.diff(np.clip(edges, clock[0], clock[-1])).sum()) / 1e9 if clock.size else 0.0
    if seen_s <= 0:
        return 0.0
    taken_s = sum(float(np.diff(np.interp(edges, clock, floats(read, name))).sum()) for name in names)
    all_s = float(np.diff(edges).sum()) / 1e9
    by_others = max(0.0, taken_s / seen_s - cpu_s(trial.record, arm) / all_s)
    return min(max(0.0, _usable(experiment) - by_others), float(load.clients))


def lock_waits(trial: StoredTrial, parts: Parts) -> float:
    """How many connections waited for another's transaction to end, on average; 0 where nobody looked."""
    read = columns(trial.folder, "waits")
    if not read or trial.record.load is None:
        return 0.0
    windows = zip(floats(read, "from_ns"), floats(read, "clock_ns"), integers(read, "pid"), strict=True)
    events = zip(
        *(texts(read, name) for name in ("kind", "wait_event_type", "wait_event")),
        integers(read, "samples"),
        strict=True,
    )
    waited = 0
    # Of each window, how often each backend was looked at: no backend more often than there were looks.
    looks: dict[float, dict[int, int]] = {}
    for (begin_ns, end_ns, pid), (kind, event_type, event, samples) in zip(windows, events, strict=True):
        middle_ns = (begin_ns + end_ns) / 2
        if kind != _BACKEND or not any(begin <= middle_ns <= until for begin, until in parts):
            continue
        window = looks.setdefault(end_ns, {})
        window[pid] = window.get(pid, 0) + samples
        waited += samples if event_type == "Lock" and event in _OF_TRANSACTIONS else 0
    all_looks = sum(max(window.values()) for window in looks.values())
    return waited / all_looks if all_looks else 0.0


def _usable(experiment: Experiment) -> float:
    machine, capped = experiment.environment.machine, experiment.environment.limits.cpus
    there = float(machine.cores_usable or machine.cores_online or 1)
    # In a container the machine's processors say nothing.
    return there if capped is None else min(there, float(capped))
