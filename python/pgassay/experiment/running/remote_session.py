"""One sitting of a remote experiment: ask the servers → plan → write the plan → run → analyse.

Nothing is prepared or restored: the servers and their data are somebody else's.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pgassay.environment.remote.resolve import Resolved
from pgassay.errors import InterruptionError, MeasurementError
from pgassay.experiment.planning.remote_plan import plan_remote, understand_remote
from pgassay.experiment.planning.remote_servers import again
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running import history
from pgassay.experiment.running.folder import check_folder, new_folder
from pgassay.experiment.running.loop import RunLimits, TrialRunner, run_experiment
from pgassay.experiment.running.remote_swap import swap_servers
from pgassay.experiment.running.same_results import compare_remote_results
from pgassay.experiment.running.schedule import next_step
from pgassay.experiment.running.sitting import (
    after_interruption,
    announce,
    host_to_ourselves,
    nothing_kept_of_what_never_ran,
    refuse_another_machine,
)
from pgassay.model.trial import TrialRecord, TrialSpec
from pgassay.record.holding import held
from pgassay.record.read import StoredExperiment, load
from pgassay.record.write import write_experiment, write_servers, write_state
from pgassay.terminal.progress import Progress
from pgassay.trial.remote_host import RemoteHost
from pgassay.trial.remote_run import run_remote_trial

Servers = Mapping[str, Resolved]


def run_new_remote(
    request: CompareRequest, progress: Progress, *, wait: bool, until_decided: bool
) -> StoredExperiment:
    """Plan and run a comparison on servers that run already; raises as `session.run_new`."""
    check_folder(request.out)
    understood = understand_remote(request, progress.stage)
    for sentence in understood.notes:
        progress.message(sentence)
    with host_to_ourselves(progress, wait=wait):
        experiment, documents = plan_remote(understood, progress.stage)
        folder = new_folder(request.out, experiment)
        contract = experiment.contract
        limits = RunLimits(contract.blocks_max, contract.time_max_s, until_decided=until_decided)
        with nothing_kept_of_what_never_ran(folder):
            write_experiment(folder, experiment)
            write_servers(folder, documents)
            return _run(load(folder), understood.servers, limits, progress)


def resume_remote(
    stored: StoredExperiment, limits: RunLimits, progress: Progress, *, wait: bool
) -> StoredExperiment:
    """Continue a stored remote experiment; raises as `session.run_resumed`."""
    servers = again(stored.experiment)
    with host_to_ourselves(progress, wait=wait):
        stored = load(stored.folder)
        refuse_another_machine(stored)
        return _run(stored, servers, limits, progress)


def _run(
    stored: StoredExperiment, servers: Servers, limits: RunLimits, progress: Progress
) -> StoredExperiment:
    with held(stored.folder), RemoteHost(servers) as host:

        def run(spec: TrialSpec, folder: Path) -> tuple[Path, TrialRecord]:
            return run_remote_trial(spec, host, folder, progress.trial_doing)

        try:
            if not stored.trials:
                compare_remote_results(stored.experiment, host, progress.stage)
            announce(stored, run, limits, progress)
            if stored.experiment.swap:
                ended = _run_halves(stored, run, limits, progress, host, servers)
            else:
                ended = run_experiment(stored, run, limits, progress)
        except KeyboardInterrupt as interruption:
            raise InterruptionError(after_interruption(stored.folder)) from interruption
    history.remember(ended)
    return ended


def _run_halves(
    stored: StoredExperiment,
    run: TrialRunner,
    limits: RunLimits,
    progress: Progress,
    host: RemoteHost,
    servers: Servers,
) -> StoredExperiment:
    """Half of the blocks or of the time, the swap, the other half; decided or not: both halves count."""
    if stored.swap is None:
        first = RunLimits(max(1, limits.blocks_max // 2), limits.time_max_s / 2, until_decided=False)
        stored = run_experiment(stored, run, first, progress)
        if stored.stopped == "failed":
            return stored
        step = next_step(stored.experiment, (trial.record for trial in stored.trials))
        host.close_sessions()
        try:
            swap_servers(stored, step.spec.block, servers, progress.message)
        except MeasurementError:
            write_state(stored.folder, stopped="failed", seconds_used=stored.seconds_used)
            raise
        stored = replace(load(stored.folder), stopped="running")
    return run_experiment(stored, run, replace(limits, until_decided=False), progress)
