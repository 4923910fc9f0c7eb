"""The analysis of a stored experiment, from its trials to a verdict that a person acts on."""

import math
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.accounts.arms import arm_accounts
from pgassay.analysis.causes.difference import explanations
from pgassay.analysis.causes.rank import arm_causes
from pgassay.analysis.changes.arms import arm_changes
from pgassay.analysis.descriptive.builders import builder_difference
from pgassay.analysis.descriptive.confounds import find_confounds
from pgassay.analysis.descriptive.device_use import device_use
from pgassay.analysis.descriptive.maintenance import work_results
from pgassay.analysis.descriptive.network import network_sentences
from pgassay.analysis.descriptive.plans import plan_findings
from pgassay.analysis.descriptive.server_statements import arm_statements
from pgassay.analysis.verdicts.carry_over import carry_over_warnings
from pgassay.analysis.verdicts.crossed import crossed_results, crossed_sentences, halves
from pgassay.analysis.verdicts.failures import failure_warnings
from pgassay.analysis.verdicts.machine_checks import check_machine, machine_warnings
from pgassay.analysis.verdicts.metrics import Measure
from pgassay.analysis.verdicts.primary import PrimaryResult, analyse_primary
from pgassay.analysis.verdicts.secondary import SecondaryFamily, analyse_secondary
from pgassay.analysis.verdicts.sentences import cpu_sentence, headline, outlook
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.analysis.verdicts.twin import TwinCheck
from pgassay.analysis.verdicts.verdict import (
    DISTRIBUTION_CHANGED,
    MOVED,
    Finding,
    Judgement,
    interval_of,
    ratio_of,
)
from pgassay.analysis.verdicts.warnings import collect_warnings
from pgassay.model.arm import Arm
from pgassay.model.result import (
    ArmResult,
    CompareResult,
    SecondaryArmResult,
    SecondaryResult,
    SecondaryVerdict,
    StatementResult,
    Stopped,
    TwinResult,
    Verdict,
)
from pgassay.record.read import StoredExperiment

_STOPPED: dict[str, Stopped] = {
    "decided": "decided",
    "max-time": "max-time",
    "blocks": "blocks",
    "interrupted": "interrupted",
    "failed": "failed",
    "running": "running",
}
_CPU_WORDS: dict[Verdict, SecondaryVerdict] = {
    "faster": "more",
    "slower": "less",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
    "control": "control",
}
Estimate = tuple[Finding, Judgement]


@dataclass(frozen=True)
class ArmProgress:
    """Where one comparison stands. blocks_more: None when decided, or when it can't be said yet."""

    name: str
    stratum: str
    ratio: float | None
    interval: tuple[float | None, float | None] | None
    verdict: Verdict
    withheld: bool
    blocks_more: int | None


@dataclass(frozen=True)
class Standing:
    """What can be shown after any trial. twin_ok: as TwinResult.ok, over all strata."""

    blocks: int
    arms: tuple[ArmProgress, ...]
    decided: bool
    twin_ok: bool | None


def progress(stored: StoredExperiment) -> Standing:
    """The primary metric alone: cheap enough to call after every trial. Raises UsageError as `analyse`."""
    study = gather_study(stored)
    primary = analyse_primary(study) if study.blocks else None
    arms = []
    for index, contrast in enumerate(study.experiment.contrasts):
        arm = study.arms[contrast.arm_id]
        if primary is None:
            arms.append(ArmProgress(arm.name, arm.stratum, None, None, "inconclusive", False, None))
            continue
        finding, judgement = primary.findings[index], primary.judgements[index]
        arms.append(
            ArmProgress(
                arm.name,
                arm.stratum,
                ratio_of(finding.estimate),
                interval_of(finding.lower, finding.upper),
                judgement.verdict,
                judgement.withheld,
                primary.blocks_more[index],
            )
        )
    return Standing(
        study.blocks, tuple(arms), _all_decided(arms), _worst_ok(primary.twins if primary else {})
    )


def decided(result: CompareResult) -> bool:
    """Whether every comparison has a verdict; none has before the least number of blocks."""
    return _all_decided([arm for arm in result.arms if arm.verdict != "control"])


def _all_decided(arms: list[ArmProgress] | list[ArmResult]) -> bool:
    return bool(arms) and all(arm.verdict != "inconclusive" for arm in arms)


