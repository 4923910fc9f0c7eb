"""The finders asked again, of the plans that the chosen set leaves.

What is slow in a statement decides what finders offer for it: once an index spares reading a table whole, the
visits to its rows are what takes time, and an index with the columns beside its keys is worth its space.
What they offer then is tried on top of what was chosen, and may make a member of that superfluous: an index
that no plan uses any more is left out.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from pgassay.errors import MeasurementError, UsageError
from pgassay.model.plans.plan import ExplainedPlan
from pgassay.tune.baseline import executed_plan
from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.on_top import as_if_alone, with_taken
from pgassay.tune.search.paired_timing import Clock
from pgassay.tune.search.planner_screen import differs, index_made_by
from pgassay.tune.search.search import Searched, search
from pgassay.tune.search.selection import Baseline, total_s
from pgassay.tune.tools import Gathered, extended

# How often they are asked again.
ASKED_MAX = 2
# What may be tried on top of a set that is full: it may take the place of a member.
REPLACING_MAX = 2
# Offered of the catalogs, of counts that the search itself has changed, or on top of a shape that another
# fix may just have changed.
_NOT_AGAIN = frozenset({"unneeded-index", "partitioning"})
Plans = dict[str, tuple[ExplainedPlan, ...]]
# What finders offer of the workload with what was chosen, its plans and the rewritten texts, by the names of
# the statements.
Ask = Callable[[Baseline, Mapping[str, tuple[ExplainedPlan, ...]], Mapping[str, str]], Sequence[Candidate]]


def look_with_chosen(
    copy: TrialCopy,
    baseline: Baseline,
    gathered: Gathered,
    clock: Clock,
    found: Searched,
    say: Callable[[str], None],
    ask: Ask,
    *,
    gain_min: float,
    members_max: int,
    space_bytes: float = math.inf,
) -> Gathered:
    """Try what is offered with the chosen set in place; `found` is extended, and so is what was gathered.

    What a candidate takes on top is kept as what it would take alone, as for what a setting makes useful.
    """
    try:
        for _ in range(ASKED_MAX):
            if clock.is_over or not found.selection.steps:
                break
            taken, upon = _applied(copy, baseline, gathered, found)
            offered = _offered(copy, baseline, upon, taken, gathered, ask)
            gathered = extended(gathered, offered)
            to_try = [each for each in gathered.to_try if each in offered]
            if not to_try:
                break
            say(f"{len(to_try)} further candidates by the plans with what was chosen")
            again = Searched()
            room = max(members_max - len(taken), REPLACING_MAX)
            left_bytes = space_bytes - found.chosen_bytes
            search(
                copy, upon, to_try, clock, again, say,
                gain_min=gain_min, members_max=room, space_bytes=left_bytes,
            )  # fmt: skip
            _merge(found, again, baseline, upon)
            if not again.selection.steps:
                break
            _applied(copy, baseline, gathered, found)
    except (UsageError, MeasurementError):
        pass  # what was chosen can't be applied once more, or a plan of it not be had: it stays as it is
    finally:
        copy.ground = ()
        copy.align(())
    found.selection = found.selection.first(members_max, total_s(baseline.weights, baseline.seconds))
    return gathered


def _applied(
    copy: TrialCopy, baseline: Baseline, gathered: Gathered, found: Searched
) -> tuple[tuple[Candidate, ...], Baseline]:
    """Have the chosen set applied below whatever is tried, without the indexes that no plan uses in it."""
    by_id = {each.id: each for each in gathered.candidates}
    while True:
        taken = tuple(by_id[name] for name in found.selection.ids)
        copy.ground = taken
        copy.align(())
        upon = with_taken(copy, baseline, taken, found.selection)
        names = unused(taken, upon.estimates.values(), written(baseline, found))
        if not names:
            return taken, upon
        for name in names:
            found.selection = found.selection.less(name, 1.0)


def written(baseline: Baseline, found: Searched) -> frozenset[str]:
    """The ids of what made a statement that writes faster: a constraint's check uses an index in no plan."""
    writing = {each.name for each in baseline.statements if each.of.writes}
    return frozenset(
        name
        for name, tried in found.tried.items()
        if any(tried.seconds[each] < baseline.seconds[each] for each in writing & tried.seconds.keys())
        and not any(tried.seconds[each] < baseline.seconds[each] for each in tried.seconds.keys() - writing)
    )


def unused(
    taken: Sequence[Candidate], plans: Collection[ExplainedPlan], kept: Collection[str]
) -> tuple[str, ...]:
    """The ids of members that are an index and nothing else, which none of these plans uses; but `kept`."""
    used = {node.index for plan in plans for node in plan.nodes if node.index is not None}
    names = ((each.id, index_made_by(each)) for each in taken if each.id not in kept)
    return tuple(id_ for id_, index in names if index is not None and index not in used)


def _offered(
    copy: TrialCopy,
    baseline: Baseline,
    upon: Baseline,
    taken: Sequence[Candidate],
    gathered: Gathered,
    ask: Ask,
) -> list[Candidate]:
    """What the finders offer of the plans with what is taken, and did not offer before."""
    texts = {rewrite.statement: rewrite.sql for each in taken for rewrite in each.rewrites}
    changed = {
        each.of.name
        for each in upon.statements
        if upon.seconds[each.name] != baseline.seconds[each.name]
        or differs(baseline.estimates[each.name], upon.estimates[each.name], by_cost=True)
    }
    plans: Plans = {}
    for each in upon.statements:
        if each.of.name in changed:
            made = executed_plan(copy, each, upon.seconds[each.name])
            plans[each.of.name] = (*plans.get(each.of.name, ()), made)
    known = {each.id for each in gathered.candidates}
    return [
        found_with(each, taken)
        for each in ask(upon, plans, texts)
        if each.id not in known and may_be_added(each, taken)
    ]


def may_be_added(candidate: Candidate, taken: Sequence[Candidate]) -> bool:
    """Whether what was offered of plans with a set can be tried on top of it, and applied after it."""
    if candidate.kind in _NOT_AGAIN or candidate.physical or candidate.described or candidate.why_not:
        return False
    if candidate.build is not None or candidate.storage is not None:
        return False
    return not candidate.settings.keys() & {name for each in taken for name in each.settings}


def found_with(candidate: Candidate, taken: Sequence[Candidate]) -> Candidate:
    """The candidate, its reason saying what was in place: what concerns the same statements, or all."""
    mine = {*candidate.statements}
    near = [each.title for each in taken if mine & {*each.statements}] or [each.title for each in taken]
    return candidate.model_copy(update={"reason": f"with {'; '.join(near)}: {candidate.reason}"})


def _merge(found: Searched, again: Searched, baseline: Baseline, upon: Baseline) -> None:
    found.selection = found.selection.with_more(again.selection)
    for name, tried in again.tried.items():
        found.tried[name] = as_if_alone(tried, baseline, upon)
    found.screened |= again.screened
    found.checks |= again.checks
    found.notes |= again.notes
    found.alike |= again.alike
