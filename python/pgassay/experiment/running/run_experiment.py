"""One run of an experiment, new or resumed: from the plan to the last trial that this run adds.

plan → open the target → write the plan → rehearse, and design the blocks by that → say what can be resolved
→ trials until decided → remember
"""

import math
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.analysis.statistics.power import minimum_blocks
from pgassay.analysis.verdicts.primary_family import single_trial_spread
from pgassay.design.arms import arms_of_all_loads
from pgassay.design.schedule import arms_to_prepare, has_fresh_copies
from pgassay.environment import lock
from pgassay.environment.builds.build_identity import refuse_changed
from pgassay.environment.cleanup import registry
from pgassay.environment.cleanup.source_copies import remove_source_copies
from pgassay.environment.linux.machine import machine_id
from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.errors import InterruptionError, UsageError
from pgassay.experiment.planning.connections import reconnect
from pgassay.experiment.planning.experiment_plan import parse_request, plan
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.planning.servers import OnStage, ParsedRequest, ServerConnections
from pgassay.experiment.running import earlier_experiments, ledger
from pgassay.experiment.running.capacity_rates import search_range
from pgassay.experiment.running.device_ceilings import ceilings_of
from pgassay.experiment.running.earlier_experiments import TrialHistory
from pgassay.experiment.running.loop import (
    ExperimentTrials,
    RunLimits,
    expected_trial_s,
    run_experiment,
    stratum_trial_s,
)
from pgassay.experiment.running.profiling_rounds import run_profile
from pgassay.experiment.running.remote_swap import run_halves
from pgassay.experiment.running.results_folder import check_folder, new_folder
from pgassay.experiment.running.run_forecast import Resolution, announce, known_of, resolution
from pgassay.experiment.running.same_results import check_same_results
from pgassay.experiment.running.start_blocks import without_half_starts
from pgassay.model.experiment import BlockDesign, Experiment
from pgassay.progress import Progress
from pgassay.record.documents import recording_error
from pgassay.record.experiment import (
    StoredExperiment,
    load,
    refuse_lost_blocks,
    write_design,
    write_experiment,
    write_servers,
    write_state,
    write_warnings,
)
from pgassay.record.experiment_lock import held
from pgassay.record.layout import attempt_folders
from pgassay.trial.provisioned_target import MachineProvider, ProvisionedTarget
from pgassay.trial.remote_target import RemoteTarget
from pgassay.trial.target import Target

# What a disk that others use as well copies, reading and writing: a hundred times less than the fastest, and
# rather too little than too much, since a block more on a set of copies costs little.
COPYING_BYTES_PER_S = 100e6
COPYING_QUICK_S = 1.0
COPYING_SHARE_MAX = 0.25


def run_new(
    request: CompareRequest,
    progress: Progress,
    *,
    wait: bool,
    until_decided: bool = True,
    said_by: Resolution = resolution,
    limits: RunLimits | None = None,
    copies_each_block: bool = False,
) -> StoredExperiment:
    """Plan and run a comparison; raises UsageError before anything is measured, MeasurementError later.

    `until_decided` False: use all the blocks or time, whatever is decided before. said_by: makes the sentence
    that says before the first trial what they can find. `limits`: of this run, in place of the plan's.
    `copies_each_block`: arms that need data of their own have fresh copies in each block, so that the first
    verdict takes the fewest, whatever copying takes.
    """
    check_folder(request.out)
    parsed = parse_told(request, progress)
    with host_lock(progress, wait=wait):
        return run_parsed(
            parsed,
            progress,
            until_decided=until_decided,
            said_by=said_by,
            limits=limits,
            began_s=time.monotonic(),
            copies_each_block=copies_each_block,
        )


def parse_told(request: CompareRequest, progress: Progress) -> ParsedRequest:
    """Read a request, and tell what there is to tell of its servers; raises UsageError for what can't be."""
    parsed = parse_request(request, progress.stage)
    for sentence in parsed.servers.messages:
        progress.message(sentence)
    return parsed


