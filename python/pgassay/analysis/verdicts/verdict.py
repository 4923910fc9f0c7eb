"""From an interval to a word. Words come from the interval alone, so that both always agree."""

import math
from dataclasses import dataclass

from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.model.result import Verdict

DISTRIBUTION_CHANGED = "the distribution changed"
MOVED = "the effect moved during the experiment: no single figure fits all blocks"
LEFT_BEHIND = "the latest blocks do not agree with the earlier ones"
MEDIAN_DISAGREES = "the median does not yet agree"
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
    """

    estimate: float
    lower: float
    upper: float
    median_lower: float = -math.inf
    median_upper: float = math.inf
    half_level: Ends = UNBOUNDED
    median_half_level: Ends = UNBOUNDED
    equivalence: Ends | None = None

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
