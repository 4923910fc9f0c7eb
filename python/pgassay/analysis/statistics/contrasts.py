"""The evidence of many contrasts on many measures, computed together, adjusted for a declared covariate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics import sequence
from pgassay.analysis.statistics.clipped_evidence import with_clipped
from pgassay.analysis.statistics.drift import drift_models, gather_drift_evidence
from pgassay.analysis.statistics.eprocess import (
    BASE_RULES,
    AnyEvidence,
    BoolArray,
    EvidenceRules,
    FloatArray,
    differences,
    gather_evidence,
    log_evidence,
    log_evidence_above,
    log_evidence_below,
)
from pgassay.analysis.statistics.joined_evidence import EitherWillDo, strict
from pgassay.analysis.statistics.sequence import (
    confidence_sequence,
    confidence_sequences,
    median_sequence,
    point_estimate,
)
from pgassay.analysis.statistics.sign_flips import with_bound, with_flips
from pgassay.analysis.statistics.starts import gather_start_evidence
from pgassay.model.experiment import Contrast, Slope

# A declared covariate, such as the canary, can't depend on the arm, and its slope comes from earlier blocks
# only: the members of a block can still change places, so the evidence stays valid.
RIDGE_BLOCKS = 3.0
BLOCKS_BEFORE, MEMBER_BLOCKS_BEFORE = 4, 2


@dataclass(frozen=True)
class Rows:
    """What the evidence of one contrast is made of.

    arm_ids: the members of a row, the arm first, then its control and, where it is pooled, the twin.
    blocks: for each row its places on the axis of the blocks, ascending. One place where a block is a row;
    several where the unit of replication is a copy of the data, whose row is the mean over its blocks.
    slots: for each row the number of each member's trial in the order of time, as it was planned; without
    them the evidence does not ask when a trial ran.
    """

    arm_ids: tuple[str, ...]
    blocks: tuple[tuple[int, ...], ...]
    slots: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class _Group:
    """Contrasts with equally many members and rows, such as those of several strata, computed together.

    members: (measures, contrasts, rows, members). evidence: None without a row.
    """

    places: list[int]
    members: FloatArray
    evidence: AnyEvidence | None


class ContrastSet:
    """Measures × contrasts; every answer has the shape (measures, contrasts).

    logs: (measures, blocks, arms); columns: arm id → its place on the last axis; covariate: (blocks, arms) or
    None. rows: for each contrast the blocks that count and their members, among which there is no NaN;
    without them every contrast has all blocks. A contrast without a row has the estimate NaN, an interval
    without ends and no evidence.
    """

    def __init__(
        self,
        logs: FloatArray,
        columns: dict[str, int],
        contrasts: tuple[Contrast, ...],
        *,
        pool_twin: bool,
        covariate: FloatArray | None = None,
        rows: Sequence[Rows] | None = None,
        rules: EvidenceRules = BASE_RULES,
        slope: Slope = "difference",
    ) -> None:
        """Gather the evidence by `rules`, adjusted by that slope; some contrasts may have no pooled twin."""
        self.shape = (logs.shape[0], len(contrasts))
        if rows is None:
            every = tuple((block,) for block in range(logs.shape[1]))
            rows = [Rows(tuple(member_ids(each, pool_twin=pool_twin)), every) for each in contrasts]
        self._groups: list[_Group] = []
        # By the numbers of members and rows; within them by the blocks of the rows.
        alike: dict[tuple[int, int, bool], dict[tuple[tuple[int, ...], ...], list[int]]] = {}
        for place, each in enumerate(rows):
            shape = len(each.arm_ids), len(each.blocks), bool(each.slots)
            alike.setdefault(shape, {}).setdefault(each.blocks, []).append(place)
        for (_, count, knows_slots), found in alike.items():
            parts = []
            for blocks, places in found.items():
                index = np.array([[columns[name] for name in rows[place].arm_ids] for place in places])
                part = _members(logs, blocks, index)
                if covariate is not None and blocks:
                    part = adjust(part, _members(covariate[np.newaxis], blocks, index)[0], slope)
                parts.append(part)
            members = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
            all_places = [place for each in found.values() for place in each]
            evidence: AnyEvidence | None = None
            if count:
                slots = np.array([rows[place].slots for place in all_places], dtype=np.float64)
                evidence = evidence_of(members, slots[np.newaxis] if knows_slots else None, rules)
            self._groups.append(_Group(all_places, members, evidence))

    def _collect(self, missing: float, answer: Callable[[AnyEvidence], FloatArray]) -> FloatArray:
        result = np.full(self.shape, missing)
        for group in self._groups:
            if group.evidence is not None:
                result[:, group.places] = answer(group.evidence)
        return result

    def effects(self) -> FloatArray:
        """Point estimates, log ratios."""
        return self._collect(np.nan, point_estimate)

    def intervals(self, level: float, *, running: bool) -> sequence.Sequence:
        """Confidence sequences at this level each, log ratios."""
        (found,) = self.intervals_at([level], running=running)
        return found

    def intervals_at(self, levels: Sequence[float], *, running: bool) -> tuple[sequence.Sequence, ...]:
        """As `intervals`, at several levels."""
        ends = [(np.full(self.shape, -np.inf), np.full(self.shape, np.inf)) for _ in range(len(levels))]
        for group in self._groups:
            if group.evidence is not None:
                found = confidence_sequences(group.evidence, levels, running=running)
                for (lower, upper), of_group in zip(ends, found, strict=True):
                    lower[:, group.places], upper[:, group.places] = of_group.lower, of_group.upper
        return tuple(sequence.Sequence(*both) for both in ends)

    def median_intervals(self, level: float) -> sequence.Sequence:
        """The guard's intervals: medians of the pairs (arm, control)."""
        lower, upper = np.full(self.shape, -np.inf), np.full(self.shape, np.inf)
        for group in self._groups:
            if group.evidence is not None:
                ends = median_sequence(_pairs(group), level)
                lower[:, group.places], upper[:, group.places] = ends.lower, ends.upper
        return sequence.Sequence(lower, upper)

    def rests_on_bound(self, level: float, *, running: bool) -> BoolArray:
        """Whether only the bound on what a start may change excludes 'no effect' (`starts`).

        Where Student's part excludes it too, the claim takes no bound; elsewhere starts are too few for that.
        """
        result = np.zeros(self.shape, dtype=np.bool_)
        for group in self._groups:
            if isinstance(group.evidence, EitherWillDo):
                ends = confidence_sequence(group.evidence.first, level / 2, running=running)
                result[:, group.places] = (ends.lower <= 0) & (ends.upper >= 0)
        return result

    def log_evidence(self) -> FloatArray:
        """log E against 'no effect' after the last row, an e-value: nothing of it is eased (`joined`)."""
        return self._collect(0.0, lambda evidence: log_evidence(strict(evidence))[..., -1])

    def log_equivalence(self, edge: float) -> FloatArray:
        """log of min(E⁺(−edge), E⁻(edge)) after the last row; `edge` is a log ratio above 0.

        An e-value against every effect that is not between the edges: one below them is rejected by
        E⁺(−edge), one above by E⁻(edge), and the lesser of the two is no more than either.
        """

        def least(evidence: AnyEvidence) -> FloatArray:
            whole = strict(evidence)
            above = log_evidence_above(whole, -edge)[..., -1]
            below = log_evidence_below(whole, edge)[..., -1]
            result: FloatArray = np.minimum(above, below)
            return result

        return self._collect(0.0, least)

    def log_evidence_slower(self) -> tuple[FloatArray, FloatArray]:
        """log E⁻ against "not slower than the control": after the last row, and the highest after any row.

        E⁻ alone is an e-process against all effects of 0 and above, since it never falls as the effect rises.
        """
        last, highest = np.zeros(self.shape), np.zeros(self.shape)
        for group in self._groups:
            if group.evidence is not None:
                whole = strict(group.evidence)
                last[:, group.places] = log_evidence_below(whole)[..., -1]
                ever = whole.log_highest_below(0.0)[..., -1]
                highest[:, group.places] = np.maximum(ever, 0.0)
        return last, highest

    def all_members(self, contrast: int) -> FloatArray:
        """As `members` on every measure, shape (measures, rows, members)."""
        for group in self._groups:
            if contrast in group.places:
                result: FloatArray = group.members[:, group.places.index(contrast)]
                return result
        raise ValueError(f"there is no contrast {contrast}")

    def members(self, measure: int, contrast: int) -> FloatArray:
        """The log speeds of one contrast's rows, adjusted for the covariate, shape (rows, members)."""
        result: FloatArray = self.all_members(contrast)[measure]
        return result

    def pairs(self, measure: int, contrast: int) -> FloatArray:
        """The log ratios arm : control of one contrast, row by row."""
        members = self.members(measure, contrast)
        result: FloatArray = members[:, 0] - members[:, 1]
        return result


