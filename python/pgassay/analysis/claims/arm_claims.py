"""What an experiment says of claims that compare the speed of two arms, by the verdicts on its own arms.

Each claim is one comparison of the experiment, whose verdicts hold together; so claims need no correction of
their own: that one of them has its direction wrong is as improbable as that a verdict has.
"""

import difflib
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import NoReturn

from pgassay.analysis.causes.registry import rule_of
from pgassay.analysis.claims.pair_forecast import forecast_of
from pgassay.analysis.statistics.power import minimum_blocks
from pgassay.analysis.statistics.starts import STARTS_MIN
from pgassay.errors import UsageError
from pgassay.model.cause import UNKNOWN
from pgassay.model.experiment import Experiment, MachineFacts
from pgassay.model.further_results.claims import Claim, ClaimVerdict, JudgedClaim
from pgassay.model.result import ArmResult, CompareResult
from pgassay.model.workload import WorkloadSpec
from pgassay.words import amount, figure, join, plural

_GB = 1e9
_ARMS_SHOWN = 6
# A file of SQL is named in a claim as beside the experiment's file, and in an arm with its folder.
_FOLDERS = re.compile(r"=\S*/(?=[^\s/]+\.sql)")
_METHOD = "io_method"
# More blocks than this are no forecast that anybody plans by.
_FORECAST_BLOCKS_MAX = 1000
# The command of an experiment of which only the arms are run that claims are of.
CLAIMS_COMMAND = ("pgassay", "claims", "run")
_INSTEAD = "name the folder of an experiment of this file, or another with --out"


def judge(claim: Claim, result: CompareResult, experiment: Experiment) -> JudgedClaim:
    """The claim with its verdict, of an experiment that compares its arms."""
    found = compared(claim, claim.arm, claim.against, result)
    if found is None:
        return judged(claim, "undecided", "not measured yet", experiment)
    verdict, why = verdict_of(claim, found, blocks_least(experiment), result.margin)
    reasons = _reasons(claim, found, result) if verdict != "undecided" else []
    return judged(claim, verdict, "; ".join([why, *reasons]), experiment, found.ratio, found.interval)


def _reasons(claim: Claim, found: ArmResult, result: CompareResult) -> list[str]:
    """Why it is so: what limits the arm, what its plans do otherwise, and whether a method can matter."""
    limit = limit_of(found.name, found.stratum, result)
    rule = rule_of(limit)
    reasons = [f"limited by {rule.phrase if rule is not None else limit}"] if limit else []
    chosen = [each for each in result.statements if claim.statement in ("", each.name)]
    if _METHOD in claim.arm and chosen and not any(each.aio for each in chosen):
        reasons.append(f"its plans read nothing asynchronously, so that {_METHOD} can't matter")
    for change in result.plan_changes:
        is_of_it = (change.arm, change.stratum) == (found.name, found.stratum)
        if (
            is_of_it
            and is_named(change.control, claim.against, claim)
            and claim.statement in ("", change.statement)
        ):
            told = change.sentences[0].removesuffix(".")
            return [*reasons, f"plans: {told[0].lower()}{told[1:]}"]
    return reasons


def compared(claim: Claim, arm: str, against: str, result: CompareResult) -> ArmResult | None:
    """The arm as it compares with the other, or with the control where that is not there; None: no arm."""
    arms = _arms_of(claim, result)
    found = next((each for each in arms if is_named(each.name, arm, claim)), None)
    other = next((each for each in arms if is_named(each.name, against, claim)), None)
    if found is None or other is None:
        return found
    is_between = other.verdict != "control"
    pair = _between(found, other, result.margin) if is_between else found
    if pair.verdict != "inconclusive" or pair.forecast is not None:
        return pair
    measures = 1 + (len(result.statements) if claim.statement else 0)
    comparisons = measures * sum(each.verdict != "control" for each in result.arms)
    forecast = forecast_of(pair, other, result.margin, comparisons, is_between=is_between)
    return pair.model_copy(update={"forecast": forecast})


