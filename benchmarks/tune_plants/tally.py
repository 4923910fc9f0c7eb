"""What became of planted defects that went through the whole of tune: kind by kind, and the shares."""

from dataclasses import dataclass, field

# Of the plants whose fix stands first or is told, and of the decoys that are left alone.
SHARE_MIN = 0.95
# Of the predictions that are near: the time saved is what was foretold, give or take a quarter of it.
NEAR, PREDICTED_MIN = 0.25, 0.8
_SAVED_MIN = 0.01
GOOD = ("first", "told", "nothing")


@dataclass(frozen=True)
class Ran:
    """One plant or decoy that was tuned. `word`: what became of it; `predicted`, `gained`: speeds' ratios."""

    kind: str
    seed: int
    decoy: bool
    word: str
    predicted: float | None = None
    gained: float | None = None
    blocks: int = 0

    @property
    def is_good(self) -> bool:
        """Whether it is as it should be."""
        return self.word in GOOD

    @property
    def is_near(self) -> bool | None:
        """Whether the time saved is within a quarter of what was foretold; None where nothing was proved.

        A share of the time, so that a gain of 50 that turns out as one of 70 is no error.
        """
        if not self.predicted or not self.gained:
            return None
        saved, foretold = 1 - 1 / self.gained, 1 - 1 / self.predicted
        return abs(saved - foretold) <= NEAR * max(abs(saved), _SAVED_MIN)

    @property
    def prediction(self) -> str:
        """The prediction beside what came, in words; '' where nothing was proved."""
        if self.is_near is None:
            return ""
        word = "near" if self.is_near else "far"
        return f"{word}: predicted {self.predicted:.2f}, gained {self.gained:.2f} ({self.blocks} blocks)"


@dataclass
class Tally:
    """All that ran."""

    ran: list[Ran] = field(default_factory=list)

    def add(self, ran: Ran) -> None:
        """Count one more."""
        self.ran.append(ran)

    @property
    def plants(self) -> list[Ran]:
        """Those with a defect."""
        return [each for each in self.ran if not each.decoy]

    @property
    def decoys(self) -> list[Ran]:
        """Those without."""
        return [each for each in self.ran if each.decoy]

    @property
    def near(self) -> list[bool]:
        """Of all that were proved whether the prediction was near."""
        return [each.is_near for each in self.ran if each.is_near is not None]

    @property
    def is_reached(self) -> bool:
        """Whether all shares are what they should be."""
        shares = [(sum(each.is_good for each in some), len(some)) for some in (self.plants, self.decoys)]
        near = sum(self.near) >= PREDICTED_MIN * len(self.near)
        return near and all(good >= SHARE_MIN * all_ for good, all_ in shares)

    def text(self) -> str:
        """A line for each kind and seed, and the shares."""
        lines = [f"{'kind':26} {'seed':>5} {'plant':9} {'decoy':8} prediction"]
        decoys = {(each.kind, each.seed): each for each in self.decoys}
        for each in self.plants:
            decoy = decoys.get((each.kind, each.seed))
            word = decoy.word if decoy else "-"
            said = each.prediction or "-"
            lines.append(f"{each.kind:26} {each.seed:5} {each.word:9} {word:8} {said}")
        counts = {
            word: sum(each.word == word for each in self.plants) for word in ("first", "told", "otherwise")
        }
        found = _share("first or told", sum(each.is_good for each in self.plants), len(self.plants))
        lines.append(
            f"{found}: {counts['first']} first, {counts['told']} told, {counts['otherwise']} behind another"
        )
        lines.append(_share("decoys left alone", sum(each.is_good for each in self.decoys), len(self.decoys)))
        lines.append(_share(f"predicted within {NEAR:.0%} of the time saved", sum(self.near), len(self.near)))
        return "\n".join(lines)


def _share(word: str, good: int, all_: int) -> str:
    return f"{word}: {good} of {all_} ({good / max(all_, 1):.1%})"
