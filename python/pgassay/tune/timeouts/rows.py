"""Whether a rewrite of a statement that did not end returns the same rows on the data.

Before anything was tried the two could be compared on small instances alone. Where a fix that was tried makes
the statement end as it is written, it is applied for as long as both run on the data.
"""

from collections.abc import Mapping
from dataclasses import replace

import psycopg

from pgassay.errors import MeasurementError, UsageError
from pgassay.tune.candidate import Candidate, Symptom
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.search import Searched
from pgassay.tune.search.selection import Baseline, Tried, total_s
from pgassay.tune.tools import Gathered, Tools

NOT_ON_DATA = "its rows were not compared on the data, where the statement did not end as it is written"


def compare_on_data(
    copy: TrialCopy, tools: Tools, asked: Symptom, baseline: Baseline, gathered: Gathered, found: Searched
) -> Gathered:
    """Compare what was chosen on the data where that can be, and note of each rewrite whether it was.

    One that returns other rows is unsafe, and it and what was chosen upon it are taken out of the selection.
    """
    by_id = {each.id: each for each in gathered.to_try}
    for candidate in gathered.to_try:
        if not asked.endless & {each.statement for each in candidate.rewrites}:
            continue
        said, why = NOT_ON_DATA, ""
        ending = _ending(candidate, by_id, baseline, found.tried)
        if candidate.id in found.selection.ids and ending is not None and tools.same_results is not None:
            said, why = _compared(copy, tools, asked, candidate, ending)
        found.notes[candidate.id] = "; ".join(filter(None, (said, found.notes.get(candidate.id, ""))))
        if why:
            gathered = replace(gathered, unsafe={**gathered.unsafe, candidate.id: why})
            place = found.selection.ids.index(candidate.id)
            whole_s = total_s(baseline.weights, baseline.seconds)
            found.selection = found.selection.first(place, whole_s)
    return gathered


def _ending(
    rewrite: Candidate, by_id: Mapping[str, Candidate], baseline: Baseline, tried: Mapping[str, Tried]
) -> Candidate | None:
    """What makes the statements of a rewrite end soonest, alone, as they are written."""
    rewritten = {each.statement for each in rewrite.rewrites}
    names = [
        each.name
        for each in baseline.statements
        if each.of.name in rewritten and each.name in baseline.endless
    ]
    able = {
        id_: sum(each.seconds[name] for name in names)
        for id_, each in tried.items()
        if id_ in by_id and not by_id[id_].rewrites and not each.refused and not each.on_top
        and all(each.seconds.get(name, baseline.seconds[name]) < baseline.seconds[name] for name in names)
    }  # fmt: skip
    return by_id[min(able, key=lambda id_: able[id_])] if able else None


def _compared(
    copy: TrialCopy, tools: Tools, asked: Symptom, candidate: Candidate, ending: Candidate
) -> tuple[str, str]:
    """(what is said of the rows on the data, why the rewrite is not to be used or '')."""
    assert tools.same_results is not None
    by_name = {each.name: each for each in asked.statements}
    try:
        copy.align([ending])
        for rewrite in candidate.rewrites:
            original = by_name[rewrite.statement]
            made = tools.same_results(
                copy.session, original, rewrite.sql, asked.facts, proof=rewrite.proof, on_data=True
            )
            if made.verdict == "different":
                return "", f"{made.words}: {made.reason}"
            if not made.accepted:
                return NOT_ON_DATA, ""
    except (UsageError, MeasurementError, psycopg.Error):
        return NOT_ON_DATA, ""
    finally:
        copy.align(())
    return f"its rows were compared on the data with '{ending.title}' in place, and are the same", ""
