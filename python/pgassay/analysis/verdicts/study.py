"""What every analysis starts from: the complete blocks as arrays, and the rows of each contrast.

Arms that can share their data run on one copy of them in a block, so a block is a row: what a copy does, it
does to all of them. An arm that must have data of its own keeps its copy from block to block, and so does its
control: those blocks share what chance gave the two copies, however many there are. There the row is the
replicate, all blocks of one set of fresh copies, of which another is as independent as another block is
elsewhere (a design with split plots).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from pgassay.analysis.statistics.contrasts import ContrastSet, Rows, member_ids
from pgassay.analysis.statistics.eprocess import EvidenceRules, FloatArray
from pgassay.analysis.statistics.power import minimum_blocks
from pgassay.analysis.statistics.starts import STARTS_MIN
from pgassay.analysis.verdicts.blocks import (
    BlockTable,
    Measure,
    complete_blocks,
    contract_measure,
    covariate_log_s,
    statement_measures,
)
from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.experiment import BlockPlan, Contrast, Experiment
from pgassay.record.experiment import StoredExperiment


@dataclass(frozen=True)
class Study:
    """An experiment's plan with the logs of its complete blocks.

    measures: the primary metric, then every statement that all trials of complete blocks measured;
    logs: their signed logs, shape (measures, blocks, arms), NaN where an arm took no part in a block.
    covariate: (blocks, arms) or None, NaN in the same places. plans: what was recorded of each block.
    """

    experiment: Experiment
    table: BlockTable
    measures: tuple[Measure, ...]
    logs: FloatArray
    covariate: FloatArray | None
    covariate_missing: int
    plans: Mapping[int, BlockPlan] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """The complete blocks; where strata have blocks of their own, those of the stratum that has most."""
        if self.experiment.design.strata == "together":
            return len(self.table.numbers)
        found = [self.plans[number].stratum for number in self.table.numbers if number in self.plans]
        return max((found.count(stratum) for stratum in set(found)), default=0)

    @property
    def arms(self) -> dict[str, Arm]:
        """The arms by id, in the plan's order."""
        return {arm.id: arm for arm in self.experiment.arms}

    @property
    def columns(self) -> dict[str, int]:
        """The place of each arm on the last axis of `logs`."""
        return {name: index for index, name in enumerate(self.table.arm_ids)}

    @cached_property
    def rows(self) -> tuple[Rows, ...]:
        """What the evidence of each contrast is made of, in their order.

        A row's places lead to its records: `table.rows[place][arm_id]`, of block `table.numbers[place]`.
        """
        return tuple(
            rows_of(each, self.experiment, self.table, self.plans) for each in self.experiment.contrasts
        )

    def block_numbers(self, contrast: int) -> tuple[tuple[int, ...], ...]:
        """The numbers of the blocks that each row of a contrast is made of."""
        return tuple(tuple(self.table.numbers[place] for place in row) for row in self.rows[contrast].blocks)

    @property
    def contrast_count(self) -> int:
        """m: the number of contrasts that share α, as fixed before the first trial."""
        return max(self.experiment.contract.contrasts, len(self.experiment.contrasts), 1)

    @property
    def is_pooled(self) -> bool:
        """Whether every contrast has a twin as its second control."""
        contrasts = self.experiment.contrasts
        return self.experiment.contract.pool_twin and all(item.twin_id is not None for item in contrasts)

    @property
    def blocks_min(self) -> int:
        """Complete blocks before which no verdict is given."""
        return self._rows_min(self.is_pooled)

    def rows_min(self, contrast: int) -> int:
        """Rows of one contrast before which it has no verdict; one without the pooled twin takes more."""
        return self._rows_min(self.is_pooled and len(self.rows[contrast].arm_ids) > 2)

    def blocks_per_row(self, contrast: int) -> int:
        """The blocks that another row of a contrast takes."""
        if owns_data(self.experiment, self.experiment.contrasts[contrast]):
            return self.experiment.design.blocks_per_copy
        return 1

    def blocks_begun(self, contrast: int) -> int:
        """The complete blocks of a contrast that count in no row yet: their set of copies goes on."""
        rows = self.rows[contrast]
        last = max((place for places in rows.blocks for place in places), default=-1)
        return sum(place > last for place in self.table.places_with(rows.arm_ids))

    def _rows_min(self, pooled: bool) -> int:
        if self.counts_starts:
            return STARTS_MIN
        return minimum_blocks(
            pooled=pooled, contrasts=self.contrast_count, alpha=self.experiment.contract.alpha
        )

    @property
    def rules(self) -> EvidenceRules:
        """What the evidence of this experiment's contrasts is made with."""
        contract = self.experiment.contract
        return EvidenceRules(
            contract.sharpness,
            contract.first_scale,
            contract.sharpness_weights,
            contract.clipped_share,
            flips=contract.noise == "any",
            unit=contract.unit,
            start_deviation=contract.start_deviation,
        )

    @property
    def counts_starts(self) -> bool:
        """Whether a row is a start of one server in which all arms ran in turns."""
        return self.experiment.contract.unit == "start"

    @property
    def row_word(self) -> str:
        """What a complete block is called."""
        return "start" if self.counts_starts else "block"

    def contrast_set(self, logs: FloatArray) -> ContrastSet:
        """The evidence of all contrasts on these measures, shape (measures, blocks, arms)."""
        contract = self.experiment.contract
        return ContrastSet(
            logs,
            self.columns,
            self.experiment.contrasts,
            pool_twin=contract.pool_twin,
            covariate=self.covariate,
            # Without plans of blocks every arm took part in every complete block.
            rows=self.rows if self.plans or contract.drift != "none" else None,
            rules=self.rules,
            slope=self.experiment.contract.slope,
        )

    def pairs(self, logs: FloatArray, control_id: str, other_id: str) -> FloatArray:
        """(other, control) of every row of an arm equal to its control, such as its twin.

        Shape (measures, rows, 2), adjusted for the covariate; logs: (measures, blocks, arms).
        """
        pair = Contrast(
            arm_id=other_id, control_id=control_id, twin_id=None, stratum=self.arms[control_id].stratum
        )
        rows = self._rows_of_equals(pair)
        return ContrastSet(
            logs,
            self.columns,
            (pair,),
            pool_twin=False,
            covariate=self.covariate,
            rows=[rows],
            rules=self.rules,
            slope=self.experiment.contract.slope,
        ).all_members(0)

    def _rows_of_equals(self, pair: Contrast) -> Rows:
        """As the rows of a contrast in which both have a copy of their own, where that is so."""
        own = [
            each
            for each, rows in zip(self.experiment.contrasts, self.rows, strict=True)
            if each.control_id == pair.control_id
            and len(rows.arm_ids) > 2
            and owns_data(self.experiment, each)
        ]
        names = (pair.arm_id, pair.control_id)
        if own:
            return Rows(names, replicates(pair, self.experiment, self.table, self.plans, list(names)))
        return Rows(names, tuple((place,) for place in self.table.places_with(names)))

    def level_by_stratum(self) -> list[FloatArray]:
        """The mean log speed of each block, one series for the blocks that hold the same strata, (blocks,).

        Of the arms that took part in all of those blocks, so that a decided arm's rest is no change.
        """
        present, level = self.table.present, self.logs[0]
        strata = [
            self.plans[number].stratum if number in self.plans else None for number in self.table.numbers
        ]
        series = []
        for stratum in dict.fromkeys(strata):
            blocks = [place for place, name in enumerate(strata) if name == stratum]
            arms = present[blocks].all(axis=0)
            if arms.any():
                series.append(np.asarray(level[blocks][:, arms].mean(axis=-1)))
        return series

    def blocks_of(self, arm_id: str) -> int:
        """The complete blocks that an arm's figures are of; a control's are those that it took part in."""
        for contrast, rows in zip(self.experiment.contrasts, self.rows, strict=True):
            if contrast.arm_id == arm_id:
                return sum(map(len, rows.blocks))
        return len(self.table.places_with([arm_id]))

    def replicates_of(self, arm_id: str) -> int | None:
        """The finished sets of fresh copies that an arm's figures are of; None where blocks count."""
        for contrast, rows in zip(self.experiment.contrasts, self.rows, strict=True):
            if contrast.arm_id == arm_id and owns_data(self.experiment, contrast):
                return len(rows.blocks)
        return None

    def rested_after(self, arm_id: str) -> int | None:
        """The complete blocks after which a decided arm rested; None for one that takes part."""
        stratum = self.arms[arm_id].stratum
        mine = [plan for plan in self.plans.values() if plan.stratum in (None, stratum)]
        if not mine or arm_id in max(mine, key=lambda plan: plan.block).arm_ids:
            return None
        return len(self.table.places_with([arm_id]))


