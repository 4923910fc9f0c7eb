"""One comparison on several machines: one effect, each machine's own, that of machines like these."""

import math
from collections.abc import Sequence

import numpy as np

from pgassay.analysis.machines.gather import Blocks, ContrastKey, MachineTrials, contrast_keys
from pgassay.analysis.machines.machine_sentences import disagreement_note, limit_words, own_word
from pgassay.analysis.machines.pooled_evidence import log_disagreement, pool
from pgassay.analysis.machines.population import machine_figure, machines_needed, population_evidence
from pgassay.analysis.statistics.eprocess import AnyEvidence, FloatArray
from pgassay.analysis.statistics.equivalence import interval_level
from pgassay.analysis.statistics.sequence import confidence_sequences, median_sequence, point_estimate
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import Finding, Judgement, interval_of, judge, ratio_of, stated
from pgassay.model.machines.combined import CombinedArm, CommonEffect, MachineResult
from pgassay.words import join, percent, plural

_TOO_FEW_BLOCKS = "too few blocks for a verdict"


def find(evidence: AnyEvidence, pairs: FloatArray, level: float, equivalence: float) -> Finding:
    """The estimate with its sequence at `level`, the one that must lie inside the margin, and the guard.

    pairs: the log ratios arm : control on which the median's guard rests.
    """
    usual, inside = confidence_sequences(evidence, [level, equivalence], running=True)
    (half,) = confidence_sequences(evidence, [level / 2], running=False)
    median, median_at_half = median_sequence(pairs, level), median_sequence(pairs, level / 2)
    return Finding(
        float(point_estimate(evidence)),
        *_ends(usual.lower, usual.upper),
        *_ends(median.lower, median.upper),
        half_level=_ends(half.lower, half.upper),
        median_half_level=_ends(median_at_half.lower, median_at_half.upper),
        equivalence=_ends(inside.lower, inside.upper),
    )


def _ends(lower: FloatArray, upper: FloatArray) -> tuple[float, float]:
    return float(lower), float(upper)


def combined_arm(
    key: ContrastKey,
    study: Study,
    machines: Sequence[MachineTrials],
    confounds: dict[str, tuple[str, ...]],
    *,
    is_final: bool,
) -> tuple[CombinedArm, list[MachineResult]]:
    """One comparison: both answers, and what each machine says alone.

    study: of an experiment that has it. is_final: where machines disagree, say what limits each.
    """
    contract = study.experiment.contract
    level = contract.alpha / study.contrast_count
    contrast = contrast_keys(study)[key]
    arm, control = study.arms[contrast.arm_id], study.arms[contrast.control_id]
    index = study.experiment.contrasts.index(contrast)
    found = {
        machine.name: [part.blocks[key] for part in machine.parts if key in part.blocks]
        for machine in machines
    }
    own = [
        _machine_result(machine, found[machine.name], study, index, level / len(machines)).model_copy(
            update={
                "arm": arm.name,
                "stratum": arm.stratum,
                "confounds": confounds[machine.name],
                "experiments": tuple(str(part.stored.folder) for part in machine.parts),
            }
        )
        for machine in machines
    ]
    present = [blocks for blocks in found.values() if blocks]
    evidences = [evidence_of_machine(blocks) for blocks in present]
    against = float(log_disagreement(evidences)) if len(evidences) > 1 else 0.0
    disagree = against >= math.log(1 / level)
    if disagree and is_final:
        limits = {machine.name: limit_words(machine, arm) for machine in machines}
        own = [each.model_copy(update={"limit": limits[each.name]}) for each in own]
    these = _these_machines(present, study, index, level, own, disagree=disagree)
    return (
        CombinedArm(
            name=arm.name,
            levels=arm.levels,
            stratum=arm.stratum,
            control=control.name,
            these_machines=these,
            machines_like_these=_machines_like_these(machines, found, study, level),
            disagreement=math.exp(min(against, 700.0)),
        ),
        own,
    )


def evidence_of_machine(blocks: Sequence[Blocks]) -> AnyEvidence:
    """What all blocks of one comparison on one machine say, of one experiment or several."""
    if len(blocks) == 1:
        return blocks[0].evidence
    return pool([each.evidence for each in blocks], [each.ended for each in blocks])


def _pairs(blocks: Sequence[Blocks]) -> FloatArray:
    return np.concatenate([each.pairs for each in blocks])


def _twin_bound(blocks: Sequence[Blocks]) -> float | None:
    """How far a verdict must lie from no effect: as the twin says that differs most, where one does."""
    return max((each.twin_bound for each in blocks if each.twin_bound is not None), default=None)


