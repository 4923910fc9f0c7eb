"""All claims of a file, judged by one experiment: of each kind by what says something of it."""

import math
from collections.abc import Sequence

from pgassay.analysis.claims import arm_claims, derived, figures, record_claims
from pgassay.analysis.claims.arm_claims import is_named, missing_for
from pgassay.model.further_results.claims import Claim, JudgedClaim
from pgassay.model.result import CompareResult
from pgassay.record.experiment import StoredExperiment

# Verdicts that speak of a size, and how many blocks an experiment may have for it.
_SIZED = ("reproduced", "same direction, other size")
_BLOCKS_FOR_A_SIZE = 20


def judge(
    claims: Sequence[Claim], result: CompareResult, stored: StoredExperiment
) -> tuple[JudgedClaim, ...]:
    """Each claim with its verdict; raises UsageError for an experiment that doesn't compare its arms.

    Claims on two statements of one arm, and on figures that are measured, are a family of their own, each at
    an equal share of its level.
    """
    pairs = sum(claim.kind == "statements" or figures.is_measured(claim) for claim in claims)
    level = stored.experiment.contract.alpha / max(1, pairs)
    return tuple(_one(claim, result, stored, level) for claim in claims)


def _one(claim: Claim, result: CompareResult, stored: StoredExperiment, level: float) -> JudgedClaim:
    missing = missing_for(claim, stored.experiment, result.folder)
    if missing:
        return arm_claims.judged(claim, "can't be tried here", missing, stored.experiment)
    if claim.kind == "statements":
        return record_claims.judge_statements(claim, result, stored, level)
    if claim.kind == "blocks":
        return record_claims.judge_blocks(claim, result, stored)
    if claim.kind == "figure":
        return figures.judge(claim, result, stored, level)
    if claim.kind == "price":
        return derived.judge_price(claim, result, stored.experiment)
    if claim.kind == "order":
        return derived.judge_order(claim, result, stored.experiment)
    if claim.kind == "factors":
        return derived.judge_factors(claim, result, stored.experiment)
    if claim.kind == "setting":
        return record_claims.judge_setting(claim, stored)
    if claim.kind == "limit":
        return record_claims.judge_limit(claim, result, stored)
    return arm_claims.judge(claim, result, stored.experiment)


def open_of(claims: Sequence[Claim], result: CompareResult, stored: StoredExperiment) -> tuple[Claim, ...]:
    """Those of which more blocks are wanted."""
    pairs = zip(claims, judge(claims, result, stored), strict=True)
    return tuple(claim for claim, each in pairs if is_open(claim, each, result.blocks))


def wanted_by(claims: Sequence[Claim], result: CompareResult, stored: StoredExperiment) -> frozenset[str]:
    """The ids of the arms of which these claims are open."""
    return arms_for(open_of(claims, result, stored), stored)


def arms_for(wanted: Sequence[Claim], stored: StoredExperiment) -> frozenset[str]:
    """The ids of the arms that these claims are of, and of those that bring a control that one is of."""
    found = {
        arm.id
        for arm in stored.experiment.arms
        if arm.role == "arm"
        and any(
            claim.kind == "factors" or any(is_named(arm.name, named, claim) for named in claim.named_arms)
            for claim in wanted
        )
    }
    for claim in wanted:
        if claim.kind != "speed":
            found |= _that_brings_the_control(claim, stored)
    return frozenset(found)


def blocks_first(claims: Sequence[Claim], least: int) -> int:
    """After how many blocks the first of these claims can be decided; `least`: of a verdict on an arm."""
    return min((_blocks_of(claim, least) for claim in claims), default=least)


def _blocks_of(claim: Claim, least: int) -> int:
    if claim.kind in ("blocks", "setting") or figures.is_of_plans(claim):
        return 1
    if claim.kind == "limit" or (claim.kind == "figure" and not figures.is_measured(claim)):
        return min(least, record_claims.TRIALS_LEAST)
    return least


def _that_brings_the_control(claim: Claim, stored: StoredExperiment) -> set[str]:
    """An arm of the stratum of a claim on its control alone, which runs where any arm does."""
    arms_ = stored.experiment.arms
    strata = {
        arm.stratum
        for arm in arms_
        if arm.role == "control" and any(is_named(arm.name, named, claim) for named in claim.named_arms)
    }
    return {arm.id for arm in arms_ if arm.role == "arm" and arm.stratum in strata}


def is_open(claim: Claim, judged: JudgedClaim, blocks: int) -> bool:
    """Whether more blocks are wanted: of a verdict, or, within reason, of a size at the edge of its band.

    `blocks`: those of the experiment so far. Two sizes that are alike can't be told apart at any expense.
    """
    if judged.verdict in (None, "undecided"):
        return True
    if judged.interval is None or claim.band is None or judged.verdict not in _SIZED:
        return False
    low, high = (end if end is not None else math.nan for end in judged.interval)
    is_apart = high < claim.band[0] or low > claim.band[1]
    is_within = claim.band[0] <= low and high <= claim.band[1]
    is_counted = claim.kind == "blocks" or (claim.kind == "figure" and not figures.is_measured(claim))
    return not is_apart and not is_within and blocks < _BLOCKS_FOR_A_SIZE and not is_counted
