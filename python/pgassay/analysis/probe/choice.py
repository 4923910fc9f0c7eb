"""Regret of the values of a decision, the value to recommend, and which cell to measure next; pure."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pgassay.analysis.probe.estimates import Estimate, Estimates, quantile
from pgassay.analysis.probe.plan import Decision
from pgassay.model.probe import Alternative, CellSpec

# A regret below this is not worth leaving a default for, nor a larger value.
TOLERANCE = 0.02
# A candidate whose regret is certainly larger than this is out of the question.
_HOPELESS = 0.03
# What a cell that no open decision needs still counts for.
_BACKGROUND = 0.1


@dataclass(frozen=True)
class Judged:
    """A decision with its measured values: regrets in the values' order, the choice and the knee."""

    decision: Decision
    alternatives: tuple[Alternative, ...]
    choice: str
    knee: str

    @property
    def regret_of(self) -> Mapping[str, float]:
        """Each measured value's regret."""
        return {each.value: each.regret for each in self.alternatives}


def score(specs: Sequence[CellSpec], estimates: Estimates) -> Estimate | None:
    """The mean of the cells' log rates, each of equal weight; None while one of them has not been run."""
    found = [estimates[spec] for spec in specs if spec in estimates]
    if not specs or len(found) < len(specs):
        return None
    error = math.sqrt(sum(each.error**2 for each in found)) / len(found)
    return Estimate(fmean(each.log_rate for each in found), error, min(each.freedom for each in found))


def judge(decision: Decision, estimates: Estimates) -> Judged | None:
    """The regrets of all measured values against the best of them; None with fewer than two.

    A value's regret is the time it takes over the best value's, less one. Its interval is that of the
    difference of the two log rates. The default stays unless its regret is larger than 2 % and the interval
    excludes none at all; what is chosen instead is the knee: the first value in order within 2 % of the best.
    """
    scored = {
        value: found
        for value, specs in decision.candidates.items()
        if (found := score(specs, estimates)) is not None
    }
    if len(scored) < 2:
        return None
    best = max(scored, key=lambda value: scored[value].log_rate)
    alternatives = tuple(
        _alternative(value, made, scored[best], value == best) for value, made in scored.items()
    )
    regrets = {each.value: each.regret for each in alternatives}
    knee = next(value for value in scored if regrets[value] <= TOLERANCE)
    present = next((each for each in alternatives if each.value == decision.default), None)
    stays = present is not None and (present.regret <= TOLERANCE or present.interval[0] <= 0)
    return Judged(decision, alternatives, decision.default if stays else knee, knee)


def _alternative(value: str, made: Estimate, best: Estimate, is_best: bool) -> Alternative:
    if is_best:
        return Alternative(value=value, regret=0.0, interval=(0.0, 0.0))
    low, high = difference(best, made)
    regret = math.expm1(best.log_rate - made.log_rate)
    return Alternative(value=value, regret=regret, interval=(math.expm1(low), math.expm1(high)))


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
    open_cells = set(needed)
    for decision in decisions:
        open_cells |= _open_cells(decision, estimates)
    return {
        spec: math.inf
        if spec not in estimates
        else estimates[spec].half_width * (1.0 if spec in open_cells else _BACKGROUND)
        for spec in cells
    }


def _open_cells(decision: Decision, estimates: Estimates) -> set[CellSpec]:
    judged = judge(decision, estimates)
    if judged is None:
        return {spec for specs in decision.candidates.values() for spec in specs}
    contenders = [each.value for each in judged.alternatives if each.interval[0] < _HOPELESS]
    if len(contenders) < 2:
        return set()
    return {spec for value in contenders for spec in decision.candidates[value]}


def next_round(weighed: Mapping[CellSpec, float], size: int, draw: random.Random) -> list[CellSpec]:
    """The `size` cells whose next run tells most, in random order: no cell keeps a place in the round."""
    ordered = sorted(weighed, key=lambda spec: weighed[spec], reverse=True)
    chosen = ordered[:size]
    draw.shuffle(chosen)
    return chosen
