"""The proof of what a search chose, as far as there is time for it, and the answer at any moment."""

import time

from pgassay.errors import InterruptionError, MeasurementError, UsageError
from pgassay.model.tuning.answer import TuneResult
from pgassay.record.layout import TUNE_REQUEST_FILE
from pgassay.terminal.progress import Progress
from pgassay.tune.answer.compose import Told, compose, has_its_data
from pgassay.tune.answer.sentences import PROOF_REFUSED
from pgassay.tune.proof.stages import Proving
from pgassay.tune.running.look import Known, search_of
from pgassay.tune.running.time_needed import can_be_begun, proof_s
from pgassay.tune.search.proof_time import lasting, typed
from pgassay.tune.stored import StoredSearch, write_result, write_search
from pgassay.tune.symptom import cause_of_plans, symptom_of


def prove_chosen(known: Known, search: StoredSearch, progress: Progress) -> None:
    """Begin the proof of a search, and run it in the time that is left, or until somebody stops it."""
    known.proving = Proving(known.folder, search, known.planned)
    write_search(known.folder, search)
    write_result(known.folder, result_of(known, is_interrupted=True))
    try:
        known.proving.run(lambda: known.left_s, progress)
    except (KeyboardInterrupt, InterruptionError):
        known.is_interrupted = True
        known.proving.read()
    except (UsageError, MeasurementError) as error:
        # What was found stands, with the blocks that there are: a disk that can't hold all arms, most of all.
        known.proving.read()
        known.warnings.append(f"{PROOF_REFUSED}: {error}")
        progress.message(known.warnings[-1])


def search_to_prove(known: Known) -> StoredSearch:
    """What is kept of the search once it ended."""
    return search_of(known).model_copy(update={"warnings": lasting(known.warnings)})


def has_time_to_prove(known: Known, search: StoredSearch, progress: Progress) -> bool:
    """Whether the proof can come to a verdict in the time that is left; says so where it can't."""
    # What the search's copy has need not be made again.
    data_s = 0.0 if known.handed_over is not None else search.data_s
    needed_s = proof_s(search.block_s, data_s, is_shared=search.shared is not None)
    if can_be_begun(needed_s, known.left_s):
        return True
    left_s = max(known.left_s, 0.0)
    said = f"the proof was not begun: it takes about {typed(needed_s)}, and {left_s:.0f} s were left"
    known.warnings.append(said)
    progress.message(said)
    return False


def result_of(known: Known, *, is_interrupted: bool) -> TuneResult:
    """The answer with what is known."""
    assert known.baseline is not None
    told = Told(
        folder=known.folder,
        symptom=symptom_of(
            known.planned, known.baseline, known.plans, known.copy_notes, known.origin, known.unlike
        ),
        plan_cause=cause_of_plans(known.baseline, known.plans),
        seconds_used=known.used_before_s + time.monotonic() - known.began_at,
        is_interrupted=is_interrupted,
        warnings=known.warnings,
        is_kept=(known.folder / TUNE_REQUEST_FILE).is_file() and has_its_data(known.planned.spec),
    )
    proving = known.proving
    if proving is None:
        return compose(known.stored, told, None)
    return compose(proving.search, told, proving.first, proving.second)
