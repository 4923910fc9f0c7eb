"""One sitting of an experiment: new, or resumed; from the machine's preparation to its clean-up.

sweep → plan → write the plan → prepare the data → say what can be resolved → run → analyse
"""

from dataclasses import replace
from pathlib import Path

from pgassay.environment.server.settings import classify
from pgassay.environment.server.validation import build_settings
from pgassay.errors import InterruptionError
from pgassay.experiment.planning.plan import plan, understand
from pgassay.experiment.planning.remote_servers import is_remote, is_remote_experiment
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running import history, ledger
from pgassay.experiment.running.ceilings import ceilings_of
from pgassay.experiment.running.folder import check_folder, new_folder
from pgassay.experiment.running.loop import RunLimits, run_experiment
from pgassay.experiment.running.provider import MachineProvider
from pgassay.experiment.running.remote_session import resume_remote, run_new_remote
from pgassay.experiment.running.same_results import check_same_results
from pgassay.experiment.running.schedule import arms_of_all_loads
from pgassay.experiment.running.sitting import (
    after_interruption,
    announce,
    host_to_ourselves,
    nothing_kept_of_what_never_ran,
    refuse_another_machine,
)
from pgassay.model.experiment import Experiment, PlannedCeilings
from pgassay.model.trial import TrialRecord, TrialSpec
from pgassay.record.holding import held
from pgassay.record.read import StoredExperiment, load
from pgassay.record.write import write_experiment, write_state
from pgassay.terminal.progress import Progress
from pgassay.trial.host import Host
from pgassay.trial.run import run_trial


def run_new(
    request: CompareRequest, progress: Progress, *, wait: bool, until_decided: bool = True
) -> StoredExperiment:
    """Plan and run a comparison; raises UsageError before anything is measured, MeasurementError later.

    `until_decided` False: use all the blocks or time, whatever is decided before.
    """
    if is_remote(request):
        return run_new_remote(request, progress, wait=wait, until_decided=until_decided)
    understood = understand(request)
    check_folder(request.out)
    with host_to_ourselves(progress, wait=wait):
        experiment = plan(understood, progress.stage)
        folder = new_folder(request.out, experiment)
        contract = experiment.contract
        limits = RunLimits(contract.blocks_max, contract.time_max_s, until_decided=until_decided)
        with (
            nothing_kept_of_what_never_ran(folder),
            MachineProvider(arms_of_all_loads(experiment), progress.stage) as provider,
        ):
            provider.prepare()
            experiment = _with_machine(experiment, provider)
            write_experiment(folder, experiment)
            return _run(load(folder), provider, limits, progress)


def run_resumed(
    folder: Path, limits: RunLimits | None, progress: Progress, *, wait: bool
) -> StoredExperiment:
    """Continue a stored experiment; its own limits hold unless others are given.

    Raises UsageError when the folder holds no experiment, or it was planned on another machine.
    """
    stored = load(folder)
    contract = stored.experiment.contract
    chosen = limits or RunLimits(contract.blocks_max, contract.time_max_s)
    if is_remote_experiment(stored.experiment):
        return resume_remote(stored, chosen, progress, wait=wait)
    with host_to_ourselves(progress, wait=wait):
        # Whoever held the lock may have been measuring this very experiment.
        stored = load(folder)
        refuse_another_machine(stored)
        with MachineProvider(arms_of_all_loads(stored.experiment), progress.stage) as provider:
            provider.prepare()
            return _run(stored, provider, chosen, progress)


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
    environment = experiment.environment.updated(storage=storages, datasets=datasets)
    ceilings = PlannedCeilings.model_validate(ceilings_of(experiment.arms, provider))
    return experiment.model_copy(update={"environment": environment, "ceilings": ceilings})


def _run(
    stored: StoredExperiment, provider: MachineProvider, limits: RunLimits, progress: Progress
) -> StoredExperiment:
    experiment = stored.experiment
    is_capped = any(arm.spec.memory_bytes is not None for arm in experiment.arms)
    with (
        held(stored.folder),
        Host(provider, _session_names(experiment), evicts_at_start=is_capped) as host,
    ):

        def run(spec: TrialSpec, folder: Path) -> tuple[Path, TrialRecord]:
            return run_trial(spec, host, folder, progress.trial_doing)

        try:
            if not stored.trials:
                check_same_results(experiment, host, progress.stage)
            announce(stored, run, limits, progress)
            ended = run_experiment(stored, run, limits, progress)
        except KeyboardInterrupt as interruption:
            raise InterruptionError(after_interruption(stored.folder)) from interruption
    history.remember(ended)
    alarm = ledger.enter(ended)
    if alarm is None:
        return ended
    write_state(ended.folder, stopped=ended.stopped, seconds_used=ended.seconds_used, warnings=(alarm,))
    return replace(ended, warnings=(alarm,))


def _session_names(experiment: Experiment) -> frozenset[str]:
    """The varied settings that a session can change, so that they need no restart."""
    builds = {arm.spec.build.bin_directory: arm.spec.build for arm in experiment.arms}
    known = [build_settings(build) for build in builds.values()]
    varied = {name for arm in experiment.arms for name in arm.levels if name in arm.spec.settings}
    return frozenset(name for name in varied if all(classify(each, name) == "session" for each in known))
