"""Limits, faults and what explains a difference, as sentences: for every report alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgassay.analysis.causes.registry import rule_of
from pgassay.model.cause import UNKNOWN, Cause, Explanation, MovedItem
from pgassay.model.result import CompareResult
from pgassay.report import text
from pgassay.report.labels import compared_factors, short_name

HEADING = "Why: limits, faults, differences"
_ITEMS_MAX = 4
# With more causes than this each is told once, with the arms that have it.
_ROWS_MAX = 16
_NAMES_MAX = 6
# Smaller gains than this are not worth a clause.
_GAIN_MIN = 1.01
# An interval that ends at so many times the gain, as that of two trials may, is not worth its figures.
_GAIN_RANGE_MAX = 4.0


@dataclass(frozen=True)
class CauseRow:
    """One cause as words, all clean of control characters.

    sentence: what it is, and in the first row of each cause what to do; figures: what it rests on.
    """

    arm: str
    kind: str
    cause: str
    layer: str
    sentence: str
    figures: str


def cause_rows(result: CompareResult) -> tuple[CauseRow, ...]:
    """A row for each cause, in the result's order; none where no arm was observed."""
    if not any(cause.observed for cause in result.causes):
        return ()
    labels = _labels(result)
    rows = []
    if len(result.causes) > _ROWS_MAX:
        return tuple(_grouped(result.causes, labels))
    advised: set[str] = set()
    for cause in result.causes:
        where = _place(cause, labels)
        rows.append(
            CauseRow(
                arm=where,
                kind=cause.kind,
                cause=cause.cause,
                layer=cause.layer,
                sentence=sentence(cause, where)
                + ("" if cause.remedy in advised else f" {text.clean(cause.remedy)}"),
                figures=figures(cause),
            )
        )
        advised.add(cause.remedy)
    return tuple(rows)


def _place(cause: Cause, labels: dict[tuple[str, str], str]) -> str:
    name = labels.get((cause.arm, cause.stratum), text.clean(cause.arm))
    return f"{name} at {text.clean(cause.stratum)}" if cause.stratum else name


def _grouped(causes: Sequence[Cause], labels: dict[tuple[str, str], str]) -> Iterator[CauseRow]:
    """One row for each cause with the arms that have it; their figures are in the JSON document."""
    groups: dict[str, list[Cause]] = {}
    for cause in sorted(causes, key=lambda each: each.kind != "limit"):
        groups.setdefault(cause.cause, []).append(cause)
    for members in groups.values():
        first = members[0]
        names = [_place(cause, labels) for cause in members]
        shown = "; ".join(names[:_NAMES_MAX])
        if len(names) > _NAMES_MAX:
            shown += f"; and {len(names) - _NAMES_MAX} more"
        yield CauseRow(
            arm="",
            kind=first.kind,
            cause=first.cause,
            layer=first.layer,
            sentence=f"{_of_arms(first, len(members))}: {shown}. {_remedies(members)}",
            figures="",
        )


def _remedies(members: Sequence[Cause]) -> str:
    """Each remedy once: arms differ in what the experiment says of it."""
    return " ".join(dict.fromkeys(text.clean(cause.remedy) for cause in members))


def _of_arms(cause: Cause, count: int) -> str:
    arms = text.plural(count, "arm")
    if cause.cause == UNKNOWN:
        return f"What limits {arms} is not known"
    if cause.kind == "fault":
        return f"In {arms} {_phrase(cause)}"
    return f"{arms} {'was' if count == 1 else 'were'} limited by {_phrase(cause)}"


def _phrase(cause: Cause) -> str:
    """How the cause is called in a sentence; its name, of a document that another version wrote."""
    rule = rule_of(cause.cause)
    return rule.phrase if rule is not None else text.clean(cause.cause)


def difference_sentences(result: CompareResult) -> tuple[str, ...]:
    """What moved between each arm and its control, a sentence each."""
    labels = _labels(result)
    return tuple(_difference(result, explanation, labels) for explanation in result.explanations)


def why_sentence(result: CompareResult) -> str:
    """Why an arm is faster: what another arm lifted, else what limits the slower one; '' if unknown."""
    labels = _labels(result)
    slower: set[tuple[str, str]] = set()
    for arm in result.arms:
        if arm.verdict not in ("faster", "slower") or arm.withheld:
            continue
        control = next(
            (each for each in result.arms if (each.verdict, each.stratum) == ("control", arm.stratum)), None
        )
        late = control if arm.verdict == "faster" else arm
        if late is not None:
            slower.add((late.name, late.stratum))
    told = [
        cause
        for cause in result.causes
        if (cause.arm, cause.stratum) in slower
        and cause.cause != UNKNOWN
        and (cause.kind == "limit" or cause.lifted_by is not None)
    ]
    if not told:
        return ""
    cause = next((each for each in told if each.lifted_by is not None), told[0])
    share = f" ({text.percent_rounded(cause.share)} of its time)" if cause.share else ""
    lifted = f", which {text.clean(cause.lifted_by)} lifts" if cause.lifted_by is not None else ""
    limited = "was limited by" if cause.kind == "limit" else "was held back by"
    return f"Why: {_place(cause, labels)} {limited} {_phrase(cause)}{share}{lifted}."


