"""The schedule of an experiment: what a block is made of, and which trial comes next.

A block has its stratum, its arms and their order, and the copies of the data that it runs on. Each is drawn
independently, from the seed and the block (or the round) alone, so that nothing that was measured has a part
in it. What was measured decides only which arms still take part.

No arm is favoured by where its copy of the data lies. Arms that can share their data run on one copy in a
block, which is drawn for it. An arm that needs data of its own (another version, dataset, preparation or
storage than its control's) gets fresh copies as blocks go on, and so do its control and the twin: a set of
such copies is a replicate, and the copy is the unit of replication.

The next trial is a pure function of the plan, the plans of its blocks and the trials recorded so far. So a
resumed experiment goes on exactly where it stopped: a half-done block is finished as it was planned. A failed
trial is repeated once within its block; a second failure voids the block, whatever the arm. An arm that
can't run is dropped from later blocks (`analysis/verdicts/dropped_arms.py`), and the others go on.
"""

import itertools
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pgassay.design.arms import with_load, with_rate
from pgassay.design.layouts import at_layout, draw_layouts
from pgassay.factors import copy
from pgassay.model.arm import Arm
from pgassay.model.experiment import ATTEMPTS_MAX, BlockDesign, BlockPlan, Experiment
from pgassay.model.trial import TrialRecord, TrialSpec

# Of how many copies one is drawn for a block.
DATA_COPIES = 2
_NO_PLANS: Mapping[int, BlockPlan] = MappingProxyType({})


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


def round_order(seed: int, block: int, round_number: int, arms: int) -> list[int]:
    """The order of the arms in a round (from 0) of one start of a server, by their places in the block."""
    order = list(range(arms))
    random.Random(f"pgassay turns {seed} {block} {round_number}").shuffle(order)
    return order


def plan_block(
    experiment: Experiment, earlier: Mapping[int, BlockPlan], resting: Collection[str] = ()
) -> BlockPlan:
    """The next block after `earlier`, of which none may be missing; `resting`: the arms that are decided.

    A stratum rests once all its arms do. When nothing is left that does not rest, nothing rests: whoever
    asks for another block then gets a whole one.
    """
    block, seed = len(earlier), experiment.contract.seed
    chosen = taking_part(experiment, resting if experiment.design.decided_rest else ())
    stratum = None
    if experiment.design.strata == "apart":
        visits = dict.fromkeys((arm.stratum for arm in experiment.arms if arm.id in chosen), 0)
        for plan in earlier.values():
            if plan.stratum in visits:
                visits[plan.stratum] += 1
        # Each round visits each open stratum once: the next is one of those that were visited least.
        fewest = min(visits.values())
        order = strata_order(seed, fewest, list(visits))
        stratum = next(name for name in order if visits[name] == fewest)
        chosen &= {arm.id for arm in experiment.arms if arm.stratum == stratum}
    visit = visit_of(stratum, earlier)
    copies, replicate = data_copies(experiment, stratum, block, visit)
    return BlockPlan(
        block=block,
        stratum=stratum,
        arm_ids=tuple(block_order(seed, block, list(chosen))),
        data_copies={name: copies[name] for name in sorted(chosen) if name in copies},
        replicate=replicate,
        layouts=draw_layouts(experiment, chosen, visit),
    )


def visit_of(stratum: str | None, earlier: Mapping[int, BlockPlan]) -> int:
    """How many blocks of this stratum there were before, voided ones among them."""
    return sum(plan.stratum == stratum for plan in earlier.values())


