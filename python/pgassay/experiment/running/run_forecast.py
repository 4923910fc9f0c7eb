"""What the time given can resolve, said before the first trial of a run.

It takes how long a trial lasts and how trials spread: from the experiment's own trials when it is resumed,
else from earlier experiments of its kind. Without any, one trial is rehearsed: it is run and recorded like a
trial, in a folder of its own that is thrown away, and enters no statistic.
"""

import math
from collections.abc import Callable

from pgassay.analysis.statistics.power import resolution_sentence
from pgassay.analysis.statistics.starts import STARTS_MIN, resolvable_by_starts
from pgassay.analysis.verdicts.primary_family import single_trial_spread
from pgassay.analysis.verdicts.study import owns_data
from pgassay.design.schedule import next_step
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.running.earlier_experiments import TrialHistory
from pgassay.experiment.running.loop import RunLimits, TrialRunner, expected_trial_s
from pgassay.model.experiment import Experiment, StatisticalContract
from pgassay.progress import Progress
from pgassay.record.experiment import StoredExperiment
from pgassay.words import percent_rounded
from pgassay.workloads.statements import refused_sql

# Of single trials, where nothing is known of their spread: what a shared virtual machine shows.
SPREAD_UNKNOWN = 0.07
# A percentile of latencies scatters two to five times as much as their mean.
TAIL_SPREAD_UNKNOWN = 0.2


def unknown_spread(contract: StatisticalContract) -> float:
    """The spread of single trials that is assumed of a metric where nothing is known of it."""
    return TAIL_SPREAD_UNKNOWN if contract.metric.latency not in ("", "mean") else SPREAD_UNKNOWN


# What the limits of a run can find, in a sentence, by what is known of its trials.
Resolution = Callable[[Experiment, TrialHistory, RunLimits], str]


def resolution(experiment: Experiment, known: TrialHistory, limits: RunLimits) -> str:
    """What a comparison of its own can resolve."""
    contract = experiment.contract
    if contract.unit == "start":
        return _of_starts(experiment, known, limits)
    return resolution_sentence(
        limits.time_max_s,
        known.trial_s,
        len(experiment.arms),
        effect=contract.margin,
        pooled=contract.pool_twin,
        contrasts=contract.contrasts,
        alpha=contract.alpha,
        trial_spread=known.spread or unknown_spread(contract),
        blocks_max=limits.blocks_max,
        blocks_per_copy=_blocks_per_copy(experiment),
    )


def _blocks_per_copy(experiment: Experiment) -> int:
    """Of the contrasts that an arm with data of its own has; 1 where each block counts."""
    owned = any(owns_data(experiment, each) for each in experiment.contrasts)
    return max(1, experiment.design.blocks_per_copy) if owned else 1


def _of_starts(experiment: Experiment, known: TrialHistory, limits: RunLimits) -> str:
    """What starts in which all arms take turns can find (`test_starts.py` simulates it)."""
    start_s = known.trial_s * len(experiment.arms)
    starts = min(limits.blocks_max, int(limits.time_max_s / start_s))
    if starts < STARTS_MIN:
        return (
            f"no verdict is likely: it takes {STARTS_MIN} starts of the server, of about {start_s:.0f} s each"
        )
    contract = experiment.contract
    pooled = contract.pool_twin and all(each.twin_id for each in experiment.contrasts)
    spread, threshold = known.spread or unknown_spread(contract), 2 * contract.contrasts / contract.alpha
    effect = resolvable_by_starts(starts, spread, threshold, members=3 if pooled else 2)
    given = f"about {starts} starts of one server for all arms"
    if math.isinf(effect):
        return f"{given}: no verdict is likely, since trials spread by {percent_rounded(spread)}"
    return (
        f"{given}: they can find differences of {percent_rounded(effect)} and more, at a spread of "
        f"{percent_rounded(spread)} from start to start"
    )


def announce(
    experiment: Experiment,
    known: TrialHistory,
    limits: RunLimits,
    progress: Progress,
    said_by: Resolution = resolution,
) -> None:
    """Show the plan of this run, and what its limits can resolve. said_by: makes that sentence."""
    arms = experiment.arms
    sentence = said_by(experiment, known, limits)
    names = [arm.name for arm in arms if arm.role != "twin"]
    blocks_max = limits.blocks_max
    if experiment.design.strata == "apart":
        # The sentence speaks of a block of each stratum, which takes what one of all arms would.
        blocks_max *= len({arm.stratum for arm in arms})
    progress.plan(names, blocks_max, limits.blocks_max * len(arms), sentence)


def known_of(
    stored: StoredExperiment, earlier: TrialHistory | None, run: TrialRunner, progress: Progress
) -> TrialHistory:
    """What is known of the experiment's trials, by a rehearsal where nothing is.

    `earlier`: what this machine remembers. Raises MeasurementError when the rehearsal does not succeed.
    """
    trial_s = expected_trial_s(stored)
    if trial_s is None:
        return earlier or rehearse(stored.experiment, run, progress)
    return TrialHistory(trial_s, single_trial_spread(stored))


_ENDED = {"failed": "failed", "invalid": "gave no valid figure"}


def rehearse(experiment: Experiment, run: TrialRunner, progress: Progress) -> TrialHistory:
    """Run a trial of the control once.

    Raises UsageError where the server refuses SQL of the user's file, else MeasurementError with the reason
    when it does not succeed.
    """
    progress.stage("rehearsing one trial, to see what the given time can resolve")
    control = next(arm for arm in experiment.arms if arm.role == "control")
    spec = next_step(experiment, ()).spec
    with scratch_folder() as scratch:
        _, record = run(spec.model_copy(update={"arm": control}), scratch)
    if record.status != "ok":
        if refused := refused_sql(control.spec.workload, record.reason):
            raise UsageError(refused)
        raise MeasurementError(
            f"the rehearsal of {control.name} {_ENDED.get(record.status, record.status)}: {record.reason}"
        )
    return TrialHistory(trial_s=record.took_s, spread=None)
