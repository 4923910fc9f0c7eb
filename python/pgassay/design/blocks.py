"""What a block is made of: its stratum, its arms and their order, the copies of the data that it runs on.

Each is drawn independently, from the seed and the block (or the round) alone, so that nothing that was
measured has a part in it. What was measured decides only which arms still take part.
"""

import random
from collections.abc import Collection, Mapping, Sequence

from pgassay.design.arms import with_load
from pgassay.design.copies import data_copies, load_of
from pgassay.model.arm import Arm
from pgassay.model.experiment import BlockPlan, Experiment


def block_order(seed: int, block: int, arm_ids: Sequence[str]) -> list[str]:
    """The order of the arms in block `block` (from 0), each arm once.

    The identifiers are sorted first, so the order is a function of the set of arms, the seed and the
    block, on any machine and Python version (random.Random with a string seed is stable).
    """
    order = sorted(arm_ids)
    random.Random(f"pgassay block {seed} {block}").shuffle(order)
    return order


def strata_order(seed: int, round_number: int, strata: Sequence[str]) -> list[str]:
    """The order in which a round (from 0) visits the strata, each once."""
    order = sorted(strata)
    random.Random(f"pgassay round {seed} {round_number}").shuffle(order)
    return order


def plan_block(
    experiment: Experiment, earlier: Mapping[int, BlockPlan], resting: Collection[str] = ()
) -> BlockPlan:
    """The next block after `earlier`, of which none may be missing; `resting`: the arms that are decided.

    A stratum rests once all its arms do. When nothing is left that does not rest, nothing rests: whoever
    asks for another block then gets a whole one.
    """
    block, seed = len(earlier), experiment.contract.seed
    taking_part = _taking_part(experiment, resting if experiment.design.decided_rest else ())
    stratum = None
    if experiment.design.strata == "apart":
        visits = dict.fromkeys((arm.stratum for arm in experiment.arms if arm.id in taking_part), 0)
        for plan in earlier.values():
            if plan.stratum in visits:
                visits[plan.stratum] += 1
        # Each round visits each open stratum once: the next is one of those that were visited least.
        fewest = min(visits.values())
        order = strata_order(seed, fewest, list(visits))
        stratum = next(name for name in order if visits[name] == fewest)
        taking_part &= {arm.id for arm in experiment.arms if arm.stratum == stratum}
    copies, replicate = data_copies(experiment, stratum, block, visit_of(stratum, earlier))
    return BlockPlan(
        block=block,
        stratum=stratum,
        arm_ids=tuple(block_order(seed, block, list(taking_part))),
        data_copies={name: copies[name] for name in sorted(taking_part) if name in copies},
        replicate=replicate,
    )


def visit_of(stratum: str | None, earlier: Mapping[int, BlockPlan]) -> int:
    """How many blocks of this stratum there were before, voided ones among them."""
    return sum(plan.stratum == stratum for plan in earlier.values())


def arms_of_block(experiment: Experiment, plan: BlockPlan, visit: int) -> tuple[Arm, ...]:
    """The arms of a block in their order, each with the load and the copy of the data that it runs on."""
    arms = {arm.id: arm for arm in experiment.arms}
    load = load_of(experiment, plan.stratum, visit, plan.replicate)
    return tuple(
        with_load(arms[name], load).model_copy(
            update={"data_copy": plan.data_copies.get(name, arms[name].data_copy)}
        )
        for name in plan.arm_ids
    )


def trial_place(experiment: Experiment, plans: Mapping[int, BlockPlan], number: int) -> tuple[BlockPlan, int]:
    """The block of a trial by its number, from 0, and its position there; `plans` are those recorded."""
    earlier: dict[int, BlockPlan] = {}
    position = number
    while True:
        plan = plans.get(len(earlier)) or plan_block(experiment, earlier)
        if position < len(plan.arm_ids):
            return plan, position
        position -= len(plan.arm_ids)
        earlier[plan.block] = plan


def _taking_part(experiment: Experiment, resting: Collection[str]) -> set[str]:
    """The arms that do not rest, with the control and the twin of each stratum that has such an arm."""
    open_strata = {arm.stratum for arm in experiment.arms if arm.role == "arm" and arm.id not in resting}
    found = {
        arm.id
        for arm in experiment.arms
        if arm.stratum in open_strata and (arm.role != "arm" or arm.id not in resting)
    }
    return found or {arm.id for arm in experiment.arms}