def arms_of_block(experiment: Experiment, plan: BlockPlan, visit: int) -> tuple[Arm, ...]:
    """The arms of a block in their order, each with the load and the copy of the data that it runs on."""
    arms = {arm.id: arm for arm in experiment.arms}
    load = load_of(experiment, plan.stratum, visit, plan.replicate)
    return tuple(
        at_layout(
            with_rate(with_load(arms[name], load), plan.rate_of(name)), plan.layouts.get(name, 0)
        ).model_copy(update={"data_copy": plan.data_copies.get(name, arms[name].data_copy)})
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


def taking_part(experiment: Experiment, resting: Collection[str]) -> set[str]:
    """The arms that do not rest, with the control and the twin of each stratum that has such an arm."""
    open_strata = {arm.stratum for arm in experiment.arms if arm.role == "arm" and arm.id not in resting}
    found = {
        arm.id
        for arm in experiment.arms
        if arm.stratum in open_strata and (arm.role != "arm" or arm.id not in resting)
    }
    return found or {arm.id for arm in experiment.arms}


def planned_design(arms: Sequence[Arm], *, is_crossed: bool, decided_rest: bool = True) -> BlockDesign:
    """How the blocks of a new experiment are made.

    `blocks_per_copy` is set for the least data; the experiment raises it once their size is known. Where two
    servers' settings are swapped halfway every block holds all arms: the halves are split by blocks, and each
    must say something of each arm.
    """
    if is_crossed:
        return BlockDesign()
    # The levels of `copy=` are copies, and what they differ in is what is asked for.
    are_drawn = all(arm.spec.server is None and copy.NAME not in arm.levels for arm in arms)
    return BlockDesign(
        strata="apart" if len({arm.stratum for arm in arms}) > 1 else "together",
        data_copies=DATA_COPIES if are_drawn else 0,
        blocks_per_copy=1 if are_drawn and any(has_owners(arms, arm.stratum) for arm in arms) else 0,
        decided_rest=decided_rest,
    )


def has_owners(arms: Iterable[Arm], stratum: str) -> bool:
    """Whether an arm of this stratum needs data of its own."""
    return max(_sets(arms, stratum).values()) > 0


def _sets(arms: Iterable[Arm], stratum: str) -> dict[str, int]:
    """Which of a replicate's copies each arm of a stratum runs on, by id.

    0 is the control's. The twin shares it unless every arm has data of its own: then it has its own as well,
    and stands to them as the control does.
    """
    mine = [arm for arm in arms if arm.stratum == stratum]
    shared = next(arm.spec.data_identity for arm in mine if arm.role == "control")
    of_twin = 0 if any(arm.role == "arm" and arm.spec.data_identity == shared for arm in mine) else 1
    owned: list[tuple[object, ...]] = []
    found = {}
    for arm in mine:
        data = arm.spec.data_identity
        if arm.role == "twin":
            found[arm.id] = of_twin
        elif data == shared:
            found[arm.id] = 0
        else:
            if data not in owned:
                owned.append(data)
            found[arm.id] = of_twin + 1 + owned.index(data)
    return found


def data_copies(
    experiment: Experiment, stratum: str | None, block: int, visit: int
) -> tuple[dict[str, int], int]:
    """The copy of each arm's data in a block, by id, and the block's replicate.

    stratum: None for a block that holds all of them; visit: how many blocks of it there were before. {} where
    servers run already, whose data are nobody's to copy.
    """
    design, arms = experiment.design, experiment.arms
    replicate = visit // design.blocks_per_copy if design.blocks_per_copy else 0
    if any(arm.spec.server is not None for arm in arms):
        return {}, 0
    if not design.data_copies:
        return {arm.id: arm.data_copy for arm in arms}, 0
    drawn = random.Random(f"pgassay copy {experiment.contract.seed} {block}").randrange(design.data_copies)
    copies: dict[str, int] = {}
    for name in dict.fromkeys(arm.stratum for arm in arms):
        if stratum in (None, name):
            copies |= _of_stratum(experiment, name, drawn, replicate)
    return copies, replicate


def _of_stratum(experiment: Experiment, stratum: str, drawn: int, replicate: int) -> dict[str, int]:
    if not experiment.design.blocks_per_copy:
        return {arm.id: drawn for arm in experiment.arms if arm.stratum == stratum}
    places = _sets(experiment.arms, stratum)
    last = max(places.values())
    if not last:
        return dict.fromkeys(places, drawn)
    # No two sets of copies have a number in common, so a fresh one is never an old one.
    return {name: replicate * (last + 1) + place for name, place in places.items()}


def has_fresh_copies(experiment: Experiment, stratum: str | None) -> bool:
    """Whether the copies of a block of this stratum are made anew for each replicate."""
    names = {arm.stratum for arm in experiment.arms if stratum in (None, arm.stratum)}
    return bool(experiment.design.blocks_per_copy) and any(
        has_owners(experiment.arms, name) for name in names
    )


def load_of(experiment: Experiment, stratum: str | None, visit: int, replicate: int) -> int:
    """Which of the independent loads of the data a block runs on: with each replicate, or block, the next."""
    return (replicate if has_fresh_copies(experiment, stratum) else visit) % experiment.dataset_loads


def arms_to_prepare(experiment: Experiment) -> tuple[Arm, ...]:
    """Every arm once for each load and copy of its data that is to be there before the first trial."""
    loads = range(experiment.dataset_loads)
    if not experiment.design.data_copies:
        return tuple(with_load(arm, load) for load in loads for arm in experiment.arms)
    arms = {arm.id: arm for arm in experiment.arms}
    found: dict[tuple[str, int, int], Arm] = {}
    for stratum in dict.fromkeys(arm.stratum for arm in experiment.arms):
        for load, drawn in itertools.product(loads, range(experiment.design.data_copies)):
            # Of fresh copies the first replicate on load 0 is number 0, on load 1 number 1, and so on.
            for name, number in _of_stratum(experiment, stratum, drawn, load).items():
                arm = with_load(arms[name], load).model_copy(update={"data_copy": number})
                found[name, load, number] = arm
    return tuple(found.values())


@dataclass(frozen=True)
class Step:
    """The next trial; `begins_block` says that no trial of its block has been recorded.

    plan: what its block is made of, arms: those of the block as they run, with the load and the copy of
    their data. visit: how many blocks of the same stratum there were before. voided_in_a_row: how many of a
    stratum's latest blocks count as voided (`_voids`), of the stratum with most.
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


@dataclass(frozen=True)
class _Voided:
    """A block that could not be completed: by which arms, and whether not one of its trials succeeded.

    A start that arms share counts for all or for none, so that none is said to have succeeded in it.
    """

    failing: set[str]
    is_barren: bool


def _voids(blocks: Sequence[_Voided], *, drops: bool) -> int:
    """How many of a stratum's blocks since its last whole one count as voided.

    `drops`: arms that can't run are dropped. It is chance then which of several voids a block, so those count
    that one arm voided. Where nothing succeeds at all nothing is waited for but one block more.
    """
    if not drops:
        return len(blocks)
    failures = Counter(name for block in blocks for name in block.failing)
    return max(max(failures.values(), default=0), sum(block.is_barren for block in blocks) - 1)


def _left_out(experiment: Experiment, dropped: Collection[str]) -> set[str]:
    """The dropped arms, with the control and the twin of each stratum that has no other."""
    open_strata = {arm.stratum for arm in experiment.arms if arm.role == "arm" and arm.id not in dropped}
    closed = {arm.id for arm in experiment.arms if arm.stratum not in open_strata}
    return {*dropped, *closed} if dropped else set()


def next_step(
    experiment: Experiment,
    records: Iterable[TrialRecord],
    plans: Mapping[int, BlockPlan] = _NO_PLANS,
    resting: Collection[str] = (),
    dropped: Collection[str] = (),
) -> Step:
    """The first trial that is still to be run; of a new block where all that were planned are done.

    plans: those recorded, by block; resting: the ids of the arms that take no part in a new block, and
    dropped: of those that can't run, whose failures void nothing any more.
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
    voided: dict[str | None, list[_Voided]] = {}
    drops = experiment.design.decided_rest and bool(plans)
    left_out = _left_out(experiment, dropped)
    first = 0
    while True:
        plan = plans.get(len(earlier)) or plan_block(experiment, earlier, {*resting, *dropped})
        numbers = range(first, first + len(plan.arm_ids))
        failing = {plan.arm_ids[number - first] for number in failed_twice.intersection(numbers)}
        if failing:
            if failing - left_out:
                is_barren = experiment.contract.unit != "start" and done.isdisjoint(numbers)
                block = _Voided(failing - left_out, is_barren)
                voided.setdefault(plan.stratum, []).append(block)
        elif done.issuperset(numbers):
            voided[plan.stratum] = []
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
            count = max((_voids(blocks, drops=drops) for blocks in voided.values()), default=0)
            return Step(spec, begins, count, plan, arms, visit)
        earlier[plan.block] = plan
        first += len(plan.arm_ids)
