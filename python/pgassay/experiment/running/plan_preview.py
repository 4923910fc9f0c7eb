"""What an experiment would take and could decide, said without running it: `--plan`.

The small servers that judge levels are started as for a run, since what they refuse is not in the plan.
"""

import math
from collections.abc import Mapping
from contextlib import nullcontext

from pgassay.analysis.statistics.power import blocks_for_detection, minimum_blocks, resolvable_effect
from pgassay.analysis.statistics.starts import STARTS_MIN, resolvable_by_starts, starts_for
from pgassay.experiment.planning.experiment_plan import plan
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running import earlier_experiments
from pgassay.experiment.running.earlier_experiments import TrialHistory
from pgassay.experiment.running.run_experiment import host_lock, parse_told
from pgassay.experiment.running.run_forecast import unknown_spread
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.result import Planned, PlannedCell, TrialTimeFrom
from pgassay.progress import Progress

# Restoring, starting, settling and reading counters around the measured part of a load.
_AROUND_A_LOAD_S = 5.0


def plan_alone(request: CompareRequest, progress: Progress, *, wait: bool) -> Planned:
    """The plan with what it takes; raises UsageError as a run would before its first trial."""
    parsed = parse_told(request, progress)
    # Servers that run already judge their own levels: nothing is started here that could disturb a trial.
    is_remote = bool(parsed.servers.connections.parameters)
    with nullcontext() if is_remote else host_lock(progress, wait=wait):
        experiment = plan(parsed, progress.stage)
    return planned(experiment, earlier_experiments.recall(experiment))


def planned(experiment: Experiment, earlier: TrialHistory | None) -> Planned:
    """What is known beforehand; `earlier`: what this machine remembers of the last experiment of its kind."""
    contract = experiment.contract
    trial_s, source = _trial_s(experiment, earlier)
    known = earlier.spread_median or earlier.spread if earlier is not None else None
    spread = known or unknown_spread(contract)
    pooled = contract.pool_twin and all(each.twin_id for each in experiment.contrasts)
    of_pairs = spread * math.sqrt(2)
    by_starts = contract.unit == "start"
    threshold, members = 2 * contract.contrasts / contract.alpha, 3 if pooled else 2
    if by_starts:
        least = STARTS_MIN
        wanted = starts_for(contract.margin, spread, threshold, members=members)
    else:
        least = minimum_blocks(pooled=pooled, contrasts=contract.contrasts, alpha=contract.alpha)
        wanted = blocks_for_detection(
            of_pairs, contract.margin, pooled=pooled, contrasts=contract.contrasts, alpha=contract.alpha
        )
    round_s = None if trial_s is None else trial_s * len(experiment.arms)
    # Strata are visited in turn: each gets as many blocks as rounds fit.
    blocks = None if round_s is None else min(contract.blocks_max, int(contract.time_max_s / round_s + 1e-9))
    resolves = None
    if blocks is not None and by_starts:
        resolves = resolvable_by_starts(blocks, spread, threshold, members=members)
    elif blocks is not None:
        resolves = resolvable_effect(
            blocks, of_pairs, pooled=pooled, contrasts=contract.contrasts, alpha=contract.alpha
        )
    return Planned(
        title=experiment.title,
        metric=contract.metric.name,
        margin=contract.margin,
        trials_per_round=len(experiment.arms),
        time_max_s=contract.time_max_s,
        blocks_max=contract.blocks_max,
        trial_s=trial_s,
        trial_s_from=source,
        spread=spread,
        spread_known=known is not None,
        blocks_least=least,
        blocks_wanted=wanted,
        least_s=None if round_s is None else least * round_s,
        wanted_s=None if round_s is None else wanted * round_s,
        cells=tuple(
            _cell(stratum, arms, blocks, resolves, contract.margin).model_copy(
                update={"block_s": _block_s(experiment, stratum, earlier, trial_s)}
            )
            for stratum, arms in _by_stratum(experiment).items()
        ),
        skipped=experiment.skipped,
        warnings=(*experiment.warnings, *_restarts(experiment)),
    )


def _restarts(experiment: Experiment) -> tuple[str, ...]:
    """Why arms that were to share a server's starts do not, as a sentence."""
    return (f"Each trial has its own server: {experiment.restarts}.",) if experiment.restarts else ()


def _trial_s(experiment: Experiment, earlier: TrialHistory | None) -> tuple[float | None, TrialTimeFrom]:
    if earlier is not None:
        return earlier.trial_s, "earlier experiment"
    loads = [arm.spec.workload.load for arm in experiment.arms]
    measured = [load.duration_s + load.warmup_s + _AROUND_A_LOAD_S for load in loads if load is not None]
    if len(measured) < len(loads):
        return None, "not known"
    return sum(measured) / len(measured), "length of the load"


def _block_s(
    experiment: Experiment, stratum: str, earlier: TrialHistory | None, trial_s: float | None
) -> float | None:
    """What a block of a stratum takes, its twin's trial included."""
    known = earlier.strata_s.get(stratum, trial_s) if earlier is not None else trial_s
    return None if known is None else known * sum(arm.stratum == stratum for arm in experiment.arms)


def _by_stratum(experiment: Experiment) -> Mapping[str, list[Arm]]:
    found: dict[str, list[Arm]] = {}
    for arm in experiment.arms:
        if arm.role != "twin":
            found.setdefault(arm.stratum, []).append(arm)
    return found


def _cell(
    stratum: str, arms: list[Arm], blocks: int | None, resolves: float | None, margin: float
) -> PlannedCell:
    is_known = resolves is not None and math.isfinite(resolves)
    return PlannedCell(
        stratum=stratum,
        control=next(arm.name for arm in arms if arm.role == "control"),
        arms=tuple(arm.name for arm in arms if arm.role != "control"),
        blocks=blocks,
        resolves=resolves if is_known else None,
        is_decidable=None if blocks is None else resolves is not None and resolves <= margin,
    )
