"""From trials to complete blocks, and to the rows of each contrast that its evidence is made of.

The rules for failures never look at which arm failed.

Arms that can share their data run on one copy of them in a block, so a block is a row: what a copy does, it
does to all of them. An arm that must have data of its own keeps its copy from block to block, and so does its
control: those blocks share what chance gave the two copies, however many there are. There the row is the
replicate, all blocks of one set of fresh copies, of which another is as independent as another block is
elsewhere (a design with split plots).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.contrasts import Rows, member_ids
from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray
from pgassay.analysis.verdicts.metrics import Measure
from pgassay.model.arm import Arm
from pgassay.model.experiment import BlockPlan, Contrast, Experiment
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredExperiment

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


def rows_of(
    contrast: Contrast, experiment: Experiment, table: BlockTable, plans: Mapping[int, BlockPlan]
) -> Rows:
    """The members and the rows of a contrast.

    The twin is pooled where it stands to the arm as the control does: where all of them share a copy, or
    each has one of its own. In a stratum in which only some arms have their own data, control and twin share
    a copy that such an arm does not run on, so those are compared in pairs.
    """
    names = member_ids(contrast, pool_twin=experiment.contract.pool_twin)
    if not owns_data(experiment, contrast):
        places = table.places_with(names)
        slots: tuple[tuple[int, ...], ...] = ()
        if experiment.contract.drift == "neighbours":
            # The number that was planned: when a repeated attempt runs may depend on the arm.
            slots = tuple(tuple(table.rows[place][name].number for name in names) for place in places)
        return Rows(tuple(names), tuple((place,) for place in places), slots)
    if not all(owns_data(experiment, other) for other in _beside(contrast, experiment)):
        names = names[:2]
    return Rows(tuple(names), replicates(contrast, experiment, table, plans, names))


def owns_data(experiment: Experiment, contrast: Contrast) -> bool:
    """Whether the arm gets fresh copies of data of its own, so that a copy is its unit of replication."""
    if not experiment.design.blocks_per_copy:
        return False
    arms: dict[str, Arm] = {arm.id: arm for arm in experiment.arms}
    return arms[contrast.arm_id].spec.data_identity != arms[contrast.control_id].spec.data_identity


def _beside(contrast: Contrast, experiment: Experiment) -> list[Contrast]:
    return [other for other in experiment.contrasts if other.control_id == contrast.control_id]


def replicates(
    contrast: Contrast,
    experiment: Experiment,
    table: BlockTable,
    plans: Mapping[int, BlockPlan],
    names: list[str],
) -> tuple[tuple[int, ...], ...]:
    """The complete blocks of each finished replicate in which all members took part.

    One that goes on does not count: its mean is still to change.
    """
    ended = {*table.numbers, *table.voided}
    places = {number: place for place, number in enumerate(table.numbers)}
    planned: dict[int, list[BlockPlan]] = {}
    for plan in plans.values():
        if plan.stratum in (None, contrast.stratum):
            planned.setdefault(plan.replicate, []).append(plan)
    rows = []
    for _, found in sorted(planned.items()):
        is_whole = len(found) >= experiment.design.blocks_per_copy
        if is_whole and all(plan.block in ended and set(names) <= set(plan.arm_ids) for plan in found):
            rows.append(tuple(sorted(places[plan.block] for plan in found if plan.block in places)))
    return tuple(row for row in rows if row)
