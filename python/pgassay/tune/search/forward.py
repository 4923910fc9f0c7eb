"""Which fixes together: the best one first, then what still gains on top of those that were taken. Pure.

Forward selection over all layers. A fix is measured only on the statements that it touches, and again only
where one that was taken before touches them too, or may have changed what it touches. Where the set may take
only so much space on disk, what fits is taken by what it gains, or by what it gains for its space: by
whichever comes to the faster workload on paper.

A fix that touches statements of one that was taken is expected to gain as many times as before, and measured
on top once that is the most, as accelerated greedy algorithms do (Minoux, 1978). Their bound holds where
gains only shrink. Here they may grow: when nothing is expected to gain any more, all that were not measured
on top of the last one taken are. What is expected and not measured counts but for statements that what was
taken has made faster: two that do the same would seem to multiply.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.tune.search.selection import (
    FixSelection,
    Seconds,
    SelectionStep,
    Tried,
    faster_of,
    gain_of,
    total_s,
)

# Of two fixes for the same statements the lesser may be as good, as far as one timing tells, where it saves
# so much of what the better saves; what is left of a short statement's time is mostly noise.
ALIKE_SAVED_MIN = 2 / 3
# What gains less on top of others for the same statements is taken only where it is told from the noise: two
# that do the same hide each other's gain from the proof, since the set is as fast without either.
SURE_GAIN = 2.0
# What takes less than a megabyte is not weighed by its space.
SPACE_BYTES_MIN = 1 << 20
# What is taken, the best by one timing and those that are alike, and the workload's seconds so far: which of
# them is taken next.
Pick = Callable[[Sequence[str], Sequence[str], Seconds], str]
# What is taken, a fix, and the workload's seconds so far: those of the statements that it touches on top of
# that; None where it can't be applied there, or no time is left.
Measure = Callable[[Sequence[str], str, Seconds], Seconds | None]
# What is taken, what may be taken next, and the seconds so far: whether it gains anything there, by more than
# the noise; None where there is no time to tell.
Holds = Callable[[Sequence[str], str, Seconds], bool | None]


@dataclass(frozen=True)
class Space:
    """How many bytes a set may take on disk together, and by id what each takes (below 0: it frees them)."""

    most: float = math.inf
    bytes: Mapping[str, int] = field(default_factory=dict)

    def left(self, ids: Collection[str]) -> float:
        """The bytes that these leave."""
        return self.most - sum(self.bytes.get(name, 0) for name in ids)

    def fitting(self, known: Collection[str], ids: Collection[str]) -> list[str]:
        """Which of `known` fit beside these, in their order."""
        left = self.left(ids)
        return [name for name in known if self.bytes.get(name, 0) <= max(left, 0)]

    def for_its_space(self, name: str, gain: float) -> float:
        """What one gains for each byte of its space, in logarithms, as the gains of several multiply."""
        return math.log(max(gain, 1.0)) / max(self.bytes.get(name, 0), SPACE_BYTES_MIN)


NO_LIMIT = Space()


def select(
    weights: Mapping[str, float],
    base: Seconds,
    tried: Sequence[Tried],
    measure: Measure,
    *,
    gain_min: float,
    members_max: int,
    pick: Pick = lambda _taken, names, _current: names[0],
    holds: Holds = lambda _taken, _name, _current: True,
    anew: Collection[str] = (),
    has_time: Callable[[], bool] = lambda: True,
    space: Space = NO_LIMIT,
    by_space: bool | None = None,
) -> FixSelection:
    """Take fixes one after the other, the one that gains most first, until none gains `gain_min`.

    `weights`: how often each statement runs. `pick` decides between those that gain about as much by the same
    statements, `holds` whether a gain on top of fixes that made the same statements faster is one, where the
    others alone do not gain enough.
    `anew`: the ids of those that are measured on top of each that is taken, though they touch nothing of it.
    Once `has_time` says that there is none left, what is expected counts without a measurement.
    `space`: what the set may take. `by_space`: take what gains most for its space first; None: whichever
    order is better on paper. What gains enough and does not fit is in the selection's `over`.
    """
    if by_space is None:
        by_space = _is_better_by_space(weights, base, tried, gain_min, members_max, anew, space)
    current = dict(base)
    left = _left_of(tried, anew, space, by_space)
    steps, taken = list[SelectionStep](), list[str]()
    beside, changed = dict[str, float](), set[str]()
    while len(steps) < members_max and (fitting := space.fitting(left.known, taken)):
        gains = left.gains(weights, current)
        best, alike = left.best(fitting, gains, current, gain_min)
        asked = left.to_ask(fitting, gains, best, alike, gain_min)
        if asked is not None:
            if has_time():
                left.hear(asked, measure(taken, asked, current))
            else:
                left.assume(changed, current)
            continue
        if gains[best] < gain_min:
            break
        best = pick(taken, (best, *alike), current) if alike else best
        touched = left.known.pop(best)
        faster = faster_of(touched, current)
        others = {name: each for name, each in touched.items() if name not in changed & faster}
        is_sure = gains[best] >= SURE_GAIN or gain_of(weights, current, others) >= gain_min
        if not is_sure and not (is_gain := holds(taken, best, current)):
            beside[best] = 1.0 if is_gain is False else gains[best]
            continue
        changed |= faster
        left.expect(best, touched, current)
        current.update(touched)
        taken.append(best)
        steps.append(SelectionStep(best, total_s(weights, current), dict(current)))
    gains = left.gains(weights, current)
    return FixSelection(tuple(steps), beside | gains, left.over(gains, taken, gain_min))


def _is_better_by_space(
    weights: Mapping[str, float],
    base: Seconds,
    tried: Sequence[Tried],
    gain_min: float,
    members_max: int,
    anew: Collection[str],
    space: Space,
) -> bool:
    """Whether taking what gains most for its space comes to a faster workload than taking what gains most.

    By what each is expected to bring, nothing being measured: of the two greedy orders of a knapsack each may
    be far from the best where the other is not (Khuller, Moss, Naor, 1999).
    """
    if math.isinf(space.most):
        return False
    totals = []
    for by_space in (False, True):
        found = select(
            weights, base, tried, lambda _taken, _name, _current: None, gain_min=gain_min,
            members_max=members_max, anew=anew, has_time=lambda: False, space=space, by_space=by_space,
        )  # fmt: skip
        totals.append(found.steps[-1].total_s if found.steps else math.inf)
    return totals[1] < totals[0]


@dataclass
class _Left:
    """What is not taken yet, and the seconds that each is known or expected to bring its statements to.

    `expected`: those whose seconds were measured before the last one was taken. `reach`: what each touched
    once. `by_space`: what gains most for its space is the best.
    """

    known: dict[str, Seconds]
    anew: Collection[str]
    space: Space
    by_space: bool
    expected: set[str] = field(default_factory=set)
    reach: dict[str, set[str]] = field(default_factory=dict)

    def gains(self, weights: Mapping[str, float], current: Seconds) -> dict[str, float]:
        """The gain of each on top of what is taken."""
        return {name: gain_of(weights, current, touched) for name, touched in self.known.items()}

    def best(
        self,
        fitting: Sequence[str],
        gains: Mapping[str, float],
        current: Seconds,
        gain_min: float,
    ) -> tuple[str, tuple[str, ...]]:
        """Of those that fit the one that is worth most, the first of equals, and what gains about as much."""

        def worth(name: str) -> float:
            if not self.by_space:
                return gains[name]
            enough = gains[name] >= gain_min  # what gains too little comes last
            return self.space.for_its_space(name, gains[name]) if enough else gains[name] - gain_min

        best = max(fitting, key=worth)
        return best, tuple(
            name
            for name in fitting
            if gains[name] >= gain_min and _is_alike(self.known, gains, current, name, best)
        )

    def over(self, gains: Mapping[str, float], taken: Sequence[str], gain_min: float) -> dict[str, float]:
        """What gains enough and has no room beside what was taken, with the bytes that are left."""
        names = self.known.keys() - self.space.fitting(self.known, taken)
        return {name: self.space.left(taken) for name in names if gains[name] >= gain_min}

    def to_ask(
        self,
        fitting: Sequence[str],
        gains: Mapping[str, float],
        best: str,
        alike: Sequence[str],
        gain_min: float,
    ) -> str | None:
        """Which is to be measured before anything is taken; None where all that matters is known."""
        if gains[best] >= gain_min:
            return next((name for name in (best, *alike) if name in self.expected), None)
        others = [name for name in fitting if name in self.expected]
        return min(others, key=lambda name: (name not in self.anew, -gains[name]), default=None)

    def hear(self, name: str, seconds: Seconds | None) -> None:
        """Take what was measured on top of what is taken; None: it can't be combined with that."""
        self.expected.discard(name)
        if seconds is None:
            del self.known[name]
        else:
            self.reach[name] = self.reach.get(name, set()) | self.known[name].keys() | seconds.keys()
            self.known[name] = seconds

    def assume(self, changed: Collection[str], current: Seconds) -> None:
        """Take what is expected for known; of statements that were made faster only that they get slower."""
        for name in self.expected:
            self.known[name] = {
                each: max(seconds, current[each]) if each in changed else seconds
                for each, seconds in self.known[name].items()
            }
        self.expected.clear()

    def expect(self, best: str, touched: Seconds, current: Seconds) -> None:
        """What each is expected to bring once `best` is taken, `current` being the seconds before."""
        ratios = {name: each / current[name] for name, each in touched.items() if current[name] > 0}
        for name, seconds in self.known.items():
            reach = self.reach.get(name, set()) | seconds.keys()
            self.known[name] = {each: took * ratios.get(each, 1.0) for each, took in seconds.items()}
            if reach & touched.keys() or best in self.anew or name in self.anew:
                self.expected.add(name)


def _left_of(tried: Sequence[Tried], anew: Collection[str], space: Space, by_space: bool) -> _Left:
    known = [each for each in tried if not each.refused]
    reach = {each.id: {*each.touched} for each in known}
    return _Left({each.id: each.seconds for each in known}, anew, space, by_space, reach=reach)


def _is_alike(
    known: Mapping[str, Seconds], gains: Mapping[str, float], current: Seconds, name: str, best: str
) -> bool:
    """Whether one gains about as much as the best, by the same statements."""
    if name == best or not faster_of(known[name], current) & faster_of(known[best], current):
        return False
    saved, most = 1 - 1 / gains[name], 1 - 1 / gains[best]
    return saved >= ALIKE_SAVED_MIN * most