def _machine_result(
    machine: MachineTrials, blocks: Sequence[Blocks], study: Study, index: int, level: float
) -> MachineResult:
    """What one machine says; `level` is that of its interval."""
    count = sum(each.count for each in blocks)
    if not blocks:
        return MachineResult(
            name=machine.name, arm="", blocks=0, ratio=None, interval=None, verdict="inconclusive"
        )
    contract = study.experiment.contract
    equivalence = interval_level(level, contract.equivalence)
    finding = find(evidence_of_machine(blocks), _pairs(blocks), level, equivalence)
    judgement = judge(finding, contract.margin, twin_bound=_twin_bound(blocks))
    if sum(len(each.members) for each in blocks) < study.rows_min(index):
        judgement = Judgement("inconclusive", note=_TOO_FEW_BLOCKS)
    notes = (each.doubt or (each.judgement.note if each.judgement.withheld else "") for each in blocks)
    if doubted := next(filter(None, notes), ""):
        judgement = Judgement("inconclusive", withheld=True, note=doubted)
    return MachineResult(
        name=machine.name,
        arm="",
        blocks=count,
        ratio=ratio_of(finding.estimate),
        interval=interval_of(finding.lower, finding.upper),
        verdict=judgement.verdict,
        withheld=judgement.withheld,
        note=judgement.note,
    )


def _these_machines(
    present: Sequence[Sequence[Blocks]],
    study: Study,
    index: int,
    level: float,
    own: Sequence[MachineResult],
    *,
    disagree: bool,
) -> CommonEffect:
    """One effect for all machines; none where they disagree, or where one of them is in doubt."""
    blocks = [each for of_machine in present for each in of_machine]
    count, rows = sum(each.count for each in blocks), sum(len(each.members) for each in blocks)
    if not blocks:
        return CommonEffect(machines=0, blocks=0, ratio=None, interval=None, verdict="inconclusive")
    contract = study.experiment.contract
    pooled = pool([each.evidence for each in blocks], [each.ended for each in blocks])
    equivalence = interval_level(level, contract.equivalence)
    finding = find(pooled, _pairs(blocks), level, equivalence)
    judgement = judge(finding, contract.margin, twin_bound=_twin_bound(blocks))
    doubtful = [machine for machine in own if machine.withheld]
    if rows < study.rows_min(index):
        judgement = Judgement("inconclusive", note=_TOO_FEW_BLOCKS)
    if doubtful:
        note = f"withheld on {join([machine.name for machine in doubtful])}: {own_word(doubtful[0])}"
        judgement = Judgement("inconclusive", withheld=True, note=note)
    shown = not disagree
    if disagree:
        judgement = Judgement("inconclusive", withheld=True, note=disagreement_note(own))
    return CommonEffect(
        machines=len(present),
        blocks=count,
        ratio=ratio_of(finding.estimate) if shown else None,
        interval=interval_of(finding.lower, finding.upper) if shown else None,
        verdict=judgement.verdict,
        meaningful=judgement.meaningful,
        withheld=judgement.withheld,
        note=judgement.note,
    )


def _machines_like_these(
    machines: Sequence[MachineTrials], found: dict[str, list[Blocks]], study: Study, level: float
) -> CommonEffect:
    """The centre of the effects of machines of this kind, from those that have ended."""
    contract, needed = study.experiment.contract, machines_needed(level)
    over = f" over {study.contrast_count} comparisons" if study.contrast_count > 1 else ""
    counted = [
        machine
        for machine in sorted(machines, key=lambda machine: machine.ended)
        if machine.has_ended
        and sum(len(each.members) for each in found[machine.name]) >= 2
        and not any(each.is_doubted for each in found[machine.name])
    ]
    verb = "is" if len(counted) == 1 else "are"
    count = sum(each.count for machine in counted for each in found[machine.name])
    nothing = CommonEffect(
        machines=len(counted),
        blocks=count,
        ratio=None,
        interval=None,
        verdict="inconclusive",
        needed=needed,
        note=f"{plural(len(counted), 'machine')} {verb} too few at {percent(contract.alpha)}{over}"
        f": it takes {needed} at least",
    )
    if len(counted) < needed:
        return nothing
    figures = np.array([float(machine_figure(_pairs(found[machine.name]))) for machine in counted])
    equivalence = interval_level(level, contract.equivalence)
    finding = find(population_evidence(figures), figures, level, equivalence)
    return nothing.model_copy(update=stated(finding, judge(finding, contract.margin)))
