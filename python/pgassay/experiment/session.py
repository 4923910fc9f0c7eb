"""One sitting of an experiment: new, or resumed; from the machine's preparation to its clean-up.

sweep → plan → write the plan → prepare the data → say what can be resolved → run → analyse
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pgassay.analysis.planner import resolution_sentence
from pgassay.environment import lock, registry
from pgassay.environment.settings import classify
from pgassay.environment.validation import build_settings
from pgassay.errors import InterruptionError, UsageError
from pgassay.experiment import history, ledger
from pgassay.experiment.folder import check_folder, new_folder
from pgassay.experiment.loop import RunLimits, run_experiment
from pgassay.experiment.plan import plan, understand
from pgassay.experiment.provider import MachineProvider
from pgassay.experiment.request import CompareRequest
from pgassay.experiment.same_results import check_same_results
from pgassay.experiment.schedule import arms_of_all_loads, next_step
from pgassay.model.experiment import Experiment
from pgassay.model.trial import TrialRecord, TrialSpec
from pgassay.record.layout import attempt_folders
from pgassay.record.read import StoredExperiment, load
from pgassay.record.write import write_experiment, write_state
from pgassay.report.progress import Progress
from pgassay.trial.host import Host
from pgassay.trial.run import run_trial


@contextmanager
def host_to_ourselves(progress: Progress, *, wait: bool) -> Iterator[None]:
    """Hold the host's lock, with what dead owners left behind removed; raises UsageError with wait=False."""

    def waiting(holder: int | None) -> None:
        whose = f"process {holder}" if holder else "another user's process"
        progress.message(f"{whose} is measuring on this host: waiting until it has ended")

    with lock.acquire(wait, waiting):
        for sentence in registry.sweep():
            progress.message(sentence)
        yield


def run_new(
    request: CompareRequest, progress: Progress, *, wait: bool, until_decided: bool = True
) -> StoredExperiment:
    """Plan and run a comparison; raises UsageError before anything is measured, MeasurementError later.

    `until_decided` False: use all the blocks or time, whatever is decided before.
    """
    understood = understand(request)
    check_folder(request.out)
    with host_to_ourselves(progress, wait=wait):
        experiment = plan(understood, progress.stage)
        folder = new_folder(request.out, experiment)
        contract = experiment.contract
        limits = RunLimits(contract.blocks_max, contract.time_max_s, until_decided=until_decided)
        with (
            _nothing_kept_of_what_never_ran(folder),
            MachineProvider(arms_of_all_loads(experiment), progress.stage) as provider,
        ):
            provider.prepare()
            experiment = _with_machine(experiment, provider)
            write_experiment(folder, experiment)
            return _run(load(folder), provider, limits, progress)


@contextmanager
def _nothing_kept_of_what_never_ran(folder: Path) -> Iterator[None]:
    """Remove a new experiment's folder again when it ends before its first trial is recorded."""
    try:
        yield
    except BaseException:
        if not attempt_folders(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def run_resumed(
    folder: Path, limits: RunLimits | None, progress: Progress, *, wait: bool
) -> StoredExperiment:
    """Continue a stored experiment; its own limits hold unless others are given.

    Raises UsageError when the folder holds no experiment, or it was planned on another machine.
    """
    stored = load(folder)
    contract = stored.experiment.contract
    chosen = limits or RunLimits(contract.blocks_max, contract.time_max_s)
    with host_to_ourselves(progress, wait=wait):
        # Whoever held the lock may have been measuring this very experiment.
        stored = load(folder)
        _refuse_another_machine(stored)
        with MachineProvider(arms_of_all_loads(stored.experiment), progress.stage) as provider:
            provider.prepare()
            return _run(stored, provider, chosen, progress)


def _refuse_another_machine(stored: StoredExperiment) -> None:
    from pgassay.environment.machine import machine_id

    planned = stored.experiment.environment.get("machine_id")
    if planned != machine_id():
        raise UsageError(
            f"{stored.folder} was measured on another machine, and one experiment stays on one: "
            "start a new one with 'pgassay compare'"
        )


def _with_machine(experiment: Experiment, provider: MachineProvider) -> Experiment:
    """The plan with the facts of its storages and datasets, known once they are made."""
    storages = {}
    for arm in experiment.arms:
        volume = provider.volume(arm.spec.storage)
        volume.activate()  # volumes that differ in read-ahead share a device, which has one at a time
        storages[arm.name] = dict(volume.facts())
    datasets = {}
    for arm in arms_of_all_loads(experiment):
        snapshot = provider.snapshot(arm.spec)
        datasets[snapshot.key] = dict(snapshot.facts)
    environment = {**experiment.environment, "storage": storages, "datasets": datasets}
    return experiment.model_copy(update={"environment": environment})


def _run(
    stored: StoredExperiment, provider: MachineProvider, limits: RunLimits, progress: Progress
) -> StoredExperiment:
    experiment = stored.experiment
    is_capped = any(arm.spec.memory_bytes is not None for arm in experiment.arms)
    with Host(provider, _session_names(experiment), evicts_at_start=is_capped) as host:

        def run(spec: TrialSpec, folder: Path) -> tuple[Path, TrialRecord]:
            return run_trial(spec, host, folder)

        try:
            if not stored.trials:
                check_same_results(experiment, host, progress.stage)
            _announce(stored, run, limits, progress)
            ended = run_experiment(stored, run, limits, progress)
        except KeyboardInterrupt as interruption:
            raise InterruptionError(_after_interruption(stored.folder)) from interruption
    history.remember(ended)
    alarm = ledger.enter(ended)
    if alarm is None:
        return ended
    write_state(ended.folder, stopped=ended.stopped, seconds_used=ended.seconds_used, warnings=(alarm,))
    return replace(ended, warnings=(alarm,))


def _after_interruption(folder: Path) -> str:
    if not attempt_folders(folder):
        return "interrupted before the first trial; nothing is left running and nothing was recorded"
    return f"interrupted; nothing is left running: continue with 'pgassay resume {folder}'"


def _session_names(experiment: Experiment) -> frozenset[str]:
    """The varied settings that a session can change, so that they need no restart."""
    builds = {arm.spec.build.bin_directory: arm.spec.build for arm in experiment.arms}
    known = [build_settings(build) for build in builds.values()]
    varied = {name for arm in experiment.arms for name in arm.levels if name in arm.spec.settings}
    return frozenset(name for name in varied if all(classify(each, name) == "session" for each in known))


def _announce(
    stored: StoredExperiment, run: "history.Rehearse", limits: RunLimits, progress: Progress
) -> None:
    """Say what the time given can resolve, from this machine's history or from a rehearsal."""
    experiment = stored.experiment
    known = history.of_itself(stored) or history.recall(experiment)
    if known is None:
        progress.stage("rehearsing one trial, to tell what the time given can resolve")
        known = history.rehearse(experiment, next_step(experiment, ()).spec, run)
    arms = experiment.arms
    sentence = resolution_sentence(
        limits.time_max_s,
        known.trial_s,
        len(arms),
        effect=experiment.contract.margin,
        pooled=experiment.contract.pool_twin,
        contrasts=experiment.contract.contrasts,
        alpha=experiment.contract.alpha,
        trial_spread=known.spread or 0.07,
        blocks_max=limits.blocks_max,
    )
    names = [arm.name for arm in arms if arm.role != "twin"]
    progress.plan(names, limits.blocks_max, limits.blocks_max * len(arms), sentence)
