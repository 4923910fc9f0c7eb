"""The rows of a contrast's evidence: which blocks count, and what is the unit of replication.

Arms that can share their data run on one copy of them in a block, so a block is a row: what a copy does, it
does to all of them. An arm that must have data of its own keeps its copy from block to block, and so does its
control: those blocks share what chance gave the two copies, however many there are. There the row is the
replicate, all blocks of one set of fresh copies, of which another is as independent as another block is
elsewhere (a design with split plots).
"""

from collections.abc import Mapping

from pgassay.analysis.statistics.contrasts import Rows, member_ids
from pgassay.analysis.verdicts.blocks import BlockTable
from pgassay.model.arm import Arm
from pgassay.model.experiment import BlockPlan, Contrast, Experiment


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
