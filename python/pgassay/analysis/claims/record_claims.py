"""Claims that are not of two arms' speeds: of two statements of an arm, of blocks, of settings, of limits."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median

import numpy as np

from pgassay.analysis.causes.registry import rule_of
from pgassay.analysis.claims.arm_claims import is_named, judge_direction, judged, limit_of, more_blocks
from pgassay.analysis.statistics.sequence import log_sign_evidence, median_sequence
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.further_results.claims import Claim, ClaimVerdict, JudgedClaim
from pgassay.model.result import CompareResult
from pgassay.model.trial import StatementObservation, TrialRecord
from pgassay.record.experiment import StoredExperiment
from pgassay.words import AMOUNT, SPEED, amount, plural

_BLOCK_BYTES = 8192
# The limit of an arm is that of most of its trials, and counts differ between them: one trial says little.
TRIALS_LEAST = 3


def judge_statements(
    claim: Claim, result: CompareResult, stored: StoredExperiment, level: float
) -> JudgedClaim:
    """The speed of one statement over another's in the same trials, by the median over blocks.

    The interval is that of the sign test, which holds at any look and asks nothing of the distribution but
    that blocks are alike and independent (`median_sequence`).
    """
    return by_median(claim, list(_log_ratios(claim, stored)), result.margin, stored.experiment, level)


def by_median(
    claim: Claim, logs: Sequence[float], margin: float, experiment: Experiment, level: float
) -> JudgedClaim:
    """By the median of one log ratio of each block."""
    pairs = np.array(logs)
    least = blocks_of_median(level)
    if pairs.size < least:
        why = f"it has {plural(pairs.size, 'block')}, and a verdict takes {least} at least"
        ratio = math.exp(median(pairs)) if pairs.size else None
        return judged(claim, "undecided", why, experiment, ratio)
    sequence = median_sequence(pairs, level)
    low, high = math.exp(float(sequence.lower[()])), math.exp(float(sequence.upper[()]))
    ratio = math.exp(median(pairs))
    verdict, why = of_ratio(claim, ratio, (low, high), margin, "the trials' blocks")
    if verdict == "undecided":
        more = more_blocks(ratio, (low, high), pairs.size, margin, is_equal=claim.says == "equal")
        why = f"{why}; {more}"
    return judged(claim, verdict, why, experiment, ratio, (low, high))


def _log_ratios(claim: Claim, stored: StoredExperiment) -> Iterator[float]:
    """Of each block, the log of the other statement's seconds over the statement's: above 0 is faster."""
    blocks: dict[int, list[float]] = {}
    for record in trials_of(arm_of(claim, claim.arm, stored), stored):
        named = {each.name: each for each in record.statements}
        own, other = named.get(claim.statement), named.get(claim.against_statement)
        # A load does not time its statements.
        if own is not None and other is not None and not own.stopped and not other.stopped:
            blocks.setdefault(record.block, []).append(math.log(other.least_s / own.least_s))
    for _, ratios in sorted(blocks.items()):
        yield fmean(ratios)


def blocks_of_median(level: float) -> int:
    """The fewest blocks that bound the median, where all of them are on one side."""
    blocks = 1
    while float(log_sign_evidence(np.zeros(1), blocks)[0]) < math.log(1 / level):
        blocks += 1
    return blocks


def judge_blocks(claim: Claim, result: CompareResult, stored: StoredExperiment) -> JudgedClaim:
    """How many blocks statements asked for, which is counted: the interval is what all counts lie within.

    By the executed plans, as EXPLAIN (BUFFERS) says it; where one has none, by what the trials counted, which
    has a new session's reads of the catalogue in it.
    """
    other = claim.against_statement or claim.statement
    pairs = (claim.arm, claim.statement), (claim.against or claim.arm, other)
    own, others = (_of_plans(arm_of(claim, arm, stored), statement, result) for arm, statement in pairs)
    where = "in the executed plans"
    if not own or not others:
        own, others = (_of_trials(arm_of(claim, arm, stored), statement, stored) for arm, statement in pairs)
        where = f"in {plural(len(own), 'trial')}"
    if not own or not others:
        return judged(claim, "undecided", "not counted yet", stored.experiment)
    if not min(own) or not min(others):
        return judged(claim, "undecided", "no block was asked for", stored.experiment)
    ratio = median(own) / median(others)
    interval = (min(own) / max(others), max(own) / min(others))
    counted = f"{median(own):,.0f} and {median(others):,.0f} blocks {where}"
    verdict, why = of_ratio(claim, ratio, interval, result.margin, counted)
    return judged(claim, verdict, f"{counted}; {why}", stored.experiment, ratio, interval)


def _of_plans(arm: Arm, statement: str, result: CompareResult) -> list[float]:
    """The blocks of a statement's executed plans, or of all statements together; [] where one has none."""
    names = [statement] if statement else [each.name for each in arm.spec.workload.statements]
    found: list[list[float]] = []
    for name in names:
        plans = [
            plan.nodes[0]
            for plan in result.plans
            if plan.executed
            and plan.nodes
            and (plan.statement, plan.arm, plan.stratum) == (name, arm.name, arm.stratum)
        ]
        blocks = [
            float(top.buffers_hit + top.buffers_read)
            for top in plans
            if top.buffers_hit is not None and top.buffers_read is not None
        ]
        found.append(blocks)
    if not all(found):
        return []
    return [sum(map(min, found)), sum(map(max, found))]