def _members(values: FloatArray, blocks: tuple[tuple[int, ...], ...], index: np.ndarray) -> FloatArray:
    """(measures, blocks, arms) → (measures, contrasts, rows, members); index: the columns of the members."""
    places = [place for row in blocks for place in row]
    chosen = values if places == list(range(values.shape[1])) else values[:, places]
    members = np.swapaxes(chosen[:, :, index], 1, 2)
    if len(places) == len(blocks):
        return members
    counts = np.array([len(row) for row in blocks])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    result: FloatArray = np.add.reduceat(members, starts, axis=2) / counts[:, np.newaxis]
    return result


def _pairs(group: _Group) -> FloatArray:
    # Against the control alone: against the mean of two controls the difference is not symmetric under
    # skewed noise, and its median would not be 0 for equal arms.
    result: FloatArray = group.members[..., 0] - group.members[..., 1]
    return result


def evidence_of(members: FloatArray, slots: FloatArray | None, rules: EvidenceRules) -> AnyEvidence:
    """The evidence of rows of log speeds, (..., rows, n), the arm first, by these rules.

    slots: when each ran (`gather_drift_evidence`), of as many axes; None where that is not asked.
    """
    if rules.unit == "start":
        return gather_start_evidence(members, rules.start_deviation)
    if slots is None:
        evidence = with_clipped(gather_evidence(members, rules), members, rules)
        if rules.bounded_pairs and members.shape[-1] == 2:
            return with_bound(evidence, members)
        return with_flips(evidence, members, None, rules)
    models = drift_models(members, slots, rules)
    base = with_clipped(gather_drift_evidence(members, slots, rules, models), members, rules)
    return with_flips(base, members, models, rules)