def missing_for(claim: Claim, experiment: Experiment, where: str, instead: str = _INSTEAD) -> str:
    """Which condition of the claim is missing: of the machine, or an arm that it can't have; '' if none.

    `where`: what the experiment is of, `instead`: what to do about it, for a sentence. Raises UsageError for
    one that doesn't compare the claim's arms.
    """
    missing = missing_condition(claim, experiment.environment.machine)
    if missing:
        return missing
    strata = [short_name(arm.stratum) for arm in experiment.arms]
    wrong = _wrong_stratum(claim.stratum, strata, where) if claim.named_arms else ""
    if wrong and not _is_left_out(experiment):
        raise UsageError(f"claim '{claim.id}': {wrong}")
    arms = [arm for arm in experiment.arms if short_name(arm.stratum) == claim.stratum]
    compared_arms = [arm for arm in arms if arm.role != "twin"]
    for named in claim.named_arms:
        if any(is_named(arm.name, named, claim) for arm in compared_arms):
            continue
        # Where another arm of the claim can't be had, nobody may have wanted this one.
        skips = (
            each for other in (named, *claim.named_arms) for each in experiment.skipped if _is_of(other, each)
        )
        if skipped := next(skips, None):
            return skipped
        if experiment.command[: len(CLAIMS_COMMAND)] == CLAIMS_COMMAND:
            return (
                f"{named} could not be had when the experiment began: run the claims in a new folder (--out)"
            )
        _refuse(claim, no_arm(named, [short_name(arm.name) for arm in compared_arms], where), instead)
    varied = {factor for arm in experiment.arms for factor in arm.levels}
    for factor in filter(None, (claim.factor, claim.against_factor)):
        if factor not in varied:
            _refuse(claim, f"{factor} is not a factor of {where}", instead)
    roles = {arm.role: arm.name for arm in arms if arm.role != "arm"}
    if claim.kind == "speed" and is_named(roles["control"], claim.arm, claim):
        _refuse(claim, f"{claim.arm} is the control in {where}, which others are compared with", instead)
    if claim.kind == "speed" and claim.statement and not is_named(roles["control"], claim.against, claim):
        _refuse(claim, f"a claim on a statement is against the control, {roles['control']}", instead)
    if claim.kind == "factors":
        return ""
    refuse_unknown_statements(claim, [arm.spec.workload for arm in arms], where, instead)
    return ""


def refuse_unknown_statements(
    claim: Claim, workloads: Iterable[WorkloadSpec], where: str, instead: str
) -> None:
    """Raise UsageError for a claim on a statement that none of these workloads has."""
    known = list(dict.fromkeys(each.name for workload in workloads for each in workload.statements))
    for statement in filter(None, (claim.statement, claim.against_statement)):
        if statement in known:
            continue
        alike = difflib.get_close_matches(statement, known, n=_ARMS_SHOWN, cutoff=0.0)
        has = f", which has {', '.join(alike)}" if alike else ", whose workload has no statements by name"
        _refuse(claim, f"there is no statement '{statement}' in {where}{has}", instead)


def refuse_unknown_arms(claim: Claim, names: Sequence[str], where: str, instead: str) -> None:
    """Raise UsageError for a claim on an arm that is not one of `names`: those that a file asks for."""
    if not any({*claim.stratum.split()} <= {*short_name(name).split()} for name in names):
        listed = ", ".join(short_name(name) for name in names[:_ARMS_SHOWN])
        _refuse(claim, f"no arm of {where} has the stratum '{claim.stratum}': it has {listed}", instead)
    for factor in filter(None, (claim.factor, claim.against_factor)):
        if not any(word.startswith(f"{factor}=") for name in names for word in name.split()):
            _refuse(claim, f"{factor} is not a factor of {where}", instead)
    for named in claim.named_arms:
        if not any(is_named(name, named, claim) for name in names):
            _refuse(claim, no_arm(named, [short_name(name) for name in names], where), instead)


def no_arm(named: str, names: Sequence[str], where: str) -> str:
    """That there is no such arm, and which there are: of many the most alike."""
    alike = difflib.get_close_matches(named, names, n=_ARMS_SHOWN, cutoff=0.0)
    listed = list(names) if len(names) <= _ARMS_SHOWN else alike
    more = f", and {len(names) - len(listed)} more" if len(names) > len(listed) else ""
    return f"there is no arm {named} in {where}, which has {', '.join(listed)}{more}"


def _wrong_stratum(stratum: str, strata: Sequence[str], where: str) -> str:
    """Why a claim's stratum is none of the experiment's; '' if it is one."""
    if stratum in strata:
        return ""
    known = list(dict.fromkeys(strata))
    if not any(known):
        return f"there is no stratum '{stratum}' in {where}, which has one factor: leave stratum out"
    more = f", and {len(known) - _ARMS_SHOWN} more" if len(known) > _ARMS_SHOWN else ""
    listed = f"{'; '.join(known[:_ARMS_SHOWN])}{more}"
    if stratum:
        return f"there is no stratum '{stratum}' in {where}: write one of {listed}"
    return f"arms are compared within a stratum of {where}, and stratum is missing: add one of {listed}"


