"""How many blocks the verdicts of claims take: at least, as expected beforehand, and by what was measured.

Only how time is shared follows from these figures. No verdict rests on them, so they may be rough.
"""

import math
from collections.abc import Sequence

from pgassay.analysis.claims import arm_claims, figures, record_claims
from pgassay.analysis.claims.arm_claims import is_named
from pgassay.analysis.effects.effect_evidence import ROUNDS_MIN
from pgassay.analysis.statistics.power import blocks_for_detection, blocks_for_equivalence, minimum_blocks
from pgassay.analysis.statistics.starts import STARTS_MIN, STARTS_WITHOUT_BOUND
from pgassay.model.experiment import Experiment
from pgassay.model.further_results.claims import Claim, JudgedClaim
from pgassay.model.result import CompareResult

# Verdicts that speak of a size, and how many blocks an experiment may have for it.
_SIZED = ("reproduced", "same direction, other size")
_BLOCKS_FOR_A_SIZE = 20
# From here on a few starts prove a difference by their bound.
_LARGE = 0.2
# The sign test needs so many times the blocks of a mean of normal noise.
_OF_SIGNS = math.pi / 2
# Two arms by the ends of both of their intervals: each has half of the difference.
_OF_TWO_INTERVALS = 4.0


def pair_level(claims: Sequence[Claim], alpha: float) -> float:
    """The level of each claim that is judged by the median over blocks: they share the error rate."""
    return alpha / max(1, sum(_is_by_median(claim) for claim in claims))


def blocks_first(claims: Sequence[Claim], experiment: Experiment, level: float) -> int:
    """After how many blocks the first of these claims can be decided; `level`: of `pair_level`."""
    least = arm_claims.blocks_least(experiment)
    return min((least_of(claim, experiment, level) for claim in claims), default=least)


def least_of(claim: Claim, experiment: Experiment, level: float) -> int:
    """The fewest blocks that can decide the claim."""
    least = arm_claims.blocks_least(experiment)
    if claim.kind in ("blocks", "setting") or figures.is_of_plans(claim):
        return 1
    if claim.kind == "limit" or (claim.kind == "figure" and not figures.is_measured(claim)):
        return min(least, record_claims.TRIALS_LEAST)
    if _is_by_median(claim):
        return record_claims.blocks_of_median(level)
    if claim.kind == "factors":
        return ROUNDS_MIN * max(1, experiment.design.blocks_per_copy)
    if claim.statement and experiment.contract.unit != "start":
        contract = experiment.contract
        of_statement = minimum_blocks(
            pooled=_is_pooled(experiment), contrasts=_family(claim, experiment), alpha=contract.alpha
        )
        return max(least, of_statement * max(1, experiment.design.blocks_per_copy))
    return least


def expected_of(claim: Claim, experiment: Experiment, level: float, spread: float) -> float:
    """The blocks that the claim takes if it is as it was published; `spread`: of single trials.

    One that says a direction and no size is taken to be large.
    """
    least = least_of(claim, experiment, level)
    is_equal = claim.says == "equal"
    effect = _effect(claim, experiment.contract.margin)
    if effect is None or not _has_noise(claim):
        return least
    if experiment.contract.unit == "start":
        return max(least, STARTS_MIN if effect >= _LARGE else (1 + is_equal) * STARTS_WITHOUT_BOUND)
    blocks = (blocks_for_equivalence if is_equal else blocks_for_detection)(
        math.sqrt(2) * spread,
        effect,
        pooled=_is_pooled(experiment) and not _is_by_median(claim),
        contrasts=_family(claim, experiment),
        alpha=experiment.contract.alpha,
    )
    times = _OF_SIGNS if _is_by_median(claim) else max(1, experiment.design.blocks_per_copy)
    if not _is_by_median(claim) and not _names_the_control(claim, experiment):
        times *= _OF_TWO_INTERVALS
    return max(least, blocks * times)


