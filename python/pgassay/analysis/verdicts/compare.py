"""The analysis of a stored experiment, from its trials to a verdict that a person acts on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgassay.analysis.accounts.arm_accounts import arm_accounts
from pgassay.analysis.capacity.arm_capacity import are_known, arm_capacities, capacity_sentences
from pgassay.analysis.causes.crossover import crossover_sentences
from pgassay.analysis.causes.difference import explanations
from pgassay.analysis.causes.rank import found_causes
from pgassay.analysis.causes.remedies import judged
from pgassay.analysis.changes.arm_changes import arm_changes
from pgassay.analysis.descriptive.checkpoints import arm_checkpoints
from pgassay.analysis.descriptive.confounds import compared_defaults, compared_settings, find_confounds
from pgassay.analysis.descriptive.credits import credit_sentences
from pgassay.analysis.descriptive.device_use import device_use
from pgassay.analysis.descriptive.errors_and_poolers import arm_errors, arm_poolers
from pgassay.analysis.descriptive.iostat import arm_iostat
from pgassay.analysis.descriptive.latencies import arm_latencies
from pgassay.analysis.descriptive.load_details import arm_connections, arm_load_statements
from pgassay.analysis.descriptive.maintenance_work import work_results
from pgassay.analysis.descriptive.network import network_sentences
from pgassay.analysis.descriptive.server_statements import arm_statements
from pgassay.analysis.descriptive.table_cache import table_cache
from pgassay.analysis.descriptive.volume_costs import arm_volumes, assumption_sentences
from pgassay.analysis.effects.judge_effects import factor_effects
from pgassay.analysis.profile.result import profile_result
from pgassay.analysis.verdicts.arm_results import (
    primary_arms,
    secondary_results,
    statement_results,
)
from pgassay.analysis.verdicts.checks.carry_over import carry_over_warnings
from pgassay.analysis.verdicts.checks.copies import copy_warnings
from pgassay.analysis.verdicts.checks.failures import failure_warnings
from pgassay.analysis.verdicts.checks.imitation import imitation_warnings
from pgassay.analysis.verdicts.checks.load_checks import load_warnings, short_trial_warnings, unheld_lines
from pgassay.analysis.verdicts.checks.machine_checks import check_machine, machine_warnings
from pgassay.analysis.verdicts.checks.twin import TwinCheck
from pgassay.analysis.verdicts.dropped_arms import dropped_arms, dropped_sentences
from pgassay.analysis.verdicts.families import crossed_family_words, estimates_sentence, family_words
from pgassay.analysis.verdicts.layouts import layout_results, layout_warnings
from pgassay.analysis.verdicts.primary_family import PrimaryResult, analyse_primary
from pgassay.analysis.verdicts.secondary_family import analyse_secondary
from pgassay.analysis.verdicts.settings_crossover import crossed_results, crossed_sentences, halves
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.analysis.verdicts.verdict import (
    headline,
    interval_of,
    ratio_of,
)
from pgassay.analysis.verdicts.warnings import collect_warnings
from pgassay.model.experiment import Decide
from pgassay.model.result import (
    ArmResult,
    CompareResult,
    DesignWarning,
    Stopped,
    TwinResult,
)
from pgassay.model.running_server.watch import ArmEstimate
from pgassay.model.volumes.arm import ArmVolumes
from pgassay.plans.experiment_plans import changed_plans, statement_plans
from pgassay.plans.plan_shape import plan_findings
from pgassay.record.experiment import StoredExperiment

_STOPPED: dict[str, Stopped] = {
    "decided": "decided",
    "max-time": "max-time",
    "blocks": "blocks",
    "interrupted": "interrupted",
    "failed": "failed",
    "running": "running",
}


@dataclass(frozen=True)
class InterimResult:
    """What can be shown after any trial."""

    blocks: int
    arms: tuple[ArmEstimate, ...]
    decided: bool


def interim_result(stored: StoredExperiment) -> InterimResult:
    """The primary metric alone, without forecasts: cheap enough to call after every trial.

    Raises UsageError as `analyse`.
    """
    study = gather_study(stored)
    primary = analyse_primary(study) if study.blocks else None
    arms = []
    for index, contrast in enumerate(study.experiment.contrasts):
        arm = study.arms[contrast.arm_id]
        estimate = ArmEstimate(
            name=arm.name,
            stratum=arm.stratum,
            ratio=None,
            interval=None,
            verdict="inconclusive",
            withheld=False,
        )
        if primary is not None:
            finding, judgement = primary.findings[index], primary.judgements[index]
            found = {
                "ratio": ratio_of(finding.estimate),
                "interval": interval_of(finding.lower, finding.upper),
                "verdict": judgement.verdict,
                "withheld": judgement.withheld,
            }
            estimate = estimate.model_copy(update=found)
        arms.append(estimate)
    is_decided = _all_decided(arms)
    if study.experiment.contract.decide == "effects":
        effects = factor_effects(study, primary.twins) if primary is not None else None
        is_decided = effects is not None and effects.decided
    if study.experiment.contract.metric.bound_ms:
        is_decided = are_known(arm_capacities(stored))
    return InterimResult(study.blocks, tuple(arms), is_decided)


def decided(result: CompareResult, decide: Decide = "arms") -> bool:
    """Whether all has a verdict that the experiment goes on for; nothing has before the least blocks."""
    if result.metric.bound_ms:
        return are_known(result.capacities)
    if decide == "effects":
        return result.effects is not None and result.effects.decided
    return _all_decided([arm for arm in result.arms if arm.verdict != "control"])


def _all_decided(arms: list[ArmEstimate] | list[ArmResult]) -> bool:
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
    effects = crossed_results(before, after)
    contract = stored.experiment.contract
    words = crossed_family_words(effects, contract.alpha, gather_study(before).contrast_count)
    crossed = result.model_copy(update={"crossed": effects, "family": result.family + words})
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
    study, experiment = gather_study(stored), stored.experiment
    primary = analyse_primary(study) if study.blocks else PrimaryResult((), (), {})
    family = analyse_secondary(study, primary.twins)
    plans_differ, plan_sentences = plan_findings(experiment, stored.trials)
    twins = _twin_results(primary.twins)
    arms = primary_arms(stored, study, primary)
    explained, stopped = explanations(stored, study), _STOPPED.get(stored.stopped, "running")
    network_confounds, network_warnings = network_sentences(study, arms)
    volumes = arm_volumes(experiment, arms)
    found = found_causes(stored)
    causes = judged(found.causes, arms, found.lesser)
    result = CompareResult(
        schema=1,
        folder=str(stored.folder),
        workload=experiment.arms[0].spec.workload.text,
        metric=experiment.contract.metric,
        control=", ".join(dict.fromkeys(arm.name for arm in experiment.arms if arm.role == "control")),
        margin=experiment.contract.margin,
        alpha=experiment.contract.alpha,
        blocks=study.blocks,
        stopped=stopped,
        arms=arms,
        twin=_worst_twin(twins),
        statements=statement_results(study, family),
        plans_differ=plans_differ,
        baseline=None if experiment.arms[0].spec.server else experiment.baseline,
        compared=compared_settings(experiment, study.table),
        compared_defaults=compared_defaults(experiment),
        confounds=(*find_confounds(experiment, study.table), *network_confounds),
        warnings=_all_warnings(stored, study, primary, (network_warnings, volumes, plan_sentences)),
        secondary=secondary_results(study, family),
        device_use=device_use(stored),
        work=work_results(study),
        accounts=arm_accounts(stored),
        causes=causes,
        crossovers=crossover_sentences(experiment.arms, causes),
        explanations=explained,
        within_trials=arm_changes(stored),
        server_statements=arm_statements(stored),
        twins=twins,
        family=family_words(study, family.size, explained),
        estimates=estimates_sentence(arms, stopped),
        failures=sum(study.table.failures.values()),
        cache=experiment.protocol.cache,
        skipped=experiment.skipped,
        plans=statement_plans(stored),
        plan_changes=changed_plans(stored),
        checkpoints=arm_checkpoints(stored),
        iostat=arm_iostat(stored),
        table_cache=table_cache(stored),
        latencies=arm_latencies(stored),
        volumes=volumes,
        effects=factor_effects(study, primary.twins),
        profile=profile_result(stored),
        capacities=arm_capacities(stored),
        layouts=layout_results(study),
    )
    return result.model_copy(update={"verdict": _in_words(result, study), **_of_loads(stored)})


def _in_words(result: CompareResult, study: Study) -> str:
    """The headline and what goes with it, a line each."""
    # Rates that can't be held are tried on purpose where the highest one is looked for.
    unheld = () if result.metric.bound_ms else unheld_lines(study)
    return "\n".join((*capacity_sentences(result), headline(result), *unheld))


def _of_loads(stored: StoredExperiment) -> dict[str, object]:
    """What describes the loads of the arms, by the field of the result."""
    return {
        "errors": arm_errors(stored),
        "poolers": arm_poolers(stored),
        "connections": arm_connections(stored),
        "load_statements": arm_load_statements(stored),
    }


def _all_warnings(
    stored: StoredExperiment,
    study: Study,
    primary: PrimaryResult,
    found: tuple[Sequence[str], tuple[ArmVolumes, ...], Sequence[str]],
) -> tuple[str | DesignWarning, ...]:
    """Everything to know before trusting a figure; `found`: of the network, the volumes and the plans."""
    network, volumes, plans = found
    return (
        *_of_dropped(stored),
        *short_trial_warnings(stored),
        *load_warnings(study),
        *_warnings_of_trials(study, primary),
        *network,
        *assumption_sentences(volumes),
        *credit_sentences(stored),
        *collect_warnings(stored, study, primary.twins, plans),
        *copy_warnings(study),
        *layout_warnings(study.experiment),
    )


def _warnings_of_trials(study: Study, primary: PrimaryResult) -> tuple[DesignWarning, ...]:
    """What doubtful trials, their order, the machine and what imitates its volumes do to the verdicts."""
    return (
        *failure_warnings(study, primary.judgements),
        *carry_over_warnings(primary.judgements, primary.carried),
        *machine_warnings(check_machine(study)),
        *imitation_warnings(study),
    )


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


def _of_dropped(stored: StoredExperiment) -> tuple[str, ...]:
    records = [trial.record for trial in stored.trials]
    dropped = dropped_arms(stored.experiment, records, stored.block_plans)
    return dropped_sentences(stored, dropped.keys(), dropped)


def _worst_twin(twins: tuple[TwinResult, ...]) -> TwinResult:
    """The twin that speaks most against the experiment; its evidence is the mean over the strata.

    A mean of e-processes is one, so that figure can enter the machine's ledger.
    """
    if not twins:
        return TwinResult(ratio=None, interval=None, ok=None)
    worst = max(twins, key=lambda twin: (twin.ok is False, twin.evidence))
    mean = math.fsum(twin.evidence for twin in twins) / len(twins)
    return worst.model_copy(update={"evidence": mean})
