"""Which machine runs which strata of a grid: planned there, balanced, given to others when one is lost."""

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pgassay.errors import MeasurementError, UsageError
from pgassay.fleet.machine_runs import RunRequest
from pgassay.fleet.spreading import spread_plan as plans
from pgassay.fleet.spreading.member import Member
from pgassay.model.machines.combined import CombinedResult
from pgassay.model.machines.spread import SpreadExperiment, SpreadGrid, SpreadStratum
from pgassay.model.result import Planned
from pgassay.terminal.fleet import FleetView
from pgassay.words import duration_rounded, join, plural

_THREADS_MAX = 32
_ONE_STRATUM = (
    "--spread cells spreads the strata of a grid, and there is one stratum: add a factor, as clients=1,8, or "
    "leave --spread out"
)
MACHINES_MIN = 2
STRATA_MIN = 2
# From so many strata on a second anchor costs little, and shows whether machines change all strata alike.
_STRATA_FOR_TWO_ANCHORS = 8
# What a block of unknown length is taken for: only how strata compare matters then.
_TRIAL_UNKNOWN_S = 1.0


def spread_cells(plan: SpreadExperiment, members: Mapping[str, Member], view: FleetView) -> SpreadExperiment:
    """The plan with the strata of each machine; members: all that take part.

    Raises UsageError for fewer than two machines, a grid of fewer than two strata, and with their sentence
    where no machine can run it.
    """
    if len(members) < MACHINES_MIN:
        raise UsageError(
            f"--spread cells needs two machines, and {join(list(members))} is one: leave --spread out"
        )
    view.message(f"asking {plural(len(members), 'machine')} what each stratum takes there")
    try:
        planned = _planned(plan, members, view)
        grid = grid_of(planned)
        if len(planned) < MACHINES_MIN:
            raise UsageError(
                f"--spread cells needs two machines that can run it, and {join(list(planned))} alone can: "
                "leave --spread out"
            )
    except BaseException:
        for member in members.values():
            member.forget()
        raise
    return plans.with_cells(plan, grid, allotted(grid, list(planned)))


def check_words(words: Sequence[str], factors: Sequence[str]) -> None:
    """Raise UsageError, before anybody is asked, for what can't be spread by cells."""
    if any(word == "--stratum" or word.startswith("--stratum=") for word in words):
        raise UsageError("--stratum: with --spread cells the strata are given to machines: leave it out")
    if len(factors) < STRATA_MIN:
        raise UsageError(_ONE_STRATUM)


def _planned(plan: SpreadExperiment, members: Mapping[str, Member], view: FleetView) -> dict[str, Planned]:
    """What each machine plans, without those that can't run it or would run something other than most."""
    request = RunRequest(
        words=plan.words,
        seed=plan.seed,
        blocks=plan.blocks_max,
        max_time_s=plan.time_max_s,
        files={name: file.sha256 for name, file in plan.files.items()},
    )

    def asked(member: Member) -> Planned | str:
        try:
            return member.plan(request, plan.files)
        except (MeasurementError, UsageError) as error:
            return str(error)

    found: dict[str, Planned] = {}
    refusals = []
    with ThreadPoolExecutor(min(_THREADS_MAX, len(members))) as pool:
        for name, answer in zip(members, pool.map(asked, members.values()), strict=True):
            if isinstance(answer, str):
                refusals.append((name, answer))
            else:
                found[name] = answer
    if not found:
        raise UsageError(refusals[0][1])
    (usual, _), *others = Counter(map(_design, found.values())).most_common()
    for name in [name for name, each in found.items() if others and _design(each) != usual]:
        del found[name]
        refusals.append((name, "it would run other arms than most"))
    for name, why in refusals:
        view.message(f"{name} takes no part: {why}")
        members[name].forget()
    return found


def _design(planned: Planned) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    return tuple((cell.stratum, cell.control, cell.arms) for cell in planned.cells)


def grid_of(planned: Mapping[str, Planned]) -> SpreadGrid:
    """The strata with what machines expect a block of each to take, and the anchors: what takes least.

    Raises UsageError for a grid of fewer than two strata.
    """
    cells = next(iter(planned.values())).cells
    if len(cells) < STRATA_MIN:
        raise UsageError(_ONE_STRATUM)
    strata = tuple(
        SpreadStratum(
            name=cell.stratum,
            arms=len(cell.arms),
            block_s={
                name: expected
                for name, each in planned.items()
                if (expected := each.cells[place].block_s) is not None
            },
        )
        for place, cell in enumerate(cells)
    )
    count = 2 if len(strata) >= _STRATA_FOR_TWO_ANCHORS else 1
    anchors = sorted(strata, key=lambda stratum: _block_s(stratum, list(planned)))[:count]
    return SpreadGrid(strata=strata, anchors=tuple(each.name for each in strata if each in anchors))


def _block_s(stratum: SpreadStratum, machines: Sequence[str]) -> float:
    """The mean over these machines of what a block is expected to take."""
    known = [stratum.block_s[name] for name in machines if name in stratum.block_s]
    known = known or list(stratum.block_s.values())
    return sum(known) / len(known) if known else (stratum.arms + 2) * _TRIAL_UNKNOWN_S


