"""The rates at which blocks run where the highest rate within a bound is looked for."""

import math
from collections.abc import Callable, Collection
from pathlib import Path

from pgassay.analysis.capacity.arm_capacity import at_next_rates
from pgassay.analysis.verdicts.blocks import throughput
from pgassay.design.schedule import Step, next_step
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.errors import MeasurementError
from pgassay.experiment.running.stopping_rules import dropped
from pgassay.model.experiment import Experiment
from pgassay.model.percentiles import transactions_min
from pgassay.model.trial import TrialRecord, TrialSpec
from pgassay.progress import Progress
from pgassay.record.experiment import StoredExperiment

# Of what an arm does in a closed loop: far above it no rate can be held, and few bounds ask for less.
LOWEST, HIGHEST = 1 / 50, 1.5
# A trial that is to have a percentile has somewhat more than the fewest transactions.
_ENOUGH = 1.2


def step_after(stored: StoredExperiment, resting: Collection[str]) -> Step:
    """The next trial, at the rate of its block."""
    records = [trial.record for trial in stored.trials]
    left_out = dropped(stored)
    step = next_step(stored.experiment, records, stored.block_plans, resting, left_out)
    if step.plan.block in stored.block_plans or (plan := at_next_rates(stored, step.plan)) == step.plan:
        return step
    plans = {**stored.block_plans, plan.block: plan}
    return next_step(stored.experiment, records, plans, resting, left_out)


def search_range(
    experiment: Experiment, run: Callable[[TrialSpec, Path], tuple[Path, TrialRecord]], progress: Progress
) -> dict[str, tuple[float, float]]:
    """Between which rates each stratum's capacity is looked for: by a trial of each arm in a closed loop.

    Raises MeasurementError where such a trial does not succeed, or trials are too short for the figure.
    """
    metric = experiment.contract.metric
    spec = next_step(experiment, ()).spec
    most: dict[str, float] = {}
    for arm in experiment.arms:
        if arm.role == "twin":
            continue
        progress.stage(f"looking for the rates to try: {arm.name} as fast as it can")
        with scratch_folder() as scratch:
            _, record = run(spec.model_copy(update={"arm": arm}), scratch)
        rate = throughput(record) if record.status == "ok" else None
        if rate is None:
            raise MeasurementError(f"a trial of {arm.name} without a rate {record.status}: {record.reason}")
        key = arm.stratum if experiment.design.strata == "apart" else ""
        most[key] = max(most.get(key, 0.0), rate)
    load = experiment.arms[0].spec.workload.load
    duration_s = load.duration_s if load is not None else 1.0
    least = _ENOUGH * transactions_min(metric.latency) / duration_s
    for highest in most.values():
        if least > highest / 2:
            seconds = math.ceil(least * duration_s * 2 / highest)
            raise MeasurementError(
                f"--metric: {metric.latency} takes {transactions_min(metric.latency):,} transactions in each "
                f"trial, too many for {duration_s:g} s at half of the {highest:,.0f} a second that an arm "
                f"can do: write duration={seconds}s, or a lower percentile"
            )
    return {key: (max(highest * LOWEST, least), highest * HIGHEST) for key, highest in most.items()}
