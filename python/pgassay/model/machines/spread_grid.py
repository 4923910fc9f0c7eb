"""What is said of a grid whose strata were spread over machines, beside each stratum's own verdicts."""

from typing import Literal

from pgassay.model.base import Frozen
from pgassay.model.result import Verdict

Ends = tuple[float | None, float | None]
EffectWord = Literal["larger", "smaller", "unchanged", "inconclusive"]


class CellsStratum(Frozen):
    """A stratum with the machines that ran it. An anchor is run by all, another one by one.

    `machines`: those that it was given to, several for one that is no anchor where a machine was lost.
    `blocks`: complete ones of all of them, of the arm that has fewest. `block_s`: what a block was expected
    to take, None where that was not known.
    """

    stratum: str
    is_anchor: bool
    machines: tuple[str, ...]
    blocks: int
    block_s: float | None = None


class OverallEffect(Frozen):
    """The geometric mean of an arm's ratios over all strata and all these machines, tied by the anchors.

    `arm`, `control`: their levels without those of the strata. `ratio` and `interval` are None where none is
    given; `note` says why, or what qualifies the verdict.
    """

    arm: str
    control: str
    strata: int
    machines: int
    ratio: float | None
    interval: Ends | None
    verdict: Verdict
    meaningful: bool = False
    withheld: bool = False
    note: str = ""


class StrataComparison(Frozen):
    """The effect of an arm in one stratum over its effect in another.

    `machines`: where both were measured; more than one where anchors tie them, whose uncertainty is in
    `interval`. `ratio` and `interval` are None where none is given; `note` says why.
    """

    arm: str
    first: str
    second: str
    machines: tuple[str, ...]
    ratio: float | None
    interval: Ends | None
    word: EffectWord
    withheld: bool = False
    note: str = ""


class CellsResult(Frozen):
    """`anchors`: the strata that all machines ran. `strata` in the order of the grid.

    `not_compared`: what this experiment says nothing of, and why, in sentences.
    """

    anchors: tuple[str, ...]
    strata: tuple[CellsStratum, ...]
    overall: tuple[OverallEffect, ...]
    between: tuple[StrataComparison, ...]
    not_compared: tuple[str, ...]
