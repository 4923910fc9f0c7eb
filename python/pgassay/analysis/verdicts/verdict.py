"""From an interval to a word, and from the word to a sentence that a person acts on.

Words come from the interval alone, so that both always agree.
"""

import math
from dataclasses import dataclass

from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.statistics.forecast import HORIZON_BLOCKS
from pgassay.analysis.verdicts.start_forecast import HORIZON_STARTS
from pgassay.model.result import ArmResult, CompareResult, Forecast, SecondaryArmResult, Verdict
from pgassay.words import AMOUNT, comparison, duration_rounded, percent_rounded, plural, span

DISTRIBUTION_CHANGED = "the distribution changed"
MOVED = "the effect moved during the experiment: no single figure fits all blocks"
LEFT_BEHIND = "the latest blocks do not agree with the earlier ones"
MEDIAN_DISAGREES = "the median does not yet agree"
SPAN_TOLD_MAX = 1000.0
DOUBTS = (DISTRIBUTION_CHANGED, MOVED, LEFT_BEHIND, MEDIAN_DISAGREES)
TWIN_DIFFERS = "withheld: the twin, a duplicate of the control, differs from the control by as much"
Ends = tuple[float, float]
UNBOUNDED: Ends = (-math.inf, math.inf)


@dataclass(frozen=True)
class Finding:
    """One contrast on one measure; all figures are log ratios.

    lower, upper: its confidence sequence, empty (lower > upper) when the effect moved; median_lower,
    median_upper: the guard's interval at the same level. half_level, median_half_level: both of the last
    block alone, each at half the level, for the claim that the distribution changed.
    equivalence: the interval that must lie inside the margin, None where that is (lower, upper).
    rests_on_bound: a direction takes a bound on what a start may change (`ContrastSet.rests_on_bound`).
    """

    estimate: float
    lower: float
    upper: float
    median_lower: float = -math.inf
    median_upper: float = math.inf
    half_level: Ends = UNBOUNDED
    median_half_level: Ends = UNBOUNDED
    equivalence: Ends | None = None
    rests_on_bound: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no single effect fits all blocks."""
        return self.lower > self.upper


@dataclass(frozen=True)
class Judgement:
    """A verdict with what qualifies it; see model.result.ArmResult."""

    verdict: Verdict
    meaningful: bool = False
    withheld: bool = False
    note: str = ""


def ratio_of(log_ratio: float) -> float | None:
    """A log ratio as a ratio; None where it is 0 or infinite."""
    ratio = math.exp(log_ratio) if log_ratio < 700 else math.inf
    return ratio if 0 < ratio < math.inf else None


def interval_of(lower: float, upper: float) -> tuple[float | None, float | None] | None:
    """The ends of an interval as ratios; None when it is empty: then there is no interval to show."""
    return None if lower > upper else (ratio_of(lower), ratio_of(upper))


def has_changed_distribution(finding: Finding, slack: float = 0.0) -> bool:
    """Whether the arm changed the shape of the noise, so that no single ratio describes it.

    The interval of the mean-like effect and that of the median have nothing in common. An arm that only
    shifts has the same effect in both, and each interval misses it with a chance of at most half the level:
    so this is said falsely with a chance of at most the level, at whichever moment one looks. `slack` widens
    the median's interval: the guard looks at the control alone, the effect also at a twin that may be off.
    """
    (lower, upper), (median_lower, median_upper) = finding.half_level, finding.median_half_level
    return lower > median_upper + slack or upper < median_lower - slack


def doubt(finding: Finding, slack: float = 0.0) -> str:
    """What speaks against any word from this interval; '' when nothing does. `slack` as above."""
    # A changed shape can leave the intersection of the intervals empty too, so it is asked for first.
    if has_changed_distribution(finding, slack):
        return DISTRIBUTION_CHANGED
    if finding.is_empty:
        return MOVED
    if not finding.lower <= finding.estimate <= finding.upper:
        return LEFT_BEHIND
    # An arm that changes the noise's shape fools any mean-like method: without the median, no direction.
    if not finding.median_lower - slack <= finding.estimate <= finding.median_upper + slack:
        return MEDIAN_DISAGREES
    return ""


def judge(finding: Finding, margin: float, *, twin_bound: float | None = None) -> Judgement:
    """The verdict in the order of precedence: equivalent, faster or slower, inconclusive.

    margin: the equivalence margin as a fraction, the edges being ±log(1 + margin). twin_bound: None while
    the twin's gate has not fired, else max(|L|, |U|) of the twin (a log ratio): only verdicts wholly beyond
    it are kept.
    """
    doubted = doubt(finding, slack=twin_bound or 0.0)
    if doubted in (MOVED, DISTRIBUTION_CHANGED):
        return Judgement("inconclusive", note=doubted)
    judgement = _from_interval(finding, log_margin(margin))
    if judgement.verdict == "inconclusive":
        return judgement
    if doubted:
        return Judgement("inconclusive", note=doubted)
    if twin_bound is None or finding.lower > twin_bound or finding.upper < -twin_bound:
        return judgement
    return Judgement("inconclusive", withheld=True, note=TWIN_DIFFERS)


def _from_interval(finding: Finding, edge: float) -> Judgement:
    above, below = finding.lower > 0, finding.upper < 0
    least, most = finding.equivalence or (finding.lower, finding.upper)
    if -edge <= least <= most <= edge:
        direction = "faster" if above else "slower" if below else ""
        note = f"slightly {direction}, but within the margin" if direction else ""
        return Judgement("equivalent", note=note)
    if above:
        return Judgement("faster", meaningful=finding.lower > edge)
    if below:
        return Judgement("slower", meaningful=finding.upper < -edge)
    return Judgement("inconclusive")


def stated(finding: Finding, judgement: Judgement) -> dict[str, object]:
    """The fields of a result that say a finding and what was judged of it."""
    return {
        "ratio": ratio_of(finding.estimate),
        "interval": interval_of(finding.lower, finding.upper),
        "verdict": judgement.verdict,
        "meaningful": judgement.meaningful,
        "note": judgement.note,
    }


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
        return f"{arm.name} can't be distinguished from {control} yet: no block is complete."
    if arm.verdict in ("faster", "slower"):
        small = "" if arm.meaningful else f"; it may be less than the margin of {percent_rounded(margin)}"
        assumed = f"; it {arm.assumption}" if arm.assumption else ""
        found = f"{span(arm.interval)}, {counted}{small}{assumed}"
        return f"{arm.name} is {comparison(arm.ratio)} {control}{_metric_words(result)} ({found})."
    if arm.verdict == "equivalent":
        note = f"; it is {arm.note}" if arm.note else ""
        return (
            f"{arm.name} is equivalent to {control}{_metric_words(result)} within {percent_rounded(margin)} "
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
            f"({span(arm.interval)}, {counted}): check its single trials."
        )
    if arm.note.startswith((MEDIAN_DISAGREES, LEFT_BEHIND)):
        return (
            f"{arm.name} has no verdict against {control} yet: {arm.note}, so no direction is given "
            f"({span(arm.interval)}, {counted})."
        )
    outlook = f"; {arm.note}" if arm.note else ""
    between = f"{arm.name} can't be distinguished from {control}{_metric_words(result)}"
    low, high = arm.interval
    # An interval of orders of magnitude tells nobody anything.
    is_wide = low is not None and high is not None and low < 1 < high and high > SPAN_TOLD_MAX * low
    told = "nothing is bounded" if is_wide else span(arm.interval)
    return f"{between} yet: {told} after {counted}{outlook}."


def _metric_words(result: CompareResult) -> str:
    """In what arms are faster, where that is one figure of many."""
    return f" in {result.metric.name}" if result.metric.latency else ""


def _empty(arm: ArmResult, control: str, counted: str) -> str:
    why = f"since {MOVED} ({counted})"
    if arm.note == DISTRIBUTION_CHANGED:
        why = (
            f"since it changed the distribution of the results: no single figure fits all blocks ({counted})"
        )
    return f"{arm.name} has no verdict against {control}, {why}. Check its single trials."


def counted_blocks(arm: ArmResult) -> str:
    """What an arm's figures are of, in words."""
    if arm.starts is not None:
        return plural(arm.starts, "start")
    counted = plural(arm.blocks, "block")
    return counted if arm.replicates is None else f"{counted} on {plural(arm.replicates, 'set')} of copies"


