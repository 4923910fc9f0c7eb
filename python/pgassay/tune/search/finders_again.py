"""The finders asked again, of the plans that the chosen set leaves.

What is slow in a statement decides what finders offer for it: once an index spares reading a table whole, the
visits to its rows are what takes time, and an index with the columns beside its keys is worth its space.
What they offer then is tried on top of what was chosen, and may make a member of that superfluous: an index
that no plan uses any more is left out.

Nor does a rewrite gain anything where what it makes possible is not there: `day::date = $1` written as a
range of `day` reads the table whole as before, and an index on `day` serves no statement that has the cast.
Each was tried alone and helped nobody, so both are tried together (`search_with_rewrites`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from pgassay.errors import MeasurementError, UsageError
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.tune.baseline import executed_plan
from pgassay.tune.candidate import Candidate
from pgassay.tune.search.on_top import (
    apply_below,
    nothing_applied_afterwards,
    search_on_top,
    take_over,
    with_on_top,
)
from pgassay.tune.search.planner_screen import differs, index_made_by
from pgassay.tune.search.search_run import SearchRun
from pgassay.tune.search.selection import WORSE_MAX, Baseline, faster_of

# How often they are asked again.
ASKED_MAX = 2
# What may be tried on top of a set that is full: it may take the place of a member.
REPLACING_MAX = 2
# A rewrite that makes its statement slower than that many times is not tried with what it may make possible.
SLOWER_MAX = 1.5
# Offered of the catalogs, of counts that the search itself has changed, or on top of a shape that another
# fix may just have changed.
_NOT_AGAIN = frozenset({"unneeded-index", "partitioning"})
Plans = dict[str, tuple[ExplainedPlan, ...]]
# What finders offer of the workload with what was chosen, its plans and the rewritten texts, by the names of
# the statements.
Ask = Callable[[Baseline, Mapping[str, tuple[ExplainedPlan, ...]], Mapping[str, str]], Sequence[Candidate]]


def search_with_chosen(run: SearchRun, ask: Ask) -> None:
    """Try what is offered with the chosen set in place; the run's record is extended."""
    found = run.found
    with nothing_applied_afterwards(run.copy):
        try:
            for _ in range(ASKED_MAX):
                if run.clock.is_over or not found.selection.steps:
                    break
                upon = _apply_chosen(run)
                offered = _offered(run, upon, ask, found.members)
                found.candidates = (*found.candidates, *offered)
                to_try = [each for each in found.to_try if each in offered]
                if not to_try:
                    break
                run.say(f"{len(to_try)} further candidates from the plans with the chosen fixes")
                room = max(run.members_max - len(found.members), REPLACING_MAX)
                again = search_on_top(run, upon, to_try, room)
                take_over(run, again, upon, found.selection)
                if not again.selection.steps:
                    break
                _apply_chosen(run)
        except (UsageError, MeasurementError):
            pass  # what was chosen can't be applied once more, or a plan of it not be had: it stays as it is
    found.selection = found.selection.first(run.members_max, run.whole_s)


def search_with_rewrites(run: SearchRun, ask: Ask) -> None:
    """Try rewrites that gained nothing with what the finders offer of their plans; the record is extended.

    A rewrite stays only where its statement gains by something that was chosen on top of it.
    """
    found = run.found
    rewrites = _idle_rewrites(run)
    taken = tuple(found.members)
    room = run.members_max - len(taken) - len(rewrites)
    if not rewrites or room < 1 or run.clock.is_over:
        return
    first = with_on_top(run, taken, rewrites)
    if first is None:
        return
    with nothing_applied_afterwards(run.copy):
        try:
            upon = apply_below(run, (*taken, *rewrites), first)
            names = {name for each in rewrites for name in each.statements}
            offered = _offered(run, upon, ask, (*taken, *rewrites), names)
            screened = [each for each in found.to_try if each.id in found.screened]
            to_try = [*offered, *(each for each in screened if names & {*each.statements})]
            if not to_try:
                return
            run.say(f"{len(to_try)} candidates with statements that were rewritten")
            again = search_on_top(run, upon, to_try, room)
        except (UsageError, MeasurementError):
            return
    if not again.selection.steps:
        return
    faster = faster_of(again.selection.steps[-1].seconds, upon.seconds)
    found.candidates = (*found.candidates, *offered)
    take_over(run, again, upon, first)
    for each in rewrites:
        if not faster & _measured_names(run, each):
            found.selection = found.selection.less(each.id, 1.0)


def _idle_rewrites(run: SearchRun) -> list[Candidate]:
    """One rewrite of each statement that nothing chosen makes faster: the fastest, which is none alone."""
    found, baseline = run.found, run.baseline
    chosen_s = found.selection.steps[-1].seconds if found.selection.steps else baseline.seconds
    best: dict[str, tuple[float, Candidate]] = {}
    for each in found.to_try:
        tried = found.tried.get(each.id)
        if len(each.rewrites) != 1 or tried is None or tried.refused or tried.stopped:
            continue
        names = _measured_names(run, each)
        if not names or not names <= tried.seconds.keys():
            continue
        ratio = max(tried.seconds[name] / baseline.seconds[name] for name in names)
        is_idle = all(chosen_s[name] >= WORSE_MAX * baseline.seconds[name] for name in names)
        of = each.rewrites[0].statement
        if is_idle and ratio <= SLOWER_MAX and (of not in best or ratio < best[of][0]):
            best[of] = ratio, each
    return [each for _, each in best.values()]


def _measured_names(run: SearchRun, candidate: Candidate) -> frozenset[str]:
    """The measured statements that a candidate was found for, by their names."""
    return frozenset(each.name for each in run.baseline.statements if each.of.name in candidate.statements)


def _apply_chosen(run: SearchRun) -> Baseline:
    """Have the chosen set applied below whatever is tried, without the indexes that no plan uses in it."""
    found = run.found
    while True:
        upon = apply_below(run, tuple(found.members), found.selection)
        names = unused(found.members, upon.estimates.values(), written(run))
        if not names:
            return upon
        for name in names:
            found.selection = found.selection.less(name, 1.0)


def written(run: SearchRun) -> frozenset[str]:
    """The ids of what made a statement that writes faster: a constraint's check uses an index in no plan."""
    baseline = run.baseline
    writing = {each.name for each in baseline.statements if each.of.writes}
    return frozenset(
        name
        for name, tried in run.found.tried.items()
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
    run: SearchRun,
    upon: Baseline,
    ask: Ask,
    taken: Sequence[Candidate],
    names: Collection[str] | None = None,
) -> list[Candidate]:
    """What the finders offer of the plans with what is taken, and did not offer before.

    names: of the statements that it is to be for, where not all are asked about.
    """
    texts = {rewrite.statement: rewrite.sql for each in taken for rewrite in each.rewrites}
    changed = {
        each.of.name
        for each in upon.statements
        if (names is not None and each.of.name in names)
        or upon.seconds[each.name] != run.baseline.seconds[each.name]
        or differs(run.baseline.estimates[each.name], upon.estimates[each.name], by_cost=True)
    }
    plans: Plans = {}
    for each in upon.statements:
        if each.of.name in changed:
            made = executed_plan(run.copy, each, upon.seconds[each.name])
            plans[each.of.name] = (*plans.get(each.of.name, ()), made)
    known = run.found.by_id
    return [
        found_with(each, taken)
        for each in ask(upon, plans, texts)
        if each.id not in known
        and may_be_added(each, taken)
        and (names is None or not {*each.statements}.isdisjoint(names))
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
