"""A search at work: the copy that it tries on, the workload that it is for, its limits, what it has found."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pgassay.tune.copy import TrialCopy
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.selection import Baseline, Tried, total_s

# Timing in turn takes eight rounds, and applying it twice, of what trying it took; with room to be wrong.
ROUNDS_TIMES = 10.0


@dataclass(frozen=True)
class Clock:
    """When the search is to end, and when the best so far is to be told (monotonic seconds)."""

    ends_at: float
    tells_at: float = math.inf

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.ends_at

    def has_rounds(self, *tried: Tried) -> bool:
        """Whether there is time to apply and to time these in turn."""
        return time.monotonic() + ROUNDS_TIMES * max(each.took_s for each in tried) < self.ends_at


@dataclass(frozen=True)
class SearchRun:
    """A search of what is in `found` for fixes of the workload that `baseline` is, on a copy of its data.

    Only what gains `gain_min` is taken, at most so many members that take `space_bytes` of the disk together.
    `say` is told the best so far. `waiting`: by the id of an index that no plan uses as the server is set,
    the planner's setting that it would be used with. `facts`: the schema, by which it is known what a write
    writes.
    """

    copy: TrialCopy
    baseline: Baseline
    found: SearchRecord
    clock: Clock
    say: Callable[[str], None]
    gain_min: float
    members_max: int
    space_bytes: float = math.inf
    waiting: dict[str, str] = field(default_factory=dict)
    facts: SchemaFacts | None = None

    @property
    def whole_s(self) -> float:
        """What the workload takes as it is, weighted."""
        return total_s(self.baseline.weights, self.baseline.seconds)

    def best_so_far(self) -> str:
        """The set that is chosen, or until one is the best candidate that was tried, in a sentence."""
        found, to_try = self.found, self.found.to_try
        tried = f"{len(found.tried) + len(found.screened)} of {len(to_try)} candidates tried"
        titles = {each.id: each.title for each in to_try}
        if found.selection.steps:
            gain = self.whole_s / found.selection.steps[-1].total_s
            members = [titles[name] for name in found.selection.ids]
            together = f" ({len(members)} together)" if len(members) > 1 else ""
            named = "; ".join(members)
            return f"{tried}; best so far, {gain:.2f} × as fast on the copy{together}, not proven: {named}"
        gains = {
            name: each.gain(self.baseline.weights, self.baseline.seconds)
            for name, each in found.tried.items()
            if not each.refused
        }
        best = max(gains, key=lambda name: gains[name], default=None)
        if best is None or gains[best] <= 1:
            return f"{tried}, none helps so far"
        return f"{tried}; best so far, {gains[best]:.2f} × as fast on the copy, not proven: {titles[best]}"