def _equivalence_span(arm: ArmResult, alpha: float) -> str:
    """The interval by which an arm is equivalent, with its level where that is not the others'."""
    if arm.interval is None or arm.equivalence_interval is None:
        return span(arm.interval or (None, None))
    return f"{span(arm.equivalence_interval)} at {percent_rounded(1 - 2 * alpha)}"


def outlook(forecast: Forecast | None, unit: str = "block") -> str:
    """What an undecided arm is likely still to take (8 times in 10), '' when it can't be said."""
    if forecast is None:
        return ""
    (low, _, high), (low_s, _, high_s) = forecast.blocks, forecast.seconds
    if low is None or low_s is None:
        horizon = HORIZON_STARTS if unit == "start" else HORIZON_BLOCKS
        return f"no verdict is likely within {horizon} more {unit}s"
    if high is None or high_s is None:
        return f"likely at least {plural(low, f'more {unit}')} ({duration_rounded(low_s)}) until a verdict"
    if low == high:
        return f"likely {plural(low, f'more {unit}')} ({duration_rounded(low_s)}) until a verdict"
    least, most = duration_rounded(low_s), duration_rounded(high_s)
    time = least if least == most else f"{least} to {most}"
    return f"likely {low} to {high} more {unit}s ({time}) until a verdict"


def cpu_sentence(arm: SecondaryArmResult, control: str) -> str:
    """What is known of an arm's server CPU per unit of work; never a word about speed."""
    return _figure_sentence(arm, control, "server CPU", "uses", f"uses as much server CPU as {control}")


def latency_sentence(name: str, arm: SecondaryArmResult, control: str) -> str:
    """What is known of another percentile than the one that is compared."""
    return _figure_sentence(arm, control, name, "has", f"has the {name} of {control}")


def _figure_sentence(arm: SecondaryArmResult, control: str, name: str, verb: str, alike: str) -> str:
    """`verb`: what an arm does with a figure that differs; `alike`: what is said of an equivalent arm."""
    if arm.ratio is None or arm.interval is None:
        return ""
    counted = f"{span(arm.interval, AMOUNT)}, {counted_blocks(arm)}"
    if arm.verdict in (AMOUNT.more, AMOUNT.less):
        return f"{arm.name} {verb} {comparison(arm.ratio, AMOUNT, name)} {control} ({counted})"
    if arm.verdict == "equivalent":
        return f"{arm.name} {alike} ({counted})"
    return f"{arm.name}'s {name} can't be distinguished from {control}'s ({counted})"


def headline(result: CompareResult) -> str:
    """The verdict of a whole comparison: one sentence per arm, each on its own line."""
    if result.blocks == 0:
        return "No verdict yet: no block is complete."
    return "\n".join(arm_sentence(result, arm) for arm in result.arms if arm.verdict != "control")
