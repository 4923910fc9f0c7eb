"""How long a proof takes, by what the search has measured, and for how many fixes there is time. Pure.

A trial starts a server on a fresh copy of the data and warms its caches; how long that took for the search's
own copy is measured. The statements' seconds are the search's.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from pgassay.model.workload import WorkloadSpec
from pgassay.tune.search.executions import executions_in_trial
from pgassay.tune.search.selection import Baseline, FixSelection, Seconds, total_s

# What a trial takes beside its statements, at least; and beside those and starting its server on a copy.
TRIAL_OVERHEAD_S, TRIAL_CHECKS_S = 3.0, 1.0
# The blocks that a proof should have room for; with fewer than the least a pooled comparison has no verdict
# (docs/statistics.md).
BLOCKS_WANTED, BLOCKS_MIN = 6, 4
# Of a trial: warming the caches reads what the statements read.
TRIAL_TIMES = 2.0
# The arms of the proof of one fix: the set, its twin, the workload as it is.
ARMS_OF_ONE = 3
# What the search takes of the time that is left, and at least, so that a proof has enough.
SEARCH_SHARE, SEARCH_SHARE_MIN = 0.4, 0.2
# Of what is left after the search.
PREDICTION_SHARE = 0.2
# Of the time that is left: the data of its arms are made before its first trial.
PROOF_SHARE = 0.85
# A set of fewer members can't lose two of them and still be one.
STAGED_MEMBERS_MIN = 3
# Of the time that is left, where a second stage may follow; what is over goes to whichever needs it.
FIRST_STAGE_SHARE = 0.55
_NOT_ENOUGH = "nothing can be proven in"


def trials_in_block(members: int) -> int:
    """Of the proof of so many fixes: its twin, and with several the set without each, are trials as well."""
    return ARMS_OF_ONE + (members if members > 1 else 0)


def proof_trials_s(
    selection: FixSelection, base: Seconds, count: int, often: Mapping[str, int]
) -> list[float]:
    """What the statements take in each trial of a block of the proof of the first `count` fixes, in seconds.

    A trial runs each statement as `often` says, else once, whatever its weight is. The chosen set and its
    twin, the workload as it is, and with several the set without each, which loses what that one gained.
    """
    sets = (base, *(step.seconds for step in selection.steps[:count]))
    totals = [math.fsum(often.get(name, 1) * each[name] for name in each) for each in sets]
    chosen = totals[-1]
    lost = [chosen + before - after for before, after in pairwise(totals)]
    return [chosen, chosen, totals[0], *(lost if count > 1 else ())]


@dataclass(frozen=True)
class TrialTime:
    """What a trial takes beside its statements, in seconds, and how it executes these.

    `opened_s`: what giving the search's server its copy of the data, and starting it, took. `built_s`: what
    applying each fix took, by its id. `executions`: how often each statement is executed, where that is more
    than once; `at_once`: how many processors have clients to serve that execute them at once.
    """

    opened_s: float = 0.0
    built_s: Mapping[str, float] = field(default_factory=dict)
    executions: Mapping[str, int] = field(default_factory=dict)
    at_once: float = 1.0

    @property
    def overhead_s(self) -> float:
        """Of each trial."""
        return max(TRIAL_OVERHEAD_S, TRIAL_CHECKS_S + self.opened_s)

    def block_s(self, selection: FixSelection, base: Seconds, count: int) -> float:
        """A block of the proof of the first `count` fixes."""
        trials = proof_trials_s(selection, base, count, self.executions)
        return math.fsum(self.overhead_s + TRIAL_TIMES * seconds / self.at_once for seconds in trials)

    def data_s(self, selection: FixSelection, count: int) -> float:
        """Making the data of its arms: each has all members but at most one."""
        built = math.fsum(self.built_s.get(name, 0.0) for name in selection.ids[:count])
        return (count + 1 if count > 1 else 1) * (self.opened_s + built)

    def proof_s(self, selection: FixSelection, base: Seconds, count: int) -> float:
        """The whole proof of the first `count` fixes, with as many blocks as it should have."""
        return self.data_s(selection, count) + BLOCKS_WANTED * self.block_s(selection, base, count)

    def proof_of_one_s(self, base: Seconds, share_left: float) -> float:
        """The shortest proof of one fix that leaves this share of the workload's time."""
        once_s = math.fsum(self.executions.get(name, 1) * each for name, each in base.items()) / self.at_once
        statements_s = once_s * (1 + (ARMS_OF_ONE - 1) * share_left)
        return self.opened_s + BLOCKS_MIN * (ARMS_OF_ONE * self.overhead_s + TRIAL_TIMES * statements_s)


