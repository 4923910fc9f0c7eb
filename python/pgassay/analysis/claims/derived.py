"""Claims that follow from the verdicts on arms: of an order of arms, of a price, of two factors' effects."""

import math
from collections.abc import Iterator
from itertools import pairwise

from pgassay.analysis.claims.arm_claims import (
    blocks_least,
    compared,
    further,
    is_named,
    judge_direction,
    judged,
    more_blocks,
    withheld_words,
)
from pgassay.model.experiment import Experiment
from pgassay.model.further_results.claims import Claim, ClaimVerdict, JudgedClaim
from pgassay.model.further_results.effects import FactorSize
from pgassay.model.result import ArmResult, CompareResult
from pgassay.model.volumes.arm import ArmVolumes
from pgassay.words import Comparative, amount, figure, join

_DECIDED = ("faster", "slower", "equivalent")
_PRICE = Comparative("dearer", "cheaper", "the price")


def judge_order(claim: Claim, result: CompareResult, experiment: Experiment) -> JudgedClaim:
    """Whether each arm is faster than the next: refuted by one pair, reproduced by all of them.

    The pairs' intervals hold together, as those of the arms do.
    """
    found: dict[tuple[str, str], str] = {}
    takes = ""
    for first, second in pairwise(claim.order):
        arm = compared(claim, first, second, result)
        found[first, second] = "" if arm is None or arm.withheld else arm.verdict
        if arm is not None and found[first, second] not in _DECIDED and not takes:
            least = blocks_least(experiment)
            takes = f"; {withheld_words(arm) if arm.withheld else further(arm, least, result.margin)}"
    opposite = [
        f"{second} is faster than {first}" for (first, second), each in found.items() if each == "slower"
    ]
    if opposite:
        return judged(claim, "refuted", f"{join(opposite)} here", experiment)
    same = [f"{first} and {second}" for (first, second), each in found.items() if each == "equivalent"]
    open_ = [f"{first} and {second}" for (first, second), each in found.items() if each not in _DECIDED]
    if open_:
        return judged(claim, "undecided", f"not decided yet between {join(open_)}{takes}", experiment)
    if same:
        why = f"the same within the margin here: {'; '.join(same)}"
        return judged(claim, "no difference here", why, experiment)
    return judged(claim, "reproduced", "each is faster than the next here", experiment)


def judge_price(claim: Claim, result: CompareResult, experiment: Experiment) -> JudgedClaim:
    """What a unit of work costs on one arm's volumes and on the other's: their prices over their speeds.

    The prices are the catalogue's and have no error, so the interval is that of the speeds.
    """
    own, other = (_volumes(claim, arm, result) for arm in (claim.arm, claim.against))
    if own is None or other is None:
        missing = "not measured yet" if not result.blocks else "its arms have no volume"
        return judged(claim, "undecided", missing, experiment)
    if own.per_month is None or other.per_month is None or own.currency != other.currency:
        lacking = dict.fromkeys((*own.missing, *other.missing)) or {"one currency": None}
        why = f"the catalogue of volumes has no price of {join([*lacking])}"
        return judged(claim, "can't be tried here", why, experiment)
    free = [each.arm for each in (own, other) if not each.per_month]
    if free:
        why = f"{join(free)} cost{'s' if len(free) == 1 else ''} nothing, so that prices have no ratio"
        return judged(claim, "can't be tried here", why, experiment)
    arm = compared(claim, claim.arm, claim.against, result)
    if arm is not None and arm.withheld:
        return judged(claim, "undecided", withheld_words(arm), experiment)
    if arm is None or arm.ratio is None or arm.interval is None:
        return judged(claim, "undecided", "its speed is not known yet", experiment)
    months = own.per_month / other.per_month
    low, high = (end if end is not None else math.nan for end in arm.interval)
    ratio = months / arm.ratio
    interval = (0.0 if not high < math.inf else months / high, months / low if low > 0 else math.inf)
    each = f"{own.per_month:,.2f} and {other.per_month:,.2f} {own.currency} a month"
    verdict, why = _of_price(claim, ratio, interval, result.margin, arm, blocks_least(experiment))
    return judged(claim, verdict, f"{each}; {why}", experiment, ratio, interval)


def _of_price(
    claim: Claim, ratio: float, interval: tuple[float, float], margin: float, arm: ArmResult, least: int
) -> tuple[ClaimVerdict, str]:
    low, high = interval
    here = f"{amount(ratio, _PRICE)} for the same work here"

    def more(*, is_equal: bool) -> str:
        # The speeds may be told apart where the prices are not.
        if arm.blocks < least:
            return further(arm, least, margin)
        return more_blocks(ratio, interval, arm.blocks, margin, is_equal=is_equal)

    is_same = low >= 1 / (1 + margin) and high <= 1 + margin
    if is_same:
        same = "the same within the margin here"
        return ("reproduced" if claim.says == "equal" else "no difference here"), same
    if low <= 1 <= high:
        return "undecided", more(is_equal=False)
    if claim.says == "equal":
        if low > 1 + margin or high < 1 / (1 + margin):
            return "refuted", f"{here}, by more than the margin"
        return "undecided", f"{here}, perhaps by no more than the margin; {more(is_equal=True)}"
    is_opposite = (low > 1) is not (claim.says == "dearer")
    return judge_direction(claim, ratio, (low, high), here, is_opposite=is_opposite)


def _volumes(claim: Claim, named: str, result: CompareResult) -> ArmVolumes | None:
    return next((each for each in result.volumes if is_named(each.arm, named, claim)), None)


def judge_factors(claim: Claim, result: CompareResult, experiment: Experiment) -> JudgedClaim:
    """Whether the first factor's largest effect is proven to exceed what none of the other's does."""
    sizes = {each.factor: each for each in (result.effects.ranking if result.effects is not None else ())}
    first, second = sizes.get(claim.factor), sizes.get(claim.against_factor)
    if first is None or second is None:
        return judged(claim, "undecided", "not measured yet", experiment)
    shown = "; ".join(_size(each) for each in (first, second))
    if _proven(first) > _bound(second):
        return judged(claim, "reproduced", shown, experiment)
    if _proven(second) > _bound(first):
        return judged(claim, "refuted", shown, experiment)
    return judged(claim, "undecided", shown, experiment)


def _proven(size: FactorSize) -> float:
    """The least that its largest effect is, as a ratio above 1; 1 where none is proven."""
    return (size.interval[0] or 1.0) if size.interval is not None else 1.0


def _bound(size: FactorSize) -> float:
    """What none of its effects exceeds; infinite while one level of it is not bounded.

    The end of its largest proven effect says nothing of its other levels.
    """
    return math.inf if size.at_most is None else size.at_most


def _size(size: FactorSize) -> str:
    return f"{size.factor}: {', '.join(_words(size))}"


def _words(size: FactorSize) -> Iterator[str]:
    if size.ratio is not None:
        yield f"{figure(size.ratio)} ×"
    if size.at_most is not None:
        yield f"at most {figure(size.at_most)} ×"
    if size.ratio is None and size.at_most is None:
        yield "not bounded yet"