def allotted(grid: SpreadGrid, machines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The strata of each machine: all anchors, and its own, so that all are expected to end together.

    What takes longest is given first, to the machine that would end it first (Graham, "Bounds on
    multiprocessing timing anomalies", 1969: at most 4/3 of the least possible on equal machines). Equals keep
    their order, so the same plan gives the same answer. A machine for which no stratum is left takes no part,
    unless it were one of two.
    """
    anchors = [each for each in grid.strata if each.name in grid.anchors]
    own = [each for each in grid.strata if each.name not in grid.anchors]
    busy_s = {name: sum(_block_s(each, [name]) for each in anchors) for name in machines}
    given = _given(own, busy_s)
    taking_part = [name for place, name in enumerate(machines) if given[name] or place < MACHINES_MIN]
    order = [each.name for each in grid.strata]
    return {
        name: tuple(stratum for stratum in order if stratum in {*grid.anchors, *given[name]})
        for name in taking_part
    }


def _given(
    strata: Sequence[SpreadStratum],
    busy_s: dict[str, float],
    refused: Mapping[str, Collection[str]] | None = None,
) -> dict[str, list[str]]:
    """Longest first to who ends it first. refused: by stratum the machines that don't get it."""
    given: dict[str, list[str]] = {name: [] for name in busy_s}
    for stratum in sorted(strata, key=lambda each: -_block_s(each, list(busy_s))):
        ends = {
            name: busy + _block_s(stratum, [name])
            for name, busy in busy_s.items()
            if name not in (refused or {}).get(stratum.name, ())
        }
        if ends:
            first = min(ends, key=lambda name: ends[name])
            given[first].append(stratum.name)
            busy_s[first] = ends[first]
    return given


def decided_strata(result: CombinedResult | None) -> set[str]:
    """The strata all of whose arms have their verdict."""
    if result is None:
        return set()
    still_open = {arm.stratum for arm in result.arms if arm.these_machines.verdict == "inconclusive"}
    return {arm.stratum for arm in result.arms} - still_open


def left_to_do(plan: SpreadExperiment, name: str, result: CombinedResult | None) -> tuple[str, ...]:
    """Of the strata that a machine was given those that are undecided and have blocks left there."""
    machine = next(machine for machine in plan.machines if machine.name == name)
    blocks: dict[str, int] = {}
    for row in result.machines if result is not None else ():
        if row.name == name:
            blocks[row.stratum] = min(row.blocks, blocks.get(row.stratum, row.blocks))
    decided = decided_strata(result)
    given = dict.fromkeys(stratum for run in machine.runs for stratum in run.strata)
    return tuple(
        stratum for stratum in given if stratum not in decided and blocks.get(stratum, 0) < plan.blocks_max
    )


def orphans(
    plan: SpreadExperiment, away: Collection[str], result: CombinedResult | None
) -> list[SpreadStratum]:
    """The undecided strata that no machine runs any more; `away`: the machines that don't go on."""
    if plan.grid is None:
        return []
    decided = decided_strata(result)
    return [
        stratum
        for stratum in plan.grid.strata
        if stratum.name not in decided and all(name in away for name in owners(plan, stratum.name))
    ]


def owners(plan: SpreadExperiment, stratum: str) -> list[str]:
    """The machines that were ever given a stratum."""
    return [machine.name for machine in plan.machines if any(stratum in run.strata for run in machine.runs)]


def taken_over(
    plan: SpreadExperiment, left: Sequence[SpreadStratum], idle: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """What machines that have ended begin in place of others; none begins a stratum twice."""
    given = _given(
        left,
        dict.fromkeys((machine.name for machine in plan.machines if machine.name in idle), 0.0),
        {stratum.name: owners(plan, stratum.name) for stratum in left},
    )
    return {name: tuple(strata) for name, strata in given.items() if strata}


def lines_of_plan(plan: SpreadExperiment) -> list[str]:
    """Which machine runs what, and how long a round of it is expected to take there."""
    grid = plan.grid
    if grid is None:
        return []
    strata = {stratum.name: stratum for stratum in grid.strata}
    lines = [f"{join(grid.anchors)} is the anchor: every machine runs it"]
    if len(grid.anchors) > 1:
        lines = [f"{join(grid.anchors)} are the anchors: every machine runs both"]
    for machine in plan.machines:
        names = [name for name in machine.runs[-1].strata if name not in grid.anchors]
        own = [strata[name] for name in machine.runs[-1].strata]
        known = all(machine.name in each.block_s for each in own)
        round_s = sum(each.block_s.get(machine.name, 0.0) for each in own)
        takes = f", {duration_rounded(round_s)} for a block of each" if known else ""
        lines.append(f"{machine.name} runs {join(names) or 'nothing else'}{takes}")
    return lines


def lines_of_orphans(left: Sequence[SpreadStratum], folder: Path) -> list[str]:
    """What is missing at the end, and how it can still be measured."""
    return [
        f"{stratum.name} is undecided, and its machine is not reachable: "
        f"'pgassay resume {shlex.quote(str(folder))}' continues it, on another machine if time is left."
        for stratum in left
    ]