def gather_study(stored: StoredExperiment) -> Study:
    """The arrays of a stored experiment; raises UsageError when its contrasts name arms it does not have."""
    experiment = stored.experiment
    _check_contrasts(experiment)
    primary = contract_measure(experiment.contract)
    table = complete_blocks(stored, primary)
    present = table.present
    measures, logs = [primary], [table.logs(primary)]
    for measure in statement_measures(experiment):
        found = table.logs(measure)
        if not np.isnan(found[present]).any():
            measures.append(measure)
            logs.append(found)
    covariate, missing = _covariate(experiment, table)
    return Study(experiment, table, tuple(measures), np.stack(logs), covariate, missing, stored.block_plans)


def _covariate(experiment: Experiment, table: BlockTable) -> tuple[FloatArray | None, int]:
    """The declared covariate, and how many trials lack it (then it is not used at all).

    Within a start the machine is the same for all arms, so there is nothing to adjust for.
    """
    if experiment.contract.covariate == "none" or experiment.contract.unit == "start":
        return None, 0
    found = table.matrix(partial(covariate_log_s, experiment.contract.covariate))
    missing = int(np.isnan(found[table.present]).sum())
    return (None, missing) if missing else (found, 0)


def _check_contrasts(experiment: Experiment) -> None:
    known = {arm.id for arm in experiment.arms}
    for contrast in experiment.contrasts:
        named = {contrast.arm_id, contrast.control_id} | ({contrast.twin_id} - {None})
        if not named <= known:
            unknown = ", ".join(sorted(str(name) for name in named - known))
            raise UsageError(
                f"the experiment's contrasts name arms it does not have ({unknown}): "
                "restore experiment.json from a copy"
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
        if experiment.contract.drift == "neighbours" and experiment.contract.unit == "trial":
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