def run_parsed(
    parsed: ParsedRequest,
    progress: Progress,
    *,
    until_decided: bool = True,
    said_by: Resolution = resolution,
    trial_s: float = 0.0,
    limits: RunLimits | None = None,
    began_s: float | None = None,
    copies_each_block: bool = False,
) -> StoredExperiment:
    """Plan and run what was parsed; the caller holds the host's lock. Raises as `run_new`.

    `trial_s`: the mean time of a trial in a block, where the caller knows more of it than a trial of the
    control can tell. `began_s`: since when its time counts, by the monotonic clock; without it, since the
    first block.
    """
    planned = plan(parsed, progress.stage)
    if planned.restarts:
        progress.message(f"each trial has its own server: {planned.restarts}")
    contract = planned.contract
    limits = limits or RunLimits(contract.blocks_max, contract.time_max_s, until_decided=until_decided)
    folder = new_folder(parsed.request.out, planned.title)
    try:
        earlier = earlier_experiments.recall(planned)
        experiment = earlier_experiments.with_known_scale(planned, earlier)
        connections = parsed.servers.connections
        run = _Run(earlier, connections, limits, progress, said_by, trial_s, began_s, copies_each_block)
        return _run_planned(experiment, folder, run)
    except BaseException:
        # Nothing is kept of what ended before its first trial was recorded.
        if not attempt_folders(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


@dataclass(frozen=True)
class _Run:
    """One run of an experiment: what is known before it, its servers and limits, and who tells of it.

    `began_s` is as of `run_parsed`, `copies_each_block` as of `run_new`.
    """

    earlier: TrialHistory | None
    connections: ServerConnections
    limits: RunLimits
    progress: Progress
    said_by: Resolution = resolution
    trial_s: float = 0.0
    began_s: float | None = None
    copies_each_block: bool = False

    def limits_now(self, loading_s: float) -> RunLimits:
        """The limits of the blocks, after what came before them but for loading data, which took so long."""
        if self.began_s is None:
            return self.limits
        return self.limits.after_preparing(time.monotonic() - self.began_s - loading_s)


@dataclass(frozen=True)
class OpenTarget:
    """A target ready for its trials, which enter it.

    `complete`: the plan with the facts that are known once storages and datasets are made. `in_time`: the
    design of its blocks where trials take so many seconds. `loading_s`: what loading data took so far.
    """

    target: Target
    complete: Callable[[Experiment], Experiment]
    in_time: Callable[[Experiment, float], BlockDesign]
    loading_s: Callable[[], float] = lambda: 0.0


def _run_planned(experiment: Experiment, folder: Path, run: _Run) -> StoredExperiment:
    connections = run.connections
    with open_target(experiment, connections.parameters, run.progress.stage) as opened:
        write_experiment(folder, opened.complete(experiment))
        if connections.documents:
            write_servers(folder, connections.documents)
        stored = load(folder)
        with held(folder), opened.target:
            ended = _run_trials(stored, opened, run)
        return _remembered(ended)


def run_resumed(
    folder: Path, limits: RunLimits | None, progress: Progress, *, wait: bool
) -> StoredExperiment:
    """Continue a stored experiment; its own limits hold unless others are given.

    Raises UsageError when the folder holds no experiment, it was planned on another machine, or the binary of
    one of its builds is another one now.
    """
    connections = ServerConnections(reconnect(load(folder).experiment))
    with host_lock(progress, wait=wait):
        return resume_held(folder, limits, progress, connections, began_s=time.monotonic())


def resume_held(
    folder: Path,
    limits: RunLimits | None,
    progress: Progress,
    connections: ServerConnections | None = None,
    *,
    began_s: float | None = None,
) -> StoredExperiment:
    """Continue a stored experiment; the caller holds the host's lock. Raises as `run_resumed`.

    `began_s` is as of `run_parsed`.
    """
    connections = connections or ServerConnections()
    # Whoever held the lock may have been measuring this very experiment.
    stored = load(folder)
    contract = stored.experiment.contract
    chosen = limits or RunLimits(contract.blocks_max, contract.time_max_s, contract.until_decided)
    _refuse_another_machine(stored)
    refuse_lost_blocks(stored)
    for build in {arm.spec.build.bin_directory: arm.spec.build for arm in stored.experiment.arms}.values():
        refuse_changed(build)
    with open_target(stored.experiment, connections.parameters, progress.stage) as opened:
        earlier = earlier_experiments.recall(stored.experiment)
        with held(folder), opened.target:
            run = _Run(earlier, connections, chosen, progress, began_s=began_s)
            ended = _run_trials(stored, opened, run)
        return _remembered(ended)


def _run_trials(stored: StoredExperiment, opened: OpenTarget, run: _Run) -> StoredExperiment:
    target, progress = opened.target, run.progress
    stored = without_half_starts(stored)
    try:
        if not stored.trials:
            said = check_same_results(stored.experiment, target, progress.stage)
            stored = write_warnings(stored, said)
        trials = ExperimentTrials(stored, target, progress)
        known = known_of(stored, run.earlier, trials, progress)
        if not stored.trials and not stored.block_plans:
            # The blocks are planned by what a trial takes, and what is said of them follows from their plan.
            design = stored.experiment.design
            if not run.copies_each_block:
                design = opened.in_time(stored.experiment, max(known.trial_s, run.trial_s))
            if stored.experiment.contract.metric.bound_ms:
                rates = search_range(stored.experiment, trials, progress)
                design = design.model_copy(update={"rates": rates, "decided_rest": False})
                progress.message("about 25 to 30 blocks give each arm's sustained rate to within ± 15 %")
            stored = write_design(stored, design)
            trials = ExperimentTrials(stored, target, progress)
        limits = run.limits_now(opened.loading_s())
        announce(stored.experiment, known, limits, progress, run.said_by)
        if not stored.experiment.swap:
            ended = run_experiment(stored, trials, limits, progress, trials.prepare_block)
            return run_profile(ended, target, progress)
        return run_halves(stored, trials, limits, progress, target, run.connections)
    except KeyboardInterrupt as interruption:
        raise InterruptionError(_after_interruption(stored.folder)) from interruption


def _remembered(ended: StoredExperiment) -> StoredExperiment:
    """Keep what the run took, and its twins' evidence; the experiment with the alarm that this may raise.

    Remote servers' twins say nothing of this machine.
    """
    trial_s = expected_trial_s(ended)
    if trial_s is not None:
        known = TrialHistory(
            trial_s,
            single_trial_spread(ended),
            single_trial_spread(ended, confidence=0.5),
            stratum_trial_s(ended),
        )
        try:
            earlier_experiments.remember(ended.experiment, known)
        except OSError as error:
            raise recording_error(earlier_experiments.history_file(), error) from error
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
        progress.message(f"{whose} is measuring on this host: waiting for it and all before this one")

    with lock.acquire(wait, waiting):
        for sentence in (*registry.sweep(), *remove_source_copies()):
            progress.message(sentence)
        yield


@contextmanager
def open_target(
    experiment: Experiment, servers: Mapping[str, Resolved], on_stage: OnStage
) -> Iterator[OpenTarget]:
    """The target of an experiment's trials; removes at the end what was made for them.

    `servers` are those that run already, by name; without any, data are loaded and copied here for each arm.
    Raises UsageError when the disk can't hold them all.
    """
    if not servers:
        has_replicates = experiment.design.blocks_per_copy > 0
        arms = arms_to_prepare(experiment)
        with MachineProvider(arms, on_stage, has_replicates=has_replicates) as provider:
            provider.prepare()
            target = ProvisionedTarget(provider, experiment.arms, experiment.protocol.reloaded_settings)
            yield OpenTarget(
                target,
                lambda planned: _with_machine(planned, provider),
                lambda planned, trial_s: _design_in_time(planned, provider, trial_s),
                lambda: provider.loading_s,
            )
    else:
        running = RemoteTarget(servers)
        yield OpenTarget(running, lambda planned: planned, lambda planned, _: planned.design)


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
    ceilings = ceilings_of(experiment.arms, provider)
    return experiment.model_copy(update={"environment": environment, "ceilings": ceilings})


def _design_in_time(experiment: Experiment, provider: MachineProvider, trial_s: float) -> BlockDesign:
    """The design with as many blocks on a set of fresh copies as trials of so many seconds have room for."""
    if not experiment.design.blocks_per_copy:
        return experiment.design
    blocks = blocks_per_copy(experiment, _replicate_bytes(experiment, provider), trial_s)
    return experiment.design.model_copy(update={"blocks_per_copy": blocks})


def _replicate_bytes(experiment: Experiment, provider: MachineProvider) -> int:
    """What a set of fresh copies takes, of the stratum whose set is largest."""
    found: dict[str, dict[tuple[str, int], int]] = {}
    for arm in arms_to_prepare(experiment):
        if has_fresh_copies(experiment, arm.stratum):
            snapshot = provider.snapshot(arm.spec)
            found.setdefault(arm.stratum, {})[snapshot.key, arm.data_copy] = snapshot.bytes
    return max((sum(sizes.values()) // experiment.dataset_loads for sizes in found.values()), default=0)


def blocks_per_copy(experiment: Experiment, replicate_bytes: int, trial_s: float) -> int:
    """How many blocks run on one set of copies, so that copying takes about a quarter of the time at most.

    1 where copying is quick. Never so many that blocks and time have no room for twice the replicates that a
    verdict takes, if one block for each has.
    """
    copying_s = replicate_bytes / COPYING_BYTES_PER_S
    if copying_s < COPYING_QUICK_S:
        return 1
    contract, strata = experiment.contract, {arm.stratum for arm in experiment.arms}
    block_s = trial_s * len(experiment.arms) / len(strata)
    wanted = math.ceil(copying_s * (1 - COPYING_SHARE_MAX) / COPYING_SHARE_MAX / block_s)
    visits = min(contract.blocks_max, int(contract.time_max_s / len(strata) / block_s))
    least = minimum_blocks(pooled=contract.pool_twin, contrasts=contract.contrasts, alpha=contract.alpha)
    return max(1, min(wanted, visits // (2 * least)))


def _refuse_another_machine(stored: StoredExperiment) -> None:
    """Raise UsageError when the experiment was planned on another machine than this."""
    planned = stored.experiment.environment.machine_id
    if planned != machine_id():
        raise UsageError(
            f"{stored.folder} was measured on another machine, and an experiment can't change "
            "machines: start a new one with 'pgassay compare'"
        )


def _after_interruption(folder: Path) -> str:
    """What to say of an interrupted experiment, and how to go on with it."""
    if not attempt_folders(folder):
        return "interrupted before the first trial; nothing is left running and nothing was recorded"
    return f"interrupted; nothing is left running: continue with 'pgassay resume {shlex.quote(str(folder))}'"
