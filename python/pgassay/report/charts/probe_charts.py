"""The drawings of a probe: predicted times, where the time goes, what other values cost, random reads."""

from collections.abc import Iterator

from pgassay.model.probe import METHODS, Prediction, ProbeResult
from pgassay.report import text
from pgassay.report.charts import drawing, palette
from pgassay.report.charts.drawing import (
    NARROW_PX,
    Drawing,
    Specification,
    both_widths,
    field,
    layer,
    tips,
)
from pgassay.words import percent_fixed

NAMES = ("predictions", "splits", "regrets", "random")
_PADDING = {"left": 4, "right": 16, "top": 4, "bottom": 4}
# Works that are predicted for one connection alone.
_ONE_CONNECTION = ("parallel-cold-scan", "parallel-cached-scan", "buffered-scan")
_WORKS = {"cold-scan": "cold scan", "cached-scan": "cached scan", "bitmap-scan": "bitmap scan"}
_PARTS = {
    "execute": "executor",
    "checksum": "checksum",
    "kernel": "system call and copy",
    "hand_over": "hand-over",
    "runnable": "waiting for a core",
    "worker_wait": "waiting for a worker",
    "harness": "the probe itself",
    "device_wait": "waiting for the device",
}
_CURVES = {
    "io_workers": "io_workers",
    "effective_io_concurrency": "effective_io_concurrency",
    "io_combine_limit": "io_combine_limit",
    "read_ahead_kb": "device read-ahead, kB",
}
# Beyond this a curve says nothing but "far too slow".
_REGRET_SHOWN_MAX = 3.0


def drawings(result: ProbeResult) -> Iterator[Drawing]:
    """What there is to draw, in the page's order; none refers to anything outside itself."""
    if result.predictions:
        yield both_widths("predictions", lambda width: predictions(result, width_px=width))
    if _split_rows(result):
        yield both_widths("splits", lambda width: splits(result, width_px=width))
    if _regret_rows(result):
        yield both_widths("regrets", lambda width: regrets(result, width_px=width))
    if len(result.ceilings.random_read_iops) > 1:
        yield both_widths("random", lambda width: random_reads(result, width_px=width))


def _methods() -> Specification:
    """A colour for each method, the same in every drawing of every probe."""
    scale = {"domain": list(METHODS), "range": list(palette.ARMS[: len(METHODS)])}
    return field("method", "nominal", scale=scale, legend={"title": None, "orient": "top"})


