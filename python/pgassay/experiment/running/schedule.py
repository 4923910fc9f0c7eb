"""What comes next: a pure function of the plan, the plans of its blocks and the trials recorded so far.

So a resumed experiment goes on exactly where it stopped: a half-done block is finished as it was planned. A
failed trial is repeated once within its block; a second failure voids the block, whatever the arm. Which
plans a trial is to execute, and how long that may take, follows from the records as well.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pgassay.analysis.descriptive.plans import shape
from pgassay.analysis.statistics.power import minimum_blocks
from pgassay.design.blocks import arms_of_block, plan_block, visit_of
from pgassay.model.arm import Arm
from pgassay.model.experiment import BlockDesign, BlockPlan, Experiment
from pgassay.model.trial import TrialRecord, TrialSpec
from pgassay.record.experiment import StoredTrial
from pgassay.trial.measure.work_plans import PlanWork

ATTEMPTS_MAX = 2
# Of an experiment's time what executing plans may take.
PLANS_SHARE_MAX = 0.1
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


def plan_work(experiment: Experiment, trials: Iterable[StoredTrial], arm_id: str) -> PlanWork | None:
    """What the next trial of an arm is to execute; None where the experiment executes no plans.

    A twin's are its control's, and would tell nothing else.
    """
    is_twin = any(arm.id == arm_id and arm.role == "twin" for arm in experiment.arms)
    if experiment.protocol.plans != "work" or is_twin:
        return None
    recorded = list(trials)
    done = set(done_plans(recorded))
    return PlanWork(
        is_due=lambda statement, plan: (arm_id, statement, shape(plan)) not in done,
        budget_s=lambda wall_s: budget_s(experiment, recorded, wall_s),
    )


def done_plans(trials: Iterable[StoredTrial]) -> Iterator[tuple[str, str, str]]:
    """(arm's id, statement, shape of its plan) of those that were executed, or never will be."""
    for trial in trials:
        for statement, made in trial.work_plans.items():
            if not made.deferred and trial.record.status == "ok":
                yield trial.record.arm_id, statement, shape(trial.plans.get(statement))


def budget_s(experiment: Experiment, trials: Iterable[StoredTrial], wall_s: float) -> float:
    """The seconds that plans may take now, so that they stay below a tenth of the experiment's time.

    That time is what its trials took so far, or what it will take at least where that is more: the fewest
    blocks that give a verdict, if the contract's blocks and time have room for them. `wall_s`: of the
    trial that has just been measured.
    """
    contract = experiment.contract
    walls, spent_s = [wall_s], 0.0
    for trial in trials:
        walls.append(trial.record.took_s)
        spent_s += trial.record.plans_s or 0.0
    least = minimum_blocks(pooled=contract.pool_twin, contrasts=contract.contrasts, alpha=contract.alpha)
    trials_expected = min(contract.blocks_max, least) * len(experiment.arms)
    expected_s = min(contract.time_max_s, trials_expected * sum(walls) / len(walls))
    return PLANS_SHARE_MAX * max(sum(walls) + spent_s, expected_s) - spent_s