def member_ids(contrast: Contrast, *, pool_twin: bool) -> list[str]:
    """The arms of a contrast's blocks: the arm, its control and, when pooled, the twin."""
    if pool_twin and contrast.twin_id is not None:
        return [contrast.arm_id, contrast.control_id, contrast.twin_id]
    return [contrast.arm_id, contrast.control_id]


def slopes(values: FloatArray, covariate: FloatArray) -> FloatArray:
    """β_b of every block, shape (..., blocks), from values and covariate of shape (..., blocks, n).

    β_b = S(Δx, d) / (S(Δx, Δx) + 3·mean(Δx²)) over the blocks before b, and 0 for the first four. S is the
    centred sum of products, so a constant effect of the arm does not move the slope.
    """
    response, predictor = np.broadcast_arrays(differences(values), differences(covariate))
    result = np.zeros(response.shape)
    shape = response.shape[:-1]
    mean_response, mean_predictor = np.zeros(shape), np.zeros(shape)
    products, squares, raw_squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for earlier in range(1, response.shape[-1]):
        y, x = response[..., earlier - 1], predictor[..., earlier - 1]
        distance = x - mean_predictor
        mean_predictor = mean_predictor + distance / earlier
        mean_response = mean_response + (y - mean_response) / earlier
        products = products + distance * (y - mean_response)
        squares = squares + distance * (x - mean_predictor)
        raw_squares = raw_squares + x * x
        if earlier < BLOCKS_BEFORE:
            continue
        weight = squares + RIDGE_BLOCKS * raw_squares / earlier
        # A covariate that never moved says nothing: no adjustment.
        result[..., earlier] = np.divide(products, weight, out=np.zeros(shape), where=weight > 0)
    return result


def member_slopes(values: FloatArray, covariate: FloatArray) -> FloatArray:
    """As `slopes`, learnt from the controls among themselves as well, and from the second block on.

    Of n members in a block n − 1 differences are free: the arm less its controls, whose mean is the effect
    and is taken out, and those of the controls, whose mean is 0. So a slope is known in half of the blocks.
    """
    y, x = np.broadcast_arrays(values, covariate)
    count, blocks = y.shape[-1], np.arange(y.shape[-2])
    part = (count - 1) / count
    of_arm_y, of_arm_x = differences(y), differences(x)
    controls_y = y[..., 1:] - y[..., 1:].mean(axis=-1, keepdims=True)
    controls_x = x[..., 1:] - x[..., 1:].mean(axis=-1, keepdims=True)
    # Around the first block, so that a large effect costs no digits.
    moved_y, moved_x = of_arm_y - of_arm_y[..., :1], of_arm_x - of_arm_x[..., :1]
    sums = np.maximum(blocks, 1)
    product = part * (_before(moved_y * moved_x) - _before(moved_y) * _before(moved_x) / sums)
    square = part * (_before(moved_x**2) - _before(moved_x) ** 2 / sums)
    product = product + _before((controls_y * controls_x).sum(axis=-1))
    among = _before((controls_x**2).sum(axis=-1))
    raw = part * _before(of_arm_x**2) + among
    weight = square + among + RIDGE_BLOCKS * raw / sums
    counted = (blocks >= MEMBER_BLOCKS_BEFORE) & (weight > 0)
    result: FloatArray = np.divide(product, weight, out=np.zeros(product.shape), where=counted)
    return result


def _before(rows: FloatArray) -> FloatArray:
    """The sum over the rows before each, same shape."""
    result = np.zeros(rows.shape)
    result[..., 1:] = np.cumsum(rows, axis=-1)[..., :-1]
    return result


def adjust(values: FloatArray, covariate: FloatArray, slope: Slope = "difference") -> FloatArray:
    """y′ = y − β_b·x for every member of every block, shape (..., blocks, n)."""
    found = member_slopes(values, covariate) if slope == "members" else slopes(values, covariate)
    result: FloatArray = values - found[..., np.newaxis] * covariate
    return result
