"""What a search has found: candidates, what is known of each, and which were chosen; stored as it is."""

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from pgassay.tune.candidate import Candidate
from pgassay.tune.search.selection import FixSelection, Seconds, Tried


class SearchRecord(BaseModel):
    """What a search has found so far; it grows while the search goes on, and is whole at any moment. By id.

    `checks`: what is said of the same results; `unsafe`: why a candidate's results are not the same, or could
    not be shown to be; `left_out`: why one is not tried at all; `screened`: why one that was tried is not
    timed. `refused`: in sentences what was not rewritten. `alike`: of what was not taken the one that was,
    where their gains could not be told apart. `rounds`: of each set that the proof compares, by the arm's
    name, the workload's seconds, timed in turn once the set was chosen; {} without any.
    """

    model_config = ConfigDict(extra="forbid")

    candidates: tuple[Candidate, ...] = ()
    checks: dict[str, str] = Field(default_factory=dict)
    unsafe: dict[str, str] = Field(default_factory=dict)
    left_out: dict[str, str] = Field(default_factory=dict)
    refused: tuple[str, ...] = ()
    tried: dict[str, Tried] = Field(default_factory=dict)
    screened: dict[str, str] = Field(default_factory=dict)
    notes: dict[str, str] = Field(default_factory=dict)
    selection: FixSelection = Field(default_factory=FixSelection)
    rounds: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    alike: dict[str, str] = Field(default_factory=dict)

    @property
    def by_id(self) -> dict[str, Candidate]:
        """All candidates by their ids."""
        return {each.id: each for each in self.candidates}

    @property
    def to_try(self) -> list[Candidate]:
        """Those that are neither unsafe nor left out."""
        return [each for each in self.candidates if each.id not in self.unsafe | self.left_out]

    def named(self, ids: Iterable[str]) -> list[Candidate]:
        """The candidates of these ids, in their order."""
        by_id = self.by_id
        return [by_id[name] for name in ids]

    @property
    def members(self) -> list[Candidate]:
        """What was chosen, in order."""
        return self.named(self.selection.ids)

    @property
    def chosen_bytes(self) -> int:
        """What the chosen set takes on disk."""
        return sum(self.tried[name].bytes or 0 for name in self.selection.ids if name in self.tried)

    def best(self, base: Seconds) -> dict[str, float]:
        """The least that any fix brought each statement to; `base`: what it takes as it is."""
        least = dict(base)
        for tried in self.tried.values():
            least |= {name: min(least[name], seconds) for name, seconds in tried.seconds.items()}
        return least
