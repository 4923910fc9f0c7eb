"""Each arm of a result: its figures, its verdict and what qualifies it, on each measure."""

import math
from datetime import datetime
from functools import partial
from statistics import median_low

import numpy as np

from pgassay.analysis.descriptive.binary_differences import builder_difference
from pgassay.analysis.verdicts.blocks import Measure
from pgassay.analysis.verdicts.primary_family import BlocksForecast, PrimaryResult, forecasts
from pgassay.analysis.verdicts.secondary_family import SecondaryFamily
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import (
    DISTRIBUTION_CHANGED,
    MOVED,
    Finding,
    Judgement,
    cpu_sentence,
    interval_of,
    latency_sentence,
    outlook,
    ratio_of,
)
from pgassay.model.arm import Arm
from pgassay.model.result import (
    ArmResult,
    Forecast,
    SecondaryArmResult,
    SecondaryResult,
    SecondaryVerdict,
    StatementResult,
    Verdict,
)
from pgassay.record.experiment import StoredExperiment
from pgassay.words import percent_rounded, plural

_CPU_WORDS: dict[Verdict, SecondaryVerdict] = {
    "faster": "more",
    "slower": "less",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
    "control": "control",
}
Estimate = tuple[Finding, Judgement]


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
        note="; ".join(part for part in (judgement.note, note, _rest(study, arm)) if part),
        confound=_confound(study, arm),
        equivalence_interval=_equivalence_interval(estimate),
        blocks=study.blocks_of(arm.id),
        replicates=study.replicates_of(arm.id),
        starts=study.blocks_of(arm.id) if study.counts_starts else None,
        assumption=_assumption(study, estimate),
    )


def _rest(study: Study, arm: Arm) -> str:
    """After how many blocks a decided arm took no part any more, '' when it does."""
    blocks = study.rested_after(arm.id)
    return "" if blocks is None else f"rested after {plural(blocks, study.row_word)}: decided"


def _assumption(study: Study, estimate: Estimate | None) -> str:
    """What a direction from few starts rests on, beside the starts."""
    if estimate is None or estimate[1].verdict not in ("faster", "slower") or not estimate[0].rests_on_bound:
        return ""
    most = percent_rounded(study.experiment.contract.start_deviation)
    return f"assumes that no start of the server changes the ratio by more than {most}"


def _equivalence_interval(estimate: Estimate | None) -> tuple[float | None, float | None] | None:
    if estimate is None or estimate[1].verdict != "equivalent" or estimate[0].equivalence is None:
        return None
    return interval_of(*estimate[0].equivalence)


def _confound(study: Study, arm: Arm) -> str:
    """In what the arm's binaries differ from its control's beside the version."""
    controls = (item for item in study.experiment.arms if item.role == "control")
    control = next((item for item in controls if item.stratum == arm.stratum), arm)
    return builder_difference(arm, control, study.table)


def primary_arms(stored: StoredExperiment, study: Study, primary: PrimaryResult) -> tuple[ArmResult, ...]:
    """Every arm but the twins on the primary metric, in the plan's order; those undecided with a forecast."""
    indices = {contrast.arm_id: index for index, contrast in enumerate(study.experiment.contrasts)}
    round_s, further = _round_seconds(stored, study, primary), forecasts(study, primary)
    results = []
    for arm in study.experiment.arms:
        if arm.role == "twin":
            continue
        index = indices.get(arm.id)
        estimate, forecast, note = None, None, ""
        if index is not None and primary.findings:
            estimate = primary.findings[index], primary.judgements[index]
            forecast = _forecast_of(further[index], round_s)
            # Where a rate within a bound is looked for, that decides when it ends, and not a verdict.
            is_sought = bool(study.experiment.contract.metric.bound_ms)
            note = "" if is_sought else outlook(forecast, study.row_word)
        result = _arm_result(study, arm, study.measures[0], estimate, note)
        results.append(result.model_copy(update={"forecast": forecast}))
    return tuple(results)


