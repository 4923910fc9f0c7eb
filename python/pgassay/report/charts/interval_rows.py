"""Rows of intervals of speed ratios against the margin: what every drawing of effects is made of."""

import math
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from pgassay.report.charts import drawing, palette
from pgassay.report.charts.drawing import NARROW_PX, Specification, field, layer, tips

# An interval that goes beyond this ratio, and beyond twice every estimate, is drawn as open, so that one
# wide row can't flatten the rest.
_RATIO_SHOWN_MAX = 32.0
_NAMES_PX_MAX = 330
# A list of more rows than this has its axis at the top.
_ROWS_FROM_TOP = 16
_POINT_SIZE = 80


class IntervalRow(TypedDict):
    """A row of the chart's data; `open_low`, `open_high`: whether its interval goes beyond the axis.

    predicted: what was expected before it was measured, drawn as an upright stroke. size: of the estimate's
    mark, in square pixels; all rows have one, or none.
    """

    key: str
    label: str
    ratio: float | None
    low: float | None
    high: float | None
    colour: str
    shape: str
    says: str
    full: str
    word: str
    ratio_text: str
    interval_text: str
    predicted: NotRequired[float | None]
    open_low: NotRequired[bool]
    open_high: NotRequired[bool]
    size: NotRequired[int]


def specification(
    rows: Sequence[IntervalRow],
    margin: float,
    title: Specification,
    *,
    width_px: int,
    kind: str,
    apart: int = 0,
) -> Specification:
    """The rows on a logarithmic axis of the speed ratio, from top to bottom.

    kind: what the rows are, for the tooltip. apart: so many rows at the end are set apart by a line. A row
    without an interval says so; an end beyond the axis is drawn to its edge with an arrow.
    """
    narrow = width_px <= NARROW_PX
    ends = _axis_ends(rows, margin)
    for row in rows:
        _cut(row, ends)
    # On a narrow page names stand above their intervals, else beside them.
    longest = max((len(row["label"]) for row in rows), default=0)
    names_px = 0 if narrow else min(_NAMES_PX_MAX, 28 + math.ceil(7.4 * longest))
    row_px = 46 if narrow else 30
    height_px = row_px * max(1, len(rows))
    # Where names stand above their intervals it is drawn a little higher, above the name.
    line_px = height_px - apart * row_px - (6 if narrow else 0)
    scale: Specification = {"type": "log", "domain": list(ends), "nice": False}
    y = field("key", "nominal", scale={"domain": [row["key"] for row in rows], "padding": 0.5}, axis=None)
    axis = _ratio_axis(ends, 5 if narrow else 9, on_top=len(rows) > _ROWS_FROM_TOP)
    chart = {
        "layer": [
            *_background(scale, axis, height_px),
            *([_line(line_px, names_px)] if 0 < apart < len(rows) else []),
            *_marks(scale, y, kind, sized=any("size" in row for row in rows)),
            *([_predicted(scale, y)] if any(row.get("predicted") for row in rows) else []),
            names(y, above=narrow, limit_px=width_px if narrow else names_px - 16),
        ],
        "width": width_px - names_px - 28,
        "height": height_px,
        "title": title,
        "padding": {"left": 4, "right": 16, "top": 4, "bottom": 4},
    }
    band = {"low": 1 / (1 + margin), "high": 1 + margin}
    return drawing.specification(chart, {"rows": rows, "band": [band], "one": [{"one": 1.0}]})


def _ratio_axis(ends: tuple[float, float], ticks: int, *, on_top: bool) -> Specification:
    """The axis of ratios; at the top of a long list it is in sight where reading begins."""
    return {
        "values": _ticks(ends, ticks),
        "format": "~g",
        "labelExpr": "datum.label + '×'",
        "title": None,
        "orient": "top" if on_top else "bottom",
    }


def _background(scale: Specification, axis: Specification, height_px: int) -> list[Specification]:
    """The margin's band and the line at 1."""
    band = {
        "x": field("low", scale=scale, axis=axis),
        "x2": {"field": "high"},
        "y": {"value": 0},
        "y2": {"value": height_px},
    }
    one = {"type": "rule", "color": palette.QUIET_INK, "strokeWidth": 1}
    return [
        layer("band", {"type": "rect", "color": palette.BAND}, band),
        layer("one", one, {"x": field("one", scale=scale)}),
    ]


def _line(y_px: int, names_px: int) -> Specification:
    """A line from the names' left edge to the axis' right end, at a height from the top."""
    mark = {"type": "rule", "color": palette.QUIET_INK, "strokeWidth": 0.5}
    encoding = {
        "y": {"value": y_px},
        "x": {"value": 8 - names_px if names_px else 0},
        "x2": {"value": "width"},
    }
    return layer("one", mark, encoding)