def further_of(
    claim: Claim, judged: JudgedClaim, result: CompareResult, experiment: Experiment, level: float
) -> float:
    """The blocks that an open claim is likely still to take; as many as there were where nothing is known."""
    if is_of_size(judged):
        return max(1, _BLOCKS_FOR_A_SIZE - result.blocks)
    missing = least_of(claim, experiment, level) - result.blocks
    return max(1, missing, _forecast(claim, judged, result) or result.blocks)


def _forecast(claim: Claim, judged: JudgedClaim, result: CompareResult) -> float | None:
    pairs = [(claim.arm, claim.against)] if claim.kind == "speed" else []
    # A proven direction leaves open whether it lies beyond the margin.
    is_equal = claim.says == "equal"
    if claim.kind == "order":
        pairs = list(zip(claim.order, claim.order[1:], strict=False))
    found: list[float | None] = []
    for arm, against in pairs:
        each = arm_claims.compared(claim, arm, against, result)
        if each is None:
            return None
        median = each.forecast.blocks[1] if each.forecast is not None else None
        if each.verdict in ("faster", "slower", "equivalent"):
            # Of an order this pair is decided; of one pair a size may be wanted beyond the verdict.
            median = 0 if claim.kind == "order" else None
        by_width = arm_claims.further_blocks(
            each.ratio, each.interval, each.blocks, result.margin, is_equal=is_equal
        )
        found.append(median if median is not None else by_width)
    if not pairs:
        found = [
            arm_claims.further_blocks(
                judged.here, judged.interval, result.blocks, result.margin, is_equal=is_equal
            )
        ]
    known = [each for each in found if each is not None]
    return max(known) if len(known) == len(found) else None


def is_of_size(judged: JudgedClaim) -> bool:
    """Whether all that may be wanted of a claim is whether its size lies in the band."""
    return judged.verdict in _SIZED


def is_open(claim: Claim, judged: JudgedClaim, blocks: int) -> bool:
    """Whether more blocks are wanted: of a verdict, or, within reason, of a size at the edge of its band.

    `blocks`: those of the experiment so far. Two sizes that are alike can't be told apart at any expense.
    """
    if judged.verdict in (None, "undecided"):
        return True
    if judged.interval is None or claim.band is None or not is_of_size(judged):
        return False
    low, high = (end if end is not None else math.nan for end in judged.interval)
    is_apart = high < claim.band[0] or low > claim.band[1]
    is_within = claim.band[0] <= low and high <= claim.band[1]
    is_counted = claim.kind == "blocks" or (claim.kind == "figure" and not figures.is_measured(claim))
    return not is_apart and not is_within and blocks < _BLOCKS_FOR_A_SIZE and not is_counted


def _effect(claim: Claim, margin: float) -> float | None:
    if claim.says in ("equal", "ordered"):
        return margin
    return None if claim.published is None else max(claim.published, 1 / claim.published) - 1


def _is_by_median(claim: Claim) -> bool:
    return claim.kind == "statements" or figures.is_measured(claim)


def _has_noise(claim: Claim) -> bool:
    return claim.kind in ("speed", "price", "order") or _is_by_median(claim)


def _is_pooled(experiment: Experiment) -> bool:
    return experiment.contract.pool_twin and all(each.twin_id for each in experiment.contrasts)


def _family(claim: Claim, experiment: Experiment) -> int:
    """How many comparisons share the error rate with the claim's: a statement's with the server's CPU too."""
    contrasts = experiment.contract.contrasts
    if not claim.statement or claim.kind != "speed":
        return contrasts
    return (len(experiment.arms[0].spec.workload.statements) + 1) * contrasts


def _names_the_control(claim: Claim, experiment: Experiment) -> bool:
    controls = [arm.name for arm in experiment.arms if arm.role == "control"]
    return any(is_named(name, named, claim) for name in controls for named in claim.named_arms)
