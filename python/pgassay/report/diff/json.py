"""Two experiments beside each other as one JSON document, for scripts."""

import json
import math
from typing import Any

from pgassay.analysis.diff.experiments import Change, Diff
from pgassay.model.result import CompareResult

DIFF_SCHEMA = 1


def render(diff: Diff) -> str:
    """One JSON document with a newline at its end; an end that is not bounded is null."""
    document = {
        "schema": DIFF_SCHEMA,
        "first": _experiment(diff.first),
        "second": _experiment(diff.second),
        "margin": diff.margin,
        "alpha": diff.alpha,
        "changes": [_change(change) for change in diff.changes],
        "statements": [{"statement": change.statement} | _change(change) for change in diff.statements],
        "only_first": list(diff.only_first),
        "only_second": list(diff.only_second),
        "differences": [vars(difference) for difference in diff.differences],
    }
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _experiment(result: CompareResult) -> dict[str, Any]:
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
