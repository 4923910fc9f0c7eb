"""What a comparison of two experiments says, in words and rows, for every format alike."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from pgassay.analysis.diff.differences import Difference
from pgassay.analysis.diff.experiments import Diff, EffectChange
from pgassay.analysis.verdicts.verdict import TWIN_DIFFERS
from pgassay.model.result import CompareResult
from pgassay.report.text import clean, interval, join, percent, plural, quantity, ratio

# A statement or a list of options longer than this is cut in a line of text; JSON has it whole.
_VALUE_CHARACTERS_MAX = 100
_SENTENCES = {
    "larger": "B shows more of it",
    "smaller": "B shows less of it",
    "inconclusive": "not decided yet whether it changed",
}
Row = tuple[str, ...]
MEDIAN_HEADS: Row = ("median of each arm", "A", "B")
STATEMENT_HEADS: Row = ("statement", "arm", "effect in A", "in B", "ratio", "interval", "change")


@dataclass(frozen=True)
class DiffContent:
    """All of it as cleaned text; rows are in the order of the heads above.

    `sentences`: one for each effect. `differences`: (subject, rows of name, value in A, value in B).
    """

    first: str
    second: str
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    medians: tuple[Row, ...]
    statements: tuple[Row, ...]
    statements_note: str
    differences: tuple[tuple[str, tuple[Row, ...]], ...]
    differences_heading: str


def content_of(diff: Diff) -> DiffContent:
    """Put a comparison into words."""
    count = len(diff.differences)
    return DiffContent(
        first=_experiment(diff.first),
        second=_experiment(diff.second),
        sentences=tuple(sentence(change, diff.margin) for change in diff.changes),
        notes=tuple(_notes(diff)),
        medians=tuple(_medians(diff)),
        statements=tuple(_statement(change, diff.margin) for change in diff.statements),
        statements_note=_statements_note(diff),
        differences=tuple(_differences(diff.differences)),
        differences_heading=(
            f"{plural(count, 'other difference')}" if count else "No other recorded facts differ."
        ),
    )


def sentence(change: EffectChange, margin: float) -> str:
    """What became of one effect: 'a against b: 1.2× in A, 1.1× in B: …'."""
    effects = f"{ratio(change.first.ratio) or 'unknown'} in A, {ratio(change.second.ratio) or 'unknown'} in B"
    head = f"{clean(change.name)} against {clean(change.control)}: {effects}"
    if why := _unfitting(change):
        return f"{head}; they can't be compared: {why}."
    if change.ratio is None or change.interval is None:
        return f"{head}; an experiment without a complete block has no effect to compare."
    ends = f"ratio of the two {ratio(change.ratio)}, interval {interval(change.interval)}"
    if _is_withheld(change):
        return f"{head}; no verdict on a change, since {_why_withheld(change)} ({ends})."
    word = _SENTENCES.get(change.word, f"unchanged within ±{percent(margin)}")
    return f"{head}: {word} ({ends})."


def _unfitting(change: EffectChange) -> str:
    """In which of the two the effect has no interval; '' in neither."""
    arms = (("A", change.first), ("B", change.second))
    sides = [side for side, arm in arms if arm.interval is None and arm.ratio is not None]
    return f"no single effect fits all blocks of {join(sides)}" if sides else ""


def _why_withheld(change: EffectChange) -> str:
    notes = (arm.note for arm in (change.first, change.second) if arm.withheld)
    if all(note in ("", TWIN_DIFFERS) for note in notes):
        return "the twin makes one of the two doubtful"
    return "the verdict on one of the two is withheld"


def _is_withheld(change: EffectChange) -> bool:
    return change.first.withheld or change.second.withheld


def _experiment(result: CompareResult) -> str:
    return f"{clean(result.folder)} ({clean(result.workload)}, {plural(result.blocks, 'block')})"


def _notes(diff: Diff) -> Iterator[str]:
    if not diff.changes:
        why = (
            "the metrics differ"
            if not diff.unit
            else "no arm has the same levels and the same control in both"
        )
        yield f"No effect can be compared: {why}."
    for side, names in (("A", diff.only_first), ("B", diff.only_second)):
        if names:
            yield f"Only in {side}: {', '.join(map(clean, names))}."
    if diff.changes:
        yield (
            f"All intervals together hold with {percent(1 - diff.alpha)} certainty. The experiments ran at "
            "different times: a change can come from anything listed below, or from something not recorded."
        )


def _statements_note(diff: Diff) -> str:
    if not diff.statements:
        return ""
    return (
        f"A second family: its intervals together hold with {percent(1 - diff.alpha)} certainty as well. "
        "An effect is the statement's speed against the control's, the ratio is B's effect over A's."
    )


def _medians(diff: Diff) -> Iterator[Row]:
    """The arms' own figures: how much faster or slower the whole became is no finding, only a figure."""
    for arm in diff.first.arms:
        other = next((item for item in diff.second.arms if item.levels == arm.levels), None)
        if other is None or arm.median is None or other.median is None or not diff.unit:
            continue
        yield clean(arm.name), quantity(arm.median, diff.unit), quantity(other.median, diff.unit)


def _statement(change: EffectChange, margin: float) -> Row:
    words = {
        "unchanged": f"unchanged within ±{percent(margin)}",
        "larger": "more in B",
        "smaller": "less in B",
    }
    return (
        clean(change.statement),
        clean(change.name),
        ratio(change.first.ratio) or "unknown",
        ratio(change.second.ratio) or "unknown",
        ratio(change.ratio),
        interval(change.interval),
        _statement_word(change, words.get(change.word, change.word)),
    )


def _statement_word(change: EffectChange, word: str) -> str:
    if _unfitting(change):
        return "can't be compared"
    return "withheld" if _is_withheld(change) else word


def _differences(differences: tuple[Difference, ...]) -> Iterator[tuple[str, tuple[Row, ...]]]:
    for subject, members in groupby(differences, key=lambda each: each.subject):
        yield subject, tuple((clean(each.name), _value(each.first), _value(each.second)) for each in members)


def _value(value: str) -> str:
    shown = clean(value) or "not recorded"
    return shown if len(shown) <= _VALUE_CHARACTERS_MAX else f"{shown[: _VALUE_CHARACTERS_MAX - 1]}…"