def _is_left_out(experiment: Experiment) -> bool:
    """Whether a stratum may be missing because an arm of it was skipped, or nobody wanted it."""
    is_of_claims = experiment.command[: len(CLAIMS_COMMAND)] == CLAIMS_COMMAND
    return is_of_claims or bool(experiment.skipped)


def _is_of(arm: str, skipped: str) -> bool:
    """Whether a sentence on what was skipped is of this arm: by its name, or by its level alone."""
    level = arm.partition("=")[2]
    # Whole: io_workers=1 is not meant where io_workers=16 was skipped.
    named = re.search(rf"(?<![\w.]){re.escape(arm)}(?!\.?\w)", short_name(skipped))
    return named is not None or skipped.startswith(f"{level} was skipped")


def _refuse(claim: Claim, what: str, instead: str) -> NoReturn:
    raise UsageError(f"claim '{claim.id}': {what}: {instead}")


def blocks_least(experiment: Experiment) -> int:
    """The fewest blocks that can give a verdict."""
    contract = experiment.contract
    if contract.unit == "start":
        return STARTS_MIN
    pooled = contract.pool_twin and all(each.twin_id for each in experiment.contrasts)
    least = minimum_blocks(pooled=pooled, contrasts=contract.contrasts, alpha=contract.alpha)
    return least * max(1, experiment.design.blocks_per_copy)


def missing_condition(claim: Claim, machine: MachineFacts) -> str:
    """Which of the claim's conditions the machine lacks, in words; '' if none that is known."""
    needs = claim.needs
    lacking, has = [needs.elsewhere] if needs.elsewhere else [], []
    cores = machine.cores_online
    if needs.cores is not None and cores is not None and cores < needs.cores:
        lacking.append(plural(needs.cores, "processor"))
        has.append(str(cores))
    memory = machine.memory_bytes
    if needs.memory_gb is not None and memory is not None and memory < needs.memory_gb * _GB:
        lacking.append(f"{figure(needs.memory_gb, 6)} GB of memory")
        has.append(f"{memory / _GB:.1f} GB")
    this = f"; this machine has {join(has)}" if has else ""
    return f"needs {join(lacking)}{this}" if lacking else ""


def _arms_of(claim: Claim, result: CompareResult) -> tuple[ArmResult, ...]:
    arms = result.arms
    if claim.statement:
        named = [statement for statement in result.statements if statement.name == claim.statement]
        arms = named[0].arms if named else ()
    return tuple(arm for arm in arms if short_name(arm.stratum) == claim.stratum)


def short_name(arm: str) -> str:
    """An arm's name with its files of SQL without their folders, as claims name it."""
    return _FOLDERS.sub("=", arm)


def is_named(arm: str, claimed: str, claim: Claim) -> bool:
    """Whether a claim means this arm; the name of one of a grid has the levels of its stratum too."""
    return {*short_name(arm).split()} == {*claimed.split(), *claim.stratum.split()}


def _between(found: ArmResult, other: ArmResult, margin: float) -> ArmResult:
    """One arm against another, by the ends of both intervals against their control.

    These intervals hold together, so their ratio holds at the same level: it is wider than one that the two
    arms' own blocks would give, and true without another family.
    """
    unknown = {"ratio": None, "interval": None, "verdict": "inconclusive", "forecast": None}
    if found.ratio is None or other.ratio is None or found.interval is None or other.interval is None:
        return found.model_copy(update=unknown)
    (low, high), (other_low, other_high) = found.interval, other.interval
    lower = low / other_high if low is not None and other_high else 0.0
    upper = high / other_low if high is not None and other_low else math.inf
    verdict = "faster" if lower > 1 else "slower" if upper < 1 else "inconclusive"
    if lower >= 1 / (1 + margin) and upper <= 1 + margin:
        verdict = "equivalent"
    return found.model_copy(
        update={
            "ratio": found.ratio / other.ratio,
            "interval": (lower, upper),
            "verdict": verdict,
            "meaningful": lower > 1 + margin or upper < 1 / (1 + margin),
            "withheld": found.withheld or other.withheld,
            "note": found.note if found.withheld else other.note if other.withheld else "",
            "forecast": None,
            "blocks": min(found.blocks, other.blocks),
        }
    )


