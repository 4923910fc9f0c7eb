"""What every sitting of an experiment shares, whatever the servers are: the host, the folder, the outlook."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgassay.analysis.statistics.power import resolution_sentence
from pgassay.environment import lock
from pgassay.environment.cleanup import registry
from pgassay.environment.linux.machine import machine_id
from pgassay.errors import UsageError
from pgassay.experiment.running import history
from pgassay.experiment.running.loop import RunLimits
from pgassay.experiment.running.schedule import next_step
from pgassay.record.layout import attempt_folders
from pgassay.record.read import StoredExperiment
from pgassay.terminal.progress import Progress


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


@contextmanager
def nothing_kept_of_what_never_ran(folder: Path) -> Iterator[None]:
    """Remove a new experiment's folder again when it ends before its first trial is recorded."""
    try:
        yield
    except BaseException:
        if not attempt_folders(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def refuse_another_machine(stored: StoredExperiment) -> None:
    """Raise UsageError when the experiment was planned on another machine than this."""
    planned = stored.experiment.environment.machine_id
    if planned != machine_id():
        raise UsageError(
            f"{stored.folder} was measured on another machine, and one experiment stays on one: "
            "start a new one with 'pgassay compare'"
        )


def after_interruption(folder: Path) -> str:
    """What to say of an interrupted experiment, and how to go on with it."""
    if not attempt_folders(folder):
        return "interrupted before the first trial; nothing is left running and nothing was recorded"
    return f"interrupted; nothing is left running: continue with 'pgassay resume {folder}'"


def announce(
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
