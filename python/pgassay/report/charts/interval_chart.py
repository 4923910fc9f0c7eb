"""The drawing of intervals against the margin."""

import math
from typing import NotRequired, TypedDict

from pgassay.model.result import ArmResult, CompareResult, TwinResult
from pgassay.report import text
from pgassay.report.charts import drawing, palette
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX, Specification, field, layer, shortened, tips
from pgassay.report.labels import compared_factors, levels_alone, short_name

# An interval that goes beyond this ratio, and beyond twice every estimate, is drawn as open, so that one
# wide arm can't flatten the rest.
_RATIO_SHOWN_MAX = 32.0
_NAMES_PX_MAX = 330
# A list of more rows than this has its axis at the top.
_ROWS_FROM_TOP = 16


class _Row(TypedDict):
    """A row of the chart's data; `open_low`, `open_high`: whether its interval goes beyond the axis."""

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
    open_low: NotRequired[bool]
    open_high: NotRequired[bool]


def specification(result: CompareResult, *, width_px: int = WIDE_PX) -> Specification:
    """The interval of every compared arm, and of the twins, on a logarithmic axis of the speed ratio.

    An arm without an interval has a row that says so; an end beyond the axis is drawn to its edge
    with an arrow.
    """
    narrow = width_px <= NARROW_PX
    rows = _interval_rows(result, narrow=narrow)
    ends = _axis_ends(rows, result.margin)
    for row in rows:
        _cut(row, ends)
    # On a narrow page names stand above their intervals, else beside them.
    longest = max((len(row["label"]) for row in rows), default=0)
    names_px = 0 if narrow else min(_NAMES_PX_MAX, 28 + math.ceil(7.4 * longest))
    height_px = (46 if narrow else 30) * max(1, len(rows))
    scale: Specification = {"type": "log", "domain": list(ends), "nice": False}
    y = field("key", "nominal", scale={"domain": [row["key"] for row in rows], "padding": 0.5}, axis=None)
    axis = _ratio_axis(ends, 5 if narrow else 9, on_top=len(rows) > _ROWS_FROM_TOP)
    chart = {
        "layer": [
            *_background(scale, axis, height_px),
            *_marks(scale, y),
            _names(y, above=narrow, limit_px=width_px if narrow else names_px - 16),
        ],
        "width": width_px - names_px - 28,
        "height": height_px,
        "title": drawing.title("Speed against the control, by arm", _interval_subtitle(result, narrow)),
        "padding": {"left": 4, "right": 16, "top": 4, "bottom": 4},
    }
    band = {"low": 1 / (1 + result.margin), "high": 1 + result.margin}
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


def _marks(scale: Specification, y: Specification) -> list[Specification]:
    """Intervals, arrows at their open ends, estimates, and words where there is no interval."""
    shared = {
        "y": y,
        "color": field("colour", "nominal", scale=None),
        "tooltip": tips(full="arm", word="verdict", ratio_text="speed ratio", interval_text="interval"),
    }
    low, high, ratio = (field(name, scale=scale) for name in ("low", "high", "ratio"))
    line = {"type": "rule", "strokeWidth": 3, "strokeCap": "round"}
    arrow = {"type": "point", "filled": True, "size": 70}
    point = {"type": "point", "filled": True, "size": 80, "opacity": 1}
    words = {"type": "text", "align": "left", "fontSize": 12, "fontStyle": "italic"}
    return [
        layer("rows", line, shared | {"x": low, "x2": {"field": "high"}}, "datum.low != null"),
        layer("rows", arrow | {"shape": "triangle-left"}, shared | {"x": low}, "datum.open_low"),
        layer("rows", arrow | {"shape": "triangle-right"}, shared | {"x": high}, "datum.open_high"),
        layer(
            "rows",
            point,
            shared | {"x": ratio, "shape": field("shape", "nominal", scale=None)},
            "datum.ratio != null",
        ),
        layer(
            "rows",
            words | {"color": palette.QUIET_INK},
            {"y": y, "x": {"value": 8}, "text": {"field": "says"}},
            "datum.low == null",
        ),
    ]


def _names(y: Specification, *, above: bool, limit_px: int) -> Specification:
    """The names of the rows."""
    mark = {
        "type": "text",
        "align": "left" if above else "right",
        "dx": 0 if above else -12,
        "dy": -16 if above else 0,
        "fontSize": 12.5,
        "color": palette.INK,
        "limit": limit_px,
    }
    return layer("rows", mark, {"y": y, "x": {"value": 0}, "text": {"field": "label"}})


