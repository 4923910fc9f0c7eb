"""How long a statement is waited for that did not end as it is, in the search and in the proof. Pure.

Its time as it is is not known: the time that it was given is a lower bound, and counts in its place. So what
a fix gains on it is a lower bound as well, and the true gain is larger.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.tune.candidate import Candidate
from pgassay.tune.search.selection import Baseline, FixSelection, Seconds, total_s

# Each statement is given a tenth of what a slow one may take at most, and seconds at least, before any of
# those that did not end in it is given more.
FIRST_SHARE, FIRST_S_MIN = 0.1, 2.0
# What a unit of the planner's cost takes at least, where no statement that ended tells: a sequential scan of
# cached pages with one comparison, or a little less.
COST_UNIT_S = 3e-6
# It is executed with a candidate in place only where the plan's cost fell below that.
COST_SHARE_MAX = 0.5
# In the proof it is given so many times what it takes with the chosen set, and so long at least; and three
# times as long even where that is more than the search gave it, so that noise stops it nowhere.
PROOF_TIMES, PROOF_TIMES_MIN, PROOF_S_MIN = 10.0, 3.0, 1.0
_ONLY_MAKES_INDEX = ("CREATE INDEX ", "CREATE UNIQUE INDEX ", "CREATE EXTENSION ")


def first_s(longest_s: float) -> float:
    """How long each statement is waited for at first, where one may take `longest_s` at most."""
    return min(longest_s, max(FIRST_S_MIN, FIRST_SHARE * longest_s))


def may_end_in(time_s: float, plan: ExplainedPlan, ended: Mapping[str, tuple[float, ExplainedPlan]]) -> bool:
    """Whether a statement may end in so long by its plan's cost, at the best pace of those that `ended`."""
    paces = [seconds / cost for seconds, each in ended.values() if (cost := each.cost_total) > 0]
    return plan.cost_total * min(paces, default=COST_UNIT_S) <= time_s


@dataclass
class StatementTimeout:
    """A statement that did not end in `limit_s` with its plan as it is."""

    limit_s: float
    plan: ExplainedPlan

    def may_end(self, plan: ExplainedPlan, applied: Sequence[Candidate]) -> bool:
        """Whether it is worth executing with this plan, with these candidates applied.

        Where more than indexes was applied, costs are of other statistics or in other units: then any other
        plan is worth it.
        """
        if plan.shape == self.plan.shape:
            return False
        costs_compare = all(
            not each.settings and each.build is None and each.storage is None
            and all(text.upper().startswith(_ONLY_MAKES_INDEX) for text in each.sql)
            for each in applied
        )  # fmt: skip
        return not costs_compare or plan.cost_total < COST_SHARE_MAX * self.plan.cost_total


def unsolved(endless: Sequence[str], seconds: Seconds, chosen: Seconds) -> tuple[str, ...]:
    """Those that end with the chosen set neither; `seconds`: how long each was waited for."""
    return tuple(name for name in endless if chosen.get(name, math.inf) >= seconds[name])


def proof_limits(endless: Sequence[str], seconds: Seconds, chosen: Seconds) -> dict[str, float]:
    """After how many seconds each is stopped in the proof, of those that end with the chosen set.

    Long enough to weigh something beside the other statements, and so short that a trial of the workload as
    it is takes little longer than one with the chosen set.
    """
    left_out = {*unsolved(endless, seconds, chosen)}
    solved = [name for name in endless if name not in left_out]
    others_s = math.fsum(chosen[name] for name in seconds if name in chosen and name not in left_out)
    found = {}
    for name in solved:
        wanted_s = max(PROOF_TIMES * chosen[name], PROOF_S_MIN, others_s / len(solved))
        least_s = max(PROOF_TIMES_MIN * chosen[name], min(PROOF_S_MIN, seconds[name]))
        found[name] = round(max(least_s, min(wanted_s, seconds[name])), 3)
    return found


def proven_state(baseline: Baseline, selection: FixSelection) -> tuple[Baseline, FixSelection]:
    """The workload and the chosen set as their proof has them.

    Without the statements that end with the chosen set neither, and no other taking longer than it is waited
    for there.
    """
    if not baseline.endless:
        return baseline, selection
    chosen = selection.steps[-1].seconds if selection.steps else {}
    limits = proof_limits(baseline.endless, baseline.seconds, chosen)
    left_out = {*baseline.endless} - limits.keys()

    def bounded(seconds: Seconds) -> dict[str, float]:
        kept = {name: each for name, each in seconds.items() if name not in left_out}
        return {name: min(each, limits.get(name, math.inf)) for name, each in kept.items()}

    kept = replace(
        baseline,
        statements=tuple(each for each in baseline.statements if each.name not in left_out),
        seconds=bounded(baseline.seconds),
        endless=tuple(limits),
    )
    steps = []
    for step in selection.steps:
        seconds = bounded(step.seconds)
        steps.append(
            replace(step, total_s=total_s(kept.weights, {**kept.seconds, **seconds}), seconds=seconds)
        )
    return kept, replace(selection, steps=tuple(steps))


def wait_as_in_proof(endless: Mapping[str, StatementTimeout], proven: Baseline) -> None:
    """Wait for those of the proof as long as it does, so that what is predicted is what it can measure."""
    for name in proven.endless:
        endless[name].limit_s = proven.seconds[name]


def expected_in_proof(baseline: Baseline) -> Seconds:
    """The statements' seconds in a proof of a set that is not chosen yet: endless ones are stopped early."""
    return {
        name: min(seconds, PROOF_S_MIN) if name in baseline.endless else seconds
        for name, seconds in baseline.seconds.items()
    }
