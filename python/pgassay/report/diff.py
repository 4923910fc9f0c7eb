"""Two experiments beside each other, as text for a terminal or Markdown, and as JSON for scripts."""

import json
import math
from typing import Any

from pgassay.analysis.diff import Change, Diff
from pgassay.analysis.sentences import blocks_words
from pgassay.report.text import ascii_only, clean, interval, percent, plural, quantity, ratio

DIFF_SCHEMA = 1
# A statement or a list of options longer than this is cut in a line of text; JSON has it whole.
_VALUE_CHARACTERS_MAX = 100


def render(diff: Diff, *, unicode: bool = True) -> str:
    """The effects that both measured with what became of each, then everything that differs."""
    lines = [
        f"A: {_experiment(diff.first)}",
        f"B: {_experiment(diff.second)}",
        "",
        *(sentence(change, diff.margin) for change in diff.changes),
        *_unmatched(diff),
        "",
        *_table(diff),
        *_differences(diff),
    ]
    if not unicode:
        lines = [ascii_only(line) for line in lines]
    return "\n".join(lines).rstrip() + "\n"


def sentence(change: Change, margin: float) -> str:
    """What became of one effect: 'a against b: 1.2× in A, 1.1× in B: …'."""
    effects = f"{ratio(change.first.ratio) or 'unknown'} in A, {ratio(change.second.ratio) or 'unknown'} in B"
    head = f"{clean(change.name)} against {clean(change.control)}: {effects}"
    if change.ratio is None or change.interval is None:
        return f"{head}; an experiment without a complete block has no effect to compare."
    ends = f"ratio of the two {ratio(change.ratio)}, interval {interval(change.interval)}"
    words = {
        "larger": "B shows more of it",
        "smaller": "B shows less of it",
        "unchanged": f"unchanged within ±{percent(margin)}",
        "inconclusive": "whether it changed can't be told yet",
    }
    if change.first.withheld or change.second.withheld:
        return f"{head}; no word on a change, since a twin makes one of the two doubtful ({ends})."
    return f"{head}: {words[change.word]} ({ends})."


def to_json(diff: Diff) -> str:
    """One JSON document with a newline at its end; an end that is not bounded is null."""
    document = {
        "schema": DIFF_SCHEMA,
        "first": _experiment_keys(diff.first),
        "second": _experiment_keys(diff.second),
        "margin": diff.margin,
        "alpha": diff.alpha,
        "changes": [_change(change) for change in diff.changes],
        "only_first": list(diff.only_first),
        "only_second": list(diff.only_second),
        "differences": [vars(difference) for difference in diff.differences],
    }
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _experiment_keys(result: Any) -> dict[str, Any]:
    keys = ("folder", "workload", "control", "blocks", "stopped", "verdict")
    return {key: getattr(result, key) for key in keys} | {"metric": result.metric.model_dump()}


def _change(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "stratum": change.stratum,
        "control": change.control,
        "word": change.word,
        "ratio": change.ratio,
        "interval": _ends(change.interval),
        "first": {"ratio": change.first.ratio, "interval": _ends(change.first.interval)},
        "second": {"ratio": change.second.ratio, "interval": _ends(change.second.interval)},
        "median_first": change.median_first,
        "median_second": change.median_second,
    }


def _ends(ends: tuple[float | None, float | None] | None) -> list[float | None] | None:
    if ends is None:
        return None
    return [end if end is not None and math.isfinite(end) else None for end in ends]


def _experiment(result: Any) -> str:
    return f"{clean(result.folder)} ({clean(result.workload)}, {blocks_words(result.blocks)})"


def _unmatched(diff: Diff) -> list[str]:
    lines = []
    if not diff.changes:
        why = (
            "the metrics differ"
            if not diff.unit
            else "no arm has the same levels and the same control in both"
        )
        lines.append(f"No effect can be compared: {why}.")
    for side, names in (("A", diff.only_first), ("B", diff.only_second)):
        if names:
            lines.append(f"Only in {side}: {', '.join(map(clean, names))}.")
    if diff.changes:
        lines.append(
            f"All intervals together hold with {percent(1 - diff.alpha)} certainty. The experiments ran at "
            "different times: a change can come from anything listed below, or from what was not recorded."
        )
    return lines


def _table(diff: Diff) -> list[str]:
    """The arms' own figures: how much faster or slower the whole became is no finding, only a figure."""
    rows = []
    for result_arm in diff.first.arms:
        other = next((arm for arm in diff.second.arms if arm.levels == result_arm.levels), None)
        if other is None or result_arm.median is None or other.median is None or not diff.unit:
            continue
        rows.append(
            (
                clean(result_arm.name),
                quantity(result_arm.median, diff.unit),
                quantity(other.median, diff.unit),
            )
        )
    if not rows:
        return []
    rows.insert(0, ("median of each arm", "A", "B"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        f"  {name:<{widths[0]}}  {first:>{widths[1]}}  {second:>{widths[2]}}" for name, first, second in rows
    ] + [""]


def _differences(diff: Diff) -> list[str]:
    if not diff.differences:
        return ["Nothing else that was recorded differs."]
    lines = [f"{plural(len(diff.differences), 'difference')} beside the effects:"]
    subject = ""
    for each in diff.differences:
        if each.subject != subject:
            subject = each.subject
            lines.append(f" {subject}")
        lines.append(f"   {clean(each.name)}: {_value(each.first)} → {_value(each.second)}")
    return lines


def _value(value: str) -> str:
    shown = clean(value) or "not recorded"
    return shown if len(shown) <= _VALUE_CHARACTERS_MAX else f"{shown[: _VALUE_CHARACTERS_MAX - 1]}…"