def _interval_rows(result: CompareResult, *, narrow: bool) -> list[_Row]:
    """Data of the interval plot: compared arms in the result's order, each stratum's twin after them."""
    factors = compared_factors(result.arms)
    twins = {twin.stratum: twin for twin in result.twins or (result.twin,)}
    rows: list[_Row] = []
    strata = list(dict.fromkeys(arm.stratum for arm in result.arms))
    limit = 44 if narrow else 40
    for stratum in strata:
        suffix = f" at {text.clean(stratum)}" if stratum else ""
        for arm in result.arms:
            if arm.stratum == stratum and arm.verdict != "control":
                # In a grid the stratum needs the room that the compared factor's name would take.
                name = levels_alone(arm, factors) if stratum else short_name(arm, factors)
                label = shortened(name + suffix, limit)
                rows.append(_row_of(len(rows), label, arm, palette.ARMS[0], "circle", _says(arm)))
        if stratum in twins:
            label = shortened(f"twin{suffix}" if stratum else "twin of the control", limit)
            rows.append(_row_of(len(rows), label, twins[stratum], palette.TWIN, "diamond", "no interval yet"))
    return rows


def _says(arm: ArmResult) -> str:
    if arm.trials == 0:
        return "no interval: no valid trial"
    is_empty = arm.interval is None and arm.ratio is not None
    return "no interval fits all blocks" if is_empty else "no interval yet"


def _row_of(
    number: int, label: str, member: ArmResult | TwinResult, colour: str, shape: str, says: str
) -> _Row:
    low, high = text.bounds(member.interval) if member.interval else (None, None)
    # Where no single figure fits all blocks a point would pass for an answer.
    is_shown = member.interval is not None and member.ratio and math.isfinite(member.ratio)
    withheld = isinstance(member, ArmResult) and member.withheld
    return {
        "key": f"{number:04d}",
        "label": label,
        "ratio": member.ratio if is_shown else None,
        "low": low,
        "high": high,
        "colour": palette.QUIET_INK if withheld else colour,
        "shape": shape,
        "says": says,
        "full": text.clean(member.name) if isinstance(member, ArmResult) else label,
        "word": _word(member),
        "ratio_text": text.ratio(member.ratio),
        "interval_text": text.interval(member.interval),
    }


def _word(member: ArmResult | TwinResult) -> str:
    """The verdict in a word."""
    if isinstance(member, ArmResult):
        return "withheld" if member.withheld else member.verdict
    return "not yet tested" if member.ok is None else "no difference" if member.ok else "differs"


def _axis_ends(rows: list[_Row], margin: float) -> tuple[float, float]:
    """A domain that holds the band, 1, every estimate, and every end within the span that is shown."""
    logs = [math.log1p(margin) * 2, -math.log1p(margin) * 2]
    estimates = [abs(math.log(row["ratio"])) for row in rows if row["ratio"]]
    limit = max(math.log(_RATIO_SHOWN_MAX), math.log(2) + max(estimates, default=0.0))
    for row in rows:
        ends = (row["low"], row["high"], row["ratio"])
        known = [math.log(value) for value in ends if value is not None and 0 < value < math.inf]
        logs += [min(limit, max(-limit, value)) for value in known]
    room = 0.06 * (max(logs) - min(logs))
    return math.exp(min(logs) - room), math.exp(max(logs) + room)


def _cut(row: _Row, ends: tuple[float, float]) -> None:
    """Cut a row's interval to the axis and flag the ends that are open."""
    row["open_low"] = row["low"] is not None and row["low"] < ends[0]
    row["open_high"] = row["high"] is not None and row["high"] > ends[1]
    if row["open_low"]:
        row["low"] = ends[0]
    if row["open_high"]:
        row["high"] = ends[1]
    if row["ratio"] is not None and not ends[0] <= row["ratio"] <= ends[1]:
        row["ratio"] = None


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


def _interval_subtitle(result: CompareResult, narrow: bool) -> list[str]:
    control = next((arm for arm in result.arms if arm.verdict == "control"), None)
    name = short_name(control, compared_factors(result.arms)) if control else text.clean(result.control)
    parts = [
        f"right of 1× is faster than {shortened(name, 24 if narrow else 60)}",
        f"the band is ±{text.percent(result.margin)}",
    ]
    return parts if narrow else ["; ".join(parts)]