def trial_time(
    workload: WorkloadSpec,
    processors: float,
    baseline: Baseline,
    chosen: Seconds,
    opened_s: float,
    built_s: Mapping[str, float] | None = None,
    *,
    executions_max: int = 1,
) -> TrialTime:
    """What a trial of the proof takes on so many processors. `chosen`: the seconds with what was chosen."""
    often = executions_in_trial(
        baseline.statements,
        baseline.seconds,
        chosen,
        at_once=workload.is_mix,
        executions_max=executions_max,
        endless=baseline.endless,
    )
    at_once = max(1.0, min(processors, workload.clients)) if workload.is_mix else 1.0
    return TrialTime(opened_s, built_s or {}, often, at_once)


def provable(
    selection: FixSelection,
    weights: Mapping[str, float],
    base: Seconds,
    time_s: float,
    trial: TrialTime | None = None,
) -> FixSelection:
    """The first of what was taken, as many as a proof of so many seconds has room for; one in any case.

    Each is an arm more in every block. `base`: the seconds of the workload's statements as it is.
    """
    trial = trial or TrialTime()
    count = len(selection.steps)
    while count > 1 and time_s < trial.proof_s(selection, base, count):
        count -= 1
    return selection.first(count, total_s(weights, base))


def search_s(left_s: float, base: Seconds, trial: TrialTime) -> float:
    """How long the search may take, so that the proof of one fix that halves the time has room after it."""
    needed_s = trial.proof_of_one_s(base, 0.5) / (PROOF_SHARE * (1 - PREDICTION_SHARE))
    spared_s = min(SEARCH_SHARE * left_s, left_s - needed_s)
    return max(spared_s, SEARCH_SHARE_MIN * left_s, 0.0)


def too_short(used_s: float, left_s: float, baseline: Baseline, trial: TrialTime) -> str:
    """What is said at once where no fix can be proven in the time that is left; '' where one may be.

    Evident is what not even a fix that leaves nothing of the workload's time could mend.
    """
    least_s = trial.proof_of_one_s(baseline.seconds, 0.0)
    if least_s <= PROOF_SHARE * (1 - SEARCH_SHARE_MIN) * left_s:
        return ""
    needed_s = trial.proof_of_one_s(baseline.seconds, 1.0)
    enough = typed(used_s + needed_s / (PROOF_SHARE * (1 - PREDICTION_SHARE) * (1 - SEARCH_SHARE)))
    return (
        f"{_NOT_ENOUGH} the {left_s:.0f} s that are left: {BLOCKS_MIN} blocks for one fix take "
        f"{typed(least_s)} and more here; give --max-time {enough}"
    )


def warnings_to_keep(warnings: Iterable[str]) -> tuple[str, ...]:
    """Those that hold as well where the proof gets more time later."""
    return tuple(each for each in warnings if not each.startswith(_NOT_ENOUGH))


def more_s(block_s: float, data_s: float, blocks: int, share: float) -> float:
    """What a proof that was begun should be given to go on, in seconds: its blocks once more, six at least.

    `blocks`: those that it has; `share`: of the time that is for this stage. Its data are made anew.
    """
    return (data_s + max(BLOCKS_WANTED - blocks, blocks, BLOCKS_MIN) * block_s) / share


def typed(seconds: float) -> str:
    """Seconds as --max-time takes them, rounded up: 40s, 12m."""
    tens = math.ceil(seconds / 10)
    return f"{10 * tens}s" if tens < 12 else f"{math.ceil(seconds / 60)}m"
