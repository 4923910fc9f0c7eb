"""Which experiment is run next, and for how long: pure, from what is known of each.

The most telling first: experiments that were never run before those that stayed undecided, as a first run
decides more; among them the one that takes the least time for each open claim, where a claim of a large
difference counts more than one that takes many blocks. Whatever stayed undecided is continued in turns while
there is time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgassay.analysis.claims.figures import is_measured
from pgassay.model.further_results.claims import Claim

# Less is no time for a block of anything.
LEFT_MIN_S = 10.0
# Trials spread, and an experiment that has just too little time decides nothing.
_RESERVE = 1.5
# Nobody knows how long a statement takes before it ran; most experiments end long before their limit.
_USED_OF_BOUND = 0.2
# A difference of less than this takes several times the blocks of a large one, as does "equal".
_LARGE = 1.5
_WEIGHT_OF_SMALL = 0.25
# What is counted or read, which a few trials show.
_COUNTED = ("blocks", "setting", "limit", "factors")


def weight_of(claim: Claim) -> float:
    """How much a claim counts: the fewer blocks its verdict takes if what was published is so, the more."""
    if claim.kind in _COUNTED or (claim.kind == "figure" and not is_measured(claim)):
        return 1.0
    if claim.says in ("equal", "ordered"):
        return _WEIGHT_OF_SMALL
    if claim.published is None:
        return 1.0
    return 1.0 if max(claim.published, 1 / claim.published) >= _LARGE else _WEIGHT_OF_SMALL


@dataclass(frozen=True)
class Waiting:
    """An experiment with open claims.

    open_claims: the sum of their weights. least_s: what its next verdict takes at least, None where nothing
    is known; bound_s: the limit that its file has. turns: how often this run has had it.
    """

    name: str
    open_claims: float
    is_tried: bool
    least_s: float | None
    bound_s: float
    turns: int = 0

    @property
    def _rank(self) -> tuple[bool, int, float]:
        expected_s = _USED_OF_BOUND * self.bound_s if self.least_s is None else self.least_s
        return (self.is_tried or self.turns > 0, self.turns, expected_s / self.open_claims)

    def fits(self, left_s: float) -> bool:
        """Whether a first verdict may come in the time left; what was begun is continued in any case."""
        return self.is_tried or self.least_s is None or self.least_s <= left_s


def next_of(waiting: Sequence[Waiting], left_s: float) -> tuple[Waiting, float] | None:
    """The experiment to run next and its share of the time left in seconds; None where none fits.

    All of the same standing share the time alike; one that is known to take more gets what it needs.
    """
    fitting = [each for each in waiting if each.open_claims and each.fits(left_s)]
    if not fitting or left_s < LEFT_MIN_S:
        return None
    chosen = min(fitting, key=lambda each: each._rank)
    alike = sum(each._rank[:2] == chosen._rank[:2] for each in fitting)
    share_s = left_s / alike
    if chosen.least_s is not None and math.isfinite(chosen.least_s):
        share_s = max(share_s, _RESERVE * chosen.least_s)
    return chosen, min(share_s, left_s)
