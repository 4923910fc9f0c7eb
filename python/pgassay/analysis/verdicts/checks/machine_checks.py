"""What watches the machine: does it matter which copy a block ran on, who ran first, who ran after whom?

Control and twin run on the same copy of the data, in an order that was drawn, so their difference says
nothing of copies or positions. These three e-values do, by the draws alone (`statistics/assignment.py`). They
don't bear on a verdict, which rests on the same draws; they say what to mend, and enter the machine's ledger.
"""

import math
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.assignment import (
    LEVEL_MEMORIES,
    level_deviations,
    log_copy_evidence,
    log_draw_evidence,
)
from pgassay.analysis.statistics.eprocess import FloatArray, log_sum_exp
from pgassay.analysis.verdicts.checks.trial_order import (
    OrderedBlock,
    controls_of,
    follower_draws,
    ordered_blocks,
    residuals,
)
from pgassay.analysis.verdicts.study import Study, owns_data
from pgassay.model.result import DesignWarning
from pgassay.words import amount, figure

COPIES_EVIDENCE = 20.0
# Position and predecessor share an error rate of 5 %.
MACHINE_EVIDENCE = 40.0


@dataclass(frozen=True)
class MachineCheck:
    """One kind of check of an experiment.

    evidence: E after its last block, for the ledger; evidence_max: its running maximum; change: by how much
    (a log ratio) the trials in `where` differ from the others.
    """

    kind: str
    evidence: float
    evidence_max: float
    change: float
    where: str


def check_machine(study: Study) -> tuple[MachineCheck, ...]:
    """The checks that this experiment's blocks can speak on; () without a complete block.

    None where arms took turns in one start: then no trial has a place in its block.
    """
    if study.counts_starts:
        return ()
    blocks = ordered_blocks(study)
    if not blocks:
        return ()
    residual = residuals(study, blocks)
    found = (
        _check_copies(study, blocks),
        _check_positions(blocks, residual),
        _check_predecessors(study, blocks, residual),
    )
    return tuple(check for check in found if check is not None)


def machine_warnings(checks: tuple[MachineCheck, ...]) -> tuple[DesignWarning, ...]:
    """What the checks say against the machine."""
    warnings = []
    for check in checks:
        if check.kind == "copy" and check.evidence_max >= COPIES_EVIDENCE:
            sentence = (
                f"Trials on {check.where} (evidence {_evidence(check.evidence_max)}): the position of the "
                "data on the disk matters here. Ratios stay valid where the arms of a block share one copy."
            )
            warnings.append(DesignWarning(kind="copies", sentence=sentence))
        elif check.kind != "copy" and check.evidence_max >= MACHINE_EVIDENCE:
            sentence = (
                f"Trials {check.where} than the others of their block (evidence "
                f"{_evidence(check.evidence_max)}): this machine does not treat equal trials alike."
            )
            if check.kind == "position":
                sentence += " The order is random, so no arm is favoured, but it adds noise."
            warnings.append(DesignWarning(kind="machine", sentence=sentence))
    return tuple(warnings)


def _check_copies(study: Study, blocks: tuple[OrderedBlock, ...]) -> MachineCheck | None:
    """Whether the level of the control and its twin depends on the copy drawn for the block."""
    count = study.experiment.design.data_copies
    if count < 2:
        return None
    # Where an arm has data of its own, its control has as well: their copies are made and not drawn.
    made = {each.stratum for each in study.experiment.contrasts if owns_data(study.experiment, each)}
    series: dict[str, list[tuple[int, float, int]]] = {}
    for place, block in enumerate(blocks):
        for stratum, own in controls_of(study).items():
            if stratum in made:
                continue
            present = [name for name in own if name in block.values]
            copies = {block.copies[name] for name in present}
            copy = copies.pop() if len(copies) == 1 else None
            if copy is not None and 0 <= copy < count:
                level = float(np.mean([block.values[name] for name in present]))
                series.setdefault(stratum, []).append((place, level, copy))
    if not series:
        return None
    paths, last = [], None
    for memory in LEVEL_MEMORIES:
        deviations, copies_of = _by_block(series, memory)
        paths.append(log_copy_evidence(deviations, copies_of, count))
        last = deviations, copies_of
    assert last is not None
    path = log_sum_exp(np.stack(paths, axis=-1)) - math.log(len(paths))
    change, where = _copy_words(*last)
    return _check("copy", path, change, where)


