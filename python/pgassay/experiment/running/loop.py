"""Runs trials until the experiment is decided, its time or blocks are used up, or it fails for good.

Which plans a trial is to execute, and how long that may take, follows from the records as well.
"""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from pgassay.analysis.statistics.power import minimum_blocks
from pgassay.analysis.statistics.starts import STARTS_MIN
from pgassay.analysis.verdicts.compare import InterimResult, analyse, interim_result
from pgassay.analysis.verdicts.dropped_arms import VOIDED_BLOCKS_MAX, dropped_sentences
from pgassay.design.schedule import Step, has_fresh_copies, records_blocks
from pgassay.environment.builds.build_identity import ChangedBuildError
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.errors import MeasurementError
from pgassay.experiment.running.capacity_rates import step_after
from pgassay.experiment.running.start_blocks import StartTrials, without_half_starts
from pgassay.experiment.running.stopping_rules import (
    Wanted,
    decided_arms,
    dropped,
    rest_without_dropped,
    standing_of,
)
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.percentiles import transactions_min
from pgassay.model.result import CompareResult
from pgassay.model.trial import TrialRecord, TrialSpec
from pgassay.plans.plan_shape import shape
from pgassay.progress import Progress
from pgassay.record.experiment import (
    StoredExperiment,
    StoredTrial,
    load_trial,
    remove_unfinished,
    write_block_plan,
    write_state,
)
from pgassay.trial.measure.work_plans import PlanWork
from pgassay.trial.run_trial import run_trial
from pgassay.trial.target import Target
from pgassay.trial.trial_state import NeutralTrial
from pgassay.words import seconds
from pgassay.workloads.metric import too_few

# Of an experiment's time what executing plans may take.
PLANS_SHARE_MAX = 0.1
# What the last analysis and the report take.
ENDING_S = 3.0
ENDING_SHARE_MAX = 0.05


class TrialRunner(Protocol):
    """Runs one trial and returns where its record lies."""

    def __call__(self, spec: TrialSpec, folder: Path) -> tuple[Path, TrialRecord]:
        """Run `spec`, write it below `folder`."""


@dataclass(frozen=True)
class RunLimits:
    """When this run stops: the contract's limits, or those that the user gave when resuming.

    `until_decided`: stop as soon as every comparison has a verdict; a user who asks for so many
    blocks gets them all. `ends_at`: no block begins that would not end by then, on the clock of
    time.monotonic. `wanted`: the ids of the arms of which something is still wanted, where that is not a
    verdict on each; once there are none the run stops.
    """

    blocks_max: int
    time_max_s: float
    until_decided: bool = True
    ends_at: float = math.inf
    wanted: Wanted | None = None

    def after_preparing(self, seconds: float) -> "RunLimits":
        """The limits for the blocks, where what came before them took so long and a report follows them."""
        ending_s = min(ENDING_S, ENDING_SHARE_MAX * self.time_max_s)
        return replace(self, time_max_s=self.time_max_s - max(0.0, seconds) - ending_s)


class BlockPreparer(Protocol):
    """Makes ready what the trials of a block need, before the first of them that this run adds."""

    def __call__(self, step: Step, /) -> None:
        """Make it ready for the block of `step`."""


