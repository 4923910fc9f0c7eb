"""What each factor of a grid does over all levels of the others, and where its effect depends on theirs."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen

EffectVerdict = Literal["faster", "slower", "equivalent", "inconclusive"]
InteractionVerdict = Literal["larger", "smaller", "equivalent", "inconclusive"]


class LevelEffect(Frozen):
    """One level of a factor against its factor's reference, which is the first level (or the control).

    `ratio`: the speed over the reference's, the geometric mean over all combinations of the other factors
    that have both; of an effect `at` a level of one other factor, over those with that level. `verdict` as
    that of an arm. An end of the interval that the data do not bound is 0 or infinite (written null in JSON);
    `interval` None: no single effect fits all rounds. `rounds`: what it is of.
    """

    factor: str
    level: str
    reference: str
    at: dict[str, str] = Field(default_factory=dict)
    ratio: float | None
    interval: tuple[float | None, float | None] | None
    verdict: EffectVerdict
    meaningful: bool = False
    withheld: bool = False
    note: str = ""
    rounds: int


class Interaction(Frozen):
    """How much larger an effect is at one level of another factor than at that factor's reference.

    `ratio`: the effect of `level` over `reference` at `by_level`, over the same at `by_reference`; 1: the
    effects are alike. `verdict`: `larger` or `smaller` where the interval excludes 1.
    """

    factor: str
    level: str
    reference: str
    by: str
    by_level: str
    by_reference: str
    ratio: float | None
    interval: tuple[float | None, float | None] | None
    verdict: InteractionVerdict
    withheld: bool = False
    note: str = ""
    rounds: int


class FactorSize(Frozen):
    """How much a factor matters: the largest effect of its levels, and what none of them exceeds.

    `ratio` and `interval`: of the level with the largest effect, turned so that `faster` over `slower` is
    above 1; both None where no level has a proven effect. `at_most`: no level's effect is larger, either way
    (None: not bounded yet).
    """

    factor: str
    faster: str = ""
    slower: str = ""
    ratio: float | None = None
    interval: tuple[float | None, float | None] | None = None
    at_most: float | None = None


class FactorEffects(Frozen):
    """The factors of a grid: main effects, effects at each level of another factor, and interactions.

    All are one family: half of alpha is for the main effects, a quarter for each of the others. `rounds`:
    rounds through all strata in which every arm took part. `ranking`: the factors, the largest effect first.
    `sentences`: what was found, in words; `notes`: what qualifies it. `decided`: every main effect has a
    verdict.
    """

    rounds: int
    ranking: tuple[FactorSize, ...]
    main: tuple[LevelEffect, ...]
    at: tuple[LevelEffect, ...]
    interactions: tuple[Interaction, ...]
    sentences: tuple[str, ...]
    notes: tuple[str, ...] = ()
    family: str = ""
    decided: bool = False
