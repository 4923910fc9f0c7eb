"""The arms of a grid of factors: controls, twins, strata and contrasts."""

import itertools
import random
from collections.abc import Collection
from dataclasses import dataclass

from pgassay.errors import UsageError
from pgassay.factors import config, copy
from pgassay.factors.base import LAST, Factor
from pgassay.factors.registry import ORDER
from pgassay.model.arm import Arm, ArmSpec, Role
from pgassay.model.experiment import Contrast, Experiment
from pgassay.model.workload import Pace

ARMS_MAX = 400

# A combination of levels by factor, and the arm that it makes.
Candidate = tuple[dict[str, str], ArmSpec]


@dataclass(frozen=True)
class Compared:
    """The factor whose levels are compared, and the level of it that is the control."""

    factor: str
    control: str


def choose_control(factors: tuple[Factor, ...], text: str | None) -> Compared:
    """`--control FACTOR=LEVEL` or `--control LEVEL`; without it the first level of the first factor.

    Raises UsageError when no factor has that level, or several have.
    """
    if text is None:
        return Compared(factors[0].name, factors[0].levels[0])
    name, equals, level = text.partition("=")
    for factor in factors:
        if equals and factor.name == name.strip().lower() and level in factor.levels:
            return Compared(factor.name, level)
    matching = [factor for factor in factors if text in factor.levels]
    if len(matching) == 1:
        return Compared(matching[0].name, text)
    known = "; ".join(f"{factor.name}={','.join(factor.levels)}" for factor in factors)
    raise UsageError(f"--control {text} does not name a level: write FACTOR=LEVEL, one of {known}")


def level_name(levels: dict[str, str]) -> str:
    """An arm's name: its levels, as typed."""
    return " ".join(f"{name}={level}" for name, level in levels.items())


def apply_levels(factors: tuple[Factor, ...], levels: dict[str, str], base: ArmSpec) -> ArmSpec:
    """The description of one arm: the base patched by every level."""
    spec = base
    # Levels that set several things may choose a build or a storage too, for which others make sense or not.
    for factor in sorted(
        factors, key=lambda each: (each.name in LAST, each.name not in ORDER, each.name != config.NAME)
    ):
        spec = factor.kind.apply(factor.name, levels[factor.name], spec)
    return spec


def combinations(factors: tuple[Factor, ...]) -> list[dict[str, str]]:
    """Every combination of levels, the last factor varying fastest; raises UsageError above ARMS_MAX."""
    count = 1
    for factor in factors:
        count *= len(factor.levels)
    if count > ARMS_MAX:
        raise UsageError(f"the factors make {count} arms, more than {ARMS_MAX}: take fewer levels")
    names = [factor.name for factor in factors]
    return [
        dict(zip(names, levels, strict=True))
        for levels in itertools.product(*(factor.levels for factor in factors))
    ]


def _opaque_ids(count: int, seed: int) -> list[str]:
    """Identifiers in an order that says nothing of an arm's place in the grid, the twin included."""
    ids = [f"arm-{number:03d}" for number in range(count)]
    random.Random(f"pgassay arm ids {seed}").shuffle(ids)
    return ids


def build_arms(
    factors: tuple[Factor, ...], compared: Compared, specs: list[Candidate], seed: int
) -> tuple[tuple[Arm, ...], tuple[Contrast, ...]]:
    """The arms of every stratum, each with the twin of its control, and the contrasts.

    `specs` holds the combinations that are available. A factor that some levels of the compared one
    lack is nested in it: its levels are arms of one stratum. Raises UsageError when a stratum has lost
    its control, or nothing is left to compare.
    """
    within = {compared.factor, *_nested(compared.factor, [levels for levels, _ in specs])}
    strata: dict[str, list[Candidate]] = {}
    for levels, spec in specs:
        rest = {name: level for name, level in levels.items() if name not in within}
        strata.setdefault(level_name(rest), []).append((levels, spec))
    strata = {name: members for name, members in strata.items() if len(members) > 1}
    if not strata:
        names = ", ".join(factor.name for factor in factors)
        raise UsageError(
            f"no two levels of {names} are left to compare: name levels that work on this machine"
        )
    ids = iter(_opaque_ids(sum(len(members) + 1 for members in strata.values()), seed))
    arms: list[Arm] = []
    contrasts: list[Contrast] = []
    for stratum, members in strata.items():
        index = _index_of_control(compared, [levels for levels, _ in members], stratum)
        made = [
            _arm(next(ids), levels, spec, "control" if number == index else "arm", stratum).model_copy(
                update={"data_copy": _data_copy(factors, levels)}
            )
            for number, (levels, spec) in enumerate(members)
        ]
        control = made[index]
        twin = control.model_copy(update={"id": next(ids), "role": "twin", "data_copy": 1})
        arms += [control, *(arm for arm in made if arm.role == "arm"), twin]
        contrasts += [
            Contrast(arm_id=arm.id, control_id=control.id, twin_id=twin.id, stratum=stratum)
            for arm in made
            if arm.role == "arm"
        ]
    return tuple(arms), tuple(contrasts)


