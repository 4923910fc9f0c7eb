"""Regret of the values of a decision, the value to recommend, and which cell to measure next; pure."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgassay.model.probe import Alternative, CellSpec
from pgassay.model.result import Interval
from pgassay.probe.analysis.estimates import Estimate, Estimates, quantile
from pgassay.probe.analysis.probe_plan import Decision
from pgassay.probe.analysis.shrinkage import Joint, joint

# The last digits of an iterated estimate differ from processor to processor.
REGRET_DECIMALS = 9
# A regret below this is not worth leaving a default for, nor a larger value.
TOLERANCE = 0.02
# How probable it must be that another value is better than the default.
LIKELY = 0.8
# A candidate whose regret is certainly larger than this is out of the question.
_CONTENDER_REGRET_MAX = 0.03
# What a cell that no open decision needs still counts for.
_BACKGROUND = 0.1


@dataclass(frozen=True)
class JudgedLevels:
    """A decision with its measured values: regrets in the values' order, the choice and the knee.

    `probability`: that the choice is better than the default; None where it is the default, or no default was
    measured.
    """

    decision: Decision
    alternatives: tuple[Alternative, ...]
    choice: str
    knee: str
    probability: float | None

    @property
    def regret_of(self) -> Mapping[str, float]:
        """Each measured value's regret."""
        return {each.value: each.regret for each in self.alternatives}

    def interval_of(self, value: str) -> Interval:
        """The interval of a measured value's regret; without bounds for one that was not."""
        found = (each.interval for each in self.alternatives if each.value == value)
        return next(found, (-math.inf, math.inf))


def judge(decision: Decision, estimates: Estimates) -> JudgedLevels | None:
    """The regrets of all measured values against the best of them; None with fewer than two.

    A value's regret is the time it takes over the best value's, less one, with the interval of the difference
    of the two log rates (see shrink). The default stays unless its regret is more than 2 % and another value
    is better with a probability of 0.8: what is left out by waiting for certainty costs more than what a
    wrong choice among near equals does. What is chosen instead is the first such value in order within 2 % of
    the best; the first within 2 % is the knee.
    """
    found = joint(decision, estimates)
    if found is None:
        return None
    alternatives = tuple(_alternative(found, value) for value in found.values)
    regrets = {each.value: each.regret for each in alternatives}
    near = [value for value in found.values if regrets[value] <= TOLERANCE]
    default = decision.default
    if default not in found.values:
        return JudgedLevels(decision, alternatives, near[0], near[0], None)
    likely = {value: found.probability(value, default) for value in near}
    better = [value for value in near if likely[value] >= LIKELY]
    if regrets[default] <= TOLERANCE or not better:
        return JudgedLevels(decision, alternatives, default, near[0], None)
    return JudgedLevels(decision, alternatives, better[0], near[0], likely[better[0]])


def _alternative(found: Joint, value: str) -> Alternative:
    if value == found.best:
        return Alternative(value=value, regret=0.0, interval=(0.0, 0.0))
    low, high = found.interval(found.best, value)
    gap = found.gap(found.best, value)
    regret, lower, upper = (round(math.expm1(each), REGRET_DECIMALS) for each in (gap, low, high))
    return Alternative(value=value, regret=regret, interval=(lower, upper))


def difference(first: Estimate, second: Estimate) -> tuple[float, float]:
    """The 95 % interval of the difference of two log rates (Welch's error, the smaller freedom)."""
    reach = quantile(min(first.freedom, second.freedom)) * math.hypot(first.error, second.error)
    gap = first.log_rate - second.log_rate
    return gap - reach, gap + reach


def weights(
    cells: Sequence[CellSpec],
    decisions: Sequence[Decision],
    estimates: Estimates,
    needed: frozenset[CellSpec] = frozenset(),
) -> dict[CellSpec, float]:
    """How much another run of each cell would tell: its half-width where a decision is open, else a tenth of
    it.

    A decision is open for a value while its regret's interval reaches below 3 %, and for the best one while
    any other is open. Cells in `needed` (the ceilings) count in full. A cell without a run counts most.
    """
    wanted = set(needed)
    for decision in decisions:
        wanted |= open_cells(decision, estimates)
    return {
        spec: math.inf
        if spec not in estimates
        else estimates[spec].half_width * (1.0 if spec in wanted else _BACKGROUND)
        for spec in cells
    }


def open_cells(decision: Decision, estimates: Estimates) -> set[CellSpec]:
    """The cells of all values that may be the best, while there are two of them or more."""
    judged = judge(decision, estimates)
    if judged is None:
        return {spec for specs in decision.candidates.values() for spec in specs}
    contenders = [each.value for each in judged.alternatives if each.interval[0] < _CONTENDER_REGRET_MAX]
    if len(contenders) < 2:
        return set()
    return {spec for value in contenders for spec in decision.candidates[value]}


def next_round(weighed: Mapping[CellSpec, float], size: int, draw: random.Random) -> list[CellSpec]:
    """The `size` cells whose next run tells most, in random order: no cell keeps a place in the round."""
    ordered = sorted(weighed, key=lambda spec: weighed[spec], reverse=True)
    chosen = ordered[:size]
    draw.shuffle(chosen)
    return chosen
