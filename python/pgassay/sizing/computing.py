"""Who computed while requests were recorded, on how many processors, and who waited for locks meanwhile."""

from collections.abc import Sequence

import numpy as np

from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.trial import TrialRecord
from pgassay.record.observations import (
    PROCESSOR_STOLEN,
    PROCESSOR_USED,
    columns,
    floats,
    integers,
    texts,
)
from pgassay.record.read import StoredTrial

Parts = Sequence[tuple[int, int]]
# Waits that end with another transaction. Other locks are held while somebody computes, or for a statement.
_OF_TRANSACTIONS = ("transactionid", "tuple")


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
    if arm.spec.workload.load is None or arm.spec.cpus is not None:
        return 0.0
    read = columns(trial.folder, "host_cpu")
    names = (*PROCESSOR_USED, PROCESSOR_STOLEN)
    if not read or not {"clock_ns", *names} <= read.keys() or len(read["clock_ns"]) < 2:
        return 0.0
    edges = np.clip(np.asarray(parts, dtype=np.float64), *floats(read, "clock_ns")[[0, -1]])
    seconds = float(np.diff(edges).sum()) / 1e9
    if seconds <= 0:
        return 0.0
    taken_s = sum(
        float(np.diff(np.interp(edges, floats(read, "clock_ns"), floats(read, name))).sum()) for name in names
    )
    all_s = sum(until - begin for begin, until in parts) / 1e9
    others = taken_s / seconds - cpu_s(trial.record, arm) / all_s
    return min(max(0.0, _usable(experiment) - max(0.0, others)), float(arm.spec.workload.load.clients))


def lock_waits(trial: StoredTrial, parts: Parts) -> float:
    """How many connections waited for another's transaction to end, on average; 0 where nobody looked."""
    read = columns(trial.folder, "waits")
    if not read or trial.record.load is None:
        return 0.0
    begin_ns, end_ns = parts[0][0], parts[-1][1]
    middle = (floats(read, "from_ns") + floats(read, "clock_ns")) / 2
    within = (middle >= begin_ns) & (middle <= end_ns)
    samples = np.where(within, floats(read, "samples"), 0.0)
    kinds = texts(read, "kind")
    is_lock = [
        kind == "backend" and of_type == "Lock" and event in _OF_TRANSACTIONS
        for kind, of_type, event in zip(
            kinds, texts(read, "wait_event_type"), texts(read, "wait_event"), strict=True
        )
    ]
    # A thread is in each look once: how many looks there were in a window, and in all of them.
    looks: dict[int, dict[int, float]] = {}
    for clock_ns, thread, count in zip(
        integers(read, "clock_ns"), integers(read, "thread"), samples, strict=True
    ):
        window = looks.setdefault(clock_ns, {})
        window[thread] = window.get(thread, 0.0) + float(count)
    all_looks = sum(max(window.values()) for window in looks.values())
    return float(samples[np.array(is_lock, dtype=bool)].sum()) / all_looks if all_looks else 0.0


def _usable(experiment: Experiment) -> float:
    machine = experiment.environment.machine
    return float(machine.cores_usable or machine.cores_online or 1)
