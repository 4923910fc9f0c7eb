"""From trials to complete blocks. The rules for failures never look at which arm failed."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray
from pgassay.analysis.verdicts.metrics import Measure
from pgassay.model.trial import TrialRecord
from pgassay.record.read import StoredExperiment

ATTEMPTS_MAX = 2


@dataclass(frozen=True)
class BlockTable:
    """The complete blocks of an experiment, and what was left out of them.

    numbers: the complete blocks, ascending; rows: for each of them the valid trial of every arm that took
    part in it, by arm id. voided: blocks in which some arm failed twice. firsts: by block that is complete or
    void, the first attempt of every arm that ran in it, by arm id. failures: failed or invalid attempts
    per arm id. reasons: the latest failure's reason per arm id. valid: every valid trial per arm id in run
    order, those of voided and half-done blocks included.
    """

    arm_ids: tuple[str, ...]
    numbers: tuple[int, ...]
    rows: tuple[dict[str, TrialRecord], ...]
    voided: tuple[int, ...]
    failures: dict[str, int]
    reasons: dict[str, str]
    valid: dict[str, tuple[TrialRecord, ...]]
    firsts: dict[int, dict[str, TrialRecord]]

    def logs(self, measure: Measure) -> FloatArray:
        """The signed logs of a measure, (blocks, arms); NaN where there is none."""
        return self.matrix(measure.log_value)

    def matrix(self, value_of: Callable[[TrialRecord], float]) -> FloatArray:
        """A figure of the trials of complete blocks, shape (blocks, arms); NaN where an arm took no part."""
        cells = [
            [value_of(row[arm]) if arm in row else math.nan for arm in self.arm_ids] for row in self.rows
        ]
        return np.array(cells, dtype=np.float64).reshape(len(self.rows), len(self.arm_ids))

    @property
    def present(self) -> BoolArray:
        """Which arms took part in which complete block, shape (blocks, arms)."""
        cells = [[arm in row for arm in self.arm_ids] for row in self.rows]
        return np.array(cells, dtype=np.bool_).reshape(len(self.rows), len(self.arm_ids))

    def places_with(self, arm_ids: Iterable[str]) -> tuple[int, ...]:
        """The places in `rows` of the complete blocks in which all these arms took part."""
        wanted = set(arm_ids)
        return tuple(place for place, row in enumerate(self.rows) if wanted <= row.keys())


def is_valid(record: TrialRecord, primary: Measure) -> bool:
    """Whether a trial counts: it ended well and its primary metric can be computed."""
    return record.status == "ok" and primary.value(record) is not None


def complete_blocks(stored: StoredExperiment, primary: Measure) -> BlockTable:
    """Sort an experiment's trials into blocks.

    The first valid attempt of an arm in a block counts; a failed or invalid one is repeated once, and a
    second failure voids the block for all arms. An interrupted attempt is neither. A block is complete with
    the arms that its recorded plan names, or with all arms where it has none.
    """
    arm_ids = tuple(arm.id for arm in stored.experiment.arms)
    known = set(arm_ids)
    chosen: dict[int, dict[str, TrialRecord]] = defaultdict(dict)
    firsts: dict[int, dict[str, TrialRecord]] = defaultdict(dict)
    failed: Counter[tuple[int, str]] = Counter()
    failures: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    valid: dict[str, list[TrialRecord]] = {arm: [] for arm in arm_ids}
    records = sorted(
        (trial.record for trial in stored.trials), key=lambda record: (record.number, record.attempt)
    )
    for record in records:
        arm = record.arm_id
        if arm not in known or record.status == "interrupted":
            continue
        firsts[record.block].setdefault(arm, record)
        if is_valid(record, primary):
            valid[arm].append(record)
            chosen[record.block].setdefault(arm, record)
            continue
        failures[arm] += 1
        reasons[arm] = record.reason or "its primary metric could not be computed"
        if arm not in chosen[record.block]:
            failed[record.block, arm] += 1
    voided = {block for (block, _), count in failed.items() if count >= ATTEMPTS_MAX}
    planned = {block: known & set(plan.arm_ids) for block, plan in stored.block_plans.items()}
    numbers = [
        block
        for block in sorted(chosen)
        if block not in voided and chosen[block].keys() == planned.get(block, known)
    ]
    return BlockTable(
        arm_ids,
        tuple(numbers),
        tuple(chosen[block] for block in numbers),
        tuple(sorted(voided)),
        dict(failures),
        reasons,
        {arm: tuple(found) for arm, found in valid.items()},
        {block: firsts[block] for block in sorted({*numbers, *voided})},
    )
