"""The trials of one run of an experiment, each with what goes before it and after it.

Before a block the fresh copies of its data, before a trial the neutral one; after it the plans that are due.
"""

import time
from pathlib import Path

from pgassay.design.copies import has_fresh_copies
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.experiment.running.schedule import Step, plan_work
from pgassay.model.arm import Arm
from pgassay.model.trial import TrialRecord, TrialSpec
from pgassay.record.read import StoredExperiment, load_trial
from pgassay.terminal.progress import Progress
from pgassay.trial.run import run_trial
from pgassay.trial.state import NeutralTrial
from pgassay.trial.target import Target


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

    def __call__(self, spec: TrialSpec, folder: Path) -> tuple[Path, TrialRecord]:
        """Run one; a rehearsal is one that is written to another folder than the experiment's."""
        before = self._run_neutral(spec) if self._experiment.design.between == "neutral" else None
        doing = self._progress.trial_doing
        if folder != self._folder:
            return run_trial(spec, self._target, folder, doing, before)
        work = plan_work(self._experiment, self._recorded, spec.arm.id)
        path, record = run_trial(spec, self._target, folder, doing, before, work)
        self._recorded.append(load_trial(path))
        return path, record

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
