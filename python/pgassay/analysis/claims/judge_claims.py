"""All claims of a file, judged by one experiment: of each kind by what says something of it."""

from collections.abc import Sequence

from pgassay.analysis.claims import arm_claims, derived, figures, record_claims
from pgassay.analysis.claims.arm_claims import is_named, missing_for
from pgassay.analysis.claims.claim_blocks import is_open, pair_level
from pgassay.analysis.claims.figures import FIGURES
from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.experiment import Contrast
from pgassay.model.further_results.claims import Claim, JudgedClaim
from pgassay.model.result import CompareResult
from pgassay.record.experiment import StoredExperiment

_VOLUME = "volume"
# Figures of what maintenance commands did, and those of which a statement's share is not counted.
_OF_MAINTENANCE = "rows-frozen"
_OF_A_COMMAND = ("rows-frozen", "wal")


def judge(
    claims: Sequence[Claim], result: CompareResult, stored: StoredExperiment
) -> tuple[JudgedClaim, ...]:
    """Each claim with its verdict; raises UsageError for an experiment that doesn't compare its arms.

    Claims on two statements of one arm, and on figures that are measured, are a family of their own, each at
    an equal share of its level.
    """
    level = pair_level(claims, stored.experiment.contract.alpha)
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


def caveats_of(result: CompareResult) -> tuple[str, ...]:
    """What the verdicts of an experiment assume, and what a stop at the first of them does to the figures."""
    assumed = dict.fromkeys(arm.assumption for arm in result.arms if arm.assumption)
    return (*filter(None, (result.estimates,)), *(f"A verdict {each}." for each in assumed))


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


def claimed_arms(
    claims: Sequence[Claim], arms: tuple[Arm, ...], contrasts: tuple[Contrast, ...]
) -> tuple[tuple[Arm, ...], tuple[Contrast, ...]]:
    """The arms that these claims are of, with the control and the twin of their strata, and their contrasts.

    Which these are is known before anything is measured, so they are a family of their own. All arms where a
    claim is of whole factors, or none is of any.
    """
    named = {
        arm.id
        for arm in arms
        if any(is_named(arm.name, name, claim) for claim in claims for name in claim.named_arms)
    }
    if not named or any(claim.kind == "factors" for claim in claims):
        return arms, contrasts
    wanted: set[str] = set()
    for stratum in dict.fromkeys(arm.stratum for arm in arms if arm.id in named):
        there = [each.arm_id for each in contrasts if each.stratum == stratum]
        # A control that is claimed alone has its trials beside those of an arm.
        wanted |= named.intersection(there) or {*there[:1]}
    kept = tuple(each for each in contrasts if each.arm_id in wanted)
    strata = {each.stratum for each in kept}
    return tuple(
        arm for arm in arms if arm.id in wanted or (arm.role != "arm" and arm.stratum in strata)
    ), kept


def _that_brings_the_control(claim: Claim, stored: StoredExperiment) -> set[str]:
    """An arm of the stratum of a claim on its control alone, which runs where any arm does."""
    arms_ = stored.experiment.arms
    strata = {
        arm.stratum
        for arm in arms_
        if arm.role == "control" and any(is_named(arm.name, named, claim) for named in claim.named_arms)
    }
    return {arm.id for arm in arms_ if arm.role == "arm" and arm.stratum in strata}


def refuse_unfit(claim: Claim, arms: Sequence[Arm], where: str) -> None:
    """Raise UsageError for a claim of what no trial of these arms can have."""
    if wrong := _unfit(claim, arms, where):
        raise UsageError(f"claim '{claim.id}': {wrong}")


def _unfit(claim: Claim, arms: Sequence[Arm], where: str) -> str:
    """Why no trial of these arms can have what the claim is of, and what to write; '' if they can."""
    workloads = [arm.spec.workload for arm in arms]
    kind = FIGURES.get(claim.figure)
    of_workload = f"the workload of {where}"
    if kind is not None and kind.source == "measured" and all(each.load is None for each in workloads):
        return (
            f"{claim.figure} is of a load's transactions, and {of_workload} is a list of statements: "
            "take out figure, or name a load as the workload"
        )
    is_untimed = all(each.load is not None and not each.times_statements for each in workloads)
    if claim.statement and claim.kind in ("speed", "statements") and is_untimed:
        return (
            f"{of_workload} is a load, whose statements have no speed each: leave statement out, or name a "
            "list of statements as the workload, as sql:FILE"
        )
    is_maintenance = any(each.is_maintenance for each in workloads)
    if claim.figure == _OF_MAINTENANCE and not is_maintenance:
        return (
            f"{claim.figure} is of maintenance commands, and {of_workload} has none: "
            "name a workload maintenance:FILE"
        )
    if claim.statement and kind is not None and kind.source != "plan":
        if claim.figure not in _OF_A_COMMAND:
            return f"{claim.figure} is counted of whole trials and not of a statement: leave statement out"
        if not is_maintenance:
            return (
                f"{claim.figure} of one statement is known of maintenance commands only: leave statement out"
            )
    if claim.kind == "price" and not any(arm.spec.storage.kind == _VOLUME for arm in arms):
        return f"a price is of imitated volumes, and no arm of {where} has one: give it storage = volume:…"
    return ""
