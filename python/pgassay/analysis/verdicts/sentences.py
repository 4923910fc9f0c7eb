"""A verdict as a sentence that a person acts on."""

import math

from pgassay.analysis.statistics.power import duration_words, percent_words
from pgassay.analysis.verdicts.verdict import DISTRIBUTION_CHANGED
from pgassay.model.result import ArmResult, CompareResult, SecondaryArmResult

Ends = tuple[float | None, float | None]
BLOCKS_WORTH_SAYING_MAX = 1000
RATIO_SAID_MIN = 2.0
RATIO_ALONE_MIN = 10.0


def arm_sentence(result: CompareResult, arm: ArmResult) -> str:
    """The verdict of one arm: 'a is 21 % faster than b (between 17 % and 25 %, 12 blocks).'"""
    control = control_name(result, arm)
    where = f"At {arm.stratum}, " if arm.stratum and arm.stratum not in arm.name else ""
    return where + _confounded(_sentence(arm, control, result.blocks, result.margin), arm)


def _confounded(sentence: str, arm: ArmResult) -> str:
    """The sentence with what else may be the cause: binaries that weren't made alike."""
    if arm.ratio is None or not arm.confound:
        return sentence
    return f"{sentence.removesuffix('.')}; their binaries also differ in {arm.confound}."


def control_name(result: CompareResult, arm: ArmResult) -> str:
    """The name of the control that an arm is compared with: its stratum's."""
    names = [item.name for item in result.arms if item.verdict == "control" and item.stratum == arm.stratum]
    return names[0] if names else result.control


def _sentence(arm: ArmResult, control: str, blocks: int, margin: float) -> str:
    if arm.ratio is None or arm.interval is None:
        return f"{arm.name} can't be told from {control} yet: no block is complete."
    counted = blocks_words(blocks)
    if arm.verdict in ("faster", "slower"):
        small = "" if arm.meaningful else f"; it may be less than the margin of {percent_words(margin)}"
        found = f"{_times(arm.ratio)}{span(arm.interval)}, {counted}{small}"
        return f"{arm.name} is {comparison(arm.ratio)} {control} ({found})."
    if arm.verdict == "equivalent":
        note = f"; it is {arm.note}" if arm.note else ""
        return (
            f"{arm.name} is equivalent to {control} within {percent_words(margin)} "
            f"({span(arm.interval)}, {counted}{note})."
        )
    if arm.withheld:
        return (
            f"The verdict on {arm.name} is withheld: the twin, a duplicate of {control}, differs from it by "
            f"as much, so this measurement is biased (the arm itself: {span(arm.interval)}, {counted})."
        )
    if arm.note == DISTRIBUTION_CHANGED:
        return (
            f"{arm.name} changed the distribution of the results against {control}, or the effect itself "
            f"moved, so no direction is given ({span(arm.interval)}, {counted}): look at its single trials."
        )
    outlook = f"; {arm.note}" if arm.note else ""
    return f"{arm.name} can't be told from {control} yet: {span(arm.interval)} after {counted}{outlook}."


def _times(ratio: float) -> str:
    """Beside a percentage above 100, which many read as the ratio itself."""
    return f"{ratio:.3g} times its speed; " if RATIO_SAID_MIN <= ratio < RATIO_ALONE_MIN else ""


def blocks_words(blocks: int) -> str:
    """'1 block', '12 blocks'."""
    return f"{blocks} block" if blocks == 1 else f"{blocks} blocks"


def amount(ratio: float, more: str = "faster", less: str = "slower") -> str:
    """A ratio as a difference in words: '21 % faster', '20 % slower', '140 % faster', '12 times as fast'."""
    if ratio >= RATIO_ALONE_MIN and more == "faster":
        return f"{ratio:.3g} times as fast"
    if ratio >= 1:
        return f"{percent_words(ratio - 1)} {more}"
    return f"{percent_words(1 - ratio)} {less}"


def comparison(ratio: float) -> str:
    """What stands between two names: '21 % faster than', '12 times as fast as'."""
    return f"{amount(ratio)} {'as' if ratio >= RATIO_ALONE_MIN else 'than'}"


def span(interval: Ends, more: str = "faster", less: str = "slower") -> str:
    """An interval of ratios in words: the direction is left out when both ends share it."""
    low = interval[0] if interval[0] is not None and interval[0] > 0 else None
    high = interval[1] if interval[1] is not None and math.isfinite(interval[1]) else None
    if low is None and high is None:
        return "nothing is bounded"
    if low is None:
        word = "at most" if high is None or high >= 1 else "at least"
        return f"{word} {amount(1.0 if high is None else high, more, less)}"
    if high is None:
        return f"at least {amount(low, more, less)}" if low >= 1 else f"at most {amount(low, more, less)}"
    if low >= 1 and high >= RATIO_ALONE_MIN and more == "faster":
        return f"between {low:.3g} and {high:.3g} times as fast"
    if low >= 1:
        return f"between {percent_words(low - 1)} and {percent_words(high - 1)}"
    if high <= 1:
        return f"between {percent_words(1 - high)} and {percent_words(1 - low)}"
    return f"between {amount(low, more, less)} and {amount(high, more, less)}"


def outlook(blocks_more: int | None, block_s: float | None) -> str:
    """What an undecided arm still takes, '' when it can't be said."""
    if blocks_more is None:
        return ""
    if blocks_more > BLOCKS_WORTH_SAYING_MAX:
        return f"more than {BLOCKS_WORTH_SAYING_MAX} more blocks would be needed to decide it"
    time = f" ({duration_words(blocks_more * block_s)})" if block_s else ""
    return f"about {blocks_more} more {'block' if blocks_more == 1 else 'blocks'}{time} would decide it"


def cpu_sentence(arm: SecondaryArmResult, control: str, blocks: int) -> str:
    """What is known of an arm's server CPU per unit of work; never a word about speed."""
    if arm.ratio is None or arm.interval is None:
        return ""
    words = "more", "less"
    counted = f"{span(arm.interval, *words)}, {blocks_words(blocks)}"
    if arm.verdict in words:
        return f"{arm.name} uses {amount(arm.ratio, *words)} CPU than {control} ({counted})"
    if arm.verdict == "equivalent":
        return f"{arm.name} uses as much CPU as {control} ({counted})"
    return f"{arm.name}'s CPU can't be told from {control}'s ({counted})"


def headline(result: CompareResult) -> str:
    """The verdict of a whole comparison: one sentence per arm, each on its own line."""
    if result.blocks == 0:
        return "No verdict yet: no block is complete."
    return "\n".join(arm_sentence(result, arm) for arm in result.arms if arm.verdict != "control")
