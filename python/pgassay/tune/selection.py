"""Which fixes together: the best one first, then what still gains on top of those that were taken. Pure.

Forward selection over all layers. What is measured is the time of statements with a set of fixes applied; a
fix is measured only on the statements that it touches, and again only where one that was taken before
touches them too. Nothing here is a verdict.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

# Seconds of each statement that a set of fixes touches, by name.
Seconds = Mapping[str, float]
# What a trial takes beside its statements, about; and the blocks that a proof should have room for.
TRIAL_OVERHEAD_S, BLOCKS_WANTED = 3.0, 6
# Of a trial: warming the caches reads what the statements read.
TRIAL_TIMES = 2.0
# In a trial of the proof a statement that only reads is executed until it took so long, as it is or with what
# was chosen, whichever is faster: longer than some turns of the scheduler, of 3 ms and more, so that some of
# its executions are disturbed by nothing. The slower of the two may take so long by that, and no statement is
# executed more often.
EXECUTIONS_S, SLOWER_EXECUTIONS_S, EXECUTIONS_MAX = 0.05, 0.15, 500
# Where shared buffers are emptied before each execution, which takes longer than a short statement.
EMPTIED_EXECUTIONS_MAX = 20
# A workload that is slower by less than that is called nothing.
WORSE_MAX = 0.9
# In which order the workload is timed again without (False) and with a fix that looked slower: the two stand
# alike in time, so that a machine that gets steadily slower or faster does not favour either.
ROUNDS = (False, True, True, False, False, True, True, False)


@dataclass(frozen=True)
class Tried:
    """A fix alone: the seconds of the statements that it touches, and what else it came to.

    `build_s`, `bytes`, `wal_bytes`: what applying it took. `refused`: why it could not be tried, '' where it
    was. `took_s`: how long trying it took in all. `without_s`, `with_s`: the workload's seconds of the rounds
    in which one that looked slower was timed again, () where it was not.
    """

    id: str
    seconds: Seconds = field(default_factory=dict)
    build_s: float | None = None
    bytes: int | None = None
    refused: str = ""
    wal_bytes: int | None = None
    took_s: float = 0.0
    without_s: tuple[float, ...] = ()
    with_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class Step:
    """A fix that was taken: the workload's seconds with it and all before, and of the statements."""

    id: str
    total_s: float
    seconds: Seconds


@dataclass(frozen=True)
class Selection:
    """What was taken, in order; `beside`: for each fix not taken, its gain on top of those that were."""

    steps: tuple[Step, ...] = ()
    beside: Mapping[str, float] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        """The fixes that were taken."""
        return tuple(step.id for step in self.steps)

    def first(self, count: int, whole_s: float) -> "Selection":
        """The first so many of them alone; what the others gained on top of those is in `beside`.

        `whole_s`: the workload's seconds without any.
        """
        totals = [whole_s, *(step.total_s for step in self.steps)]
        others = {
            step.id: before / step.total_s
            for before, step in list(zip(totals, self.steps, strict=False))[count:]
        }
        return Selection(self.steps[:count], {**self.beside, **others})


def total_s(weights: Mapping[str, float], seconds: Seconds) -> float:
    """The workload's seconds: each statement as often as its weight says."""
    return math.fsum(weights[name] * seconds[name] for name in weights)


def gain_of(weights: Mapping[str, float], before: Seconds, touched: Seconds) -> float:
    """The workload's speed with these statements' new times over that without; 0 where one is endless."""
    after = total_s(weights, {**before, **touched})
    return 0.0 if math.isinf(after) else total_s(weights, before) / after


def provable(selection: Selection, weights: Mapping[str, float], base: Seconds, time_s: float) -> Selection:
    """The first of what was taken, as many as a proof of so many seconds has room for; one in any case.

    Each is an arm more in every block. `base`: the seconds of the workload's statements as it is.
    """
    count = len(selection.steps)
    while count > 1 and time_s < BLOCKS_WANTED * math.fsum(
        TRIAL_OVERHEAD_S + TRIAL_TIMES * seconds for seconds in proof_trials_s(selection, base, count)
    ):
        count -= 1
    return selection.first(count, total_s(weights, base))


def proof_trials_s(selection: Selection, base: Seconds, count: int) -> list[float]:
    """What the statements take in each trial of a block of the proof of the first `count` fixes, in seconds.

    A trial runs each statement once, whatever its weight is, and short ones several times. The chosen set and
    its twin, the workload as it is, and with several the set without each, which loses what that one gained.
    """
    sets = (base, *(step.seconds for step in selection.steps[:count]))
    often = executions_of(base, base, sets[-1])
    totals = [math.fsum(often.get(name, 1) * each[name] for name in each) for each in sets]
    chosen = totals[-1]
    lost = [chosen + before - after for before, after in pairwise(totals)]
    return [chosen, chosen, totals[0], *(lost if count > 1 else ())]


def executions_of(
    names: Iterable[str], base: Seconds, chosen: Seconds, *, executions_max: int = EXECUTIONS_MAX
) -> dict[str, int]:
    """How often a trial of the proof executes each of these statements, where that is more than once.

    `base`, `chosen`: the seconds of one execution, as the workload is and with all that was chosen.
    """
    found = {}
    for name in names:
        fast, slow = sorted((base[name], chosen.get(name, base[name])))
        if not 0 < fast <= slow < math.inf:
            continue
        count = min(math.ceil(EXECUTIONS_S / fast), math.ceil(SLOWER_EXECUTIONS_S / slow), executions_max)
        if count > 1:
            found[name] = count
    return found


def is_slower(tried: Tried) -> bool:
    """Whether the rounds without and with a fix tell that it makes the workload slower by 10 % and more.

    Each round with it took longer than each without, and the medians are that far apart. Where a fix does
    nothing, all orders of the rounds are equally likely, whatever the noise's distribution is: of four and
    four, one order in 70 has all of one kind above the other (Wilcoxon's rank sum at its extreme).
    """
    if len(tried.with_s) != ROUNDS.count(True) or len(tried.without_s) != ROUNDS.count(False):
        return False
    apart = statistics.median(tried.without_s) < WORSE_MAX * statistics.median(tried.with_s)
    return apart and min(tried.with_s) > max(tried.without_s)


def select(
    weights: Mapping[str, float],
    base: Seconds,
    tried: Sequence[Tried],
    measure: Callable[[Sequence[str], str], Seconds | None],
    *,
    gain_min: float,
    members_max: int,
) -> Selection:
    """Take fixes one after the other, the one that gains most first, until none gains `gain_min`.

    `weights`: how often each statement runs. `measure(taken, id)`: the seconds of the statements that `id`
    touches on top of those taken; None where it can't be applied there, or no time is left.
    """
    current = dict(base)
    known: dict[str, Seconds] = {each.id: each.seconds for each in tried if not each.refused}
    steps: list[Step] = []
    beside: dict[str, float] = {}
    while known and len(steps) < members_max:
        gains = {name: gain_of(weights, current, touched) for name, touched in known.items()}
        best = max(gains, key=lambda name: (gains[name], -list(known).index(name)))
        if gains[best] < gain_min:
            break
        touched = known.pop(best)
        current.update(touched)
        steps.append(Step(best, total_s(weights, current), dict(current)))
        taken = [step.id for step in steps]
        for name in [each for each in known if known[each].keys() & touched.keys()]:
            again = measure(taken, name)
            if again is None:
                del known[name]
            else:
                known[name] = again
    beside |= {name: gain_of(weights, current, touched) for name, touched in known.items()}
    return Selection(tuple(steps), beside)
