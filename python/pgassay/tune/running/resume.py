"""`pgassay tune FOLDER`: continues what a stored run had no time for, its proof first and then its search."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgassay.environment.cleanup.source_copies import is_dump_of_a_run, remove_dump
from pgassay.environment.datasets import snapshots
from pgassay.environment.server.enclosure import isolated
from pgassay.errors import InterruptionError, MeasurementError, UsageError
from pgassay.experiment.running.run_experiment import host_lock
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.progress import Progress
from pgassay.record.experiment import StoredExperiment
from pgassay.record.experiment_lock import held
from pgassay.record.layout import PROOF_FOLDER
from pgassay.tune.answer.answer_sentences import PROOF_REFUSED
from pgassay.tune.answer.compose import Told, compose, has_its_data
from pgassay.tune.proof.stages import ProofStages, deadline, remove_copies
from pgassay.tune.running.copies import removed_afterwards
from pgassay.tune.running.look import TuneRun
from pgassay.tune.running.prove import result_of
from pgassay.tune.running.search_on import search_on, with_time_left
from pgassay.tune.running.stored_request import kept_request
from pgassay.tune.stored_search import StoredSearch, read_folder, write_result
from pgassay.tune.tools import TuneTools
from pgassay.tune.tune_plan import TuneRequest, plan_tune


@dataclass
class _Continued:
    """A run that is continued. `tools`, `request`: of its search; None where the folder lacks them."""

    folder: Path
    search: StoredSearch
    before: TuneResult
    proof: ProofStages
    began_at: float
    max_time_s: float
    request: TuneRequest | None
    missing: Sequence[str] = ()
    is_interrupted: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        return self.began_at + self.max_time_s - time.monotonic()


def resume_tune(
    folder: Path,
    max_time_s: float,
    progress: Progress,
    tools: TuneTools,
    *,
    wait: bool,
    isolates: bool = True,
) -> TuneResult:
    """Continue for so many seconds more: the proof until it is decided, then what was not tried.

    What the proof compares stays as it was: the family was fixed before the first trial. What is chosen
    after it is proven as another family. Raises UsageError for a folder without a search, and for one whose
    data are gone; MeasurementError when a server fails: what is known by then is stored.
    """
    search, before = read_folder(folder)
    kept = kept_request(folder)
    _refuse_without_anything(folder, search, is_kept=kept is not None)
    proof = ProofStages(folder, search)
    proof.read()
    if proof.first is not None:
        refuse_without_source(folder, before, proof.first)
    continued = _Continued(
        folder, search, before, proof, time.monotonic(), max_time_s, kept[0] if kept else None
    )
    if kept is not None and not kept[1]:
        tools = replace(tools, rewrites=None)
    with host_lock(progress, wait=wait), isolated(leaves_network=isolates) as missing, held(folder):
        continued.missing = missing
        # Waiting for others is no part of the time.
        continued.began_at = time.monotonic()
        if (folder / PROOF_FOLDER).is_dir():
            _resume_proof(continued, progress)
        result = _search_on(continued, tools, progress) if not continued.is_interrupted else None
        result = result or _answer(continued)
        write_result(folder, result)
    if not result.go_on:
        _remove_dump_of(continued)
    return result


def _refuse_without_anything(folder: Path, search: StoredSearch, *, is_kept: bool) -> None:
    # Where all was tried and nothing is chosen, the answer is the same again.
    if is_kept:
        return
    if not search.members:
        raise UsageError(f"{folder}: it has no chosen fixes to prove: start again with --workload")
    if not (folder / PROOF_FOLDER).is_dir():
        raise UsageError(f"{folder}: its proof was never started: start again with --workload")


def _resume_proof(continued: _Continued, progress: Progress) -> None:
    kept = {snapshot.key for snapshot in snapshots.list_snapshots()}
    try:
        continued.proof.resume(deadline(time.monotonic(), continued.left_s), progress)
    except (KeyboardInterrupt, InterruptionError):
        continued.is_interrupted = True
        continued.proof.read()
    except (UsageError, MeasurementError) as error:
        # What its blocks say so far stands, also where the disk can't hold the second stage.
        continued.proof.read()
        if continued.proof.first is not None:
            continued.warnings.append(f"{PROOF_REFUSED}: {error}")
            write_result(continued.folder, _answer(continued))
        raise
    finally:
        remove_copies(continued.proof.specs(), kept)


def _answer(continued: _Continued) -> TuneResult:
    """The answer by the search and the proof as they are stored."""
    request = continued.request
    spec = request.start.spec if request is not None and request.start is not None else None
    told = Told(
        folder=continued.folder.resolve(),
        symptom=continued.before.symptom,
        plan_cause=continued.before.cause,
        seconds_used=continued.before.seconds_used + time.monotonic() - continued.began_at,
        is_interrupted=continued.is_interrupted,
        warnings=(*continued.missing, *continued.warnings),
        is_kept=spec is not None and has_its_data(spec),
    )
    return compose(continued.proof.search, told, continued.proof.first, continued.proof.second)


def _search_on(continued: _Continued, tools: TuneTools, progress: Progress) -> TuneResult | None:
    """Try what was not tried, and prove the set that it leads to; None where there is no need, or no time."""
    search, is_begun = continued.proof.search, continued.proof.first is not None
    if continued.request is None or not _is_anything_left(search, is_begun=is_begun):
        if not search.members:
            continued.warnings += continued.before.warnings
        return None
    if is_begun and (not continued.proof.is_decided or search.search_on_s() > continued.left_s):
        return None
    with _as_running(continued, progress) as (run, runs):
        try:
            if not is_begun:
                run = search_on(run, tools, continued.request, progress, runs.append)
            run = with_time_left(
                run,
                tools,
                continued.request,
                progress,
                runs.append,
                load_s=search.load_s if is_begun else 0.0,
            )
        except (KeyboardInterrupt, InterruptionError):
            # The proof is as it was. A search before the one that was interrupted may have found nothing.
            continued.is_interrupted = True
            if not is_begun:
                continued.proof.search = read_folder(continued.folder)[0]
            return None
        if run is runs[0]:
            continued.warnings += run.warnings
            return None
        run.warnings[:0] = [*continued.missing, *continued.warnings]
        return result_of(run, is_interrupted=run.is_interrupted)


def _is_anything_left(search: StoredSearch, *, is_begun: bool) -> bool:
    """Whether there is something to try, or a chosen set whose proof was not begun."""
    return bool(search.untried or search.left_for_later or (search.selection.ids and not is_begun))


@contextlib.contextmanager
def _as_running(continued: _Continued, progress: Progress) -> Iterator[tuple[TuneRun, list[TuneRun]]]:
    """The stored run as one that is at work; removes the copies that are made from it."""
    assert continued.request is not None
    request = replace(
        continued.request, compare=replace(continued.request.compare, max_time_s=continued.max_time_s)
    )
    planned = plan_tune(request, progress.stage).with_data_format()
    run = TuneRun(planned, continued.folder, continued.began_at, origin=request.origin)
    run.used_before_s = continued.before.seconds_used
    if continued.proof.first is not None:
        run.proof = continued.proof
    else:
        run.searched_on = continued.search
    runs = [run]
    with removed_afterwards(runs):
        yield run, runs


def _remove_dump_of(continued: _Continued) -> None:
    """A server's dump that was kept for this, once there is nothing more to do with it."""
    request = continued.request
    spec = request.start.spec if request is not None and request.start is not None else None
    if spec is not None and is_dump_of_a_run(spec.dataset.source):
        remove_dump(Path(spec.dataset.source))


def refuse_without_source(folder: Path, before: TuneResult, stored: StoredExperiment) -> None:
    """Raise UsageError where the data were a dump that tune made of a server, and removed."""
    source = before.symptom.source
    if source is not None and any(
        arm.spec.dataset.kind == "dump" and not Path(arm.spec.dataset.source).exists()
        for arm in stored.experiment.arms
    ):
        raise UsageError(
            f"{folder}: its copy of {source.name} was removed with its dump: start again with "
            f"pgassay tune DSN, or with --workload sql:{folder / 'statements.sql'} and a dump that you keep"
        )
