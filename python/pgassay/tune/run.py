"""`pgassay tune` from its symptom to its answer, at any moment with what is known so far."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

from pgassay.environment.datasets import snapshots
from pgassay.environment.server.enclosure import isolated
from pgassay.errors import InterruptionError, MeasurementError, UsageError
from pgassay.experiment.running.folder import check_folder, new_folder
from pgassay.experiment.running.run import host_lock
from pgassay.model.tuning.answer import TuneResult
from pgassay.record.holding import held
from pgassay.terminal.progress import Progress
from pgassay.tune.answer.sentences import PROOF_REFUSED
from pgassay.tune.arms import arm_of
from pgassay.tune.facts.read import read_facts
from pgassay.tune.facts.unknown_tables import refuse_unknown_tables
from pgassay.tune.finders.registry import find
from pgassay.tune.look import Known, look, search_of
from pgassay.tune.plan import PlannedTune, TuneRequest, plan_tune
from pgassay.tune.proving import Proving, remove_copies
from pgassay.tune.rewrites.registry import rewrites
from pgassay.tune.same_results.check import same_results
from pgassay.tune.search.proof_time import (
    lasting,
)
from pgassay.tune.statements import measured
from pgassay.tune.stored import (
    Told,
    compose,
    write_result,
    write_search,
)
from pgassay.tune.symptom import cause_of_plans, symptom_of
from pgassay.tune.tools import Tools


def run_tune(
    request: TuneRequest, tools: Tools, progress: Progress, *, wait: bool, isolates: bool = True
) -> TuneResult:
    """Find the fixes, prove them, and say so; writes what was found into the folder (`stored.py`).

    `isolates`: take this process off the network once it has the host's lock; its servers see nothing of
    the machine either way. An interruption after the
    workload was measured ends in the answer with what is known. Raises UsageError
    before anything is measured and for a statement that fails, and MeasurementError.
    """
    check_folder(request.out)
    planned = plan_tune(request, progress.stage)
    refuse_unknown_tables(planned.spec, planned.statements, planned.request.workload)
    with host_lock(progress, wait=wait):
        return run_held(planned, request, tools, progress, isolates=isolates)


def run_held(
    planned: PlannedTune, request: TuneRequest, tools: Tools, progress: Progress, *, isolates: bool = True
) -> TuneResult:
    """The same for a planned request; the caller holds the host's lock. Raises the same errors."""
    with isolated(leaves_network=isolates) as missing:
        planned = planned.with_data_format()
        title = f"tune {planned.request.workload}, {planned.data}"
        began_at = request.began_at if request.began_at is not None else time.monotonic()
        known = Known(planned, new_folder(request.out, title), began_at, origin=request.origin)
        for sentence in (*planned.notes, *missing):
            progress.message(sentence)
            known.warnings.append(sentence)
        with _removed_afterwards(known), held(known.folder):
            return _run(known, tools, request, progress)


def _run(known: Known, tools: Tools, request: TuneRequest, progress: Progress) -> TuneResult:
    is_interrupted = False
    try:
        look(known, tools, request, progress)
        members = known.searched.selection.ids
        if members:
            _prove(known, progress)
    except (KeyboardInterrupt, InterruptionError):
        if known.baseline is None:
            known.folder.rmdir()
            raise
        is_interrupted = True
        if known.proving is not None:
            known.proving.read()
    except BaseException:
        if not any(known.folder.iterdir()):
            known.folder.rmdir()
        raise
    result = result_of(known, is_interrupted=is_interrupted)
    write_result(known.folder, result)
    return result


def _prove(known: Known, progress: Progress) -> None:
    assert known.baseline is not None
    search = search_of(known).model_copy(update={"warnings": lasting(known.warnings)})
    known.proving = Proving(known.folder, search, known.planned)
    write_search(known.folder, known.proving.search)
    write_result(known.folder, result_of(known, is_interrupted=True))
    try:
        known.proving.run(lambda: known.left_s, progress)
    except (UsageError, MeasurementError) as error:
        # What was found stands, with the blocks that there are: a disk that can't hold all arms, most of all.
        known.proving.read()
        known.warnings.append(f"{PROOF_REFUSED}: {error}")
        progress.message(known.warnings[-1])


def result_of(known: Known, *, is_interrupted: bool) -> TuneResult:
    """The answer with what is known."""
    assert known.baseline is not None
    told = Told(
        folder=known.folder,
        symptom=symptom_of(
            known.planned, known.baseline, known.plans, known.copy_notes, known.origin, known.unlike
        ),
        plan_cause=cause_of_plans(known.baseline, known.plans),
        seconds_used=time.monotonic() - known.began_at,
        is_interrupted=is_interrupted,
        warnings=known.warnings,
    )
    proving = known.proving
    if proving is None:
        return compose(search_of(known), told, None)
    return compose(proving.search, told, proving.first, proving.second)


@contextlib.contextmanager
def _removed_afterwards(known: Known) -> Iterator[None]:
    """Remove every copy of the data that was not there before, however the run ends."""
    before = {snapshot.key for snapshot in snapshots.list_snapshots()}
    try:
        yield
    finally:
        specs = known.proving.specs() if known.proving is not None else []
        specs += [known.handed_over] if known.handed_over is not None else []
        for each in known.gathered.to_try:
            if each.build is not None or each.storage is not None:
                specs.append(arm_of(known.planned.spec, measured(known.planned.statements), [each]))
        remove_copies([known.planned.spec, *specs], before)


TOOLS = Tools(read_facts, find, rewrites, same_results)


def with_rewrites(tools: Tools, *, wanted: bool) -> Tools:
    """The tools without those that rewrite statements, where none is to be rewritten."""
    return tools if wanted else replace(tools, rewrites=None)
