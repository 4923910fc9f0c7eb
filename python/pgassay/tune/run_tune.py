"""`pgassay tune` from its symptom to its answer, at any moment with what is known so far."""

import time
from dataclasses import replace

from pgassay.environment.server.enclosure import isolated
from pgassay.errors import InterruptionError
from pgassay.experiment.running.results_folder import check_folder, new_folder
from pgassay.experiment.running.run_experiment import host_lock
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.progress import Progress
from pgassay.record.experiment_lock import held
from pgassay.tune.facts.read import read_facts
from pgassay.tune.facts.unknown_tables import refuse_unknown_tables
from pgassay.tune.finders.registry import find
from pgassay.tune.rewrites.registry import rewrites
from pgassay.tune.running.copies import removed_afterwards
from pgassay.tune.running.look import TuneRun, look
from pgassay.tune.running.prove import has_time_to_prove, prove_chosen, result_of, search_to_prove
from pgassay.tune.running.search_on import with_time_left
from pgassay.tune.running.stored_request import keep_request
from pgassay.tune.same_results.check import same_results
from pgassay.tune.stored_search import write_result, write_search
from pgassay.tune.tools import TuneTools
from pgassay.tune.tune_plan import PlannedTune, TuneRequest, plan_tune


def run_tune(
    request: TuneRequest, tools: TuneTools, progress: Progress, *, wait: bool, isolates: bool = True
) -> TuneResult:
    """Find the fixes, prove them, and say so; writes what was found into the folder (`stored_search.py`).

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
    planned: PlannedTune, request: TuneRequest, tools: TuneTools, progress: Progress, *, isolates: bool = True
) -> TuneResult:
    """The same for a planned request; the caller holds the host's lock. Raises the same errors."""
    with isolated(leaves_network=isolates) as missing:
        planned = planned.with_data_format()
        title = f"tune {planned.request.workload}, {planned.data}"
        began_at = request.began_at if request.began_at is not None else time.monotonic()
        run = TuneRun(planned, new_folder(request.out, title), began_at, origin=request.origin)
        for sentence in (*planned.notes, *missing):
            progress.message(sentence)
            run.warnings.append(sentence)
        runs = [run]
        with removed_afterwards(runs), held(run.folder):
            return _run(runs, tools, request, progress)


def _run(runs: list[TuneRun], tools: TuneTools, request: TuneRequest, progress: Progress) -> TuneResult:
    run = runs[0]
    try:
        look(run, tools, request, progress)
        search = search_to_prove(run)
        _keep(run, request, tools)
        if search.selection.ids and has_time_to_prove(run, search, progress):
            prove_chosen(run, search, progress)
        run = with_time_left(run, tools, request, progress, runs.append)
    except (KeyboardInterrupt, InterruptionError):
        if run.baseline is None:
            run.folder.rmdir()
            raise
        run.is_interrupted = True
        _keep(run, request, tools)
        if run.proof is not None:
            run.proof.read()
    except BaseException:
        if not any(run.folder.iterdir()):
            run.folder.rmdir()
        raise
    result = result_of(run, is_interrupted=run.is_interrupted)
    write_result(run.folder, result)
    return result


def _keep(run: TuneRun, request: TuneRequest, tools: TuneTools) -> None:
    """What a later run goes on from, where there is something to prove or to try."""
    search = run.stored
    if search.selection.ids or search.untried:
        write_search(run.folder, search)
        keep_request(run.folder, request, run.planned, rewrites=tools.rewrites is not None)


TOOLS = TuneTools(read_facts, find, rewrites, same_results)


def with_rewrites(tools: TuneTools, *, wanted: bool) -> TuneTools:
    """The tools without those that rewrite statements, where none is to be rewritten."""
    return tools if wanted else replace(tools, rewrites=None)
