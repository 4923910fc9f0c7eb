"""What the search knows of the workload, of fixes alone and of those that were taken. Pure.

What is measured is the time of statements with a set of fixes applied. Nothing here is a verdict.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.experiment.running.result_bag import Bag
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.tune.tuned_statements import MeasuredStatement, importance_of, least_share, weights_of

# Seconds of each statement that a set of fixes touches, by name.
Seconds = Mapping[str, float]
# A statement that is faster or slower by less is called the same.
STATEMENT_MARGIN = 0.1
# What a statement was seen to gain once by less may be chance.
SEEN_MIN = 1.5
# A workload that is slower by less than that is called nothing.
WORSE_MAX = 0.9
# With a fix a statement is stopped that takes so many times as long as with the best, and so many seconds.
STOPPED_TIMES, STOPPED_S_MIN = 5.0, 0.5
# In which order the workload is timed again without (False) and with a fix that looked slower: the two stand
# alike in time, so that a machine that gets steadily slower or faster does not favour either.
ROUNDS = (False, True, True, False, False, True, True, False)


@dataclass(frozen=True)
class Baseline:
    """The workload as it is: seconds and estimated plan by the measured statement's name.

    `rows`: what the quick queries return, of those that return the same twice. `endless`: those that did not
    end in the time that they were given, which is a lower bound and in `seconds`.
    """

    statements: tuple[MeasuredStatement, ...]
    seconds: Seconds
    estimates: Mapping[str, ExplainedPlan]
    rows: Mapping[str, Bag] = field(default_factory=dict)
    endless: tuple[str, ...] = ()

    @property
    def endless_statements(self) -> frozenset[str]:
        """The names of the workload's statements that did not end with some set of their values."""
        return frozenset(each.of.name for each in self.statements if each.name in self.endless)

    @property
    def calls(self) -> dict[str, float]:
        """How often each is called beside the others."""
        return weights_of(self.statements)

    @property
    def weights(self) -> dict[str, float]:
        """What a second of each counts: no statement is too short to matter."""
        return importance_of(self.statements, self.seconds)

    def gain_min(self, margin: float) -> float:
        """What the whole gains at least by a fix that makes its least important statement faster enough."""
        return 1 + min(margin, STATEMENT_MARGIN * least_share(self.statements, self.seconds))


@dataclass(frozen=True)
class Tried:
    """A fix alone: the seconds of the statements that it touches, and what else it came to.

    `build_s`, `bytes`, `wal_bytes`: what applying it took. `refused`: why it could not be tried, '' where it
    was. `took_s`: how long trying it took in all. `without_s`, `with_s`: the workload's seconds of the rounds
    in which one that looked slower was timed again, () where it was not. `gain_again`: what one that was
    chosen gained when it was timed again in turn with the workload as it is, alone or with others that were
    chosen, where that was too little.
    `on_top`: it was measured on top of others, and its seconds are as if it gained as much alone.
    `stopped`: the statements that it touches, and that were stopped as much slower than with another fix.
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
    gain_again: float | None = None
    on_top: bool = False
    stopped: tuple[str, ...] = ()

    @property
    def touched(self) -> tuple[str, ...]:
        """The names of all statements that it touches."""
        return (*self.seconds, *self.stopped)

    def gain(self, weights: Mapping[str, float], base: Seconds) -> float:
        """The workload's speed with it alone over that without."""
        return gain_of(weights, base, self.seconds) if self.gain_again is None else self.gain_again


@dataclass(frozen=True)
class SelectionStep:
    """A fix that was taken: the workload's seconds with it and all before, and of the statements."""

    id: str
    total_s: float
    seconds: Seconds


