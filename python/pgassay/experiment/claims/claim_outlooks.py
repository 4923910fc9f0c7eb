"""In how many seconds each open claim of an experiment is expected to be decided."""

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median_low

from pgassay.analysis.claims.claim_blocks import (
    blocks_first,
    expected_of,
    further_of,
    is_of_size,
    is_open,
    pair_level,
)
from pgassay.analysis.claims.judge_claims import arms_for
from pgassay.design.schedule import taking_part
from pgassay.experiment.claims.run_order import WEIGHT_OF_A_SIZE, Outlook
from pgassay.experiment.running.loop import expected_trial_s
from pgassay.model.experiment import Experiment
from pgassay.model.further_results.claims import Claim, JudgedClaim
from pgassay.model.result import CompareResult, Planned
from pgassay.record.experiment import StoredExperiment

# Of a statement's trial with its server's start, where nobody knows.
_TRIAL_UNKNOWN_S = 5.0
# Of single trials, where nothing is known of them: what a quiet machine shows. If it is more, the first
# blocks tell, and others have their turn.
_SPREAD_HOPED_FOR = 0.04
# What is around the trials of a block, before there is a second one.
_AROUND_TRIALS = 1.15


def before_measuring(
    claims: Sequence[Claim], wanted: Sequence[Claim], experiment: Experiment, of_plan: Planned
) -> tuple[Outlook, ...]:
    """Of the claims that are wanted, by what was published."""
    level = pair_level(claims, experiment.contract.alpha)
    round_s = _planned_round_s(of_plan)
    spread = (of_plan.spread if of_plan.spread_known else None) or _SPREAD_HOPED_FOR
    return tuple(Outlook(round_s * expected_of(claim, experiment, level, spread)) for claim in wanted)


def first_verdict_s(
    claims: Sequence[Claim], wanted: Sequence[Claim], experiment: Experiment, of_plan: Planned
) -> float | None:
    """What the first verdict takes at least; None where it is not known how long a trial takes."""
    if of_plan.trial_s is None:
        return None
    level = pair_level(claims, experiment.contract.alpha)
    return _planned_round_s(of_plan) * blocks_first(wanted, experiment, level)


def _planned_round_s(of_plan: Planned) -> float:
    trial_s = of_plan.trial_s if of_plan.trial_s is not None else _TRIAL_UNKNOWN_S
    return trial_s * of_plan.trials_per_round


def after_measuring(
    claims: Sequence[Claim], judged: Sequence[JudgedClaim], result: CompareResult, stored: StoredExperiment
) -> tuple[Outlook, ...]:
    """Of the open claims, by what was measured: a verdict, or a size that is at the edge of its band."""
    pairs = [
        (claim, each)
        for claim, each in zip(claims, judged, strict=True)
        if is_open(claim, each, result.blocks)
    ]
    experiment = stored.experiment
    level = pair_level(claims, experiment.contract.alpha)
    open_arms = arms_for([claim for claim, _ in pairs], stored)
    block_s = round_s(stored, open_arms)
    return tuple(
        Outlook(
            block_s * further_of(claim, each, result, experiment, level),
            WEIGHT_OF_A_SIZE if is_of_size(each) else 1.0,
        )
        for claim, each in pairs
    )


def round_s(stored: StoredExperiment, open_arms: Collection[str]) -> float:
    """What a block of each stratum takes in which one of these arms is still run."""
    arms, design = stored.experiment.arms, stored.experiment.design
    resting = {arm.id for arm in arms if arm.role == "arm"} - {*open_arms}
    running = taking_part(stored.experiment, resting if design.decided_rest else ())
    blocks = len({arm.stratum for arm in arms if arm.id in running}) if design.strata == "apart" else 1
    trials_s = len(running) * (expected_trial_s(stored) or _TRIAL_UNKNOWN_S)
    between_s = _between_blocks_s(stored)
    return trials_s * _AROUND_TRIALS if between_s is None else trials_s + blocks * between_s


def _between_blocks_s(stored: StoredExperiment) -> float | None:
    """What lies between two blocks, as making fresh copies: the lower median, since runs are interrupted."""
    records = [trial.record for trial in stored.trials]
    gaps = [
        (datetime.fromisoformat(after.started_at) - datetime.fromisoformat(before.ended_at)).total_seconds()
        for before, after in pairwise(records)
        if before.block != after.block and before.ended_at and after.started_at
    ]
    return max(0.0, median_low(gaps)) if gaps else None
