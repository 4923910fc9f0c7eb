"""One run of an experiment, new or resumed: from the plan to the last trial that this run adds.

plan → open the target → write the plan → say what can be resolved → trials until decided → remember
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.analysis.verdicts.primary import single_trial_spread
from pgassay.design.schedule import next_step
from pgassay.environment import history, lock
from pgassay.environment.builds.unchanged import refuse_changed
from pgassay.environment.cleanup import registry
from pgassay.environment.cleanup.source_copies import remove_source_copies
from pgassay.environment.history import Known
from pgassay.environment.linux.machine import machine_id
from pgassay.errors import InterruptionError, MeasurementError, UsageError
from pgassay.experiment.planning.connections import reconnect
from pgassay.experiment.planning.plan import parse_request, plan
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.planning.servers import Connections, ParsedRequest
from pgassay.experiment.running import ledger
from pgassay.experiment.running.folder import check_folder, new_folder
from pgassay.experiment.running.forecast import Resolution, announce, resolution
from pgassay.experiment.running.loop import (
    ExperimentTrials,
    RunLimits,
    TrialRunner,
    expected_trial_s,
    run_experiment,
    stratum_trial_s,
)
from pgassay.experiment.running.remote_swap import swap_servers
from pgassay.experiment.running.same_results import check_same_results
from pgassay.experiment.running.targets import open_target
from pgassay.model.experiment import Experiment
from pgassay.record.experiment import (
    StoredExperiment,
    load,
    recording_error,
    write_experiment,
    write_servers,
    write_state,
)
from pgassay.record.holding import held
from pgassay.record.layout import attempt_folders
from pgassay.terminal.progress import Progress
from pgassay.trial.target import Target


def run_new(
    request: CompareRequest,
    progress: Progress,
    *,
    wait: bool,
    until_decided: bool = True,
    said_by: Resolution = resolution,
) -> StoredExperiment:
    """Plan and run a comparison; raises UsageError before anything is measured, MeasurementError later.

    `until_decided` False: use all the blocks or time, whatever is decided before. said_by: makes the sentence
    that says before the first trial what they can find.
    """
    check_folder(request.out)
    parsed = parse_request(request, progress.stage)
    for sentence in parsed.servers.messages:
        progress.message(sentence)
    with host_lock(progress, wait=wait):
        return run_parsed(parsed, progress, until_decided=until_decided, said_by=said_by)


def run_parsed(
    parsed: ParsedRequest,
    progress: Progress,
    *,
    until_decided: bool = True,
    said_by: Resolution = resolution,
) -> StoredExperiment:
    """Plan and run what was parsed; the caller holds the host's lock. Raises as `run_new`."""
    planned = plan(parsed, progress.stage)
    contract = planned.contract
    limits = RunLimits(contract.blocks_max, contract.time_max_s, until_decided=until_decided)
    folder = new_folder(parsed.request.out, planned.title)
    try:
        earlier = history.recall(planned)
        experiment = history.with_known_scale(planned, earlier)
        run = _Run(earlier, parsed.servers.connections, limits, progress, said_by)
        return _run_planned(experiment, folder, run)
    except BaseException:
        # Nothing is kept of what ended before its first trial was recorded.
        if not attempt_folders(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


@dataclass(frozen=True)
class _Run:
    """One run of an experiment: what is known before it, its servers and limits, and who tells of it."""

    earlier: Known | None
    connections: Connections
    limits: RunLimits
    progress: Progress
    said_by: Resolution = resolution


def _run_planned(experiment: Experiment, folder: Path, run: _Run) -> StoredExperiment:
    connections = run.connections
    trial_s = history.likely_trial_s(experiment, run.earlier)
    with open_target(experiment, connections.parameters, run.progress.stage) as opened:
        write_experiment(folder, opened.complete(experiment, trial_s))
        if connections.documents:
            write_servers(folder, connections.documents)
        stored = load(folder)
        with held(folder), opened.target:
            ended = _run_trials(stored, opened.target, run)
        return _remembered(ended)


def run_resumed(
    folder: Path, limits: RunLimits | None, progress: Progress, *, wait: bool
) -> StoredExperiment:
    """Continue a stored experiment; its own limits hold unless others are given.

    Raises UsageError when the folder holds no experiment, it was planned on another machine, or the binary of
    one of its builds is another one now.
    """
    connections = Connections(reconnect(load(folder).experiment))
    with host_lock(progress, wait=wait):
        return resume_held(folder, limits, progress, connections)


def resume_held(
    folder: Path, limits: RunLimits | None, progress: Progress, connections: Connections | None = None
) -> StoredExperiment:
    """Continue a stored experiment; the caller holds the host's lock. Raises as `run_resumed`."""
    connections = connections or Connections()
    # Whoever held the lock may have been measuring this very experiment.
    stored = load(folder)
    contract = stored.experiment.contract
    chosen = limits or RunLimits(contract.blocks_max, contract.time_max_s)
    _refuse_another_machine(stored)
    for build in {arm.spec.build.bin_directory: arm.spec.build for arm in stored.experiment.arms}.values():
        refuse_changed(build)
    with open_target(stored.experiment, connections.parameters, progress.stage) as opened:
        earlier = history.recall(stored.experiment)
        with held(folder), opened.target:
            ended = _run_trials(stored, opened.target, _Run(earlier, connections, chosen, progress))
        return _remembered(ended)


def _run_trials(stored: StoredExperiment, target: Target, run: _Run) -> StoredExperiment:
    limits, progress = run.limits, run.progress
    trials = ExperimentTrials(stored, target, progress)
    try:
        if not stored.trials:
            check_same_results(stored.experiment, target, progress.stage)
        announce(stored, run.earlier, trials, limits, progress, run.said_by)
        if not stored.experiment.swap:
            return run_experiment(stored, trials, limits, progress, trials.prepare_block)
        return _run_halves(stored, trials, limits, progress, target, run.connections)
    except KeyboardInterrupt as interruption:
        raise InterruptionError(_after_interruption(stored.folder)) from interruption


def _run_halves(
    stored: StoredExperiment,
    run: TrialRunner,
    limits: RunLimits,
    progress: Progress,
    target: Target,
    connections: Connections,
) -> StoredExperiment:
    """Half of the blocks or of the time, the swap, the other half; decided or not: both halves count."""
    if stored.swap is None:
        first = RunLimits(max(1, limits.blocks_max // 2), limits.time_max_s / 2, until_decided=False)
        stored = run_experiment(stored, run, first, progress)
        if stored.stopped == "failed":
            return stored
        step = next_step(stored.experiment, (trial.record for trial in stored.trials))
        target.abandon()
        try:
            swap_servers(stored, step.spec.block, connections.parameters, progress.message)
        except MeasurementError:
            write_state(stored.folder, stopped="failed", seconds_used=stored.seconds_used)
            raise
        stored = replace(load(stored.folder), stopped="running")
    return run_experiment(stored, run, replace(limits, until_decided=False), progress)


def _remembered(ended: StoredExperiment) -> StoredExperiment:
    """Keep what the run took, and its twins' evidence; the experiment with the alarm that this may raise.

    Remote servers' twins say nothing of this machine.
    """
    trial_s = expected_trial_s(ended)
    if trial_s is not None:
        known = Known(
            trial_s,
            single_trial_spread(ended),
            single_trial_spread(ended, confidence=0.5),
            stratum_trial_s(ended),
        )
        try:
            history.remember(ended.experiment, known)
        except OSError as error:
            raise recording_error(history.history_file(), error) from error
    is_remote = any(arm.spec.server is not None for arm in ended.experiment.arms)
    alarm = None if is_remote else ledger.add_evidence(ended)
    if alarm is None:
        return ended
    write_state(ended.folder, stopped=ended.stopped, seconds_used=ended.seconds_used, warnings=(alarm,))
    return replace(ended, warnings=(alarm,))


@contextmanager
def host_lock(progress: Progress, *, wait: bool) -> Iterator[None]:
    """Hold the host's lock, with what dead owners left behind removed; raises UsageError with wait=False."""

    def waiting(holder: int | None) -> None:
        whose = f"process {holder}" if holder else "another user's process"
        progress.message(f"{whose} is measuring on this host: waiting until it has ended")

    with lock.acquire(wait, waiting):
        for sentence in (*registry.sweep(), *remove_source_copies()):
            progress.message(sentence)
        yield


def _refuse_another_machine(stored: StoredExperiment) -> None:
    """Raise UsageError when the experiment was planned on another machine than this."""
    planned = stored.experiment.environment.machine_id
    if planned != machine_id():
        raise UsageError(
            f"{stored.folder} was measured on another machine, and one experiment stays on one: "
            "start a new one with 'pgassay compare'"
        )


def _after_interruption(folder: Path) -> str:
    """What to say of an interrupted experiment, and how to go on with it."""
    if not attempt_folders(folder):
        return "interrupted before the first trial; nothing is left running and nothing was recorded"
    return f"interrupted; nothing is left running: continue with 'pgassay resume {folder}'"
