"""The mean and the standard deviation of a load's latencies, per arm, and how that compares; no verdict.

Each trial has both of its own transactions. Together they follow from the sums of the latencies and of their
squares, as pgbench's are (src/bin/pgbench/pgbench.c, printResults): sqrt(Σx²/n − (Σx/n)²).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from pgassay.analysis.statistics.sequence import median_sequence
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


_Blocks = Mapping[int, list[_Moments]]


def arm_latencies(stored: StoredExperiment) -> tuple[ArmLatency, ...]:
    """One for each arm or control of a load; () where nothing but statements is timed."""
    if not any(arm.spec.workload.kind == "load" for arm in stored.experiment.arms):
        return ()
    moments = {arm.id: _of_blocks(arm, stored) for arm in stored.experiment.arms}
    level = stored.experiment.contract.alpha / max(1, len(stored.experiment.contrasts))
    controls = {each.arm_id: moments[each.control_id] for each in stored.experiment.contrasts}
    found = (
        _of_arm(arm, moments[arm.id], controls.get(arm.id, {}), level)
        for arm in stored.experiment.arms
        if arm.role != "twin"
    )
    return tuple(each for each in found if each is not None)


def _of_blocks(arm: Arm, stored: StoredExperiment) -> _Blocks:
    """The arm's trials by block."""
    found: dict[int, list[_Moments]] = {}
    for trial in stored.trials:
        if trial.record.arm_id == arm.id and trial.record.status == "ok":
            made = _of_trial(trial)
            if made is not None:
                found.setdefault(trial.record.block, []).append(made)
    return found


def _of_arm(arm: Arm, of_arm: _Blocks, of_control: _Blocks, level: float) -> ArmLatency | None:
    moments = [each for block in of_arm.values() for each in block]
    count = sum(each.transactions for each in moments)
    if not count:
        return None
    ratio, interval = _against(of_arm, of_control, level)
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
        latency_stddev_ratio=ratio,
        latency_stddev_interval=interval,
    )


def _against(
    of_arm: _Blocks, of_control: _Blocks, level: float
) -> tuple[float | None, tuple[float, float] | None]:
    """The deviation over the control's by the median over blocks, and its interval; None where unbounded.

    The interval is that of the sign test, which holds at any look and whatever the distribution is.
    """
    logs = np.array([_log(of_arm[block]) - _log(of_control[block]) for block in {*of_arm} & {*of_control}])
    if not logs.size or not np.isfinite(logs).all():
        return None, None
    found = median_sequence(logs, level)
    low, high = float(found.lower[()]), float(found.upper[()])
    if math.isinf(low):
        return None, None
    return math.exp(float(np.median(logs))), (math.exp(low), math.exp(high))


def _log(moments: list[_Moments]) -> float:
    return fmean(math.log(each.stddev_ms) if each.stddev_ms > 0 else -math.inf for each in moments)


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
