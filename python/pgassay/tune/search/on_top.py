"""Indexes that the planner used in no statement, tried once more with the settings that they needed.

Alone each was screened by the planner's choice with the settings as they are. Where a random page costs as
much as the default says, an index is not used that is worth its space once the cost is what the machine's
is; and where there is no index, that cost changes nothing. So neither is chosen alone, and both are tried
together where the planner says, with the index built and the setting in force, that it would use it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.paired_timing import Clock
from pgassay.tune.search.planner_screen import estimates, on_top
from pgassay.tune.search.search import Searched, as_alone, search
from pgassay.tune.search.selection import Baseline, Selection, Step, Tried, total_s
from pgassay.tune.statements import sql_with


def look_with_settings(
    copy: TrialCopy,
    baseline: Baseline,
    candidates: Sequence[Candidate],
    clock: Clock,
    found: Searched,
    say: Callable[[str], None],
    *,
    gain_min: float,
    members_max: int,
    space_bytes: float = math.inf,
) -> None:
    """Try what was screened on top of a selection that has a setting, or gets one; `found` is extended.

    A setting that was not chosen stays only where the workload gains `gain_min` by what is chosen with it.
    What a candidate takes on top is kept as what it would take alone: the workload's seconds as it is, times
    the ratio on top.
    """
    by_id = {each.id: each for each in candidates}
    taken = tuple(by_id[name] for name in found.selection.ids)
    screened = [each for each in candidates if each.id in found.screened]
    needed = _needed(taken, by_id, found)
    room = members_max - len(taken) - len(needed)
    has_setting = any(each.settings for each in (*taken, *needed))
    if not screened or room < 1 or clock.is_over or not has_setting:
        return
    first = _with(copy, baseline, taken, needed, found.selection)
    if first is None:
        return
    copy.ground = (*taken, *needed)
    try:
        copy.align(())
        upon = with_taken(copy, baseline, copy.ground, first)
        again = Searched()
        rest = [each for each in screened if each not in needed]
        left_bytes = space_bytes - found.chosen_bytes
        search(
            copy, upon, rest, clock, again, say,
            gain_min=gain_min, members_max=room, space_bytes=left_bytes,
        )  # fmt: skip
    finally:
        copy.ground = ()
        copy.align(())
    whole = first.with_more(again.selection)
    if needed and not _gains(baseline, found.selection, whole, gain_min, again):
        return
    for each in needed:
        if found.screened.pop(each.id, ""):  # alone it changed no plan, and was not timed
            found.tried[each.id] = Tried(each.id, as_alone(whole, each.id, baseline), on_top=True)
    for name, tried in again.tried.items():
        del found.screened[name]
        found.tried[name] = as_if_alone(tried, baseline, upon)
    found.checks |= again.checks
    found.notes |= again.notes
    found.alike |= again.alike
    found.selection = whole


def _needed(
    taken: Sequence[Candidate], by_id: Mapping[str, Candidate], found: Searched
) -> tuple[Candidate, ...]:
    """The settings that indexes wait for, of those that set nothing that is set already."""
    needed: list[Candidate] = []
    for name in dict.fromkeys(found.waiting.values()):
        known = {key for each in (*taken, *needed) for key in each.settings}
        if not known & by_id[name].settings.keys():
            needed.append(by_id[name])
    return tuple(needed)


def _with(
    copy: TrialCopy,
    baseline: Baseline,
    taken: Sequence[Candidate],
    needed: Sequence[Candidate],
    selection: Selection,
) -> Selection | None:
    """The selection with these settings, timed on top of each other; None where one can't be applied."""
    steps = selection.steps
    for place, each in enumerate(needed):
        current = {**(steps[-1].seconds if steps else baseline.seconds)}
        below = (*taken, *needed[:place])
        seconds = on_top(copy, baseline, below, each, alone=(), current=current)
        if seconds is None:
            return None
        current.update(seconds)
        steps = (*steps, Step(each.id, total_s(baseline.weights, current), current))
    return Selection(steps, selection.beside, selection.over)


def _gains(baseline: Baseline, before: Selection, whole: Selection, gain_min: float, again: Searched) -> bool:
    """Whether the workload is that much faster with what was found by the settings, settings included."""
    if not again.selection.steps:
        return False
    least = before.steps[-1].total_s if before.steps else total_s(baseline.weights, baseline.seconds)
    return least >= gain_min * whole.steps[-1].total_s


def with_taken(
    copy: TrialCopy, baseline: Baseline, taken: Sequence[Candidate], selection: Selection
) -> Baseline:
    """The workload with what was taken, as a baseline of its own."""
    texts = {rewrite.statement: rewrite.sql for each in taken for rewrite in each.rewrites}
    statements = tuple(replace(each, sql=sql_with(each, texts)) for each in baseline.statements)
    # What it takes now is what the selection's last step measured, piece by piece.
    seconds = selection.steps[-1].seconds
    endless = tuple(name for name in baseline.endless if seconds[name] >= baseline.seconds[name])
    return Baseline(statements, seconds, estimates(copy, statements, {}), baseline.rows, endless)


def as_if_alone(tried: Tried, baseline: Baseline, upon: Baseline) -> Tried:
    """What was tried on top of `upon` as if it gained alone as much."""
    seconds = {
        name: baseline.seconds[name] * on_top_s / upon.seconds[name]
        for name, on_top_s in tried.seconds.items()
    }
    return replace(tried, seconds=seconds, on_top=True)
