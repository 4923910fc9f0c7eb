"""Experiments of one design on several machines → one result with two answers, which are never mixed.

*These machines*: one effect that all of them have, from the blocks of all (`machines.pooled`). Where the
machines disagree none is given, and each machine's own stands in its place. *Machines like these*: the centre
of the effects of machines of this kind; the machine is the unit (`machines.population`). Each answer is valid
at the level of the contract, shared among its comparisons, and at any look.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pgassay.analysis.diff.differences import recorded_facts
from pgassay.analysis.machines.gather import (
    NOTHING_TOLD,
    Blocks,
    ContrastKey,
    Machine,
    Told,
    contrast_keys,
    gather_machines,
)
from pgassay.analysis.machines.pooled import PooledEvidence, log_disagreement, pool
from pgassay.analysis.machines.population import machine_figure, machines_needed, population_evidence
from pgassay.analysis.machines.sentences import arm_lines, disagreement_note, limit_words, own_word
from pgassay.analysis.statistics.eprocess import BlockEvidence, FloatArray
from pgassay.analysis.statistics.equivalence import interval_level
from pgassay.analysis.statistics.sequence import confidence_sequences, median_sequence, point_estimate
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import Finding, Judgement, interval_of, judge, ratio_of
from pgassay.model.machines.combined import CombinedArm, CombinedResult, CommonEffect, MachineResult
from pgassay.record.read import StoredExperiment
from pgassay.words import join, percent, plural

_TOO_FEW_BLOCKS = "too few blocks for a verdict"
Facts = dict[tuple[str, str], str]


def combine(
    experiments: Sequence[StoredExperiment],
    told: Mapping[Path, Told] = NOTHING_TOLD,
    *,
    least: int = 2,
    is_final: bool = True,
) -> CombinedResult:
    """The result of experiments of one design on several machines; needs no more than they hold.

    told: what is known of machines beside that, by the folder of an experiment. is_final: where machines
    disagree, say what limits each, which takes the whole analysis of its experiments. Raises UsageError as
    `gather_machines`, and as `analyse` for an experiment that contradicts itself.
    """
    machines = gather_machines(experiments, told, least=least)
    study = machines[0].parts[0].study
    contract = study.experiment.contract
    facts = {machine.name: _facts_of(machine) for machine in machines}
    confounds = _confounds(facts)
    arms, rows = [], []
    for key in contrast_keys(study):
        arm, of_machines = _combined_arm(key, study, machines, confounds, is_final=is_final)
        arms.append(arm)
        rows += of_machines
    result = CombinedResult(
        folders=tuple(str(stored.folder) for stored in experiments),
        workload=study.experiment.arms[0].spec.workload.text,
        metric=contract.metric,
        margin=contract.margin,
        alpha=contract.alpha,
        arms=tuple(arms),
        machines=tuple(rows),
        confounds=tuple(_sentences(facts)),
        warnings=tuple(_warnings(machines)),
        family=_family(len(machines), len(arms), contract.alpha),
    )
    lines = [line for arm in result.arms for line in arm_lines(arm, result)]
    return result.model_copy(update={"verdict": "\n".join(lines)})


def find(evidence: BlockEvidence, pairs: FloatArray, level: float, equivalence: float) -> Finding:
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


def _combined_arm(
    key: ContrastKey,
    study: Study,
    machines: Sequence[Machine],
    confounds: dict[str, tuple[str, ...]],
    *,
    is_final: bool,
) -> tuple[CombinedArm, list[MachineResult]]:
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
    evidences = [_of_machine(blocks) for blocks in present]
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


def _of_machine(blocks: Sequence[Blocks]) -> BlockEvidence:
    if len(blocks) == 1:
        return blocks[0].evidence
    return pool([each.evidence for each in blocks], [each.ended for each in blocks])


def _pairs(blocks: Sequence[Blocks]) -> FloatArray:
    return np.concatenate([each.pairs for each in blocks])


def _machine_result(
    machine: Machine, blocks: Sequence[Blocks], study: Study, index: int, level: float
) -> MachineResult:
    """What one machine says; `level` is that of its interval."""
    count = sum(each.count for each in blocks)
    if not blocks:
        return MachineResult(
            name=machine.name, arm="", blocks=0, ratio=None, interval=None, verdict="inconclusive"
        )
    contract = study.experiment.contract
    equivalence = interval_level(level, contract.equivalence)
    finding = find(_of_machine(blocks), _pairs(blocks), level, equivalence)
    judgement = judge(finding, contract.margin)
    if sum(len(each.members) for each in blocks) < study.rows_min(index):
        judgement = Judgement("inconclusive", note=_TOO_FEW_BLOCKS)
    doubted = next((each.judgement for each in blocks if each.judgement.withheld), None)
    if doubted is not None:
        judgement = Judgement("inconclusive", withheld=True, note=doubted.note)
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
    pooled: PooledEvidence = pool([each.evidence for each in blocks], [each.ended for each in blocks])
    equivalence = interval_level(level, contract.equivalence)
    finding = find(pooled, _pairs(blocks), level, equivalence)
    judgement = judge(finding, contract.margin)
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
    machines: Sequence[Machine], found: dict[str, list[Blocks]], study: Study, level: float
) -> CommonEffect:
    """The centre of the effects of machines of this kind, from those that have ended."""
    contract, needed = study.experiment.contract, machines_needed(level)
    over = f" over {study.contrast_count} comparisons" if study.contrast_count > 1 else ""
    counted = [
        machine
        for machine in sorted(machines, key=lambda machine: machine.ended)
        if machine.has_ended
        and sum(len(each.members) for each in found[machine.name]) >= 2
        and not any(each.judgement.withheld for each in found[machine.name])
    ]
    count = sum(each.count for machine in counted for each in found[machine.name])
    nothing = CommonEffect(
        machines=len(counted),
        blocks=count,
        ratio=None,
        interval=None,
        verdict="inconclusive",
        needed=needed,
        note=f"from {plural(len(counted), 'machine')} nothing can be said at {percent(contract.alpha)}{over}"
        f": it takes {needed} at least",
    )
    if len(counted) < needed:
        return nothing
    figures = np.array([float(machine_figure(_pairs(found[machine.name]))) for machine in counted])
    equivalence = interval_level(level, contract.equivalence)
    finding = find(population_evidence(figures), figures, level, equivalence)
    judgement = judge(finding, contract.margin)
    return nothing.model_copy(
        update={
            "ratio": ratio_of(finding.estimate),
            "interval": interval_of(finding.lower, finding.upper),
            "verdict": judgement.verdict,
            "meaningful": judgement.meaningful,
            "note": judgement.note,
        }
    )


def _facts_of(machine: Machine) -> Facts:
    """What is recorded of a machine; what its experiments disagree in is told with all its values."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for part in machine.parts:
        told = part.told.facts if part.told is not None else {}
        for name, value in (recorded_facts(part.stored) | dict(told)).items():
            values.setdefault(name, {})[value] = None
    return {name: " then ".join(found) for name, found in values.items()}


