"""The contract of a finder: from the evidence to offers, each with what it would save in which plan."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pgassay.tune.candidate import Candidate, Layer
from pgassay.tune.finders.evidence.evidence import Evidence


@dataclass(frozen=True)
class Saving:
    """Milliseconds that a candidate is expected to save in one plan of a statement (numbered from 0)."""

    statement: str
    plan: int
    ms: float


@dataclass(frozen=True)
class Offer:
    """A candidate without `statements` and `predicted`, which follow from the savings in registry.find.

    `without_gain`: told for another reason than time (space, risk), whatever the savings are.
    """

    candidate: Candidate
    savings: tuple[Saving, ...] = ()
    without_gain: bool = False


@dataclass(frozen=True)
class Finder:
    """A plug-in: its name, the layer of what it finds, the kinds of its candidates, and how it finds them."""

    name: str
    layer: Layer
    kinds: tuple[str, ...]
    find: Callable[[Evidence], Iterable[Offer]]
