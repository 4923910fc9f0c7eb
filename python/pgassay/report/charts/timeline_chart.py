"""The drawing of one trial over time: client, server and device on one axis, with what happened meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

from pgassay.analysis.changes.timeline import Panel, Timeline
from pgassay.model.changes import Change, Event
from pgassay.report.charts import drawing, palette
from pgassay.report.charts.drawing import NARROW_PX, Rows, Specification, field, layer, shortened, tips
from pgassay.report.text import clean, quantity

_PANEL_PX = 64
_LANE_PX = 18
_LETTER_PX = 7
# As wide as the name of the longest lane, so that all panels stand below each other.
_LABELS_PX = 84
_EXTENT = {"minExtent": _LABELS_PX, "maxExtent": _LABELS_PX}
_LANES = {
    "change": "change",
    "checkpoint": "checkpoint",
    "autovacuum": "autovacuum",
    "throttling": "throttled",
    "device limit": "device's limit",
    "burst credits": "credits ended",
    "I/O workers": "I/O workers",
    "log": "log",
    "statement": "statement",
}
_COLOURS = {
    "change": palette.INK,
    "checkpoint": palette.ARMS[0],
    "autovacuum": palette.ARMS[2],
    "throttling": palette.ARMS[1],
    "device limit": palette.ARMS[1],
    "burst credits": palette.FAILURE,
    "I/O workers": palette.ARMS[5],
    "log": palette.FAILURE,
    "statement": palette.HEAT_OPEN,
}
# What lasts and concerns the whole server is shaded through all panels.
_SHADED = frozenset({"checkpoint", "autovacuum", "throttling"})
# A moment is drawn this part of the axis wide.
_TICK = 0.004
_LANE_EVENTS_MAX = 200


class _Lane(TypedDict):
    """A bar of a lane, in seconds of the measured part."""

    kind: str
    lane: str
    what: str
    when: str
    begin: float
    end: float


def specification(
    shown: Timeline, name: str, peaks: dict[str, float], *, width_px: int, note: str
) -> Specification:
    """One trial; `peaks` holds the end of each panel's axis, so that trials can be compared by eye.

    `name` is the arm's, `note` says which of its trials it is.
    """
    narrow = width_px <= NARROW_PX
    width = width_px - _LABELS_PX - 30
    lanes = _lanes(shown)
    data: dict[str, Rows] = {
        "lanes": lanes,
        "bands": [row for row in lanes if row["kind"] in _SHADED],
        "changes": [{"begin": change.at_s} for change in shown.changes],
    }
    charts: list[Specification] = []
    if lanes:
        data["names"] = _statement_names(lanes, width / shown.measured_s)
        charts.append(_lane_chart(lanes, data["names"], shown.measured_s, width))
    for number, panel in enumerate(shown.panels):
        data[f"panel{number}"] = _rows(panel)
        x = _x(shown.measured_s, labels=number == len(shown.panels) - 1)
        series = _series_layer(panel, f"panel{number}", x, peaks.get(panel.title, 0.0), width)
        charts.append(
            {
                "title": {
                    "text": panel.title,
                    "anchor": "start",
                    "fontSize": 12,
                    "fontWeight": 600,
                    "offset": 4,
                },
                "width": width,
                "height": _PANEL_PX,
                "layer": [*_marks(data, x), series],
            }
        )
    chart = {
        "vconcat": charts,
        "spacing": 10,
        "resolve": {"scale": {"x": "shared", "color": "independent"}},
        "title": drawing.title(shortened(clean(name), 44 if narrow else 100), [note]),
        "padding": {"left": 4, "right": 12, "top": 4, "bottom": 4},
    }
    return drawing.specification(chart, data)


def peaks(timelines: Sequence[Timeline]) -> dict[str, float]:
    """The greatest height of each panel over all timelines; of stacked series that of their sum."""
    found: dict[str, float] = {}
    for panel in (panel for shown in timelines for panel in shown.panels):
        heights: dict[float, float] = {}
        for point in panel.points:
            before = heights.get(point.begin_s, 0.0)
            heights[point.begin_s] = before + point.value if panel.stacked else max(before, point.value)
        found[panel.title] = max(found.get(panel.title, 0.0), *heights.values())
    return found


def _x(span_s: float, *, labels: bool) -> Specification:
    axis = {"title": "second of the measured part", "grid": False, "tickCount": 8} if labels else None
    return {"scale": {"domain": [0, round(span_s, 3)], "nice": False}, "axis": axis}


def _rows(panel: Panel) -> Rows:
    """Short names, since there are many: series, where its bin begins, value; the last bin has an end too."""
    last = {point.series: point for point in panel.points}
    ends = [replace(point, begin_s=point.end_s) for point in last.values()]
    return [
        {"s": point.series, "t": round(point.begin_s, 3), "v": float(f"{point.value:.4g}")}
        for point in (*panel.points, *ends)
    ]


def _series_layer(panel: Panel, data: str, x: Specification, peak: float, width: int) -> Specification:
    series = list(dict.fromkeys(point.series for point in panel.points))
    colours = [palette.ARMS[place % len(palette.ARMS)] for place in range(len(series))]
    key = {"title": None, "orient": "top", "direction": "horizontal", "columns": 0, "offset": 4, "padding": 0}
    if width < NARROW_PX:
        key |= {"columns": 2, "labelLimit": width // 2 - 24}
    encoding = {
        "x": field("t", **x),
        "y": field(
            "v",
            stack="zero" if panel.stacked else None,
            scale={"domain": [0, peak or 1], "nice": True},
            axis={"title": None, "tickCount": 2, "format": ".3~s" if peak >= 1000 else ".3~r", **_EXTENT},
        ),
        "color": field(
            "s",
            "nominal",
            scale={"domain": series, "range": colours},
            legend=key if len(series) > 1 else None,
        ),
    }
    mark = (
        {"type": "area", "opacity": 0.75, "interpolate": "step-after"}
        if panel.stacked
        else {"type": "line", "strokeWidth": 1.6, "interpolate": "step-after"}
    )
    return layer(data, mark, encoding)


def _marks(data: Mapping[str, Rows], x: Specification) -> list[Specification]:
    """What lasts as shades, and each change as a dashed line."""
    shade = {"type": "rect", "color": palette.BAND, "opacity": 0.8, "aria": False}
    line = {"type": "rule", "color": palette.INK, "strokeDash": [4, 3], "strokeWidth": 1, "aria": False}
    layers = {
        "bands": layer("bands", shade, {"x": field("begin", **x), "x2": {"field": "end"}}),
        "changes": layer("changes", line, {"x": field("begin", **x)}),
    }
    # A layer without rows costs as much time to draw as one with.
    return [layers[name] for name in layers if data[name]]


def _statement_names(lanes: Sequence[_Lane], px_per_s: float) -> Rows:
    """The names of the statements whose bars have room for them."""
    found = []
    for row in lanes:
        name = row["what"].removeprefix("statement ")
        if row["kind"] == "statement" and (row["end"] - row["begin"]) * px_per_s > _LETTER_PX * len(name) + 6:
            found.append({"name": name, "lane": row["lane"], "begin": row["begin"]})
    return found


def _lane_chart(lanes: Sequence[_Lane], statements: Rows, span_s: float, width: int) -> Specification:
    names = [name for name in _LANES.values() if any(row["lane"] == name for row in lanes)]
    kinds = list(dict.fromkeys(row["kind"] for row in lanes))
    encoding = {
        "x": field("begin", **_x(span_s, labels=False)),
        "x2": {"field": "end"},
        "y": field(
            "lane",
            "nominal",
            sort=names,
            axis={
                "title": None,
                "ticks": False,
                "domain": False,
                "labelLimit": _LABELS_PX,
                **_EXTENT,
                "labelColor": palette.INK,
            },
        ),
        "color": field(
            "kind",
            "nominal",
            legend=None,
            scale={"domain": kinds, "range": [_COLOURS[kind] for kind in kinds]},
        ),
        "tooltip": tips(what="what", when="when"),
    }
    bar = {"type": "bar", "height": 12, "stroke": palette.GRID, "strokeWidth": 0.5}
    layers = [layer("lanes", bar, encoding)]
    if statements:
        text = {
            "type": "text",
            "align": "left",
            "baseline": "middle",
            "dx": 3,
            "color": palette.INK,
            "fontSize": 11,
        }
        places = {"x": encoding["x"], "y": encoding["y"], "text": field("name", "nominal")}
        layers.append(layer("names", text, places))
    return {"width": width, "height": {"step": _LANE_PX}, "layer": layers}


def _lanes(shown: Timeline) -> list[_Lane]:
    """A row for each change and event, cut to the measured part."""
    rows = [_lane_of("change", _change(change), change.at_s, change.at_s, shown) for change in shown.changes]
    rows += [_event(event, shown) for event in shown.events[:_LANE_EVENTS_MAX]]
    return rows


def _event(event: Event, shown: Timeline) -> _Lane:
    began_s = event.began_s if event.began_s is not None else 0.0
    ended_s = event.ended_s if event.ended_s is not None else shown.measured_s
    return _lane_of(event.kind, clean(event.what), began_s, ended_s, shown)


def _lane_of(kind: str, what: str, began_s: float, ended_s: float, shown: Timeline) -> _Lane:
    span_s = shown.measured_s
    when = f"{began_s:.2f} s" if began_s == ended_s else f"{began_s:.2f} s to {ended_s:.2f} s"
    begin = min(max(0.0, began_s), span_s * (1 - _TICK))
    return {
        "kind": kind,
        "lane": _LANES[kind],
        "what": what,
        "when": when,
        "begin": round(begin, 4),
        "end": round(max(min(ended_s, span_s), begin + span_s * _TICK), 4),
    }


def _change(change: Change) -> str:
    before, after = (quantity(value, "") for value in (change.before, change.after))
    return f"{change.series}: {before} → {after} {change.unit}"
