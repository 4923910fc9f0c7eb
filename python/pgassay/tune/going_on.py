"""`pgassay tune FOLDER`: continues a proof that is stored, as far as the time reaches."""

import time
from collections.abc import Sequence
from pathlib import Path

from pgassay.environment.datasets import snapshots
from pgassay.environment.server.enclosure import isolated
from pgassay.errors import InterruptionError, MeasurementError, UsageError
from pgassay.experiment.running.run import host_lock
from pgassay.model.tuning.answer import TuneResult
from pgassay.record.experiment import StoredExperiment
from pgassay.record.layout import PROOF_FOLDER
from pgassay.terminal.progress import Progress
from pgassay.tune.answer.sentences import PROOF_REFUSED
from pgassay.tune.proving import Proving, deadline, remove_copies
from pgassay.tune.stored import Told, compose, read_folder, write_result


def go_on(
    folder: Path, max_time_s: float, progress: Progress, *, wait: bool, isolates: bool = True
) -> TuneResult:
    """Continue the proof for so many seconds more, or until all of it is decided.

    What was chosen and predicted stays as it was: the family was fixed before the first trial. Raises
    UsageError for a folder without a search or a proof, MeasurementError when a server fails; what is known
    by then is stored.
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
    proving = Proving(folder, search)
    proving.read()
    if proving.first is not None:
        refuse_without_source(folder, before, proving.first)

    def answer(warnings: Sequence[str]) -> TuneResult:
        told = Told(
            folder=folder.resolve(),
            symptom=before.symptom,
            plan_cause=before.cause,
            seconds_used=before.seconds_used + time.monotonic() - began,
            is_interrupted=is_interrupted,
            warnings=warnings,
        )
        result = compose(proving.search, told, proving.first, proving.second)
        write_result(folder, result)
        return result

    with host_lock(progress, wait=wait), isolated(leaves_network=isolates) as missing:
        kept = {snapshot.key for snapshot in snapshots.list_snapshots()}
        try:
            proving.go_on(deadline(time.monotonic(), max_time_s), progress)
        except (KeyboardInterrupt, InterruptionError):
            is_interrupted = True
            proving.read()
        except (UsageError, MeasurementError) as error:
            # What its blocks say so far stands, also where the disk can't hold the second stage.
            proving.read()
            if proving.first is not None:
                answer((*missing, f"{PROOF_REFUSED}: {error}"))
            raise
        finally:
            remove_copies(proving.specs(), kept)
    return answer(missing)


def refuse_without_source(folder: Path, before: TuneResult, stored: StoredExperiment) -> None:
    """Raise UsageError where the data were a dump that tune made of a server, and removed."""
    source = before.symptom.source
    if source is not None and any(
        arm.spec.dataset.kind == "dump" and not Path(arm.spec.dataset.source).exists()
        for arm in stored.experiment.arms
    ):
        raise UsageError(
            f"{folder}: its copy of {source.name} was removed with its dump: start anew with pgassay tune "
            f"DSN, or with --workload sql:{folder / 'statements.sql'} and a dump that you keep"
        )