def _of_trials(arm: Arm, statement: str, stored: StoredExperiment) -> list[float]:
    """Of each trial of an arm the blocks of 8 kB that its statements hit or read, where counted."""
    found = []
    for record in trials_of(arm, stored):
        chosen = [each for each in record.statements if not statement or each.name == statement]
        counts = [_asked_for(each) for each in chosen]
        if counts and None not in counts:
            found.append(sum(count for count in counts if count is not None))
    return found


def _asked_for(statement: StatementObservation) -> float | None:
    if statement.postgres_hit_bytes is None or statement.postgres_read_bytes is None:
        return None
    return (statement.postgres_hit_bytes + statement.postgres_read_bytes) / _BLOCK_BYTES


def judge_setting(claim: Claim, stored: StoredExperiment) -> JudgedClaim:
    """Whether a setting has the same value in both arms, as their servers said."""
    values = [_values(claim, arm, stored) for arm in (claim.arm, claim.against)]
    if not all(values):
        why = f"{claim.setting} is not among the settings that trials record"
        if all(any(trials_of(arm_of(claim, arm, stored), stored)) for arm in (claim.arm, claim.against)):
            # More trials would record it as little.
            return judged(claim, "can't be tried here", why, stored.experiment)
        return judged(claim, "undecided", "not measured yet", stored.experiment)
    own, other = (", ".join(sorted(each)) for each in values)
    is_same = own == other
    why = f"{claim.setting} is {own} in both" if is_same else f"{claim.setting} is {own}, and {other} there"
    verdict: ClaimVerdict = "reproduced" if is_same is (claim.says == "equal") else "refuted"
    return judged(claim, verdict, why, stored.experiment)


def _values(claim: Claim, arm: str, stored: StoredExperiment) -> set[str]:
    records = trials_of(arm_of(claim, arm, stored), stored)
    found = (record.facts.settings.get(claim.setting) for record in records)
    return {value for value in found if value is not None}


def judge_limit(claim: Claim, result: CompareResult, stored: StoredExperiment) -> JudgedClaim:
    """Whether the arm's limit is the cause that the claim names."""
    arm = arm_of(claim, claim.arm, stored)
    trials = len(list(trials_of(arm, stored)))
    limit = limit_of(arm.name, arm.stratum, result)
    if trials < TRIALS_LEAST:
        why = f"it has {plural(trials, 'trial')}, and a limit takes {TRIALS_LEAST} at least"
        return judged(claim, "undecided", why, stored.experiment)
    if not limit:
        return judged(claim, "undecided", "what limits it here is not known", stored.experiment)
    why = f"its limit: {limit}, in most of {plural(trials, 'trial')}"
    if limit != claim.cause and _is_of_the_measurement(limit) and not _is_of_the_measurement(claim.cause):
        # Another workload, or data that do not fit into memory, may well be limited as was claimed.
        why += ", which is a matter of how it was measured"
        return judged(claim, "undecided", why, stored.experiment)
    return judged(claim, "reproduced" if limit == claim.cause else "refuted", why, stored.experiment)


def _is_of_the_measurement(cause: str) -> bool:
    rule = rule_of(cause)
    return rule is not None and rule.layer == "measurement"


def arm_of(claim: Claim, name: str, stored: StoredExperiment) -> Arm:
    """The arm of this name in the claim's stratum, which `missing_for` has found to be there."""
    arms = (arm for arm in stored.experiment.arms if arm.role != "twin")
    return next(arm for arm in arms if is_named(arm.name, name, claim))


def trials_of(arm: Arm, stored: StoredExperiment) -> Iterator[TrialRecord]:
    """The valid trials of an arm."""
    for trial in stored.trials:
        if trial.record.arm_id == arm.id and trial.record.status == "ok":
            yield trial.record


def of_ratio(
    claim: Claim, ratio: float, interval: tuple[float, float], margin: float, by: str
) -> tuple[ClaimVerdict, str]:
    """The verdict of a ratio with an interval, and why."""
    low, high = interval
    here = f"{amount(ratio, AMOUNT if claim.kind in ('blocks', 'figure') else SPEED)} here"
    is_same = low >= 1 / (1 + margin) and high <= 1 + margin
    if claim.says == "equal":
        if is_same:
            return "reproduced", "the same within the margin here"
        if low > 1 + margin or high < 1 / (1 + margin):
            return "refuted", f"{here}, by more than the margin"
        return "undecided", f"{here}, perhaps by no more than the margin"
    if is_same:
        return "no difference here", "the same within the margin here"
    if low <= 1 <= high:
        return "undecided", f"{here}, and {by} disagree on the direction"
    return judge_direction(
        claim, ratio, (low, high), here, is_opposite=(low > 1) is not (claim.says in ("faster", "more"))
    )
