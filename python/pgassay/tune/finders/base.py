"""The contract of a finder: from the evidence to offers, each with what it would save in which plan."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pgassay.tune.candidate import Candidate, Layer
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence


@dataclass(frozen=True)
class ExpectedSaving:
    """Milliseconds that a candidate is expected to save in one plan of a statement (numbered from 0).

    `most_ms`: what it may save at most, where which plan comes instead can't be told; that decides whether it
    is worth trying. None where `ms` is as good as it gets.
    """

    statement: str
    plan: int
    ms: float
    most_ms: float | None = None

    @property
    def possible_ms(self) -> float:
        """What it may save."""
        return self.ms if self.most_ms is None else max(self.ms, self.most_ms)


@dataclass(frozen=True)
class FinderOffer:
    """A candidate without `statements` and `predicted`, which follow from the savings in registry.find.

    `without_gain`: told for another reason than time (space, risk), whatever the savings are.
    """

    candidate: Candidate
    savings: tuple[ExpectedSaving, ...] = ()
    without_gain: bool = False


@dataclass(frozen=True)
class Finder:
    """A plug-in: its name, the layer of what it finds, the kinds of its candidates, and how it finds them."""

    name: str
    layer: Layer
    kinds: tuple[str, ...]
    find: Callable[[FinderEvidence], Iterable[FinderOffer]]