def _told_names(facts: dict[str, Facts]) -> list[tuple[str, str]]:
    """What machines differ in."""
    names = dict.fromkeys(name for of_machine in facts.values() for name in of_machine)
    return [name for name in names if len({each.get(name, "") for each in facts.values()}) > 1]


def _confounds(facts: dict[str, Facts]) -> dict[str, tuple[str, ...]]:
    """For each machine in what it is not as most of the others are."""
    usual = {}
    for name in _told_names(facts):
        (value, count), *others = Counter(each.get(name, "") for each in facts.values()).most_common(2)
        # Where no value is the usual one, each machine differs from all others.
        usual[name] = value if not others or others[0][1] < count else None
    return {
        machine: tuple(
            f"{_called(name)}: {_value(own.get(name, ''))}"
            + (f" (most: {_value(value)})" if value is not None else "")
            for name, value in usual.items()
            if own.get(name, "") != value
        )
        for machine, own in facts.items()
    }


def _sentences(facts: dict[str, Facts]) -> list[str]:
    """What machines differ in, a sentence each: which value on which machines."""
    lines = []
    for name in _told_names(facts):
        values: dict[str, list[str]] = {}
        for machine, own in facts.items():
            values.setdefault(own.get(name, ""), []).append(machine)
        told = "; ".join(f"{_value(value)} on {join(names)}" for value, names in values.items())
        lines.append(f"{_called(name)}: {told}")
    return list(dict.fromkeys(lines))


def _called(name: tuple[str, str]) -> str:
    subject, what = name
    if subject == "settings":
        return what
    words = what.removesuffix("_bytes").replace("_", " ")
    return words if subject == "environment" else f"{subject}, {words}"


def _value(value: str) -> str:
    shown = value or "not recorded"
    return shown if len(shown) <= 80 else f"{shown[:79]}…"


def _warnings(machines: Sequence[Machine]) -> list[str]:
    lines = []
    for machine in machines:
        if not machine.has_ended:
            lines.append(
                f"The experiment on {machine.name} goes on: its blocks count for these machines, and it is "
                "no machine yet for what is said of machines like these."
            )
        if len(machine.parts) > 1:
            lines.append(
                f"{plural(len(machine.parts), 'experiment')} of {machine.name} count as one machine."
            )
    return lines


def _family(machines: int, arms: int, alpha: float) -> str:
    shared = f" over {plural(arms, 'comparison')} together" if arms > 1 else ""
    own = f" The intervals of single machines are a third, of all {machines} machines together."
    return (
        f"Two families with an error rate of {percent(alpha)} each{shared}: one effect of these machines, "
        f"and machines like these.{own if machines > 1 else ''}"
    )
