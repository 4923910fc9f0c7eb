"""What comes next: a pure function of the plan, the plans of its blocks and the trials recorded so far.

So a resumed experiment goes on exactly where it stopped: a half-done block is finished as it was planned. A
failed trial is repeated once within its block; a second failure voids the block, whatever the arm.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pgassay.design.arms import with_load
from pgassay.design.blocks import plan_block, visit_of
from pgassay.design.copies import load_of
from pgassay.model.arm import Arm
from pgassay.model.experiment import BlockDesign, BlockPlan, Experiment
from pgassay.model.trial import TrialRecord, TrialSpec

ATTEMPTS_MAX = 2
_NO_PLANS: Mapping[int, BlockPlan] = MappingProxyType({})


@dataclass(frozen=True)
class Step:
    """The next trial; `begins_block` says that no trial of its block has been recorded.

    plan: what its block is made of, arms: those of the block as they run, with the load and the copy of
    their data. visit: how many blocks of the same stratum there were before. voided_in_a_row: how many of a
    stratum's latest blocks could not be completed, of the stratum with most.
    """

    spec: TrialSpec
    begins_block: bool
    voided_in_a_row: int
    plan: BlockPlan
    arms: tuple[Arm, ...]
    visit: int


def records_blocks(experiment: Experiment) -> bool:
    """Whether the plan alone does not say what a block is made of, so that it is written down."""
    return experiment.design != BlockDesign()


def next_step(
    experiment: Experiment,
    records: Iterable[TrialRecord],
    plans: Mapping[int, BlockPlan] = _NO_PLANS,
    resting: Collection[str] = (),
) -> Step:
    """The first trial that is still to be run; of a new block where all that were planned are done.

    plans: those recorded, by block; resting: the ids of the arms that take no part in a new block.
    """
    done: set[int] = set()
    attempts: dict[int, int] = {}
    failures: Counter[int] = Counter()
    for record in records:
        attempts[record.number] = max(record.attempt, attempts.get(record.number, 0))
        if record.status == "ok":
            done.add(record.number)
        elif record.status != "interrupted":
            failures[record.number] += 1
    failed_twice = {number for number, count in failures.items() if count >= ATTEMPTS_MAX}
    earlier: dict[int, BlockPlan] = {}
    voided: Counter[str | None] = Counter()
    first = 0
    while True:
        plan = plans.get(len(earlier)) or plan_block(experiment, earlier, resting)
        numbers = range(first, first + len(plan.arm_ids))
        if not failed_twice.isdisjoint(numbers):
            voided[plan.stratum] += 1
        elif done.issuperset(numbers):
            voided[plan.stratum] = 0
        else:
            number = next(each for each in numbers if each not in done)
            begins = attempts.keys().isdisjoint(numbers)
            visit = visit_of(plan.stratum, earlier)
            arms = arms_of_block(experiment, plan, visit)
            position = number - first
            spec = TrialSpec(
                number=number,
                attempt=attempts.get(number, 0) + 1,
                block=plan.block,
                position=position,
                arm=arms[position],
                protocol=experiment.protocol,
            )
            return Step(spec, begins, max(voided.values(), default=0), plan, arms, visit)
        earlier[plan.block] = plan
        first += len(plan.arm_ids)


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
