"""Stored experiments as machines with blocks: which belong together, and whether their designs are one."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from pgassay.analysis.statistics.contrasts import evidence_of
from pgassay.analysis.statistics.eprocess import AnyEvidence, FloatArray
from pgassay.analysis.verdicts.checks.imitation import imitation_note, look_for_imitation
from pgassay.analysis.verdicts.checks.load_checks import client_bound
from pgassay.analysis.verdicts.primary_family import PrimaryResult, analyse_primary, twin_bound
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.analysis.verdicts.verdict import Judgement
from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.experiment import Contrast
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredExperiment
from pgassay.words import join

# Of the contract all that decides what a block's evidence is; limits, seeds and the first scale may differ.
_RULES = (
    *("metric", "margin", "alpha", "pool_twin", "covariate", "contrasts"),
    *("sharpness", "sharpness_weights", "equivalence", "drift", "clipped_share"),
    *("slope", "noise", "unit", "start_deviation"),
)
_CALLED = {"pool_twin": "pooling of the twin", "contrasts": "number of comparisons"}
# What says which data they are, wherever they came from on that machine.
_DATA = ("kind", "scale", "database", "tables", "table_size", "distribution", "settled")
ContrastKey = tuple[str, str, str]
Facts = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class MachineDescription:
    """What is known of an experiment's machine beside its record: how it is called, and facts of it.

    looks: how many of its trials were there at each look that was taken at all machines together; () where
    nobody looked before. Blocks then count in the order in which they were looked at: one that came late, of
    a machine that was away, must not change what an earlier look said. counts_as: the machine that its user
    says it is, whatever is recorded of it; machines of one such name are one.
    """

    name: str
    facts: Facts = field(default_factory=dict)
    looks: tuple[int, ...] = ()
    counts_as: str = ""


NO_DESCRIPTIONS: Mapping[Path, MachineDescription] = MappingProxyType({})


@dataclass(frozen=True)
class Blocks:
    """The blocks of one comparison in one experiment.

    members: log speeds, (rows, n), the arm first. ended: when each row's last trial ended. judgement: what
    the experiment alone says, with all its checks. count: the blocks that the rows are made of. twin_bound:
    how far a verdict must lie from no effect, None while the twin's gate has not fired. doubt: why nothing
    can be said of the server by these trials, however many; '' where it can. Both hold also where the
    experiment alone has no verdict that could be withheld.
    """

    evidence: AnyEvidence
    members: FloatArray
    ended: tuple[str, ...]
    judgement: Judgement
    count: int
    twin_bound: float | None = None
    doubt: str = ""

    @property
    def is_doubted(self) -> bool:
        """Whether a check speaks against what these blocks say."""
        alone = self.judgement
        is_unlike = self.twin_bound is not None and alone.verdict == "inconclusive"
        return alone.withheld or bool(self.doubt) or is_unlike

    @property
    def pairs(self) -> FloatArray:
        """The log ratios arm : control of the rows."""
        result: FloatArray = self.members[:, 0] - self.members[:, 1]
        return result


@dataclass(frozen=True)
class MachinePart:
    """One experiment: its study, its comparisons by what they compare, and the description of its machine."""

    stored: StoredExperiment
    study: Study
    blocks: dict[ContrastKey, Blocks]
    description: MachineDescription | None = None

    @property
    def ended(self) -> str:
        """When its last trial ended; '' without one."""
        return max((trial.record.ended_at for trial in self.stored.trials), default="")


@dataclass(frozen=True)
class MachineTrials:
    """One machine with its experiments, in the order in which they ended."""

    name: str
    parts: tuple[MachinePart, ...]

    @property
    def has_ended(self) -> bool:
        """Whether none of its experiments goes on."""
        return all(part.stored.stopped != "running" for part in self.parts)

    @property
    def ended(self) -> str:
        """When its last experiment ended."""
        return max(part.ended for part in self.parts)


def gather_machines(
    experiments: Sequence[StoredExperiment],
    descriptions: Mapping[Path, MachineDescription] = NO_DESCRIPTIONS,
    *,
    least: int = 2,
    of_one_grid: bool = False,
) -> tuple[MachineTrials, ...]:
    """The machines on which these experiments ran, in the order in which they were first named.

    Two experiments of one host are one machine. descriptions: by the folder of an experiment. of_one_grid:
    each has some strata of one grid; a machine is then what its description calls one, since parts of one
    host may not be alike. Raises UsageError when there are fewer than `least` experiments, two hold the same
    trials, or their designs differ.
    """
    if len(experiments) < least:
        raise UsageError("there is one experiment: name the folders of two or more, one from each machine")
    swapped = [stored.folder for stored in experiments if stored.experiment.swap]
    if swapped:
        raise UsageError(
            f"{swapped[0]} swapped the settings of two servers halfway, which can't be combined: leave it out"
        )
    _check_no_trial_twice(experiments)
    studies = [gather_study(stored) for stored in experiments]
    for study, stored in zip(studies[1:], experiments[1:], strict=True):
        _check_designs(studies[0], study, experiments[0], stored, of_one_grid=of_one_grid)
    parts = [
        MachinePart(
            stored,
            study,
            _blocks(study, stored, descriptions.get(stored.folder)),
            descriptions.get(stored.folder),
        )
        for stored, study in zip(experiments, studies, strict=True)
    ]
    _check_members(parts)
    found = _by_machine(parts, as_described=of_one_grid)
    names = [_called(parts) for parts in found]
    return tuple(
        MachineTrials(_told_apart(names, place), tuple(sorted(parts, key=lambda part: part.ended)))
        for place, parts in enumerate(found)
    )


def _by_machine(parts: Sequence[MachinePart], *, as_described: bool = False) -> list[list[MachinePart]]:
    """Those of one machine together: parts that share an identity, and parts that both share one with.

    as_described: a machine is what descriptions call one.
    """
    found: list[tuple[set[tuple[str, ...]], list[MachinePart]]] = []
    for part in parts:
        own = _identities_of(part, as_described=as_described)
        same = [group for group in found if group[0] & own]
        identity = own.union(*(group[0] for group in same))
        members = [*(each for group in same for each in group[1]), part]
        if same:
            found[found.index(same[0])] = (identity, members)
            found = [group for group in found if not any(group is other for other in same[1:])]
        else:
            found.append((identity, members))
    return [members for _, members in found]


def _identities_of(part: MachinePart, *, as_described: bool) -> set[tuple[str, ...]]:
    if part.description is None:
        return identities(part.stored)
    return (
        {("described", part.description.name)}
        if as_described
        else identities(part.stored, part.description.counts_as)
    )


def identities(stored: StoredExperiment, counts_as: str = "") -> set[tuple[str, ...]]:
    """What tells the machine that was measured from others; each of these does.

    What its user says, where he does. Of servers that run already their addresses. Else the machine's own
    identity with its name, for machines made from one image may share the former; and its boots, which all
    containers of a host have in common, whatever identities and names they have (random(4), boot_id).
    """
    if counts_as:
        return {("declared", counts_as)}
    servers = {arm.spec.server for arm in stored.experiment.arms if arm.spec.server is not None}
    if servers:
        return {("servers", *sorted(f"{server.host}:{server.port}" for server in servers))}
    environment = stored.experiment.environment
    own = environment.machine.machine_id or environment.machine_id
    boots = {environment.machine.boot_id, *(trial.record.boot_id for trial in stored.trials)}
    return {("host", own or "", _name(stored)), *(("boot", boot) for boot in boots if boot)}


def contrast_keys(study: Study) -> dict[ContrastKey, Contrast]:
    """The comparisons by stratum, the arm's levels and the control's, whatever their ids are."""
    arms = study.arms
    return {
        (each.stratum, _levels(arms[each.arm_id]), _levels(arms[each.control_id])): each
        for each in study.experiment.contrasts
    }


def _levels(arm: Arm) -> str:
    return ", ".join(f"{name}={level}" for name, level in sorted(arm.levels.items()))


def _name(stored: StoredExperiment) -> str:
    servers = {arm.spec.server.host for arm in stored.experiment.arms if arm.spec.server is not None}
    if servers:
        return join(sorted(servers))
    hosts = dict.fromkeys(trial.record.host for trial in stored.trials)
    return stored.experiment.environment.machine.hostname or next(iter(hosts), "unknown")


def _called(parts: Sequence[MachinePart]) -> str:
    """As its user calls it, else by what is recorded; with every name that it has."""
    given = dict.fromkeys(part.description.name for part in parts if part.description is not None)
    return join(list(given or dict.fromkeys(_name(part.stored) for part in parts)))


def _told_apart(names: Sequence[str], place: int) -> str:
    name = names[place]
    return f"{name} ({names[: place + 1].count(name)})" if names.count(name) > 1 else name


def _check_no_trial_twice(experiments: Sequence[StoredExperiment]) -> None:
    seen: dict[tuple[object, ...], StoredExperiment] = {}
    for stored in experiments:
        for trial in stored.trials:
            record = trial.record
            key = (record.host, record.boot_id, record.started_at, record.number, record.arm_id)
            earlier = seen.setdefault(key, stored)
            if earlier is not stored:
                raise UsageError(
                    f"{earlier.folder} and {stored.folder} hold the same trials: name each experiment once"
                )


def _check_designs(
    first: Study, second: Study, one: StoredExperiment, other: StoredExperiment, *, of_one_grid: bool
) -> None:
    """Raise UsageError naming the first thing in which two designs are not one.

    of_one_grid: they need not have the same strata.
    """
    where = f"{one.folder} and {other.folder} can't be combined: "
    mine, others = first.experiment.contract, second.experiment.contract
    for name in _RULES:
        if getattr(mine, name) != getattr(others, name):
            called = _CALLED.get(name, name.replace("_", " "))
            raise UsageError(f"{where}their {called} differs, so their blocks don't measure one thing")
    caches = [study.experiment.protocol.cache for study in (first, second)]
    if caches[0] != caches[1]:
        raise UsageError(f"{where}the cache state is {caches[0]} in one and {caches[1]} in the other")
    baselines = [study.experiment.baseline for study in (first, second)]
    if baselines[0] != baselines[1]:
        raise UsageError(f"{where}the baseline is {baselines[0]} in one and {baselines[1]} in the other")
    pairs = [contrast_keys(study).keys() for study in (first, second)]
    for left, right, lacking in ((pairs[0], pairs[1], other), (pairs[1], pairs[0], one)):
        missing = [key for key in left if key not in right and not of_one_grid]
        if missing:
            raise UsageError(
                f"{where}{lacking.folder} does not compare {missing[0][1]} with {missing[0][2]}; "
                "measure the same levels with the same control on every machine"
            )
    _check_arms(first, second, where)


def _check_members(parts: Sequence[MachinePart]) -> None:
    """Raise UsageError where the twin counts as a control on one machine and not on another."""
    first: dict[ContrastKey, MachinePart] = {}
    for part in parts:
        for key, blocks in part.blocks.items():
            earlier = first.setdefault(key, part)
            if earlier.blocks[key].members.shape[1] != blocks.members.shape[1]:
                raise UsageError(
                    f"{earlier.stored.folder} and {part.stored.folder} can't be combined: in one of them the "
                    f"twin has data of its own, so that it is not a second control for {key[1]}"
                )


def _check_arms(first: Study, second: Study, where: str) -> None:
    """Raise UsageError where an arm of one runs something other than its counterpart, or on other data."""
    found = {(arm.stratum, _levels(arm), arm.role): arm for arm in second.experiment.arms}
    for arm in first.experiment.arms:
        other = found.get((arm.stratum, _levels(arm), arm.role))
        if other is None:
            continue
        mine, others = arm.spec.workload, other.spec.workload
        if mine.text != others.text:
            raise UsageError(f"{where}one ran {mine.text}, the other {others.text}")
        if (mine.statements, mine.load) != (others.statements, others.load):
            raise UsageError(f"{where}what {mine.text} stands for is not the same in both")
        for name in _DATA:
            values = getattr(arm.spec.dataset, name), getattr(other.spec.dataset, name)
            if values[0] != values[1]:
                called = name.replace("_", " ")
                raise UsageError(
                    f"{where}the {called} of the data is {values[0]} in one, {values[1]} in the other"
                )
        if arm.spec.prepare != other.spec.prepare:
            raise UsageError(f"{where}the data were prepared by other SQL")


def _blocks(
    study: Study, stored: StoredExperiment, description: MachineDescription | None
) -> dict[ContrastKey, Blocks]:
    """Each comparison's rows; those without a row are left out."""
    places_of_trials = {
        (trial.record.number, trial.record.attempt): place for place, trial in enumerate(stored.trials)
    }

    def moment(record: TrialRecord) -> str:
        """When a trial ended; before that at which look it was there, by text that sorts like it."""
        if description is None or not description.looks:
            return record.ended_at
        look = bisect_right(description.looks, places_of_trials[record.number, record.attempt])
        return f"{look:09d} {record.ended_at}"

    contrasts = study.contrast_set(study.logs[:1])
    primary = analyse_primary(study) if study.blocks else PrimaryResult((), (), {})
    imitations = look_for_imitation(study)
    places = {each.arm_id: index for index, each in enumerate(study.experiment.contrasts)}
    found = {}
    for key, contrast in contrast_keys(study).items():
        index = places[contrast.arm_id]
        members, rows = contrasts.all_members(index)[0], study.rows[index]
        if not len(members):
            continue
        slots = np.array(rows.slots, dtype=np.float64) if rows.slots else None
        ended = tuple(
            max(moment(study.table.rows[place][name]) for place in row for name in rows.arm_ids)
            for row in rows.blocks
        )
        count = sum(len(row) for row in rows.blocks)
        evidence = evidence_of(members, slots, study.rules)
        found[key] = Blocks(
            evidence,
            members,
            ended,
            primary.judgements[index],
            count,
            twin_bound(primary.twins, contrast.stratum, 0),
            client_bound(study, (contrast.arm_id, contrast.control_id)) or imitation_note(imitations[index]),
        )
    return found
