"""The proof of what a search chose, as far as there is time for it, and the answer at any moment."""

import time

from pgassay.errors import InterruptionError, MeasurementError, UsageError
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.progress import Progress
from pgassay.record.layout import TUNE_REQUEST_FILE
from pgassay.tune.answer.answer_sentences import PROOF_REFUSED
from pgassay.tune.answer.compose import Told, compose, has_its_data
from pgassay.tune.proof.stages import ProofStages
from pgassay.tune.running.look import TuneRun, search_of
from pgassay.tune.running.time_needed import can_be_begun, proof_s
from pgassay.tune.search.proof_time import typed, warnings_to_keep
from pgassay.tune.stored_search import StoredSearch, write_result, write_search
from pgassay.tune.symptom import cause_of_plans, symptom_of


def prove_chosen(run: TuneRun, search: StoredSearch, progress: Progress) -> None:
    """Begin the proof of a search, and run it in the time that is left, or until somebody stops it."""
    run.proof = ProofStages(run.folder, search, run.planned)
    write_search(run.folder, search)
    write_result(run.folder, result_of(run, is_interrupted=True))
    try:
        run.proof.run(lambda: run.left_s, progress)
    except (KeyboardInterrupt, InterruptionError):
        run.is_interrupted = True
        run.proof.read()
    except (UsageError, MeasurementError) as error:
        # What was found stands, with the blocks that there are: a disk that can't hold all arms, most of all.
        run.proof.read()
        run.warnings.append(f"{PROOF_REFUSED}: {error}")
        progress.message(run.warnings[-1])


def search_to_prove(run: TuneRun) -> StoredSearch:
    """What is kept of the search once it ended."""
    return search_of(run).model_copy(update={"warnings": warnings_to_keep(run.warnings)})


def has_time_to_prove(run: TuneRun, search: StoredSearch, progress: Progress) -> bool:
    """Whether the proof can come to a verdict in the time that is left; says so where it can't."""
    # What the search's copy has need not be made again.
    data_s = 0.0 if run.handed_over is not None else search.data_s
    needed_s = proof_s(search.block_s, data_s, is_shared=search.shared is not None)
    if can_be_begun(needed_s, run.left_s):
        return True
    left_s = max(run.left_s, 0.0)
    said = f"the proof was not started: it takes about {typed(needed_s)}, and {left_s:.0f} s were left"
    run.warnings.append(said)
    progress.message(said)
    return False


def result_of(run: TuneRun, *, is_interrupted: bool) -> TuneResult:
    """The answer with what is known."""
    assert run.baseline is not None
    told = Told(
        folder=run.folder,
        symptom=symptom_of(run.planned, run.baseline, run.plans, run.copy_notes, run.origin, run.unlike),
        plan_cause=cause_of_plans(run.baseline, run.plans),
        seconds_used=run.used_before_s + time.monotonic() - run.began_at,
        is_interrupted=is_interrupted,
        warnings=run.warnings,
        is_kept=(run.folder / TUNE_REQUEST_FILE).is_file() and has_its_data(run.planned.spec),
    )
    proof = run.proof
    if proof is None:
        return compose(run.stored, told, None)
    return compose(proof.search, told, proof.first, proof.second)
