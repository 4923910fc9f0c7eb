"""Whether a rewrite of a statement that did not end returns the same rows on the data.

Before anything was tried the two could be compared on small instances alone. Where a fix that was tried makes
the statement end as it is written, it is applied for as long as both run on the data.
"""

import psycopg

from pgassay.errors import MeasurementError, UsageError
from pgassay.tune.candidate import Candidate, Symptom
from pgassay.tune.search.search_run import SearchRun
from pgassay.tune.tools import TuneTools

NOT_ON_DATA = "its rows were not compared on the data, since the original statement did not finish there"


def compare_on_data(run: SearchRun, tools: TuneTools, asked: Symptom) -> None:
    """Compare what was chosen on the data where that can be, and note of each rewrite whether it was.

    One that returns other rows is unsafe, and it and what was chosen upon it are taken out of the selection.
    """
    found = run.found
    for candidate in found.to_try:
        if not asked.endless & {each.statement for each in candidate.rewrites}:
            continue
        said, why = NOT_ON_DATA, ""
        ending = _ending(run, candidate)
        if candidate.id in found.selection.ids and ending is not None and tools.same_results is not None:
            said, why = _compared(run, tools, asked, candidate, ending)
        found.notes[candidate.id] = "; ".join(filter(None, (said, found.notes.get(candidate.id, ""))))
        if why:
            found.unsafe[candidate.id] = why
            place = found.selection.ids.index(candidate.id)
            found.selection = found.selection.first(place, run.whole_s)


def _ending(run: SearchRun, rewrite: Candidate) -> Candidate | None:
    """What makes the statements of a rewrite end soonest, alone, as they are written."""
    baseline = run.baseline
    by_id = {each.id: each for each in run.found.to_try}
    rewritten = {each.statement for each in rewrite.rewrites}
    names = [
        each.name
        for each in baseline.statements
        if each.of.name in rewritten and each.name in baseline.endless
    ]
    able = {
        id_: sum(each.seconds[name] for name in names)
        for id_, each in run.found.tried.items()
        if id_ in by_id and not by_id[id_].rewrites and not each.refused and not each.on_top
        and all(each.seconds.get(name, baseline.seconds[name]) < baseline.seconds[name] for name in names)
    }  # fmt: skip
    return by_id[min(able, key=lambda id_: able[id_])] if able else None


def _compared(
    run: SearchRun, tools: TuneTools, asked: Symptom, candidate: Candidate, ending: Candidate
) -> tuple[str, str]:
    """(what is said of the rows on the data, why the rewrite is not to be used or '')."""
    assert tools.same_results is not None
    by_name = {each.name: each for each in asked.statements}
    try:
        run.copy.align([ending])
        for rewrite in candidate.rewrites:
            original = by_name[rewrite.statement]
            made = tools.same_results(
                run.copy.session, original, rewrite.sql, asked.facts, proof=rewrite.proof, on_data=True
            )
            if made.verdict == "different":
                return "", f"{made.words}: {made.reason}"
            if not made.accepted:
                return NOT_ON_DATA, ""
    except (UsageError, MeasurementError, psycopg.Error):
        return NOT_ON_DATA, ""
    finally:
        run.copy.align(())
    return f"its rows were compared on the data with '{ending.title}' in place, and are the same", ""
