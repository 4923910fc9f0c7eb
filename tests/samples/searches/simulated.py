"""Whole searches along simulated lines of commits, through the code that `pgassay bisect` searches with."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

from pgassay.analysis.bisection.block_likelihood import MeasuredBlock
from pgassay.analysis.bisection.search import Search
from pgassay.bisecting.run_bisection import LAYOUTS_OF_SEARCH

# As `compare` measures the ends: at least so many blocks for a verdict, and none after so many.
ENDS_BLOCKS_MIN, ENDS_BLOCKS_MAX = 4, 60
TRIALS_MAX = 6000
TWO_SIDED = 0.05


@dataclass(frozen=True)
class World:
    """Commits 1 to `last`; level: the log speed of each place, 0 for the good end; spread of one trial (log).

    tails: noise of Student's t with 3 degrees of freedom in place of normal noise. busy: the share of trials
    that others on the machine disturb, which makes them up to five times as slow. layout: by how much the
    layouts of a place's program spread (log), of which it has `layouts`, met in an order of its own.
    """

    last: int
    level: Callable[[int], float]
    spread: float
    tails: bool = False
    busy: float = 0.0
    layout: float = 0.0
    layouts: int = LAYOUTS_OF_SEARCH
    _effects: dict[int, np.ndarray] = field(default_factory=dict)
    _ahead: dict[int, list[float]] = field(default_factory=dict)

    def _of_layout(self, place: int, random: np.random.Generator) -> float:
        """What the next layout of a place does; after all of them they come again."""
        if place not in self._effects:
            self._effects[place] = random.normal(0, self.layout, self.layouts)
        if not self._ahead.get(place):
            self._ahead[place] = random.permutation(self._effects[place]).tolist()
        return self._ahead[place].pop()

    def block(self, places: tuple[int, ...], random: np.random.Generator) -> MeasuredBlock:
        """A block of these places; the machine's own speed drifts from block to block."""
        noise = (
            random.standard_t(3, len(places)) / math.sqrt(3)
            if self.tails
            else random.normal(size=len(places))
        )
        noise = noise * self.spread - random.uniform(0, 1.6, len(places)) * (
            random.random(len(places)) < self.busy
        )
        base = random.normal(0, 0.05)
        if self.layout:
            noise = noise + [self._of_layout(place, random) for place in places]
        logs = [base + self.level(place) + each for place, each in zip(places, noise, strict=True)]
        return MeasuredBlock(places, tuple(logs))


@dataclass(frozen=True)
class Searched:
    """A search at its end, and its trials; `has_begun`: the ends were told apart."""

    search: Search
    trials: int
    has_begun: bool


def step(last: int, commit: int, size: float, spread: float, *, tails: bool = False) -> World:
    """One commit that makes everything from it on slower; size: its log ratio, below 0."""
    return World(last, lambda place: size if place >= commit else 0.0, spread, tails)


def searched(
    world: World,
    random: np.random.Generator,
    untestable: frozenset[int] = frozenset(),
    told_after: int | None = None,
) -> Searched:
    """Ends first, then rounds until nothing more can be told.

    told_after: so many blocks of the ends have shown that they differ, as `compare` judges; None: the
    search's own evidence has to.
    """
    search = Search(world.last, untestable=set(untestable))
    ends, trials = search.parts[0], 0
    for _ in range(told_after or 0):
        search.observe(ends, world.block((0, 0, world.last), random))
        trials += 3
    if told_after is not None:
        search.ends_differ()
    while not ends.line.has_step or len(ends.line.blocks) < ENDS_BLOCKS_MIN:
        search.observe(ends, world.block((0, 0, world.last), random))
        trials += 3
        if len(ends.line.blocks) >= ENDS_BLOCKS_MAX:
            return Searched(search, trials, has_begun=False)
    while trials < TRIALS_MAX:
        found = search.next_round()
        if found is None:
            break
        for _ in range(found.blocks):
            if found.part in search.parts:
                places = (found.part.low, *found.members)
                search.observe(found.part, world.block(places, random))
                trials += len(places)
    return Searched(search, trials, has_begun=True)


def trials_of_one_who_knows(last: int, size: float, spread: float) -> int:
    """The trials of a bisection by halves that is told size and spread, and errs with 5 % in all.

    Each half takes equally many blocks of good, candidate and bad, as many as part the candidate's two
    possible levels by the middle of both ends; the ends first take blocks of two.
    """
    halves = math.ceil(math.log2(last))
    deviation = norm.isf(TWO_SIDED / (halves + 1)) * 2 * spread / abs(size)
    blocks, of_ends = max(1, math.ceil(1.5 * deviation**2)), max(1, math.ceil(2 * deviation**2))
    return 3 * blocks * halves + 2 * of_ends