def _forecast_of(blocks: BlocksForecast | None, round_s: float | None) -> Forecast | None:
    """Further blocks as a forecast with the seconds that they take; None where either is not known."""
    if blocks is None or round_s is None:
        return None
    low, middle, high = (None if count is None else round(count * round_s, 1) for count in blocks)
    return Forecast(blocks=blocks, seconds=(low, middle, high))


def _round_seconds(stored: StoredExperiment, study: Study, primary: PrimaryResult) -> float | None:
    """The mean wall time of a block so far, repeated attempts included, for every stratum that is undecided.

    Where strata have blocks of their own, they take turns: until the next block of one stratum, each of the
    others that go on has its own.
    """
    if not study.blocks:
        return None
    used = math.fsum(trial.record.took_s for trial in stored.trials)
    block_s = used / max(study.blocks, len({trial.record.block for trial in stored.trials}))
    block_s += _copying_s(stored, study) / max(1, study.experiment.design.blocks_per_copy)
    if study.experiment.design.strata == "together":
        return block_s
    both = zip(study.experiment.contrasts, primary.judgements, strict=True)
    return block_s * max(1, len({each.stratum for each, found in both if found.verdict == "inconclusive"}))


def _copying_s(stored: StoredExperiment, study: Study) -> float:
    """What making a set of fresh copies takes: the median of what lies before the first trial of each.

    Not before the first set, which is made before the experiment; 0 where there is no other yet.
    """
    sets: set[tuple[str | None, int]] = set()
    found, ended = [], ""
    for trial in stored.trials:
        plan = study.plans.get(trial.record.block)
        begins = plan is not None and plan.replicate > 0 and (plan.stratum, plan.replicate) not in sets
        if plan is not None:
            sets.add((plan.stratum, plan.replicate))
        if begins and ended and trial.record.started_at:
            gap = datetime.fromisoformat(trial.record.started_at) - datetime.fromisoformat(ended)
            found.append(max(0.0, gap.total_seconds()))
        ended = trial.record.ended_at
    # Of an even number the lower one: a run that was interrupted in between rested for longer.
    return median_low(found) if found and stored.experiment.design.blocks_per_copy else 0.0


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


def statement_results(study: Study, family: SecondaryFamily) -> tuple[StatementResult, ...]:
    """Each statement's arms, judged in the second family."""
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


def secondary_results(study: Study, family: SecondaryFamily) -> tuple[SecondaryResult, ...]:
    """Server CPU per unit of work, and other percentiles, judged in the second family; () without any."""
    results = []
    for measure in family.measures:
        if measure.kind in ("cpu", "latency"):
            arms = tuple(_amount_arm(study, arm, measure) for arm in _family_arms(study, family, measure))
            results.append(SecondaryResult(name=measure.name, unit=measure.unit, arms=arms))
    return tuple(results)


def _amount_arm(study: Study, arm: ArmResult, measure: Measure) -> SecondaryArmResult:
    """The same figures in the words of an amount; none of CPU between binaries of different builders."""
    fields = {**arm.model_dump(), "verdict": _CPU_WORDS[arm.verdict]}
    if arm.verdict == "control":
        return SecondaryArmResult(**fields)
    specs = {
        item.name: item
        for item in study.experiment.arms
        if item.stratum == arm.stratum and item.role != "twin"
    }
    control = next(item for item in specs.values() if item.role == "control")
    if arm.confound and measure.kind == "cpu":
        note = f"the binaries differ in {arm.confound}, so their CPU can't be compared"
        fields.update(verdict="inconclusive", meaningful=False, note=note)
        return SecondaryArmResult(**fields)
    if not arm.withheld and not arm.note.startswith((MOVED, DISTRIBUTION_CHANGED)):
        words = cpu_sentence if measure.kind == "cpu" else partial(latency_sentence, measure.name)
        sentence = words(SecondaryArmResult(**fields), control.name)
        rest = next((each for each in study.experiment.arms if specs.get(arm.name) == each), None)
        fields["note"] = "; ".join(part for part in (sentence, _rest(study, rest) if rest else "") if part)
    return SecondaryArmResult(**fields)