def run_experiment(
    stored: StoredExperiment,
    run: TrialRunner,
    limits: RunLimits,
    progress: Progress,
    prepare_block: BlockPreparer = lambda _: None,
) -> StoredExperiment:
    """Continue `stored` to its end; returns it with every trial, and `stopped` saying why it ended.

    What a killed run left unfinished in its folder is removed first; the caller holds the host's lock.
    state.json is kept up to date, so the folder alone always tells where the experiment stands.
    Raises MeasurementError when a record can't be written, or the binary of a build was replaced meanwhile;
    what was recorded before is whole.
    """
    remove_unfinished(stored.folder)
    stored = without_half_starts(stored)
    begun = time.monotonic()
    used_before_s = stored.seconds_used

    def used_s() -> float:
        return used_before_s + time.monotonic() - begun

    # Whoever asks for a number of blocks wants them of all arms, decided or not.
    resting: frozenset[str] = frozenset()
    if limits.until_decided and stored.trials:
        ends, resting = standing_of(stored, analyse(stored), limits.wanted)
        if ends:
            return _end(stored, ends, used_s())
    prepared = _Prepared(prepare_block)
    forgiven: int | None = None if stored.stopped == "failed" else 0
    try:
        while True:
            step = step_after(stored, resting)
            # Who resumes a failed experiment has mended something: its voided blocks are forgiven.
            forgiven = step.voided_in_a_row if forgiven is None else min(forgiven, step.voided_in_a_row)
            block_s = expected_block_s(stored, step, prepared.expected_s(step))
            stopped = _reason_to_stop(step, limits, used_s(), block_s, forgiven)
            if stopped:
                return _end(stored, stopped, used_s())
            stored = _with_plan(stored, step)
            prepared.make_ready(step)
            stored = _run_one(stored, step, run, progress)
            write_state(stored.folder, stopped="running", seconds_used=used_s())
            following = step_after(stored, resting)
            if following.begins_block:
                interim, whole = interim_result(stored), None
                # The whole analysis of a large grid takes a while: once in a round is enough to be shown.
                if following.visit != step.visit or interim.decided:
                    whole = analyse(stored)
                    progress.estimate(whole, max(0.0, limits.time_max_s - used_s()))
                ends, resting = _after_block(stored, limits, interim, whole, resting)
                if ends:
                    return _end(stored, ends, used_s())
    except ChangedBuildError as error:
        _end(stored, "failed", used_s())
        raise MeasurementError(str(error)) from error
    except (KeyboardInterrupt, TooFewTransactionsError) as error:
        _end(stored, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed", used_s())
        raise


def _after_block(
    stored: StoredExperiment,
    limits: RunLimits,
    interim: InterimResult,
    whole: CompareResult | None,
    resting: frozenset[str],
) -> tuple[str, frozenset[str]]:
    """How the experiment has stopped, '' if it has not, and which arms rest now; `whole`: once in a round."""
    if limits.wanted is not None and whole is not None:
        return standing_of(stored, whole, limits.wanted)
    if limits.wanted is not None or not limits.until_decided:
        return "", resting
    resting = decided_arms(stored, interim)
    is_decided = interim.decided or rest_without_dropped(stored, resting)
    return "decided" if is_decided else "", resting


def _with_plan(stored: StoredExperiment, step: Step) -> StoredExperiment:
    """The experiment with the plan of the step's block, which is on disk before the block's first trial."""
    plan = step.plan
    if not records_blocks(stored.experiment) or plan.block in stored.block_plans:
        return stored
    write_block_plan(stored.folder, plan)
    return replace(stored, block_plans={**stored.block_plans, plan.block: plan})


def _run_one(stored: StoredExperiment, step: Step, run: TrialRunner, progress: Progress) -> StoredExperiment:
    spec = step.spec
    progress.trial_started(spec.block, spec.position, spec.arm.id, expected_trial_s(stored))
    path, record = run(spec, stored.folder)
    progress.trial_ended(spec.block, spec.position, record.status, outcome_text(record, stored.experiment))
    after = replace(stored, trials=(*stored.trials, load_trial(path)), stopped="running")
    _refuse_too_few(stored.experiment, record)
    if record.status != "ok":
        left_out = dropped(after)
        for sentence in dropped_sentences(after, left_out.keys() - dropped(stored).keys(), left_out):
            progress.message(sentence)
    return after


class TooFewTransactionsError(MeasurementError):
    """A trial has too few transactions for the percentile that is compared."""


def _refuse_too_few(experiment: Experiment, record: TrialRecord) -> None:
    """Raise where such trials can't have the percentile: in the first block, before time goes by."""
    latency, load = experiment.contract.metric.latency, record.load
    if not latency or load is None or record.status != "ok" or record.block > 0:
        return
    fault = too_few(latency, load.latencies, load.elapsed_s)
    # A rate that gives just enough gives somewhat fewer in every other trial.
    if fault and load.latencies < 0.8 * transactions_min(latency):
        raise TooFewTransactionsError(f"--metric {latency}: {fault}")


def _reason_to_stop(
    step: Step, limits: RunLimits, used_s: float, block_s: float, forgiven: int
) -> str | None:
    if step.voided_in_a_row - forgiven >= VOIDED_BLOCKS_MAX:
        return "failed"
    if not step.begins_block:
        return None
    # The next block is of the stratum that was visited least, among those that don't rest.
    if step.visit >= limits.blocks_max:
        return "blocks"
    now = time.monotonic()
    is_late = used_s + block_s > limits.time_max_s or now + block_s > limits.ends_at
    # A first block runs whatever it takes, unless preparing took all the time.
    if (step.spec.block > 0 and is_late) or now > limits.ends_at:
        return "max-time"
    return None


@dataclass
class _Prepared:
    """What came before the first trial of each block of this run: copies of the data that are made anew.

    Blocks that go on with a set of copies wait for none; before a set's first block all of it is made.
    """

    prepare: BlockPreparer
    block: int | None = None
    sets: set[tuple[str | None, int]] = field(default_factory=set)
    anew_s: list[float] = field(default_factory=list)
    going_on_s: list[float] = field(default_factory=list)

    def _begins_set(self, step: Step) -> bool:
        return (step.plan.stratum, step.plan.replicate) not in self.sets

    def expected_s(self, step: Step) -> float:
        """How long it takes before the step's block, by what came before earlier ones of its kind."""
        # The first set is there before the first block: its copies took no time of a block.
        return max(self.anew_s if self._begins_set(step) else self.going_on_s, default=0.0)

    def make_ready(self, step: Step) -> None:
        """Make ready what the step's block needs, once."""
        if self.block != step.plan.block:
            taken = self.anew_s if self._begins_set(step) else self.going_on_s
            began_s = time.monotonic()
            self.prepare(step)
            taken.append(time.monotonic() - began_s)
            self.block = step.plan.block
            self.sets.add((step.plan.stratum, step.plan.replicate))


def expected_block_s(stored: StoredExperiment, step: Step, preparing_s: float) -> float:
    """How long the step's block takes, by the trials so far; preparing_s: what comes before it."""
    return (expected_trial_s(stored) or 0.0) * len(step.arms) + preparing_s


def expected_trial_s(stored: StoredExperiment) -> float | None:
    """The mean wall time of the valid trials so far, over all arms; None before the first."""
    walls = [trial.record.took_s for trial in stored.trials if trial.record.status == "ok"]
    return sum(walls) / len(walls) if walls else None


def stratum_trial_s(stored: StoredExperiment) -> dict[str, float]:
    """The mean wall time of the valid trials of each stratum of a grid, by its name."""
    walls: dict[str, list[float]] = {}
    strata = {arm.id: arm.stratum for arm in stored.experiment.arms if arm.stratum}
    for trial in stored.trials:
        stratum = strata.get(trial.record.arm_id)
        if trial.record.status == "ok" and stratum is not None:
            walls.setdefault(stratum, []).append(trial.record.took_s)
    return {stratum: sum(found) / len(found) for stratum, found in walls.items()}


def outcome_text(record: TrialRecord, experiment: Experiment) -> str:
    """A trial's figure for the progress line, or the reason why it has none."""
    if record.status != "ok":
        return record.reason
    metric = experiment.contract.metric
    if record.load is not None and metric.latency in record.load.latency_ms:
        return f"{metric.name} {record.load.latency_ms[metric.latency]:,.4g} ms"
    if record.load is not None and metric.better == "higher":
        return f"{record.load.transactions / record.load.elapsed_s:,.0f} {metric.unit}"
    total_s = sum(statement.least_s for statement in record.statements)
    return f"{total_s:.3f} s" if record.load is None else seconds(total_s)


def _end(stored: StoredExperiment, stopped: str, used_s: float) -> StoredExperiment:
    write_state(stored.folder, stopped=stopped, seconds_used=used_s)
    return replace(stored, stopped=stopped, seconds_used=used_s)


class ExperimentTrials:
    """Runs the trials of an experiment on its target, one at a time; a `TrialRunner` of the loop."""

    def __init__(self, stored: StoredExperiment, target: Target, progress: Progress) -> None:
        self._folder = stored.folder
        self._experiment = stored.experiment
        self._recorded = list(stored.trials)
        # Of the block that runs, with the data that each runs on; before the first, as they were planned.
        self._arms = stored.experiment.arms
        self._target = target
        self._progress = progress
        self._starts = StartTrials(stored.experiment, target, stored.folder)

    def __call__(self, spec: TrialSpec, folder: Path) -> tuple[Path, TrialRecord]:
        """Run one; a rehearsal is one that is written to another folder than the experiment's."""
        before = self._run_neutral(spec) if self._experiment.design.between == "neutral" else None
        doing = self._progress.trial_doing
        if folder != self._folder:
            return run_trial(spec, self._target, folder, doing, before)
        if self._experiment.contract.unit == "start":
            path, record = self._starts.run(spec, self._arms, self._recorded, self._work_of, doing)
        else:
            path, record = run_trial(spec, self._target, folder, doing, before, self._work_of(spec.arm.id))
        self._recorded.append(load_trial(path))
        return path, record

    def _work_of(self, arm_id: str) -> PlanWork | None:
        return plan_work(self._experiment, self._recorded, arm_id)

    def prepare_block(self, step: Step) -> None:
        """Make the copies of the data for the block of `step`, where each replicate has its own."""
        self._arms = step.arms
        machine = self._target.machine
        if machine is not None and has_fresh_copies(self._experiment, step.plan.stratum):
            self._progress.trial_doing("making fresh copies of the data")
            machine.replace_copies(step.arms)

    def _run_neutral(self, spec: TrialSpec) -> NeutralTrial:
        """Run the workload on the control's settings, so that every trial has the same predecessor.

        It is a whole trial of the same protocol; its record is thrown away.
        """
        begun = time.monotonic()
        with scratch_folder() as scratch:
            _, record = run_trial(
                spec.model_copy(update={"arm": self._control_beside(spec.arm)}),
                self._target,
                scratch,
                lambda step: self._progress.trial_doing(f"neutral trial before it: {step}"),
            )
        return NeutralTrial(time.monotonic() - begun, "" if record.status == "ok" else record.reason)

    def _control_beside(self, arm: Arm) -> Arm:
        """The control that an arm is compared with, on the data of its block."""
        return next(each for each in self._arms if each.role == "control" and each.stratum == arm.stratum)


def plan_work(experiment: Experiment, trials: Iterable[StoredTrial], arm_id: str) -> PlanWork | None:
    """What the next trial of an arm is to execute; None where the experiment executes no plans.

    A twin's are its control's, and would tell nothing else.
    """
    is_twin = any(arm.id == arm_id and arm.role == "twin" for arm in experiment.arms)
    if experiment.protocol.plans != "work" or is_twin:
        return None
    recorded = list(trials)
    done = set(done_plans(recorded))
    return PlanWork(
        is_due=lambda statement, plan: (arm_id, statement, shape(plan)) not in done,
        budget_s=lambda wall_s: budget_s(experiment, recorded, wall_s),
    )


def done_plans(trials: Iterable[StoredTrial]) -> Iterator[tuple[str, str, str]]:
    """(arm's id, statement, shape of its plan) of those that were executed, or never will be."""
    for trial in trials:
        for statement, made in trial.work_plans.items():
            if not made.deferred and trial.record.status == "ok":
                yield trial.record.arm_id, statement, shape(trial.plans.get(statement))


def budget_s(experiment: Experiment, trials: Iterable[StoredTrial], wall_s: float) -> float:
    """The seconds that plans may take now, so that they stay below a tenth of the experiment's time.

    That time is what its trials took so far, or what it will take at least where that is more: the fewest
    blocks that give a verdict, if the contract's blocks and time have room for them. `wall_s`: of the
    trial that has just been measured.
    """
    contract = experiment.contract
    walls, spent_s = [wall_s], 0.0
    for trial in trials:
        walls.append(trial.record.took_s)
        spent_s += trial.record.plans_s or 0.0
    least = minimum_blocks(pooled=contract.pool_twin, contrasts=contract.contrasts, alpha=contract.alpha)
    least = STARTS_MIN if contract.unit == "start" else least
    trials_expected = min(contract.blocks_max, least) * len(experiment.arms)
    expected_s = min(contract.time_max_s, trials_expected * sum(walls) / len(walls))
    return PLANS_SHARE_MAX * max(sum(walls) + spent_s, expected_s) - spent_s