def analyse(stored: StoredExperiment) -> CompareResult:
    """The whole result of a stored experiment, at any moment of it.

    Where two servers' settings were swapped halfway, arms are compared before the swap, and both halves tell
    the settings from the machines. Raises UsageError when experiment.json contradicts itself (contrasts of
    unknown arms, a unit that is no unit of time).
    """
    before, after = halves(stored)
    result = _analyse(before)
    if after is None:
        return result
    crossed = result.model_copy(update={"crossed": crossed_results(before, after)})
    at_first = [f"Before the swap: {line}" for line in result.verdict.splitlines()]
    lines = [*crossed_sentences(crossed, stored), *at_first]
    later = (sentence for trial in after.trials for sentence in trial.record.warnings)
    return crossed.model_copy(
        update={
            "verdict": "\n".join(lines),
            "warnings": tuple(dict.fromkeys((*result.warnings, *later))),
        }
    )


def _analyse(stored: StoredExperiment) -> CompareResult:
    study = gather_study(stored)
    experiment = study.experiment
    primary = analyse_primary(study) if study.blocks else PrimaryResult((), (), {}, ())
    family = analyse_secondary(study, primary.twins)
    plans_differ, plan_sentences = plan_findings(experiment, stored.trials)
    twins = _twin_results(primary.twins)
    arms = _primary_arms(stored, study, primary)
    network_confounds, network_warnings = network_sentences(study, arms)
    result = CompareResult(
        schema=1,
        folder=str(stored.folder),
        workload=experiment.arms[0].spec.workload.text,
        metric=experiment.contract.metric,
        control=", ".join(dict.fromkeys(arm.name for arm in experiment.arms if arm.role == "control")),
        margin=experiment.contract.margin,
        alpha=experiment.contract.alpha,
        blocks=study.blocks,
        stopped=_STOPPED.get(stored.stopped, "running"),
        arms=arms,
        twin=_worst_twin(twins),
        statements=_statements(study, family),
        plans_differ=plans_differ,
        confounds=(*find_confounds(experiment, study.table), *network_confounds),
        warnings=(
            *failure_warnings(study, primary.judgements),
            *carry_over_warnings(primary.judgements, primary.carried),
            *machine_warnings(check_machine(study)),
            *network_warnings,
            *collect_warnings(stored, study, primary.twins, plan_sentences),
        ),
        secondary=_secondary(study, family),
        device_use=device_use(stored),
        work=work_results(study),
        accounts=arm_accounts(stored),
        causes=arm_causes(stored),
        explanations=explanations(stored, study),
        within_trials=arm_changes(stored),
        server_statements=arm_statements(stored),
        twins=twins,
        family=_family_words(study, family),
        failures=sum(study.table.failures.values()),
        cache=experiment.protocol.cache,
        skipped=experiment.skipped,
    )
    return result.model_copy(update={"verdict": headline(result)})


def _arm_result(
    study: Study, arm: Arm, measure: Measure, estimate: Estimate | None, note: str = ""
) -> ArmResult:
    values = [value for record in study.table.valid[arm.id] if (value := measure.value(record)) is not None]
    is_control = arm.role == "control"
    judgement = estimate[1] if estimate else Judgement("control" if is_control else "inconclusive")
    ratio: float | None = 1.0 if is_control else None
    interval: tuple[float | None, float | None] | None = (1.0, 1.0) if is_control else None
    if estimate:
        ratio = ratio_of(estimate[0].estimate)
        interval = interval_of(estimate[0].lower, estimate[0].upper)
    return ArmResult(
        name=arm.name,
        levels=arm.levels,
        ratio=ratio,
        interval=interval,
        verdict=judgement.verdict,
        meaningful=judgement.meaningful,
        trials=len(study.table.valid[arm.id]),
        failures=study.table.failures.get(arm.id, 0),
        median=float(np.median(values)) if values else None,
        values=tuple(values),
        stratum=arm.stratum,
        withheld=judgement.withheld,
        note="; ".join(part for part in (judgement.note, note) if part),
        confound=_confound(study, arm),
    )


def _confound(study: Study, arm: Arm) -> str:
    """In what the arm's binaries differ from its control's beside the version."""
    controls = (item for item in study.experiment.arms if item.role == "control")
    control = next((item for item in controls if item.stratum == arm.stratum), arm)
    return builder_difference(arm, control, study.table)


def _primary_arms(stored: StoredExperiment, study: Study, primary: PrimaryResult) -> tuple[ArmResult, ...]:
    indices = {contrast.arm_id: index for index, contrast in enumerate(study.experiment.contrasts)}
    block_s = _block_seconds(stored, study)
    results = []
    for arm in study.experiment.arms:
        if arm.role == "twin":
            continue
        index = indices.get(arm.id)
        estimate, note = None, ""
        if index is not None and primary.findings:
            estimate = primary.findings[index], primary.judgements[index]
            note = outlook(primary.blocks_more[index], block_s)
        results.append(_arm_result(study, arm, study.measures[0], estimate, note))
    return tuple(results)


