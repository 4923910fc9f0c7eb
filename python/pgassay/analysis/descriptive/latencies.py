"""The mean and the standard deviation of a load's latencies, per arm; descriptive, no verdict.

Each trial has both of its own transactions. Together they follow from the sums of the latencies and of their
squares, as pgbench's are (src/bin/pgbench/pgbench.c, printResults): sqrt(Σx²/n − (Σx/n)²).
"""

import math
from dataclasses import dataclass

from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.server_statement import ArmLatency
from pgassay.record import observations
from pgassay.record.experiment import StoredExperiment, StoredTrial


@dataclass(frozen=True)
class _Moments:
    """Of one trial: how many transactions, their mean and the standard deviation, in milliseconds."""

    transactions: int
    mean_ms: float
    stddev_ms: float


def arm_latencies(stored: StoredExperiment) -> tuple[ArmLatency, ...]:
    """One for each arm or control of a load; () where nothing but statements is timed."""
    if not any(arm.spec.workload.kind == "load" for arm in stored.experiment.arms):
        return ()
    found = (_of_arm(arm, stored) for arm in stored.experiment.arms if arm.role != "twin")
    return tuple(each for each in found if each is not None)


def _of_arm(arm: Arm, stored: StoredExperiment) -> ArmLatency | None:
    trials = [trial for trial in stored.trials if trial.record.arm_id == arm.id]
    moments = [made for trial in trials if trial.record.status == "ok" and (made := _of_trial(trial))]
    count = sum(each.transactions for each in moments)
    if not count:
        return None
    mean = sum(each.transactions * each.mean_ms for each in moments) / count
    # Within the trials and between them: nothing is lost by subtracting large sums.
    squares = sum(each.transactions * (each.stddev_ms**2 + (each.mean_ms - mean) ** 2) for each in moments)
    return ArmLatency(
        arm=arm.name,
        stratum=arm.stratum,
        trials=len(moments),
        transactions=count,
        latency_mean_ms=mean,
        latency_stddev_ms=math.sqrt(squares / count),
    )


def _of_trial(trial: StoredTrial) -> _Moments | None:
    """What the record says; of trials from before it did, what the histogram of the load says."""
    load = trial.record.load
    if load is None:
        return None
    told = load.latency_ms
    if "mean" in told and "stddev" in told:
        return _Moments(load.transactions, told["mean"], told["stddev"])
    try:
        found = observations.histogram(trial.folder)
    except UsageError:
        # The page names the damaged file.
        return None
    if found is None or not found.get_total_count():
        return None
    mean_us, stddev_us = observations.moments_us(found)
    return _Moments(load.transactions, mean_us / 1000, stddev_us / 1000)
