"""The evidence of many contrasts on many measures, computed together."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.covariate import adjust
from pgassay.analysis.statistics.eprocess import (
    BASE_RULES,
    Evidence,
    EvidenceRules,
    FloatArray,
    gather_evidence,
    log_evidence,
)
from pgassay.analysis.statistics.sequence import (
    Sequence,
    confidence_sequence,
    median_sequence,
    point_estimate,
)
from pgassay.model.experiment import Contrast


@dataclass(frozen=True)
class _Group:
    """Contrasts with equally many members: their places and their blocks."""

    places: list[int]
    members: FloatArray
    evidence: Evidence


class ContrastSet:
    """Measures × contrasts over the same blocks; every answer has the shape (measures, contrasts).

    logs: (measures, blocks, arms) with at least one block and no NaN; columns: arm id → its place on the
    last axis; covariate: (blocks, arms) or None.
    """

    def __init__(
        self,
        logs: FloatArray,
        columns: dict[str, int],
        contrasts: tuple[Contrast, ...],
        *,
        pool_twin: bool,
        covariate: FloatArray | None = None,
        rules: EvidenceRules = BASE_RULES,
    ) -> None:
        """Gather the evidence by `rules`; contrasts with and without a pooled twin may be mixed."""
        self.shape = (logs.shape[0], len(contrasts))
        self._groups: list[_Group] = []
        by_size: dict[int, list[tuple[int, list[int]]]] = {}
        for place, contrast in enumerate(contrasts):
            names = member_ids(contrast, pool_twin=pool_twin)
            by_size.setdefault(len(names), []).append((place, [columns[name] for name in names]))
        for group in by_size.values():
            index = np.array([arms for _, arms in group])
            # (measures, blocks, contrasts, members) → (measures, contrasts, blocks, members)
            members = np.swapaxes(logs[:, :, index], 1, 2)
            if covariate is not None:
                members = adjust(members, np.swapaxes(covariate[:, index], 0, 1))
            evidence = gather_evidence(members, rules)
            self._groups.append(_Group([place for place, _ in group], members, evidence))

    def _collect(self, answer: Callable[[_Group], FloatArray]) -> FloatArray:
        result = np.empty(self.shape)
        for group in self._groups:
            result[:, group.places] = answer(group)
        return result

    def effects(self) -> FloatArray:
        """Point estimates, log ratios."""
        return self._collect(lambda group: point_estimate(group.evidence))

    def intervals(self, level: float, *, running: bool) -> Sequence:
        """Confidence sequences at this level each, log ratios."""
        found = [confidence_sequence(group.evidence, level, running=running) for group in self._groups]
        lower, upper = np.empty(self.shape), np.empty(self.shape)
        for group, ends in zip(self._groups, found, strict=True):
            lower[:, group.places], upper[:, group.places] = ends.lower, ends.upper
        return Sequence(lower, upper)

    def median_intervals(self, level: float) -> Sequence:
        """The guard's intervals: medians of the pairs (arm, control)."""
        lower, upper = np.empty(self.shape), np.empty(self.shape)
        for group in self._groups:
            ends = median_sequence(_pairs(group), level)
            lower[:, group.places], upper[:, group.places] = ends.lower, ends.upper
        return Sequence(lower, upper)

    def log_evidence(self) -> FloatArray:
        """log E against 'no effect' after the last block."""
        return self._collect(lambda group: log_evidence(group.evidence)[..., -1])

    def members(self, measure: int, contrast: int) -> FloatArray:
        """The log speeds of one contrast's blocks, the arm first, shape (blocks, members)."""
        for group in self._groups:
            if contrast in group.places:
                result: FloatArray = group.members[measure, group.places.index(contrast)]
                return result
        raise ValueError(f"there is no contrast {contrast}")


def _pairs(group: _Group) -> FloatArray:
    # Against the control alone: against the mean of two controls the difference is not symmetric under
    # skewed noise, and its median would not be 0 for equal arms.
    result: FloatArray = group.members[..., 0] - group.members[..., 1]
    return result


def member_ids(contrast: Contrast, *, pool_twin: bool) -> list[str]:
    """The arms of a contrast's blocks: the arm, its control and, when pooled, the twin."""
    if pool_twin and contrast.twin_id is not None:
        return [contrast.arm_id, contrast.control_id, contrast.twin_id]
    return [contrast.arm_id, contrast.control_id]