def verdict_of(claim: Claim, found: ArmResult, least: int, margin: float) -> tuple[ClaimVerdict, str]:
    """The verdict and why. A verdict on an arm is one on a direction; the size is the estimate's."""
    if found.withheld:
        return "undecided", withheld_words(found)
    if found.ratio is None or found.verdict not in ("faster", "slower", "equivalent"):
        return "undecided", further(found, least, margin)
    here = f"{amount(found.ratio)} here"
    if found.verdict == "equivalent":
        same = "the same within the margin here"
        return ("reproduced" if claim.says == "equal" else "no difference here"), same
    if claim.says == "equal":
        if found.meaningful:
            return "refuted", f"{here}, by more than the margin"
        more = more_blocks(found.ratio, found.interval, found.blocks, margin, is_equal=True)
        return "undecided", f"{here}, perhaps by no more than the margin; {more}"
    is_opposite = found.verdict != claim.says
    return judge_direction(claim, found.ratio, found.interval, here, is_opposite=is_opposite)


def withheld_words(found: ArmResult) -> str:
    """That a verdict is withheld, and why, as the arm's own note says it."""
    why = found.note.removeprefix("withheld: ")
    return f"the verdict is withheld: {why}" if why else "the verdict is withheld"


def judge_direction(
    claim: Claim,
    ratio: float,
    interval: tuple[float | None, float | None] | None,
    here: str,
    *,
    is_opposite: bool,
) -> tuple[ClaimVerdict, str]:
    """The verdict where a direction is proven, and why; `here`: the estimate in words.

    The size is another one where no part of its interval lies in the band, so that the verdict of an estimate
    at the edge of the band is no matter of chance.
    """
    if is_opposite:
        return "refuted", f"{here}, the opposite"
    if claim.band is None or claim.band[0] <= ratio <= claim.band[1]:
        return "reproduced", here
    least, most = interval if interval is not None else (ratio, ratio)
    band = "{} to {} ×".format(*(figure(end) for end in claim.band))
    if (least is None or least <= claim.band[1]) and (most is None or most >= claim.band[0]):
        return "reproduced", f"{here}, and its interval reaches the band of {band}"
    return "same direction, other size", f"{here}, outside the band of {band}"


def further(found: ArmResult, least: int, margin: float) -> str:
    """What the verdict on an arm still takes, in words."""
    if found.blocks < least:
        return f"it has {plural(found.blocks, 'block')}, and a verdict takes {least} at least"
    median = found.forecast.blocks[1] if found.forecast is not None else None
    if median is None:
        return more_blocks(found.ratio, found.interval, found.blocks, margin)
    return f"about {plural(median, 'more block')} would decide it"


def more_blocks(
    ratio: float | None,
    interval: tuple[float | None, float | None] | None,
    blocks: int,
    margin: float,
    *,
    is_equal: bool = False,
) -> str:
    """How many more blocks a verdict takes if the ratio stays as it is, in words (`further_blocks`)."""
    more = further_blocks(ratio, interval, blocks, margin, is_equal=is_equal)
    if more is None:
        return "how many more blocks it takes can't be said yet"
    if more > _FORECAST_BLOCKS_MAX:
        return f"more than {_FORECAST_BLOCKS_MAX} more blocks would decide it"
    return f"about {plural(max(1, math.ceil(more)), 'more block')} would decide it"


def further_blocks(
    ratio: float | None,
    interval: tuple[float | None, float | None] | None,
    blocks: int,
    margin: float,
    *,
    is_equal: bool = False,
) -> float | None:
    """How many more blocks a verdict takes if the ratio stays as it is; None where that is not known.

    An interval's width in logarithms falls with the root of the blocks. A direction is proven when the
    interval leaves 1, "the same" when it lies within the margin; `is_equal`: beyond the margin counts.
    """
    low, high = interval or (None, None)
    if ratio is None or not low or not high or not high < math.inf:
        return None
    width, away = math.log(high / low) / 2, abs(math.log(ratio))
    beyond = away - math.log1p(margin)
    wanted = abs(beyond) if is_equal else max(away, -beyond)
    return blocks * ((width / wanted) ** 2 - 1) if wanted > 0 else math.inf


def limit_of(arm: str, stratum: str, result: CompareResult) -> str:
    """What limits the arm; '' where that is not known."""
    for cause in result.causes:
        if cause.kind == "limit" and (cause.arm, cause.stratum) == (arm, stratum):
            return "" if cause.cause == UNKNOWN else cause.cause
    return ""


def judged(
    claim: Claim,
    verdict: ClaimVerdict,
    why: str,
    experiment: Experiment,
    here: float | None = None,
    interval: tuple[float | None, float | None] | None = None,
) -> JudgedClaim:
    """The claim with a verdict, what was found and its interval."""
    command = shlex.join(experiment.command)
    return JudgedClaim.of(claim, why, command, verdict, here=here, interval=interval)
