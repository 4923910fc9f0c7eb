"""The whole search: one line of commits, parted in two where no single commit explains what was measured.

A step that came in two halves leaves a commit that is as good as neither end. The line is then parted there,
and each part is searched for a step of its own, at half of the error rate, from new blocks alone: what made
one part it would not be evidence. Parts are not parted again more than once: what then has no single commit
is called gradual.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from pgassay.analysis.bisection.block_likelihood import MeasuredBlock
from pgassay.analysis.bisection.line_search import Line, Overshot
from pgassay.analysis.statistics.contrasts import evidence_of
from pgassay.analysis.statistics.eprocess import EvidenceRules
from pgassay.analysis.statistics.sequence import confidence_sequence, point_estimate

# A ratio of speeds with its interval.
Sized = tuple[float, tuple[float, float] | None]

PARTED_MAX = 1
# As new experiments have them (`experiment/planning/experiment_plan.py`, which says why).
RULES = EvidenceRules((0.2, 2.0, 5), weights=(3.0, 12.0, 8.0, 2.0, 8.0), clipped_share=0.4, flips=True)
# Blocks of one part without a sign of a step, after which there is taken to be none that can be seen.
STEPLESS_BLOCKS = 40


@dataclass
class LinePart:
    """Places `low` to `high` of the line, with their own search; `depth`: how often it was parted before."""

    low: int
    high: int
    line: Line
    depth: int = 0

    @property
    def is_stepless(self) -> bool:
        """Whether a step would have been seen by now; of the whole line its ends have shown one."""
        return self.depth > 0 and not self.line.has_step and len(self.line.blocks) >= STEPLESS_BLOCKS

    def left(self) -> list[int]:
        """The commits that are not excluded, by their places on the whole line."""
        return [self.low + k for k in self.line.left()]


@dataclass(frozen=True)
class Round:
    """What is measured next: blocks of both ends of a part and these places between them, () for none."""

    part: LinePart
    places: tuple[int, ...]
    blocks: int = 1

    @property
    def members(self) -> tuple[int, ...]:
        """All places of a block, both ends with it, ascending."""
        return (self.part.low, *self.places, self.part.high)


@dataclass
class Search:
    """The search along places 0 (good) to `last` (bad). untestable: places that can't be built."""

    last: int
    alpha: float = 0.05
    untestable: set[int] = field(default_factory=set)
    parts: list[LinePart] = field(init=False)
    alike_pairs: list[tuple[int, int]] = field(default_factory=list)
    blocks: list[MeasuredBlock] = field(default_factory=list)

    def __post_init__(self) -> None:
        """At first there is one part."""
        self.parts = [LinePart(0, self.last, Line(self.last, self.alpha))]

    def ends_differ(self) -> None:
        """There is a step somewhere on the line: the ends' own comparison has shown it."""
        self.parts[0].line.ends_differ = True

    @property
    def was_parted(self) -> bool:
        """Whether more than one step was looked for."""
        return len(self.parts) > 1

    @property
    def told_parts(self) -> list[LinePart]:
        """The parts that may have a step: noise parts a line now and then, and one side of it has none."""
        return [part for part in self.parts if not part.is_stepless] or self.parts

    def next_round(self) -> Round | None:
        """What to measure next; None once more would tell nothing more."""
        if self.is_gradual:
            return None
        for part in self.parts:
            if part.is_stepless or self.is_found(part):
                continue
            untestable = _within(part, self.untestable)
            places = part.line.next_places(untestable)
            if not places and part.line.has_step:
                continue
            # A round of both ends alone is over once they are told apart.
            rest = max(1, STEPLESS_BLOCKS - len(part.line.blocks))
            blocks = part.line.blocks_wanted() if places else rest
            return Round(part, tuple(part.low + place for place in places), blocks)
        return None

    def observe(self, part: LinePart, block: MeasuredBlock) -> None:
        """Count a block of a part, whose places are those of the whole line; may part it."""
        self.blocks.append(block)
        part.line.observe(MeasuredBlock(tuple(place - part.low for place in block.places), block.logs))
        if part.depth < PARTED_MAX and self._has_no_commit(part):
            self._part(part)

    def alike(self, first: int, second: int) -> None:
        """Two places build the same programs: no step came between them."""
        low, high = sorted((first, second))
        self.alike_pairs.append((low, high))
        for part in self.parts:
            self._tell_alike(part, low, high)

    @property
    def is_gradual(self) -> bool:
        """Whether neither one commit nor two explain what was measured.

        Also where the line was parted and none of its parts shows a step: each has some of it, but no commit.
        """
        if self.was_parted and all(part.is_stepless for part in self.parts):
            return True
        return any(part.depth >= PARTED_MAX and self._has_no_commit(part) for part in self.parts)

    def is_found(self, part: LinePart) -> bool:
        """Whether a part has its answer: measuring more would tell nothing more."""
        return part.line.has_step and part.line.is_found(_within(part, self.untestable))

    def overshot(self, part: LinePart) -> Overshot:
        """On which side of a part's commits others lie beyond its end of that side; '' on none."""
        return part.line.overshot(_within(part, self.untestable))

    def sides(self, part: LinePart) -> tuple[int, int]:
        """The places that were or can be measured next to those that are left of a part, which has some."""
        below, above = part.line.sides(_within(part, self.untestable))
        return part.low + below, part.low + above

    def _has_no_commit(self, part: LinePart) -> bool:
        if not part.line.has_step:
            return False
        return part.line.is_broken or part.line.is_spread(_within(part, self.untestable))

    def _tell_alike(self, part: LinePart, low: int, high: int) -> None:
        if part.low <= low and high <= part.high:
            part.line.alike(low - part.low, high - part.low)

    def _part(self, part: LinePart) -> None:
        place = part.line.breaking_place(_within(part, self.untestable))
        if place is None:
            return
        middle, alpha, depth = part.low + place, part.line.alpha / 2, part.depth + 1
        made = [
            LinePart(low, high, Line(high - low, alpha), depth)
            for low, high in ((part.low, middle), (middle, part.high))
        ]
        where = self.parts.index(part)
        self.parts[where : where + 1] = made
        for each in made:
            for low, high in self.alike_pairs:
                self._tell_alike(each, low, high)


def _within(part: LinePart, places: Collection[int]) -> set[int]:
    return {place - part.low for place in places if part.low < place < part.high}


def size_of(blocks: Sequence[MeasuredBlock], place: int, control: int, alpha: float = 0.05) -> Sized | None:
    """Speed at `place` over that at `control`, over all blocks that have both; None without any.

    The interval holds at any look; None where an end is not known yet. A control with several members in a
    block counts with all of them.
    """
    rows = [
        (_at(block, place)[0], *_at(block, control))
        for block in blocks
        if {place, control} <= {*block.places}
    ]
    if not rows:
        return None
    members = min(len(row) for row in rows)
    evidence = evidence_of(np.array([row[:members] for row in rows], dtype=np.float64), None, RULES)
    ends = confidence_sequence(evidence, alpha, running=True)
    low, high = float(ends.lower), float(ends.upper)
    interval = (math.exp(low), math.exp(high)) if math.isfinite(low) and math.isfinite(high) else None
    return math.exp(float(point_estimate(evidence))), interval


def _at(block: MeasuredBlock, place: int) -> list[float]:
    return [value for where, value in zip(block.places, block.logs, strict=True) if where == place]
