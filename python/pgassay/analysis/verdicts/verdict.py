"""From an interval to a word. Words come from the interval alone, so that both always agree."""

import math
from dataclasses import dataclass

from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.model.result import Verdict

DISTRIBUTION_CHANGED = "the distribution changed"


@dataclass(frozen=True)
class Finding:
    """One contrast on one measure; all figures are log ratios.

    lower, upper: its confidence sequence; median_lower, median_upper: the guard's interval. equivalence: the
    interval that must lie inside the margin, None where that is (lower, upper).
    """

    estimate: float
    lower: float
    upper: float
    median_lower: float = -math.inf
    median_upper: float = math.inf
    equivalence: tuple[float, float] | None = None


@dataclass(frozen=True)
class Judgement:
    """A verdict with what qualifies it; see model.result.ArmResult."""

    verdict: Verdict
    meaningful: bool = False
    withheld: bool = False
    note: str = ""


def has_changed_distribution(finding: Finding, slack: float = 0.0) -> bool:
    """Whether the arm changed the shape of the noise, so that a mean-like estimate can't be trusted.

    The estimate lies outside the median's interval, or the effect moved so that no single one fits every
    block (the intersection of the intervals is empty or has left the estimate behind). `slack` widens the
    median's interval: the guard looks at the control alone, the estimate also at a twin that may be off.
    """
    outside = not finding.median_lower - slack <= finding.estimate <= finding.median_upper + slack
    return outside or not finding.lower <= finding.estimate <= finding.upper


def judge(finding: Finding, margin: float, *, twin_bound: float | None = None) -> Judgement:
    """The verdict in the order of precedence: equivalent, faster or slower, inconclusive.

    margin: the equivalence margin as a fraction, the edges being ±log(1 + margin). twin_bound: None while
    the twin's gate has not fired, else max(|L|, |U|) of the twin (a log ratio): only verdicts wholly beyond
    it are kept.
    """
    if has_changed_distribution(finding, slack=twin_bound or 0.0):
        return Judgement("inconclusive", note=DISTRIBUTION_CHANGED)
    judgement = _from_interval(finding, log_margin(margin))
    if twin_bound is None or judgement.verdict == "inconclusive":
        return judgement
    if finding.lower > twin_bound or finding.upper < -twin_bound:
        return judgement
    return Judgement(
        "inconclusive",
        withheld=True,
        note="withheld: the twin, a duplicate of the control, differs from the control by as much",
    )


def _from_interval(finding: Finding, edge: float) -> Judgement:
    above, below = finding.lower > 0, finding.upper < 0
    least, most = finding.equivalence or (finding.lower, finding.upper)
    if least >= -edge and most <= edge:
        direction = "faster" if above else "slower" if below else ""
        note = f"slightly {direction}, but within the margin" if direction else ""
        return Judgement("equivalent", note=note)
    if above:
        return Judgement("faster", meaningful=finding.lower > edge)
    if below:
        return Judgement("slower", meaningful=finding.upper < -edge)
    return Judgement("inconclusive")