def _by_block(
    series: dict[str, list[tuple[int, float, int]]], memory: float
) -> tuple[FloatArray, FloatArray]:
    """Deviations of the blocks' levels with their copies; strata in one block, on one copy, are averaged."""
    found: dict[int, list[tuple[float, int]]] = {}
    for entries in series.values():
        levels = np.array([level for _, level, _ in entries])
        copies = np.array([copy for _, _, copy in entries], dtype=np.float64)
        deviations = level_deviations(levels, copies, memory)
        for (place, _, copy), deviation in zip(entries, deviations, strict=True):
            found.setdefault(place, []).append((float(deviation), copy))
    # All strata of a block use the copy that was drawn for it.
    kept = [[each for each in entries if each[1] == entries[0][1]] for _, entries in sorted(found.items())]
    means = np.array([np.mean([deviation for deviation, _ in entries]) for entries in kept])
    return means, np.array([entries[0][1] for entries in kept], dtype=np.float64)


def _copy_words(deviations: FloatArray, copies: FloatArray) -> tuple[float, str]:
    """By how much the copies' blocks differ at most, and between which."""
    # The first block has no expectation, so its copy's mean must not be drawn to 0 by it.
    means = {
        int(copy): float(np.median(deviations[1:][copies[1:] == copy]))
        for copy in np.unique(copies)
        if (copies[1:] == copy).any()
    }
    if len(means) < 2:
        return 0.0, ""
    slow, fast = min(means, key=lambda copy: means[copy]), max(means, key=lambda copy: means[copy])
    change = means[slow] - means[fast]
    return change, f"copy {slow} were {_slower(change)} than those on copy {fast}"


def _check_positions(
    blocks: tuple[OrderedBlock, ...], residual: tuple[dict[str, float], ...]
) -> MachineCheck:
    """Whether the first or the last trial of a block differs from the others: the mean of both evidences."""
    paths, changes = [], []
    for position in (0, -1):
        draws = _position_draws(blocks, residual, position)
        paths.append(log_draw_evidence(draws))
        changes.append(_change(draws))
    path = log_sum_exp(np.stack(paths, axis=-1)) - math.log(2)
    place = int(np.argmax([each.max() for each in paths]))
    return _check("position", path, changes[place], f"that ran {('first', 'last')[place]} were")


def _position_draws(
    blocks: tuple[OrderedBlock, ...], residual: tuple[dict[str, float], ...], position: int
) -> FloatArray:
    draws = np.full((len(blocks), max(len(block.arm_ids) for block in blocks)), np.nan)
    for row, block, known in zip(draws, blocks, residual, strict=True):
        chosen = block.arm_ids[position]
        if chosen in known:
            others = [value for name, value in known.items() if name != chosen]
            row[: len(others) + 1] = [known[chosen], *others]
    return draws


def _check_predecessors(
    study: Study, blocks: tuple[OrderedBlock, ...], residual: tuple[dict[str, float], ...]
) -> MachineCheck | None:
    """Whether trials depend on which arm ran before them: the mean over the arms."""
    if study.experiment.design.between != "nothing":
        return None
    among = frozenset(study.table.arm_ids)
    draws = np.stack([follower_draws(blocks, residual, name, among) for name in study.table.arm_ids])
    by_arm = log_draw_evidence(draws)
    path = log_sum_exp(np.moveaxis(by_arm, 0, -1)) - math.log(len(by_arm))
    # To be slower after one arm is to be faster after another; the one with the greatest change is named.
    highest = by_arm.max(axis=-1)
    suspected = highest >= min(float(highest.max()), math.log(MACHINE_EVIDENCE))
    changes = np.array([_change(each) for each in draws])
    place = int(np.argmax(np.where(suspected, np.abs(changes), -1.0)))
    arm = study.arms[study.table.arm_ids[place]]
    name = f"the twin of {arm.name}" if arm.role == "twin" else arm.name
    return _check("predecessor", path, float(changes[place]), f"that ran after {name} were")


def _change(draws: FloatArray) -> float:
    """The median over the draws of the trial drawn less the mean of those that might have been."""
    speaks = ~np.isnan(draws[:, 0]) & ~np.isnan(draws[:, 1])
    if not speaks.any():
        return 0.0
    found = draws[speaks]
    return float(np.median(found[:, 0] - np.nanmean(found[:, 1:], axis=-1)))


def _check(kind: str, path: FloatArray, change: float, where: str) -> MachineCheck:
    words = where if kind == "copy" else f"{where} {_slower(change)}"
    last, highest = (math.exp(min(float(each), 690.0)) for each in (path[-1], path.max()))
    return MachineCheck(kind, last, highest, change, words)


def _slower(change: float) -> str:
    return amount(math.exp(change))


def _evidence(value: float) -> str:
    return figure(value)