def predictions(result: ProbeResult, *, width_px: int) -> Specification:
    """A point with its interval for each method, works and connections down."""
    narrow = width_px <= NARROW_PX
    rows = [
        {
            "place": _place(each, narrow=narrow),
            "method": each.method,
            "time": each.time_s,
            "low": each.interval[0],
            "high": each.interval[1],
            "shown": text.seconds(each.time_s),
            "range": f"{text.seconds(each.interval[0])} – {text.seconds(each.interval[1])}",
        }
        for each in result.predictions
    ]
    places = list(dict.fromkeys(str(row["place"]) for row in rows))
    names_px = 120 if narrow else 210
    y = field(
        "place",
        "nominal",
        sort=places,
        axis={"title": None, "labelLimit": names_px, "grid": True, "ticks": False},
    )
    offset = field("method", "nominal", sort=list(METHODS))
    x_axis = {"title": "seconds", "format": "~g", "tickCount": 5}
    x = field("time", scale={"type": "log", "nice": False}, axis=x_axis)
    encoding = {"y": y, "yOffset": offset, "color": _methods()}
    tip = tips(place="work", method="method", shown="time", range="interval")
    layers = [
        layer(
            "rows",
            {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
            encoding
            | {"x": field("low", scale={"type": "log", "nice": False}, axis=x_axis), "x2": {"field": "high"}},
        ),
        layer("rows", {"type": "point", "filled": True, "size": 55}, encoding | {"x": x, "tooltip": tip}),
    ]
    chart = {
        "layer": layers,
        "width": width_px - names_px - 40,
        "height": 46 * len(places),
        "title": drawing.title(
            "Predicted time by method", ["line: interval, with that of the executor's cost; logarithmic"]
        ),
        "padding": _PADDING,
    }
    return drawing.specification(chart, {"rows": rows})


def _place(each: Prediction, *, narrow: bool) -> str:
    work = each.work.replace("-", " ")
    if each.work in _ONE_CONNECTION:
        return work
    return (
        f"{work}, {each.connections}" if narrow else f"{work}, {text.plural(each.connections, 'connection')}"
    )


def _split_rows(result: ProbeResult) -> list[dict[str, object]]:
    rows = []
    for cell in result.cells:
        spec = cell.spec
        is_plain = spec.request_bytes == 128 * 1024 and spec.depth == 16
        # The default of a fixed pool, or of one that grows.
        is_plain &= spec.workers == (3 if spec.workers_min is None else 8)
        is_alone = spec.consumers == 1 and not spec.competing_cpus and spec.read_ahead_kb is None
        is_alone &= spec.pins is None and not spec.found
        if not (is_plain and is_alone and cell.split) or spec.engine in ("null", "write"):
            continue
        work = {"sequential": f"{spec.cache} scan", "gaps": "bitmap scan"}.get(spec.pattern)
        if work is None:
            continue
        for order, (part, name) in enumerate(_PARTS.items()):
            share = cell.split.get(part, 0.0)
            rows.append(
                {
                    "place": f"{work}, {spec.engine}",
                    "part": name,
                    "share": share,
                    "order": order,
                    "shown": percent_fixed(share, 1),
                    "speed": f"{cell.mb_s:,.0f} MB/s",
                }
            )
    return rows


def splits(result: ProbeResult, *, width_px: int) -> Specification:
    """Where the consumer's time goes, as shares, a bar for each scan by each engine."""
    rows = _split_rows(result)
    places = sorted({str(row["place"]) for row in rows})
    names_px = 130 if width_px <= NARROW_PX else 180
    colours = [*palette.ARMS[: len(_PARTS) - 1], palette.GRID]
    legend = {"title": None, "orient": "top", "columns": 2 if width_px <= NARROW_PX else 4}
    encoding = {
        "y": field(
            "place", "nominal", sort=places, axis={"title": None, "labelLimit": names_px, "ticks": False}
        ),
        "x": field("share", stack="zero", scale={"domain": [0, 1]}, axis={"title": None, "format": ".0%"}),
        "color": field(
            "part", "nominal", scale={"domain": list(_PARTS.values()), "range": colours}, legend=legend
        ),
        "order": field("order"),
        "tooltip": tips(place="scan", part="part", shown="share of its time", speed="speed"),
    }
    chart = {
        "layer": [layer("rows", {"type": "bar"}, encoding)],
        "width": width_px - names_px - 40,
        "height": 24 * len(places),
        "title": drawing.title("Where a scan's time goes", ["of the process that runs the query"]),
        "padding": _PADDING,
    }
    return drawing.specification(chart, {"rows": rows})


def _regret_rows(result: ProbeResult) -> list[dict[str, object]]:
    rows = []
    for name, label in _CURVES.items():
        made = result.recommend.get(name)
        if made is None:
            continue
        for order, each in enumerate(made.alternatives):
            rows.append(
                {
                    "setting": label,
                    "value": each.value.removesuffix("kB"),
                    "order": order,
                    "regret": min(each.regret, _REGRET_SHOWN_MAX),
                    "low": min(max(each.interval[0], 0.0), _REGRET_SHOWN_MAX),
                    "high": min(each.interval[1], _REGRET_SHOWN_MAX),
                    "mark": "recommended"
                    if each.value == made.value
                    else "knee"
                    if each.value == made.knee
                    else "",
                    "shown": percent_fixed(each.regret, 1, signed=True),
                    "range": " – ".join(percent_fixed(end, 1, signed=True) for end in each.interval),
                }
            )
    return rows


def regrets(result: ProbeResult, *, width_px: int) -> Specification:
    """A panel for each setting: the time beyond the best value's; the knee and the choice are marked."""
    rows = _regret_rows(result)
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    columns = 1 if width_px <= NARROW_PX else 2
    panel_px = (width_px - 90 * columns) // columns
    x = field("value", "ordinal", sort=field("order") | {"op": "min"}, axis={"title": None, "labelAngle": 0})
    axis = {"title": "time beyond the best", "format": ".0%", "tickCount": 4}
    y = field("regret", axis=axis)
    marks = {"domain": ["recommended", "knee"], "range": [palette.ARMS[2], palette.ARMS[1]]}
    layers = [
        {
            "mark": {"type": "rule", "color": palette.GRID, "strokeWidth": 3},
            "encoding": {"x": x, "y": field("low", axis=axis), "y2": {"field": "high"}},
        },
        {"mark": {"type": "line", "color": palette.QUIET_INK}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "point", "filled": True, "size": 40, "color": palette.QUIET_INK},
            "encoding": {
                "x": x,
                "y": y,
                "tooltip": tips(value="value", shown="beyond the best", range="interval"),
            },
        },
        {
            "transform": [{"filter": "datum.mark !== ''"}],
            "mark": {"type": "point", "size": 160, "strokeWidth": 2.5},
            "encoding": {
                "x": x,
                "y": y,
                "color": field("mark", "nominal", scale=marks, legend={"title": None, "orient": "top"}),
            },
        },
    ]
    chart = {
        "data": {"name": "rows"},
        "facet": field("setting", "nominal", sort=settings, header={"labelLimit": panel_px}),
        "columns": columns,
        "spec": {"layer": layers, "width": panel_px, "height": 150},
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
        "title": drawing.title("Cost of other values", ["line at a value: its interval"]),
        "padding": _PADDING,
    }
    return drawing.specification(chart, {"rows": rows})


def random_reads(result: ProbeResult, *, width_px: int) -> Specification:
    """Random reads a second by the number in flight, both logarithmic."""
    rows = [
        {"depth": int(depth), "iops": iops, "shown": f"{iops:,.0f}", "number": depth}
        for depth, iops in result.ceilings.random_read_iops.items()
    ]
    encoding = {
        "x": field(
            "depth",
            scale={"type": "log", "base": 2},
            axis={"title": "reads in flight", "values": [row["depth"] for row in rows], "grid": False},
        ),
        "y": field(
            "iops", scale={"type": "log"}, axis={"title": "reads a second", "format": "~s", "tickCount": 4}
        ),
        "tooltip": tips(number="in flight", shown="a second"),
    }
    mark = {"type": "line", "color": palette.ARMS[0], "point": {"size": 50, "color": palette.ARMS[0]}}
    chart = {
        "layer": [layer("rows", mark, encoding)],
        "width": width_px - 90,
        "height": 200,
        "title": drawing.title("Random reads of 8 kB", ["direct; logarithmic on both axes"]),
        "padding": _PADDING,
    }
    return drawing.specification(chart, {"rows": rows})