def select_strata(
    arms: tuple[Arm, ...], contrasts: tuple[Contrast, ...], wanted: Collection[str]
) -> tuple[tuple[Arm, ...], tuple[Contrast, ...]]:
    """The arms and the contrasts of these strata alone; raises UsageError for a name that none has."""
    known = list(dict.fromkeys(arm.stratum for arm in arms))
    unknown = next((name for name in wanted if name not in known), None)
    if unknown is not None:
        remedy = f"name one of {'; '.join(known)}" if any(known) else "there is only one: leave it out"
        raise UsageError(f"--stratum '{unknown}' is not a stratum of this grid: {remedy}")
    return (
        tuple(arm for arm in arms if arm.stratum in wanted),
        tuple(contrast for contrast in contrasts if contrast.stratum in wanted),
    )


def without_partner(candidates: list[Candidate], arms: tuple[Arm, ...], compared: str) -> tuple[str, ...]:
    """A sentence for each combination that could run and is no arm: nothing was left to compare it with."""
    names = {arm.name for arm in arms}
    return tuple(
        f"{level_name(levels)} was skipped: no other level of {compared} is left to compare it with"
        for levels, _ in candidates
        if level_name(levels) not in names
    )


def _nested(compared: str, combinations: list[dict[str, str]]) -> set[str]:
    """The factors that whole levels of the compared factor lack, and others have."""
    names = {name for levels in combinations for name in levels}
    having = {
        name: {levels[compared] for levels in combinations if name in levels} for name in names - {compared}
    }
    lacking = {name: {levels[compared] for levels in combinations if name not in levels} for name in having}
    return {name for name in having if lacking[name] and not lacking[name] & having[name]}


def _index_of_control(compared: Compared, members: list[dict[str, str]], stratum: str) -> int:
    """The first combination with the control's level; a nested factor may give it several."""
    for index, levels in enumerate(members):
        if levels[compared.factor] == compared.control:
            return index
    where = f" at {stratum}" if stratum else ""
    raise UsageError(
        f"the control {compared.factor}={compared.control} is not available{where}: "
        "name another with --control FACTOR=LEVEL"
    )


def _data_copy(factors: tuple[Factor, ...], levels: dict[str, str]) -> int:
    """The copy that an arm's trials run on: all share copy 0, but for the levels of the null factor.

    Copy 1 is the twin's, so its further levels have those from 2 on.
    """
    index = next((each.levels.index(levels[copy.NAME]) for each in factors if each.name == copy.NAME), 0)
    return index + 1 if index else 0


def _arm(identity: str, levels: dict[str, str], spec: ArmSpec, role: Role, stratum: str) -> Arm:
    return Arm(id=identity, name=level_name(levels), levels=levels, stratum=stratum, role=role, spec=spec)


def with_load(arm: Arm, load: int) -> Arm:
    """The arm on another of its independent loads of the data."""
    if arm.spec.dataset.load == load:
        return arm
    dataset = arm.spec.dataset.model_copy(update={"load": load})
    return arm.model_copy(update={"spec": arm.spec.model_copy(update={"dataset": dataset})})


def with_rate(arm: Arm, rate: float) -> Arm:
    """The arm with so many transactions a second, as independent users send them; 0: as it is."""
    load = arm.spec.workload.load
    if not rate or load is None:
        return arm
    paced = load.model_copy(update={"pace": Pace(text=f"{rate:g}", rates=((0.0, rate),))})
    workload = arm.spec.workload.model_copy(update={"load": paced})
    return arm.model_copy(update={"spec": arm.spec.model_copy(update={"workload": workload})})


def arms_of_all_loads(experiment: Experiment) -> tuple[Arm, ...]:
    """Every arm once for each independent load of its data, as trials will ask for them."""
    return tuple(with_load(arm, load) for load in range(experiment.dataset_loads) for arm in experiment.arms)
