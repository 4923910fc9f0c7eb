"""`pgassay tune FOLDER`: more blocks for a proof that came to no verdict, and the answer that follows."""

import contextlib
import time
from pathlib import Path

from pgassay.environment.datasets import snapshots
from pgassay.errors import InterruptionError, UsageError
from pgassay.experiment.planning.request import BLOCKS_MAX
from pgassay.experiment.running.loop import RunLimits
from pgassay.experiment.running.run import host_lock, resume_held
from pgassay.model.tuning.answer import TuneResult
from pgassay.record.read import StoredExperiment, load
from pgassay.terminal.progress import Progress
from pgassay.tune.copy import remove_copies, without_network
from pgassay.tune.stored import PROOF_FOLDER, Told, compose, read_folder, write_result


def go_on(
    folder: Path, max_time_s: float, progress: Progress, *, wait: bool, isolates: bool = True
) -> TuneResult:
    """Continue the proof for so many seconds more, or until all of it is decided.

    What was chosen and predicted stays as it was: the family was fixed before the first trial. Raises
    UsageError for a folder without a search or a proof, MeasurementError when a server fails.
    """
    search, before = read_folder(folder)
    proof = folder / PROOF_FOLDER
    if not search.members:
        raise UsageError(
            f"{folder}: nothing was chosen there that could be proven: start anew with --workload"
        )
    if not proof.is_dir():
        raise UsageError(f"{folder}: its proof was never begun: start anew with --workload")
    began, is_interrupted = time.monotonic(), False
    stored: StoredExperiment = load(proof)
    with host_lock(progress, wait=wait):
        warning = without_network() if isolates else ""
        kept = {snapshot.key for snapshot in snapshots.list_snapshots()}
        try:
            limits = RunLimits(BLOCKS_MAX, stored.seconds_used + max_time_s)
            stored = resume_held(proof, limits, progress)
        except (KeyboardInterrupt, InterruptionError):
            is_interrupted = True
            with contextlib.suppress(UsageError):
                stored = load(proof)
        finally:
            remove_copies((arm.spec for arm in stored.experiment.arms), kept)
    told = Told(
        folder=folder.resolve(),
        symptom=before.symptom,
        plan_cause=before.cause,
        seconds_used=before.seconds_used + time.monotonic() - began,
        is_interrupted=is_interrupted,
        warnings=(warning,) if warning else (),
    )
    result = compose(search, told, stored)
    write_result(folder, result)
    return result
