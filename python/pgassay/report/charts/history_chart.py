"""The drawing of one unit's effect over the runs, with its changes."""

import math
from collections.abc import Sequence

from pgassay.model.gates.history import HistoryResult, HistorySeries
from pgassay.report import text
from pgassay.report.charts import drawing, palette
from pgassay.report.charts.drawing import NARROW_PX, Drawing, Specification, both_widths, field, layer, tips

_HEIGHT_PX = 220
# An end of an interval that the data hardly bound would flatten all others.
_REACH = 3.0


def drawings(result: HistoryResult, series: Sequence[HistorySeries]) -> list[Drawing]:
    """One drawing for each series, named history-1, history-2 and so on."""
    made = []
    for number, each in enumerate(series, start=1):

        def make(width: int, each: HistorySeries = each) -> Specification:
            return specification(result, each, width_px=width)

        made.append(both_widths(f"history-{number}", make))
    return made


def specification(result: HistoryResult, series: HistorySeries, *, width_px: int) -> Specification:
    """The ratio of each run with its interval, the margin as a band, means between changes as steps."""
    narrow = width_px <= NARROW_PX
    low, high = _reach(series)
    y_axis = {"title": "speed relative to the baseline", "tickCount": 5, "format": ".3~f"}
    scale = {"type": "log", "domain": [low, high], "nice": False, "clamp": True}
    x = field(
        "run",
        scale={"domain": [0.5, max(len(result.runs), 1) + 0.5], "nice": False},
        axis={"title": "run, by time", "grid": False, "tickMinStep": 1, "format": "d"},
    )
    y = field("ratio", scale=scale, axis=y_axis)
    shown = tips(name="run", when="when", revision="revision", ratio_text="speed", interval_text="interval")
    band = {"type": "rect", "color": palette.BAND, "opacity": 0.9}
    rule = {"type": "rule", "color": palette.QUIET_INK}
    mean = {"type": "rule", "color": palette.ARMS[1], "strokeWidth": 2}
    mark = {"type": "rule", "color": palette.FAILURE, "strokeDash": [4, 3]}
    point = {"type": "point", "filled": True, "size": 30 if narrow else 42, "color": palette.ARMS[0]}
    chart = {
        "layer": [
            layer("band", band, {"y": field("low", scale=scale, axis=y_axis), "y2": {"field": "high"}}),
            layer("even", {"type": "rule", "color": palette.GRID}, {"y": y}),
            layer("changes", mark, {"x": x, "tooltip": tips(words="change")}),
            layer(
                "points",
                rule,
                {"x": x, "y": field("low", scale=scale, axis=y_axis), "y2": {"field": "high"}},
            ),
            layer("means", mean, {"x": field("begin"), "x2": {"field": "end"}, "y": y}),
            layer("points", point, {"x": x, "y": y, "tooltip": shown}),
        ],
        "width": width_px - 80,
        "height": _HEIGHT_PX,
        "title": drawing.title(drawing.shortened(text.clean(series.name), 40 if narrow else 90), []),
        "padding": {"left": 4, "right": 12, "top": 4, "bottom": 4},
    }
    edge = 1 + series.margin
    return drawing.specification(
        chart,
        {
            "band": [{"low": max(low, 1 / edge), "high": min(high, edge)}],
            "even": [{"ratio": 1.0}],
            "changes": _changes(result, series),
            "points": _points(result, series, low, high),
            "means": _means(result, series),
        },
    )


def _reach(series: HistorySeries) -> tuple[float, float]:
    """The ends of the axis: all ratios, the margin, and as much of the intervals as leaves room for these."""
    logs = [math.log(point.ratio) for point in series.points]
    edge = math.log1p(series.margin)
    reach = max([edge, *map(abs, logs)])
    ends = [
        abs(math.log(end))
        for point in series.points
        for end in point.interval or ()
        if end is not None and end > 0
    ]
    reach = max(reach * 1.1, min(max(ends, default=reach), _REACH * reach))
    return math.exp(-reach * 1.05), math.exp(reach * 1.05)


def _points(result: HistoryResult, series: HistorySeries, low: float, high: float) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for point in series.points:
        run = result.runs[point.run]
        ends = text.bounds(point.interval) if point.interval is not None else (point.ratio, point.ratio)
        rows.append(
            {
                "run": point.run + 1,
                "ratio": point.ratio,
                "low": max(ends[0], low),
                "high": min(ends[1], high),
                "name": text.clean(run.name),
                "when": text.clean(run.created_at),
                "revision": text.clean(run.revision[:12]),
                "ratio_text": text.ratio(point.ratio),
                "interval_text": text.interval_or_why(point.interval, point.ratio),
            }
        )
    return rows


def _changes(result: HistoryResult, series: HistorySeries) -> list[dict[str, object]]:
    return [
        {
            "run": change.run + 0.5,
            "words": f"first after it: {text.clean(result.runs[change.run].name)}",
        }
        for change in series.changes
    ]


def _means(result: HistoryResult, series: HistorySeries) -> list[dict[str, object]]:
    """A step for each part between changes; () where nothing changed."""
    if not series.changes:
        return []
    edges = [0, *(change.run for change in series.changes), len(result.runs)]
    means = [series.changes[0].before, *(change.after for change in series.changes)]
    return [
        {"begin": begin + 0.5, "end": end + 0.5, "ratio": mean}
        for begin, end, mean in zip(edges[:-1], edges[1:], means, strict=True)
    ]
