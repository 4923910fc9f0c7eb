"""Effects of strata that different machines ran, beside each other: tied by the anchors. Pure.

A machine is taken to change the effects of all strata alike, by a factor of its own. So the ratio of two
effects is divided by the ratio of the anchors' effects on the same two machines, and what a stratum would
have shown on another machine follows from the anchors there and here. The anchors' uncertainty is part of the
interval (`machines.sums`). Where the machines disagree at an anchor they are not alike, and nothing is tied.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgassay.analysis.machines.weighted_sums import Term, sum_interval
from pgassay.analysis.statistics.eprocess import AnyEvidence
from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.verdicts.verdict import MOVED, Finding, interval_of, judge, ratio_of, stated
from pgassay.model.machines.spread import SpreadGrid
from pgassay.model.machines.spread_grid import EffectWord, OverallEffect, StrataComparison
from pgassay.words import join

MACHINES_DIFFER = "the machines disagree at the anchor"
# With more strata each is compared with the first anchor alone: pairs grow with their square.
_STRATA_IN_PAIRS_MAX = 25
# What each stratum on each machine counts in a sum of log effects.
Weights = dict[tuple[str, str], float]


@dataclass(frozen=True)
class TiedArm:
    """What is compared in every stratum: the levels of an arm and its control, without the stratum's own.

    evidence: by stratum and machine; withheld: those where a check speaks against a verdict, and why;
    disagreeing: the anchors at which no single effect fits the machines.
    """

    name: str
    control: str
    evidence: dict[str, dict[str, AnyEvidence]]
    withheld: dict[tuple[str, str], str]
    disagreeing: list[str]

    def moved(self, grid: SpreadGrid) -> list[str]:
        """The strata that are no anchors and have blocks of several machines."""
        own = (stratum for stratum in self.evidence if stratum not in grid.anchors)
        return [stratum for stratum in own if len(self.evidence[stratum]) > 1]


def pairs_of(grid: SpreadGrid, alpha: float) -> Iterator[tuple[tuple[str, str], float]]:
    """The pairs of strata that are compared, with the level of each comparison of an arm.

    Half of the error rate is the pairs', the other half the means'; how many there are follows from the plan.
    """
    names, arms = [each.name for each in grid.strata], {each.name: each.arms for each in grid.strata}
    if len(names) <= _STRATA_IN_PAIRS_MAX:
        pairs = [(first, second) for place, second in enumerate(names) for first in names[:place]]
    else:
        pairs = [(grid.anchors[0], name) for name in names if name != grid.anchors[0]]
    count = sum(min(arms[first], arms[second]) for first, second in pairs)
    for first, second in pairs:
        yield (second, first), alpha / 2 / max(count, 1)


def overall_level(grid: SpreadGrid, alpha: float) -> float:
    """The level of each mean: half of the error rate, shared by the arms that all strata can have."""
    return alpha / 2 / max(1, min(stratum.arms for stratum in grid.strata))


def _tie(grid: SpreadGrid, start: str, target: str, weight: float) -> Iterator[tuple[str, str, float]]:
    """What takes an effect from one machine to another, as (anchor, machine, weight)."""
    for anchor in grid.anchors:
        yield anchor, target, weight / len(grid.anchors)
        yield anchor, start, -weight / len(grid.anchors)


def _home(arm: TiedArm, stratum: str) -> str:
    """The one machine that ran a stratum."""
    return next(iter(arm.evidence[stratum]))


def compared(
    arm: TiedArm, pair: tuple[str, str], grid: SpreadGrid, level: float, margin: float
) -> StrataComparison:
    """Effect of the first over that of the second, on one machine or tied."""
    first, second = pair
    nothing = StrataComparison(
        arm=arm.name, first=first, second=second, machines=(), ratio=None, interval=None, word="inconclusive"
    )
    without = [name for name in pair if not arm.evidence[name]]
    if without:
        return nothing.model_copy(update={"note": f"{join(without)} has no complete block"})
    moved = [name for name in arm.moved(grid) if name in pair]
    if moved:
        return nothing.model_copy(update={"note": _changed(moved), "withheld": True})
    weights = weights_of_pair(arm, pair, grid)
    machines = tuple(dict.fromkeys(machine for _, machine in weights))
    nothing = nothing.model_copy(update={"machines": machines})
    against = _against(arm, weights, is_tied=len(machines) > 1)
    if against:
        return nothing.model_copy(update={"note": against, "withheld": True})
    terms = terms_of(arm, weights)
    if terms is None:
        return nothing.model_copy(update={"note": "an anchor has no complete block yet"})
    found = sum_interval(terms, level)
    lower, upper = float(found.lower), float(found.upper)
    if lower > upper:
        return nothing.model_copy(update={"note": MOVED})
    return nothing.model_copy(
        update={
            "ratio": ratio_of(float(found.estimate)),
            "interval": interval_of(lower, upper),
            "word": _word(lower, upper, margin),
        }
    )


def weights_of_pair(arm: TiedArm, pair: tuple[str, str], grid: SpreadGrid) -> Weights:
    """What each stratum on each machine counts in the difference of two log effects."""
    first, second = pair
    both = [name in grid.anchors for name in pair]
    if all(both):
        share = 1 / len(grid.machines)
        signs = ((first, share), (second, -share))
        return {(name, each): sign for name, sign in signs for each in grid.machines}
    # An anchor was measured wherever the other was.
    here = _home(arm, second if both[0] else first)
    there = _home(arm, first if both[1] else second)
    weights: Weights = {(first, here): 1.0, (second, there): -1.0}
    if here != there:
        for anchor, machine, weight in _tie(grid, here, there, 1.0):
            weights[anchor, machine] = weights.get((anchor, machine), 0.0) + weight
    return weights


def terms_of(arm: TiedArm, weights: Weights) -> list[Term] | None:
    """None where one of them has no block."""
    if any(machine not in arm.evidence.get(stratum, {}) for stratum, machine in weights):
        return None
    return [Term(weight, arm.evidence[stratum][machine]) for (stratum, machine), weight in weights.items()]


def _changed(strata: Sequence[str]) -> str:
    return f"{join(strata)} changed the machine"


def _against(arm: TiedArm, cells: Mapping[tuple[str, str], object], *, is_tied: bool) -> str:
    """Why nothing is said of these strata on these machines; '' where nothing speaks against it."""
    if is_tied and arm.disagreeing:
        return f"{MACHINES_DIFFER} {join(arm.disagreeing)}"
    doubted = next((cell for cell in cells if cell in arm.withheld), None)
    if doubted is not None:
        stratum, machine = doubted
        return f"at {stratum} on {machine} {arm.withheld[doubted]}"
    return ""


def _word(lower: float, upper: float, margin: float) -> EffectWord:
    edge = log_margin(margin)
    if -edge <= lower and upper <= edge:
        return "unchanged"
    if lower > 0:
        return "larger"
    return "smaller" if upper < 0 else "inconclusive"


def overall(arm: TiedArm, grid: SpreadGrid, alpha: float, margin: float) -> OverallEffect:
    """The mean over all strata and all machines."""
    nothing = OverallEffect(
        arm=arm.name,
        control=arm.control,
        strata=len(grid.strata),
        machines=len(grid.machines),
        ratio=None,
        interval=None,
        verdict="inconclusive",
    )
    missing = [each.name for each in grid.strata if not arm.evidence.get(each.name)]
    if missing:
        return nothing.model_copy(update={"note": f"it has no complete block at {join(missing)}"})
    everywhere = {(stratum, name) for stratum, found in arm.evidence.items() for name in found}
    against = _against(arm, dict.fromkeys(everywhere), is_tied=True)
    if against:
        return nothing.model_copy(update={"note": against, "withheld": True})
    moved = arm.moved(grid)
    if moved:
        return nothing.model_copy(update={"note": _changed(moved), "withheld": True})
    terms = terms_of(arm, weights_of_all(arm, grid))
    if terms is None:
        return nothing.model_copy(update={"note": "an anchor has no complete block yet on a machine"})
    found = sum_interval(terms, overall_level(grid, alpha))
    finding = Finding(float(found.estimate), float(found.lower), float(found.upper))
    return nothing.model_copy(update=stated(finding, judge(finding, margin)))


def weights_of_all(arm: TiedArm, grid: SpreadGrid) -> Weights:
    """What each stratum on each machine counts in the mean over all strata and all machines.

    Of a stratum that one machine ran, what it would have been on each of the others follows from the anchors.
    """
    weights: Weights = {}

    def add(stratum: str, machine: str, weight: float) -> None:
        weights[stratum, machine] = weights.get((stratum, machine), 0.0) + weight

    share = 1 / len(grid.strata) / len(grid.machines)
    for stratum in arm.evidence:
        for machine in grid.machines:
            if stratum in grid.anchors:
                add(stratum, machine, share)
                continue
            home = _home(arm, stratum)
            add(stratum, home, share)
            for anchor, place, weight in _tie(grid, home, machine, share):
                add(anchor, place, weight)
    return weights
