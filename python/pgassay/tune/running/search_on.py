"""Trying what a search had no time for, and proving the larger set that it leads to."""

import shutil
from collections.abc import Callable
from pathlib import Path

from pgassay.errors import MeasurementError, UsageError
from pgassay.progress import Progress
from pgassay.record.layout import (
    CONFIRMATION_FOLDER,
    EARLIER_FOLDER,
    PROOF_FOLDER,
    SEARCH_FILE,
    TUNE_FILE,
)
from pgassay.tune.running.look import TuneRun, look
from pgassay.tune.running.prove import has_time_to_prove, prove_chosen, search_to_prove
from pgassay.tune.search.proof_time import typed
from pgassay.tune.stored_search import StoredSearch, write_search
from pgassay.tune.tools import TuneTools
from pgassay.tune.tune_plan import TuneRequest

LARGER = "no further fix is in the proof: one of a larger set takes about {needed} in all"
# A set of the second search is another family: its proof has an error rate of its own (docs/statistics.md).
_KEPT = (SEARCH_FILE, TUNE_FILE, PROOF_FOLDER, CONFIRMATION_FOLDER)


def search_on(
    run: TuneRun,
    tools: TuneTools,
    request: TuneRequest,
    progress: Progress,
    begins: Callable[[TuneRun], None] = lambda _: None,
) -> TuneRun:
    """Try what was not tried, and prove what is chosen then; returns the run that has the answer.

    What was tried before is not tried again: its seconds are scaled by what each statement takes now. Where
    nothing further is chosen, or the time does not reach for a proof of it, an earlier proof stands.
    `begins` is called with the new run before it makes data. Raises as the search does; the earlier answer
    is untouched then.
    """
    before = run.stored
    fresh = TuneRun(run.planned, run.folder, run.began_at, origin=run.origin, before=before)
    fresh.used_before_s = run.used_before_s
    begins(fresh)
    progress.stage("continuing with untried candidates")
    look(fresh, tools, request, progress)
    found = search_to_prove(fresh)
    if run.proof is not None and not {*found.selection.ids} - {*before.selection.ids}:
        _keep_proof(run, found)
        if found.left_for_later:
            run.warnings.append(LARGER.format(needed=typed(found.search_on_s())))
        return run
    if not found.selection.ids:
        # In the earlier run as well: a later search may be interrupted.
        run.searched_on = fresh.searched_on = found
        fresh.warnings[:0] = run.warnings
        write_search(run.folder, found)
        return fresh
    if not has_time_to_prove(fresh, found, progress):
        if run.proof is not None:
            _keep_proof(run, found)
            run.warnings += fresh.warnings
            return run
        write_search(run.folder, found)
        return fresh
    if run.proof is not None:
        set_aside(run.folder)
    prove_chosen(fresh, found, progress)
    return fresh


def with_time_left(
    run: TuneRun,
    tools: TuneTools,
    request: TuneRequest,
    progress: Progress,
    begins: Callable[[TuneRun], None],
    *,
    load_s: float = 0.0,
) -> TuneRun:
    """Search on while the proof is decided, something is left, and the time reaches for it.

    Left is what was not tried, and what was found and had no room in the proof.

    Returns the run that has the answer. Where a later search fails, the earlier answer stands, and says so.
    """
    while not run.is_interrupted:
        search, proof = run.stored, run.proof
        waiting = _waiting(search)
        is_proven = proof is not None and proof.is_decided
        if not waiting or not (is_proven or not search.selection.ids):
            break
        if search.search_on_s(load_s) > run.left_s:
            break
        try:
            run = search_on(run, tools, request, progress, begins)
        except (UsageError, MeasurementError) as error:
            run.warnings.append(f"untried candidates could not be tried after the proof: {error}")
            break
        load_s = 0.0
        if _waiting(run.stored) >= waiting:
            break
    return run


def _waiting(search: StoredSearch) -> int:
    return len(search.untried) + len(search.left_for_later)


def _keep_proof(run: TuneRun, found: StoredSearch) -> None:
    """The earlier search with what was tried since; its chosen set, which its proof is of, stays."""
    assert run.proof is not None
    before = run.proof.search
    more = tuple(each for each in found.candidates if each.id not in before.by_id)
    run.proof.search = before.model_copy(
        update={
            "candidates": (*before.candidates, *more),
            "tried": found.tried | before.tried,
            "screened": found.screened | before.screened,
            "notes": found.notes | before.notes,
            "checks": found.checks | before.checks,
            "unsafe": found.unsafe | before.unsafe,
            "left_out": found.left_out | before.left_out,
        }
    )
    write_search(run.folder, run.proof.search)


def set_aside(folder: Path) -> Path:
    """Move an earlier search with its proof and answer below `earlier/`; returns where they are now."""
    number = 1
    while (place := folder / EARLIER_FOLDER / str(number)).exists():
        number += 1
    place.mkdir(parents=True)
    for name in _KEPT:
        if (folder / name).exists():
            shutil.move(folder / name, place / name)
    return place
