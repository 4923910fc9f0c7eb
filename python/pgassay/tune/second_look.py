"""Indexes that the planner used in no statement, tried once more on top of what was chosen.

Alone each was screened by the planner's cost with the settings as they are. A chosen setting may be what it
needed: where a random page costs as much as the default says, an index is not used that is worth its space
once the cost is what the machine's is.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search import Searched, search
from pgassay.tune.selection import Baseline, Selection, Tried
from pgassay.tune.statements import sql_with
from pgassay.tune.turns import Clock


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
) -> None:
    """Try what was screened on top of a selection that has a setting; `found` is extended.

    What a candidate takes on top is kept as what it would take alone: the workload's seconds as it is, times
    the ratio on top.
    """
    by_id = {each.id: each for each in candidates}
    taken = tuple(by_id[name] for name in found.selection.ids)
    screened = [each for each in candidates if each.id in found.screened]
    room = members_max - len(taken)
    if not screened or room < 1 or clock.is_over or not any(each.settings for each in taken):
        return
    copy.ground = taken
    try:
        copy.align(())
        upon = _with_taken(copy, baseline, taken, found)
        again = Searched()
        search(copy, upon, screened, clock, again, say, gain_min=gain_min, members_max=room)
    finally:
        copy.ground = ()
        copy.align(())
    for name, tried in again.tried.items():
        del found.screened[name]
        found.tried[name] = _as_alone(tried, baseline, upon)
    found.checks |= again.checks
    found.notes |= again.notes
    found.alike |= again.alike
    found.selection = Selection(
        (*found.selection.steps, *again.selection.steps),
        {**found.selection.beside, **again.selection.beside},
    )


def _with_taken(copy: TrialCopy, baseline: Baseline, taken: Sequence[Candidate], found: Searched) -> Baseline:
    """The workload with what was taken, as a baseline of its own."""
    texts = {rewrite.statement: rewrite.sql for each in taken for rewrite in each.rewrites}
    statements = tuple(replace(each, sql=sql_with(each, texts)) for each in baseline.statements)
    estimates = {each.name: copy.estimate(each.sql, each.name) for each in statements}
    # What it takes now is what the selection's last step measured, piece by piece.
    return Baseline(statements, found.selection.steps[-1].seconds, estimates, baseline.rows)


def _as_alone(tried: Tried, baseline: Baseline, upon: Baseline) -> Tried:
    seconds = {
        name: baseline.seconds[name] * on_top / upon.seconds[name] for name, on_top in tried.seconds.items()
    }
    return replace(tried, seconds=seconds)
