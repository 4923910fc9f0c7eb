"""Which fixes together: the best one first, then what still gains on top of those that were taken. Pure.

Forward selection over all layers. What is measured is the time of statements with a set of fixes applied; a
fix is measured only on the statements that it touches, and again only where one that was taken before
touches them too. Nothing here is a verdict.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# Seconds of each statement that a set of fixes touches, by name.
Seconds = Mapping[str, float]


@dataclass(frozen=True)
class Tried:
    """A fix alone: the seconds of the statements that it touches, and what else it came to.

    `build_s`, `bytes`, `wal_bytes`: what applying it took. `refused`: why it could not be tried, '' where
    it was.
    """

    id: str
    seconds: Seconds = field(default_factory=dict)
    build_s: float | None = None
    bytes: int | None = None
    refused: str = ""
    wal_bytes: int | None = None


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


def total_s(weights: Mapping[str, float], seconds: Seconds) -> float:
    """The workload's seconds: each statement as often as its weight says."""
    return math.fsum(weights[name] * seconds[name] for name in weights)


def gain_of(weights: Mapping[str, float], before: Seconds, touched: Seconds) -> float:
    """The workload's speed with these statements' new times over that without; 0 where one is endless."""
    after = total_s(weights, {**before, **touched})
    return 0.0 if math.isinf(after) else total_s(weights, before) / after


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