@dataclass(frozen=True)
class FixSelection:
    """What was taken, in order; `beside`: for each fix not taken, its gain on top of those that were.

    `over`: by id of what was not taken, as it takes more space than was allowed, the bytes that were left.
    """

    steps: tuple[SelectionStep, ...] = ()
    beside: Mapping[str, float] = field(default_factory=dict)
    over: Mapping[str, float] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        """The fixes that were taken."""
        return tuple(step.id for step in self.steps)

    def first(self, count: int, whole_s: float) -> "FixSelection":
        """The first so many of them alone; what the others gained on top of those is in `beside`.

        `whole_s`: the workload's seconds without any.
        """
        totals = [whole_s, *(step.total_s for step in self.steps)]
        others = {
            step.id: before / step.total_s
            for before, step in list(zip(totals, self.steps, strict=False))[count:]
        }
        return FixSelection(self.steps[:count], {**self.beside, **others}, self.over)

    def less(self, name: str, gain: float) -> "FixSelection":
        """The same without one of them, which gains so much in it."""
        steps = tuple(step for step in self.steps if step.id != name)
        return FixSelection(steps, {**self.beside, name: gain}, self.over)

    def with_more(self, again: "FixSelection") -> "FixSelection":
        """The same with what was chosen on top of it."""
        over = {name: left for name, left in self.over.items() if name not in again.ids}
        return FixSelection(
            (*self.steps, *again.steps), {**self.beside, **again.beside}, {**over, **again.over}
        )


def total_s(weights: Mapping[str, float], seconds: Seconds) -> float:
    """The workload's seconds: each statement as often as its weight says."""
    return math.fsum(weights[name] * seconds[name] for name in weights)


def longest_s(
    weights: Mapping[str, float], base: Seconds, best: Seconds, gain_min: float
) -> dict[str, float]:
    """How long a statement is waited for with a fix, of those that another makes so fast that it matters.

    `base`, `best`: the seconds as it is, and with the best fix that was tried for it. What takes several
    times as long, and costs the workload more than `gain_min` allows, is in no chosen set for that
    statement: that it is faster than as it is need not be known. A slow statement would else take most of
    the search's time, again with each fix that changes its plan.
    """
    little_s = (gain_min - 1) * total_s(weights, best)
    found = {}
    for name, weight in weights.items():
        if weight > 0:
            least = best[name]
            found[name] = max(STOPPED_S_MIN, STOPPED_TIMES * least, least + little_s / weight)
    return {name: seconds for name, seconds in found.items() if seconds < base[name]}


def faster_of(touched: Seconds, before: Seconds) -> frozenset[str]:
    """The statements that a fix makes faster by 10 % and more: those that it gains by."""
    return frozenset(name for name, seconds in touched.items() if seconds < WORSE_MAX * before[name])


def gain_of(weights: Mapping[str, float], before: Seconds, touched: Seconds) -> float:
    """The workload's speed with these statements' new times over that without; 0 where one is endless."""
    after = total_s(weights, {**before, **touched})
    return 0.0 if math.isinf(after) else total_s(weights, before) / after


def gain_over(weights: Mapping[str, float], before: Seconds, after: Seconds, names: Iterable[str]) -> float:
    """The speed of these statements alone, weighted, with `after` over that with `before`; 0 of no time."""
    kept = tuple(names)
    one, other = (math.fsum(weights[name] * each[name] for name in kept) for each in (before, after))
    return one / other if other else 0.0


def is_slower(tried: Tried) -> bool:
    """Whether the rounds without and with a fix tell that it makes the workload slower by 10 % and more.

    Each round with it took longer than each without, and the medians are that far apart. Where a fix does
    nothing, all orders of the rounds are equally likely, whatever the noise's distribution is: of four and
    four, one order in 70 has all of one kind above the other (Wilcoxon's rank sum at its extreme).
    """
    return is_longer(tried.with_s, tried.without_s, WORSE_MAX)


def is_longer(one: Sequence[float], other: Sequence[float], below: float) -> bool:
    """Whether each round of one took longer than each of the other, whose median is `below` times one's."""
    if len(one) != ROUNDS.count(True) or len(other) != ROUNDS.count(False):
        return False
    apart = statistics.median(other) < below * statistics.median(one)
    return apart and min(one) > max(other)