def _labels(result: CompareResult) -> dict[tuple[str, str], str]:
    factors = compared_factors(result.arms)
    return {(arm.name, arm.stratum): short_name(arm, factors) for arm in result.arms}


def sentence(cause: Cause, name: str, phrase: str = "") -> str:
    """The cause of one arm or server, called `name`; `phrase`: other words for it than its rule's."""
    phrase = phrase or _phrase(cause)
    if cause.cause == UNKNOWN:
        why = cause.evidence.get("not_known")
        return f"{name}: what limits it is not known" + (
            f" (missing: {text.clean(str(why))})." if why else "."
        )
    if cause.kind == "fault":
        words = f"{name}: {phrase}{_explained(cause)}"
    else:
        words = f"{name} was limited by {phrase}{_explained(cause)}"
    if cause.remedy_status != "refuted":
        # What another arm showed not to come about is not promised.
        words += _gained(cause)
    if cause.trials < cause.observed:
        words += f" (in {cause.trials} of {text.plural(cause.observed, 'trial')})"
    return words + "."


def _gained(cause: Cause) -> str:
    """What is to be gained, and what ends it."""
    limit = text.clean(cause.next_limit) if cause.next_limit else ""
    if cause.gain_if_lifted is None:
        return ""
    if cause.lifted_by is not None:
        predicted = cause.gain_predicted
        words = (
            f"; with {text.clean(cause.lifted_by)} it is {text.amount(cause.gain_if_lifted)}{_between(cause)}"
        )
        ends = cause.gain_interval or (cause.gain_if_lifted, cause.gain_if_lifted)
        least, most = cause.gain_range or (predicted, predicted)
        if least is None or most is None or (ends[0] <= most and least <= ends[1]):
            return words
        if _is_least(cause) and least <= ends[1]:
            return words
        told = text.amount(most) if most == least else text.span((least, most))
        return f"{words}, where {told} had been predicted"
    if cause.gain_if_lifted < _GAIN_MIN:
        return f"; without that, {limit} would limit it just as much" if limit else ""
    about = "about" if cause.gain_range else "at least about" if _is_least(cause) else "up to about"
    words = f"; without that it could be {about} {text.amount(cause.gain_if_lifted)}{_between(cause)}"
    return f"{words}, then limited by {limit}" if limit else words


def _is_least(cause: Cause) -> bool:
    rule = rule_of(cause.cause)
    return rule is not None and rule.gain_is_least


def _between(cause: Cause) -> str:
    """The interval of a predicted gain, where the trials tell one that is more than a point."""
    ends = cause.gain_interval
    if ends is None or cause.gain_if_lifted is None or ends[1] - ends[0] < _GAIN_MIN - 1:
        return ""
    if ends == cause.gain_range:
        return f" ({text.span(ends)}: the record can't say more exactly)"
    if ends[1] > _GAIN_RANGE_MAX * cause.gain_if_lifted:
        return " (too few trials for an interval)"
    if ends[0] < _GAIN_MIN:
        return "" if _is_least(cause) else f" (95 % interval: at most {text.amount(ends[1])})"
    return f" (95 % interval: {text.span(ends)})"


def _explained(cause: Cause) -> str:
    if cause.seconds is None or cause.share is None:
        return ""
    if round(cause.share, 3) == 0:
        return ": less than 0.1 % of its time"
    return f": {text.seconds(cause.seconds)}, {text.percent(round(cause.share, 3))} of its time"


def figures(cause: Cause) -> str:
    """The evidence by name, as 'read_mb_s 16.5, ceiling_read_mb_s 16.8'."""
    parts = []
    for name, value in cause.evidence.items():
        # The sentence says already what is missing.
        if name == "not_known":
            continue
        if isinstance(value, str):
            shown = text.clean(value)
        elif name.endswith("_bytes"):
            shown = text.size(value)
        else:
            shown = text.figure(value) if abs(value) < 1000 else f"{value:,.0f}"
        parts.append(f"{name} {shown}")
    return ", ".join(parts)


def _difference(result: CompareResult, found: Explanation, labels: dict[tuple[str, str], str]) -> str:
    key = (found.arm, found.stratum)
    name = labels.get(key, text.clean(found.arm))
    control = labels.get((found.control, found.stratum), text.clean(found.control))
    where = f" at {text.clean(found.stratum)}" if found.stratum else ""
    arm = next((each for each in result.arms if (each.name, each.stratum) == key), None)
    if arm is not None and arm.verdict in ("faster", "slower") and arm.ratio and not arm.withheld:
        words = f"{name}{where} is {text.comparison(arm.ratio)} {control}"
    else:
        words = f"Between {name}{where} and {control}"
    items = "; ".join(_moved(item) for item in found.moved[:_ITEMS_MAX])
    unit = " in 1000 transactions" if found.per != "trial" else ""
    return f"{words}: {items}{unit}."


def _moved(item: MovedItem) -> str:
    sign = "+" if item.seconds > 0 else "−"
    low, high = item.interval
    ends = " to ".join("?" if end is None else f"{_signed(end)}" for end in (low, high))
    return f"{item.process} {item.item} {sign}{text.seconds(abs(item.seconds))} ({ends})"


def _signed(seconds: float) -> str:
    return f"{'−' if seconds < 0 else '+'}{text.seconds(abs(seconds))}"
