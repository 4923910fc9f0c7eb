"""Which cells a probe runs next: every cell once, tier by tier, then those whose next run tells most;
pure."""

import random
from collections.abc import Collection

from pgassay.model.probe import CellSpec, MeasuredCell, Method
from pgassay.probe.analysis.estimates import Estimates, estimate
from pgassay.probe.analysis.probe_plan import Facilities, ceiling_cells, decisions, tiers
from pgassay.probe.analysis.recommend import leader
from pgassay.probe.analysis.regret import next_round, open_cells, weights

_ROUND_CELLS = 8
# All curves are those of the method that leads, so it is told with some care before they are begun.
_RUNS_BEFORE_CURVES = 3


class Course:
    """The order of one probe's cells; remembers for which method the curves were begun."""

    def __init__(self, have: Facilities, draw: random.Random) -> None:
        self._have = have
        self._draw = draw
        self._leading: Method | None = None
        self._first = [spec for tier in tiers(have, None) for spec in tier]
        self._needed = frozenset(ceiling_cells(have))
        # Without these there is nothing to say.
        self.always = frozenset(self._first)

    def next_cells(self, measured: Collection[MeasuredCell], refused: Collection[CellSpec]) -> list[CellSpec]:
        """The cells of the next round in random order; none when there is nothing left to run."""
        estimates = estimate(measured)
        tried = estimates.keys() | set(refused)
        if all(spec in tried for spec in self._first):
            competing = self._competing_cells(measured, estimates)
            if again := [spec for spec in competing if spec not in refused]:
                return self._shuffled(again)
            self._leading = leader(self._have, estimates, self._leading)
        ordered = tiers(self._have, self._leading)
        for tier in ordered:
            fresh = [spec for spec in tier if spec not in tried]
            if fresh:
                return self._shuffled(fresh)
        known = [spec for tier in ordered for spec in tier if spec not in refused]
        weighed = weights(known, decisions(self._have, self._leading), estimates, self._needed)
        return next_round(weighed, _ROUND_CELLS, self._draw)

    def _competing_cells(self, measured: Collection[MeasuredCell], estimates: Estimates) -> list[CellSpec]:
        """The cells of methods that may still lead, while they have few runs and no curve was begun."""
        if self._leading is not None:
            return []
        competing = set[CellSpec]()
        for decision in decisions(self._have, None):
            competing |= open_cells(decision, estimates)
        few = [cell.spec for cell in measured if len(cell.runs) < _RUNS_BEFORE_CURVES]
        return [spec for spec in few if spec in competing]

    def _shuffled(self, cells: list[CellSpec]) -> list[CellSpec]:
        self._draw.shuffle(cells)
        return cells
