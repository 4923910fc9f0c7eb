"""The drawings of a replay: each statement's times now beside those of the capture, and the latency."""

from collections.abc import Iterator

from pgassay.model.traffic.replay_result import Percentiles, ReplayFamily, ReplayResult
from pgassay.report import text
from pgassay.report.charts import drawing, palette
from pgassay.report.charts.drawing import (
    NARROW_PX,
    Drawing,
    Specification,
    both_widths,
    field,
    layer,
    shortened,
    tips,
)

FAMILIES_MAX = 15
# The smallest time on a logarithmic axis: a microsecond.
_LEAST_MS = 0.001
_PADDING = {"left": 4, "right": 16, "top": 4, "bottom": 4}


def drawings(result: ReplayResult) -> Iterator[Drawing]:
    """What there is to draw, in the page's order."""
    if _timed(result):
        yield both_widths("families", lambda width: families(result, width_px=width))
    if result.latency_ms is not None:
        yield both_widths("latency", lambda width: latency(result, width_px=width))


def _timed(result: ReplayResult) -> list[tuple[ReplayFamily, Percentiles]]:
    found = [(each, each.times_ms) for each in result.families if each.calls]
    return [(each, times) for each, times in found if times is not None][:FAMILIES_MAX]


def families(result: ReplayResult, *, width_px: int) -> Specification:
    """For each statement a line from p50 to p99 now, and the mean times of the capture and of now."""
    narrow = width_px <= NARROW_PX
    rows = [
        {
            "key": f"{number:02d}",
            "label": shortened(text.clean(each.text), 28 if narrow else 44),
            "when": when,
            "mean": max(mean_ms, _LEAST_MS),
            "low": max(times.p50, _LEAST_MS) if when == "now" else None,
            "high": max(times.p99, _LEAST_MS) if when == "now" else None,
            "shown": text.seconds(mean_ms / 1e3),
            "range": f"{text.seconds(times.p50 / 1e3)} – {text.seconds(times.p99 / 1e3)} now",
            "calls": f"{each.calls:,}",
        }
        for number, (each, times) in enumerate(_timed(result))
        for when, mean_ms in (("captured", 1e3 * each.seconds_captured / each.calls), ("now", times.mean))
    ]
    names_px = 130 if narrow else 260
    labels = {str(row["key"]): str(row["label"]) for row in rows}
    shown = "".join(f"datum.value == '{key}' ? {_quoted(label)} : " for key, label in labels.items())
    axis = {"title": None, "labelLimit": names_px, "ticks": False, "grid": True, "labelExpr": f"{shown}''"}
    y = field("key", "nominal", sort=list(labels), axis=axis)
    times_axis = {"title": "milliseconds", "format": "~g", "tickCount": 5}
    scale = {"type": "log", "nice": False}
    colours = {"domain": ["captured", "now"], "range": [palette.QUIET_INK, palette.ARMS[0]]}
    colour = field("when", "nominal", scale=colours, legend={"title": None, "orient": "top"})
    line = {"y": y, "x": field("low", scale=scale, axis=times_axis), "x2": {"field": "high"}}
    point = {"y": y, "x": field("mean", scale=scale, axis=times_axis), "color": colour}
    tip = tips(label="statement", when="when", shown="mean", range="p50 to p99", calls="calls")
    chart = {
        "layer": [
            layer("rows", {"type": "rule", "strokeWidth": 2, "opacity": 0.5}, line, "datum.when == 'now'"),
            layer("rows", {"type": "point", "filled": True, "size": 60}, point | {"tooltip": tip}),
        ],
        "width": width_px - names_px - 40,
        "height": 26 * len(labels),
        "title": drawing.title("Statements: mean times then and now", ["line: p50 to p99 now; logarithmic"]),
        "padding": _PADDING,
    }
    return drawing.specification(chart, {"rows": rows})


def _quoted(label: str) -> str:
    return "'" + label.replace("\\", "\\\\").replace("'", "\\'") + "'"


def latency(result: ReplayResult, *, width_px: int) -> Specification:
    """From the intended start to the answer, by percentile."""
    found = result.latency_ms
    assert found is not None
    shares = (
        *(("p50", found.p50), ("p90", found.p90), ("p95", found.p95), ("p99", found.p99)),
        *(("p99.9", found.p99_9), ("longest", found.max)),
    )
    rows = [
        {"share": name, "ms": max(value, _LEAST_MS), "shown": text.seconds(value / 1e3)}
        for name, value in shares
    ]
    encoding = {
        "x": field("share", "ordinal", sort=None, axis={"title": None, "labelAngle": 0}),
        "y": field("ms", scale={"type": "log", "nice": False}, axis={"title": "latency, ms", "format": "~g"}),
        "tooltip": tips(share="share", shown="latency"),
    }
    mark = {"type": "line", "strokeWidth": 2, "color": palette.ARMS[0], "point": {"size": 40}}
    chart = {
        "layer": [layer("rows", mark, encoding)],
        "width": width_px - 90,
        "height": 200,
        "title": drawing.title("Latency by percentile", ["from the intended start to the answer"]),
        "padding": _PADDING,
    }
    return drawing.specification(chart, {"rows": rows})
