"""Candidates tried on top of what was chosen: with a setting that makes them useful, or with the whole set.

Alone an index that the planner used in no statement was screened, with the settings as they are. Where a
random page costs as much as the default says, an index is not used that is worth its space once the cost is
what the machine's is; and where there is no index, that cost changes nothing. So neither is chosen alone, and
both are tried together where the planner says, with the index built and the setting in force, that it would
use it.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.planner_screen import estimates, seconds_on_top
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.search import search, seconds_alone
from pgassay.tune.search.search_run import SearchRun
from pgassay.tune.search.selection import Baseline, FixSelection, SelectionStep, Tried, total_s
from pgassay.tune.tuned_statements import sql_with


@contextlib.contextmanager
def nothing_applied_afterwards(copy: TrialCopy) -> Iterator[None]:
    """Take back what is applied to the copy below whatever is tried, however the block ends."""
    try:
        yield
    finally:
        copy.ground = ()
        copy.align(())


def apply_below(run: SearchRun, taken: tuple[Candidate, ...], selection: FixSelection) -> Baseline:
    """Have these applied below whatever is tried; the workload with them, as a baseline of its own."""
    run.copy.ground = taken
    run.copy.align(())
    baseline = run.baseline
    texts = {rewrite.statement: rewrite.sql for each in taken for rewrite in each.rewrites}
    statements = tuple(replace(each, sql=sql_with(each, texts)) for each in baseline.statements)
    # What it takes now is what the selection's last step measured, piece by piece.
    seconds = selection.steps[-1].seconds
    endless = tuple(name for name in baseline.endless if seconds[name] >= baseline.seconds[name])
    return Baseline(statements, seconds, estimates(run.copy, statements, {}), baseline.rows, endless)


def search_on_top(run: SearchRun, upon: Baseline, candidates: Sequence[Candidate], room: int) -> SearchRecord:
    """Try these with what is applied below, for so many more members; `upon`: the workload with that."""
    again = replace(
        run,
        baseline=upon,
        found=SearchRecord(candidates=tuple(candidates)),
        members_max=room,
        space_bytes=run.space_bytes - run.found.chosen_bytes,
        waiting={},
    )
    search(again)
    return again.found


def take_over(run: SearchRun, again: SearchRecord, upon: Baseline, below: FixSelection) -> None:
    """Extend the run's record by what was found on top of `upon`, the workload with the selection `below`.

    What a candidate takes on top is kept as what it would take alone: the workload's seconds as it is, times
    the ratio on top.
    """
    found = run.found
    found.screened |= again.screened
    for name, tried in again.tried.items():
        found.screened.pop(name, None)
        found.tried[name] = _as_if_alone(tried, run.baseline, upon)
    found.checks |= again.checks
    found.notes |= again.notes
    found.alike |= again.alike
    found.selection = below.with_more(again.selection)


def search_with_settings(run: SearchRun) -> None:
    """Try what was screened on top of a selection that has a setting, or gets one; the record is extended.

    A setting that was not chosen stays only where the workload gains enough by what is chosen with it.
    """
    found = run.found
    taken = tuple(found.members)
    screened = [each for each in found.to_try if each.id in found.screened]
    needed = _needed(run, taken)
    room = run.members_max - len(taken) - len(needed)
    has_setting = any(each.settings for each in (*taken, *needed))
    if not screened or room < 1 or run.clock.is_over or not has_setting:
        return
    first = with_on_top(run, taken, needed)
    if first is None:
        return
    with nothing_applied_afterwards(run.copy):
        upon = apply_below(run, (*taken, *needed), first)
        again = search_on_top(run, upon, [each for each in screened if each not in needed], room)
    whole = first.with_more(again.selection)
    if needed and not _gains(run, whole, again):
        return
    for each in needed:
        if found.screened.pop(each.id, ""):  # alone it changed no plan, and was not timed
            found.tried[each.id] = Tried(each.id, seconds_alone(whole, each.id, run.baseline), on_top=True)
    take_over(run, again, upon, first)


def _needed(run: SearchRun, taken: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The settings that indexes wait for, of those that set nothing that is set already."""
    needed: list[Candidate] = []
    for each in run.found.named(dict.fromkeys(run.waiting.values())):
        known = {key for other in (*taken, *needed) for key in other.settings}
        if not known & each.settings.keys():
            needed.append(each)
    return tuple(needed)


def with_on_top(
    run: SearchRun, taken: Sequence[Candidate], needed: Sequence[Candidate]
) -> FixSelection | None:
    """The selection with these, timed on top of each other; None where one can't be applied."""
    selection, baseline = run.found.selection, run.baseline
    steps = selection.steps
    for place, each in enumerate(needed):
        current = {**(steps[-1].seconds if steps else baseline.seconds)}
        alone = run.found.tried[each.id].touched if each.id in run.found.tried else ()
        seconds = seconds_on_top(run, (*taken, *needed[:place]), each, alone=alone, current=current)
        if seconds is None:
            return None
        current.update(seconds)
        steps = (*steps, SelectionStep(each.id, total_s(baseline.weights, current), current))
    return FixSelection(steps, selection.beside, selection.over)


def _gains(run: SearchRun, whole: FixSelection, again: SearchRecord) -> bool:
    """Whether the workload is that much faster with what was found by the settings, settings included."""
    if not again.selection.steps:
        return False
    before = run.found.selection.steps
    least = before[-1].total_s if before else run.whole_s
    return least >= run.gain_min * whole.steps[-1].total_s


def _as_if_alone(tried: Tried, baseline: Baseline, upon: Baseline) -> Tried:
    """What was tried on top of `upon` as if it gained alone as much."""
    seconds = {
        name: baseline.seconds[name] * on_top_s / upon.seconds[name]
        for name, on_top_s in tried.seconds.items()
    }
    return replace(tried, seconds=seconds, on_top=True)