def _marks(scale: Specification, y: Specification, kind: str, *, sized: bool) -> list[Specification]:
    """Intervals, arrows at their open ends, estimates, and words where there is no interval."""
    shared = {
        "y": y,
        "color": field("colour", "nominal", scale=None),
        "tooltip": tips(full=kind, word="verdict", ratio_text="speed ratio", interval_text="interval"),
    }
    low, high, ratio = (field(name, scale=scale) for name in ("low", "high", "ratio"))
    line = {"type": "rule", "strokeWidth": 3, "strokeCap": "round"}
    arrow = {"type": "point", "filled": True, "size": 70}
    point = {"type": "point", "filled": True, "size": _POINT_SIZE, "opacity": 1}
    sizes: Specification = {"size": field("size", scale=None)} if sized else {}
    words = {"type": "text", "align": "left", "fontSize": 12, "fontStyle": "italic"}
    return [
        layer("rows", line, shared | {"x": low, "x2": {"field": "high"}}, "datum.low != null"),
        layer("rows", arrow | {"shape": "triangle-left"}, shared | {"x": low}, "datum.open_low"),
        layer("rows", arrow | {"shape": "triangle-right"}, shared | {"x": high}, "datum.open_high"),
        layer(
            "rows",
            point,
            shared
            | {
                "x": ratio,
                "shape": field("shape", "nominal", scale=None),
            }
            | sizes,
            "datum.ratio != null",
        ),
        layer(
            "rows",
            words | {"color": palette.QUIET_INK},
            {"y": y, "x": {"value": 8}, "text": {"field": "says"}},
            "datum.low == null",
        ),
    ]


def _predicted(scale: Specification, y: Specification) -> Specification:
    """What was expected of each row, where anything was."""
    mark = {"type": "tick", "thickness": 2, "size": 16, "color": palette.INK}
    encoding = {"y": y, "x": field("predicted", scale=scale)}
    return layer("rows", mark, encoding, "datum.predicted != null")


def names(y: Specification, *, above: bool, limit_px: int, keep: str = "") -> Specification:
    """The names of the rows, before their axis or above them; `keep`: of which rows."""
    mark = {
        "type": "text",
        "align": "left" if above else "right",
        "dx": 0 if above else -12,
        "dy": -16 if above else 0,
        "fontSize": 12.5,
        "color": palette.INK,
        "limit": limit_px,
    }
    return layer("rows", mark, {"y": y, "x": {"value": 0}, "text": {"field": "label"}}, keep)


def _axis_ends(rows: Sequence[IntervalRow], margin: float) -> tuple[float, float]:
    """A domain that holds the band, 1, every estimate and prediction, and every end within the span shown."""
    logs = [math.log1p(margin) * 2, -math.log1p(margin) * 2]
    figures = [figure for row in rows for figure in (row["ratio"], row.get("predicted"))]
    estimates = [abs(math.log(figure)) for figure in figures if figure and 0 < figure < math.inf]
    limit = max(math.log(_RATIO_SHOWN_MAX), math.log(2) + max(estimates, default=0.0))
    for row in rows:
        ends = (row["low"], row["high"], row["ratio"], row.get("predicted"))
        known = [math.log(value) for value in ends if value is not None and 0 < value < math.inf]
        logs += [min(limit, max(-limit, value)) for value in known]
    room = 0.06 * (max(logs) - min(logs))
    return math.exp(min(logs) - room), math.exp(max(logs) + room)


def _cut(row: IntervalRow, ends: tuple[float, float]) -> None:
    """Cut a row's interval to the axis and flag the ends that are open."""
    row["open_low"] = row["low"] is not None and row["low"] < ends[0]
    row["open_high"] = row["high"] is not None and row["high"] > ends[1]
    if row["open_low"]:
        row["low"] = ends[0]
    if row["open_high"]:
        row["high"] = ends[1]
    if row["ratio"] is not None and not ends[0] <= row["ratio"] <= ends[1]:
        row["ratio"] = None
    predicted = row.get("predicted")
    if predicted is not None and not ends[0] <= predicted <= ends[1]:
        row["predicted"] = None


def _ticks(ends: tuple[float, float], count: int) -> list[float]:
    """Round ratios over the axis, 1 among them."""
    low, high = ends
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5):
        first, last = math.ceil((low - 1) / step - 1e-9), math.floor((high - 1) / step + 1e-9)
        if last - first < count:
            return [round(1 + number * step, 4) for number in range(first, last + 1)]
    exponents = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    step = math.ceil(len(exponents) / count)
    return [2.0**exponent for exponent in exponents if exponent % step == 0]
