"""A grid whose strata ran on different machines: which ran where, what ties them, what is not compared. Pure.

All arms of a stratum ran on one machine, so a stratum's own verdicts are that machine's, as if it had run
alone. What is said across strata of different machines is `machines.tied`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgassay.analysis.machines.anchored_effects import MACHINES_DIFFER, TiedArm, compared, overall, pairs_of
from pgassay.analysis.machines.gather import ContrastKey, MachineTrials, contrast_keys
from pgassay.analysis.machines.machine_effects import evidence_of_machine
from pgassay.analysis.verdicts.study import Study
from pgassay.model.arm import Arm
from pgassay.model.machines.combined import CombinedArm, CombinedResult, CommonEffect
from pgassay.model.machines.spread import SpreadGrid
from pgassay.model.machines.spread_grid import CellsResult, CellsStratum
from pgassay.words import join


@dataclass(frozen=True)
class Comparison:
    """One comparison of a stratum, with an experiment that has it and the machines that ran it."""

    key: ContrastKey
    study: Study
    machines: tuple[MachineTrials, ...]


def comparisons_of(machines: Sequence[MachineTrials], grid: SpreadGrid | None) -> list[Comparison]:
    """Every comparison that any machine has, in the grid's order of strata."""
    found: dict[ContrastKey, Study] = {}
    for machine in machines:
        for part in machine.parts:
            for key in contrast_keys(part.study):
                found.setdefault(key, part.study)
    if grid is not None:
        order = [stratum.name for stratum in grid.strata]
        found = dict(sorted(found.items(), key=lambda item: order.index(item[0][0])))
    return [
        Comparison(key, study, tuple(machine for machine in machines if _has(machine, key)))
        for key, study in found.items()
    ]


def _has(machine: MachineTrials, key: ContrastKey) -> bool:
    return any(key in contrast_keys(part.study) for part in machine.parts)


def without_population(arm: CombinedArm) -> CombinedArm:
    """The arm with nothing said of machines like these: most strata were on one machine."""
    nothing = CommonEffect(
        machines=0,
        blocks=0,
        ratio=None,
        interval=None,
        verdict="inconclusive",
        note="strata that were spread over machines say nothing of others like them",
    )
    return arm.model_copy(update={"machines_like_these": nothing})


def cells_of(
    grid: SpreadGrid, comparisons: Sequence[Comparison], result: CombinedResult, *, is_final: bool
) -> CellsResult:
    """What is said beside the strata's own verdicts; `result` has those.

    is_final: also what is said across strata, which nothing that is decided on the way depends on.
    """
    strata = tuple(_strata(grid, comparisons, result))
    arms = _tied_arms(comparisons, result, grid)
    between = tuple(
        compared(arm, pair, grid, level, result.margin)
        for pair, level in (pairs_of(grid, result.alpha) if is_final else ())
        for arm in arms
        if all(name in arm.evidence for name in pair)
    )
    means = tuple(overall(arm, grid, result.alpha, result.margin) for arm in arms if is_final)
    return CellsResult(
        anchors=grid.anchors,
        strata=strata,
        overall=means,
        between=between,
        not_compared=tuple(_not_compared(grid, strata, arms)),
    )


def _strata(
    grid: SpreadGrid, comparisons: Sequence[Comparison], result: CombinedResult
) -> Iterator[CellsStratum]:
    for stratum in grid.strata:
        machines = dict.fromkeys(
            machine.name for each in comparisons if each.key[0] == stratum.name for machine in each.machines
        )
        expected = [stratum.block_s[name] for name in machines if name in stratum.block_s]
        yield CellsStratum(
            stratum=stratum.name,
            is_anchor=stratum.name in grid.anchors,
            machines=tuple(machines),
            blocks=min(
                (arm.these_machines.blocks for arm in result.arms if arm.stratum == stratum.name), default=0
            ),
            block_s=expected[0] if expected else None,
        )


def _tied_arms(comparisons: Sequence[Comparison], result: CombinedResult, grid: SpreadGrid) -> list[TiedArm]:
    """What is compared, over all strata; `result.arms` has the comparisons in their order."""
    pairs = [_levels_of(each) for each in comparisons]
    within = {
        name
        for arm, control in pairs
        for name in {**arm.levels, **control.levels}
        if arm.levels.get(name) != control.levels.get(name)
    }
    rows = {(row.name, row.arm, row.stratum): row for row in result.machines}
    threshold = max(comparisons[0].study.contrast_count, 1) / result.alpha if comparisons else math.inf
    found: dict[tuple[str, str], TiedArm] = {}
    for each, (arm, control), combined in zip(comparisons, pairs, result.arms, strict=True):
        names = _own_levels(arm, within), _own_levels(control, within)
        mine = found.setdefault(names, TiedArm(*names, {}, {}, []))
        stratum = each.key[0]
        of_machines = mine.evidence.setdefault(stratum, {})
        for machine in each.machines:
            blocks = [part.blocks[each.key] for part in machine.parts if each.key in part.blocks]
            if blocks:
                of_machines[machine.name] = evidence_of_machine(blocks)
            row = rows.get((machine.name, arm.name, stratum))
            if row is not None and row.withheld:
                mine.withheld[stratum, machine.name] = row.note
        if stratum in grid.anchors and combined.disagreement >= threshold:
            mine.disagreeing.append(stratum)
    return list(found.values())


def _levels_of(comparison: Comparison) -> tuple[Arm, Arm]:
    contrast = contrast_keys(comparison.study)[comparison.key]
    arms = comparison.study.arms
    return arms[contrast.arm_id], arms[contrast.control_id]


def _own_levels(arm: Arm, within: set[str]) -> str:
    return " ".join(f"{name}={level}" for name, level in arm.levels.items() if name in within)


def _not_compared(grid: SpreadGrid, strata: Sequence[CellsStratum], arms: Sequence[TiedArm]) -> Iterator[str]:
    yield (
        "Speeds of strata that different machines ran are not compared, only their effects: machines differ "
        "in speed."
    )
    missing = [each.stratum for each in strata if not each.blocks]
    if missing:
        yield f"No block of {join(missing)} is complete: no result there."
    moved = dict.fromkeys(name for arm in arms for name in arm.moved(grid))
    if moved:
        yield (
            f"Several machines ran {join(list(moved))}, since one was lost: its effects are not "
            "compared with other strata, and there is no mean over all strata."
        )
    for arm in arms:
        if arm.disagreeing:
            yield (
                f"Effects of {arm.name} in strata of different machines are not compared, and no mean is "
                f"given: {MACHINES_DIFFER} {join(arm.disagreeing)}."
            )
