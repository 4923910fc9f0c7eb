"""A verdict as a sentence that a person acts on."""

from pgassay.analysis.statistics.forecast import HORIZON_BLOCKS
from pgassay.analysis.verdicts.verdict import (
    DISTRIBUTION_CHANGED,
    LEFT_BEHIND,
    MEDIAN_DISAGREES,
    MOVED,
    TWIN_DIFFERS,
)
from pgassay.model.result import ArmResult, CompareResult, Forecast, SecondaryArmResult
from pgassay.words import AMOUNT, comparison, duration_rounded, percent_rounded, plural, span


def arm_sentence(result: CompareResult, arm: ArmResult) -> str:
    """The verdict of one arm: 'a is 21 % faster than b (between 17 % and 25 %, 12 blocks).'"""
    control = control_name(result, arm)
    where = f"At {arm.stratum}, " if arm.stratum and arm.stratum not in arm.name else ""
    return where + _confounded(_sentence(arm, control, result), arm)


def _confounded(sentence: str, arm: ArmResult) -> str:
    """The sentence with what else may be the cause: binaries that weren't made alike."""
    if arm.ratio is None or not arm.confound:
        return sentence
    return f"{sentence.removesuffix('.')}; their binaries also differ in {arm.confound}."


def control_name(result: CompareResult, arm: ArmResult) -> str:
    """The name of the control that an arm is compared with: its stratum's."""
    names = [item.name for item in result.arms if item.verdict == "control" and item.stratum == arm.stratum]
    return names[0] if names else result.control


def _sentence(arm: ArmResult, control: str, result: CompareResult) -> str:
    margin, counted = result.margin, counted_blocks(arm)
    if arm.ratio is not None and arm.interval is None:
        return _empty(arm, control, counted)
    if arm.ratio is None or arm.interval is None:
        return f"{arm.name} can't be told from {control} yet: no block is complete."
    if arm.verdict in ("faster", "slower"):
        small = "" if arm.meaningful else f"; it may be less than the margin of {percent_rounded(margin)}"
        found = f"{span(arm.interval)}, {counted}{small}"
        return f"{arm.name} is {comparison(arm.ratio)} {control} ({found})."
    if arm.verdict == "equivalent":
        note = f"; it is {arm.note}" if arm.note else ""
        return (
            f"{arm.name} is equivalent to {control} within {percent_rounded(margin)} "
            f"({_equivalence_span(arm, result.alpha)}, {counted}{note})."
        )
    if arm.withheld and arm.note != TWIN_DIFFERS:
        note = arm.note.removeprefix("withheld: ")
        return f"The verdict on {arm.name} is withheld: {note} ({span(arm.interval)}, {counted})."
    if arm.withheld:
        return (
            f"The verdict on {arm.name} is withheld: the twin, a duplicate of {control}, differs from it by "
            f"as much, so this measurement is biased (the arm itself: {span(arm.interval)}, {counted})."
        )
    if arm.note.startswith(DISTRIBUTION_CHANGED):
        return (
            f"{arm.name} changed the distribution of the results against {control}, so no direction is given "
            f"({span(arm.interval)}, {counted}): look at its single trials."
        )
    if arm.note.startswith((MEDIAN_DISAGREES, LEFT_BEHIND)):
        return (
            f"{arm.name} has no verdict against {control} yet: {arm.note}, so no direction is given "
            f"({span(arm.interval)}, {counted})."
        )
    outlook = f"; {arm.note}" if arm.note else ""
    return f"{arm.name} can't be told from {control} yet: {span(arm.interval)} after {counted}{outlook}."


def _empty(arm: ArmResult, control: str, counted: str) -> str:
    why = f"since {MOVED} ({counted})"
    if arm.note == DISTRIBUTION_CHANGED:
        why = (
            f"since it changed the distribution of the results: no single figure fits all blocks ({counted})"
        )
    return f"{arm.name} has no verdict against {control}, {why}. Look at its single trials."


def counted_blocks(arm: ArmResult) -> str:
    """What an arm's figures are of, in words."""
    counted = plural(arm.blocks, "block")
    return counted if arm.replicates is None else f"{counted} on {plural(arm.replicates, 'set')} of copies"


def _equivalence_span(arm: ArmResult, alpha: float) -> str:
    """The interval by which an arm is equivalent, with its level where that is not the others'."""
    if arm.interval is None or arm.equivalence_interval is None:
        return span(arm.interval or (None, None))
    return f"{span(arm.equivalence_interval)} at {percent_rounded(1 - 2 * alpha)}"


def outlook(forecast: Forecast | None) -> str:
    """What an undecided arm is likely still to take (8 times in 10), '' when it can't be said."""
    if forecast is None:
        return ""
    (low, _, high), (low_s, _, high_s) = forecast.blocks, forecast.seconds
    if low is None or low_s is None:
        return f"no verdict is likely within {HORIZON_BLOCKS} more blocks"
    if high is None or high_s is None:
        return f"likely at least {plural(low, 'more block')} ({duration_rounded(low_s)}) until a verdict"
    if low == high:
        return f"likely {plural(low, 'more block')} ({duration_rounded(low_s)}) until a verdict"
    least, most = duration_rounded(low_s), duration_rounded(high_s)
    time = least if least == most else f"{least} to {most}"
    return f"likely {low} to {high} more blocks ({time}) until a verdict"


def cpu_sentence(arm: SecondaryArmResult, control: str) -> str:
    """What is known of an arm's server CPU per unit of work; never a word about speed."""
    if arm.ratio is None or arm.interval is None:
        return ""
    counted = f"{span(arm.interval, AMOUNT)}, {counted_blocks(arm)}"
    if arm.verdict in (AMOUNT.more, AMOUNT.less):
        return f"{arm.name} uses {comparison(arm.ratio, AMOUNT, 'CPU')} {control} ({counted})"
    if arm.verdict == "equivalent":
        return f"{arm.name} uses as much CPU as {control} ({counted})"
    return f"{arm.name}'s CPU can't be told from {control}'s ({counted})"


def headline(result: CompareResult) -> str:
    """The verdict of a whole comparison: one sentence per arm, each on its own line."""
    if result.blocks == 0:
        return "No verdict yet: no block is complete."
    return "\n".join(arm_sentence(result, arm) for arm in result.arms if arm.verdict != "control")