def _block_seconds(stored: StoredExperiment, study: Study) -> float | None:
    """The mean wall time of a block so far, repeated attempts included."""
    if not study.blocks:
        return None
    used = math.fsum(trial.record.wall_s for trial in stored.trials)
    return used / max(study.blocks, len({trial.record.block for trial in stored.trials}))


def _family_arms(study: Study, family: SecondaryFamily, measure: Measure) -> tuple[ArmResult, ...]:
    """The arms of one measure; one that is not in the family has no estimates."""
    indices = {contrast.arm_id: index for index, contrast in enumerate(study.experiment.contrasts)}
    row = family.measures.index(measure) if measure in family.measures else None
    results = []
    for arm in study.experiment.arms:
        if arm.role == "twin":
            continue
        estimate = None
        if row is not None and arm.id in indices:
            index = indices[arm.id]
            estimate = family.findings[row][index], family.judgements[row][index]
        results.append(_arm_result(study, arm, measure, estimate))
    return tuple(results)


def _statements(study: Study, family: SecondaryFamily) -> tuple[StatementResult, ...]:
    records = [record for found in study.table.valid.values() for record in found]
    results = []
    for measure in study.measures[1:]:
        seen = [item for record in records for item in record.statements if item.name == measure.name]
        results.append(
            StatementResult(
                name=measure.name,
                cold=bool(seen) and all(item.cold for item in seen),
                aio=any(item.aio for item in seen),
                arms=_family_arms(study, family, measure),
            )
        )
    return tuple(results)


def _secondary(study: Study, family: SecondaryFamily) -> tuple[SecondaryResult, ...]:
    results = []
    for measure in family.measures:
        if measure.kind == "cpu":
            arms = tuple(_cpu_arm(study, arm) for arm in _family_arms(study, family, measure))
            results.append(SecondaryResult(name=measure.name, unit=measure.unit, arms=arms))
    return tuple(results)


def _cpu_arm(study: Study, arm: ArmResult) -> SecondaryArmResult:
    """The same figures in the words of CPU; no claim at all between binaries of different builders."""
    fields = {**arm.model_dump(), "verdict": _CPU_WORDS[arm.verdict]}
    if arm.verdict == "control":
        return SecondaryArmResult(**fields)
    specs = {
        item.name: item
        for item in study.experiment.arms
        if item.stratum == arm.stratum and item.role != "twin"
    }
    control = next(item for item in specs.values() if item.role == "control")
    if arm.confound:
        note = f"the binaries differ in {arm.confound}, so their CPU can't be compared"
        fields.update(verdict="inconclusive", meaningful=False, note=note)
        return SecondaryArmResult(**fields)
    if not arm.withheld and arm.note not in (MOVED, DISTRIBUTION_CHANGED):
        fields["note"] = cpu_sentence(SecondaryArmResult(**fields), control.name, study.blocks)
    return SecondaryArmResult(**fields)


def _twin_results(twins: dict[str, TwinCheck]) -> tuple[TwinResult, ...]:
    return tuple(
        TwinResult(
            ratio=ratio_of(float(check.effect[0])),
            interval=interval_of(float(check.interval.lower[0]), float(check.interval.upper[0])),
            ok=check.ok,
            evidence=check.evidence,
            stratum=stratum,
        )
        for stratum, check in twins.items()
    )


def _worst_twin(twins: tuple[TwinResult, ...]) -> TwinResult:
    """The twin that speaks most against the experiment; its evidence is the mean over the strata.

    A mean of e-processes is one, so that figure can enter the machine's ledger.
    """
    if not twins:
        return TwinResult(ratio=None, interval=None, ok=None)
    worst = max(twins, key=lambda twin: (twin.ok is False, twin.evidence))
    mean = math.fsum(twin.evidence for twin in twins) / len(twins)
    return worst.model_copy(update={"evidence": mean})


def _worst_ok(twins: dict[str, TwinCheck]) -> bool | None:
    answers = [check.ok for check in twins.values()]
    if False in answers:
        return False
    return None if not answers or None in answers else True


def _family_words(study: Study, family: SecondaryFamily) -> str:
    contract, count = study.experiment.contract, study.contrast_count
    strata = {contrast.stratum for contrast in study.experiment.contrasts}
    within = " within strata of the other factors" if len(strata) > 1 else ""
    comparisons = "1 comparison" if count == 1 else f"{count} comparisons"
    words = f"{comparisons} with a control{within}, each at level {contract.alpha / count:.3g}"
    if family.size:
        words += (
            f"; a second family of {family.size} for statements and secondary metrics, with a false "
            f"discovery rate of at most {contract.alpha:.3g} (e-BH)"
        )
    return words
