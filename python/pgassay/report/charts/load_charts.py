"""The drawings of a load: transactions by second, and latencies by percentile."""

from collections.abc import Mapping, Sequence

from pgassay.report.charts import drawing, palette
from pgassay.report.charts.arm_key import arm_encoding, arm_labels, legend
from pgassay.report.charts.drawing import NARROW_PX, Rows, Specification, field, layer, tips
from pgassay.report.compare.latency_map import MapCell
from pgassay.report.compare.trial_series import PERCENTILES, LatencyRow, SecondRow
from pgassay.report.text import percent, plural, quantity

_HEIGHT_PX = 200
_PADDING = {"left": 4, "right": 12, "top": 4, "bottom": 4}


def seconds(rows: Sequence[SecondRow], *, width_px: int) -> Specification:
    """Transactions in each second: an arm's median as a line, its trials' range as a band."""
    labels = arm_labels(row.group for row in rows)
    data = [
        {
            "stratum": row.stratum,
            "group": labels[row.group],
            "second": row.second,
            "median": row.median,
            "low": row.low,
            "high": row.high,
            "shown": quantity(row.median, ""),
            "range": f"{quantity(row.low, '')} – {quantity(row.high, '')}",
            "number": str(row.second),
            "trials": str(row.trials),
        }
        for row in rows
    ]
    narrow = width_px <= NARROW_PX
    colour = arm_encoding(labels, legend(labels, narrow=narrow, width_px=width_px), shapes=False)
    x = field("second", axis={"title": "second", "values": _whole_ticks(rows), "grid": False, "format": "d"})
    axis = {"title": "transactions", "tickCount": 5, "format": "~s"}
    tip = tips(group="arm", number="second", shown="transactions", range="range", trials="trials")
    layers = [
        layer(
            "rows",
            {"type": "area", "opacity": 0.14},
            {"x": x, "y": field("low", axis=axis), "y2": {"field": "high"}, **colour},
        ),
        layer(
            "rows",
            {"type": "line", "strokeWidth": 2, "point": {"size": 22}},
            {"x": x, "y": field("median", axis=axis), "tooltip": tip, **colour},
        ),
    ]
    heading = drawing.title(
        "Transactions in each second", ["line: median of the arm's trials; band: their range"]
    )
    return _panels(layers, data, heading, [row.stratum for row in rows], width_px)


def _whole_ticks(rows: Sequence[SecondRow]) -> list[int]:
    """Ten or fewer whole seconds: an automatic axis puts ticks between them."""
    last = max(row.second for row in rows)
    return list(range(1, last + 1, max(1, -(-last // 10))))


def latency(rows: Sequence[LatencyRow], *, width_px: int) -> Specification:
    """Latency by percentile on a logarithmic scale; the distance to 100 % shrinks tenfold per step."""
    labels = arm_labels(row.group for row in rows)
    data = [
        {
            "stratum": row.stratum,
            "group": labels[row.group],
            "percentile": f"p{percentile:g}",
            "latency": max(value, 0.001),
            "shown": quantity(value / 1000, "s"),
            "trials": f"{row.transactions:,} in {plural(row.trials, 'trial')}",
        }
        for row in rows
        for percentile, value in zip(PERCENTILES, row.percentiles_ms, strict=True)
    ]
    narrow = width_px <= NARROW_PX
    encoding = {
        "x": field(
            "percentile",
            "ordinal",
            sort=None,
            axis={"title": None, "labelAngle": 0},
        ),
        "y": field(
            "latency",
            scale={"type": "log", "nice": False},
            axis={"title": "latency, ms", "format": "~g", "tickCount": 5},
        ),
        "tooltip": tips(group="arm", percentile="percentile", shown="latency", trials="transactions"),
        **arm_encoding(labels, legend(labels, narrow=narrow, width_px=width_px), shapes=False),
    }
    mark = {"type": "line", "strokeWidth": 2, "point": {"size": 40}}
    lines = ["share of transactions with at most this latency", "from all valid trials of the arm"]
    heading = drawing.title("Latency by percentile", lines if narrow else ["; ".join(lines)])
    return _panels([layer("rows", mark, encoding)], data, heading, [row.stratum for row in rows], width_px)


def latency_map(cells: Sequence[MapCell], *, width_px: int) -> Specification:
    """Latencies over time, a panel for each arm: the darker a cell, the more of its second took so long."""
    labels = arm_labels(cell.group for cell in cells)
    panels = list(dict.fromkeys(_panel(cell, labels) for cell in cells))
    data = [
        {
            "panel": _panel(cell, labels),
            "from": cell.from_s,
            "to": cell.to_s,
            "low": cell.low_ms,
            "high": cell.high_ms,
            # A share of a thousandth is what a tail is made of, so the scale is the logarithm's.
            "share": cell.share,
            "shown": percent(cell.share),
            "took": f"{quantity(cell.low_ms / 1000, 's')} to {quantity(cell.high_ms / 1000, 's')}",
            "when": f"{cell.from_s} s to {cell.to_s} s",
            "count": f"{cell.transactions:,}",
        }
        for cell in cells
    ]
    narrow = width_px <= NARROW_PX
    columns = 1 if narrow else min(2, len(panels))
    panel_px = (width_px - 80 * columns) // columns
    encoding = {
        "x": field("from", axis={"title": "second", "grid": False, "format": "d", "tickMinStep": 1}),
        "x2": {"field": "to"},
        "y": field(
            "low",
            scale={"type": "log", "nice": False},
            axis={"title": "latency, ms", "format": "~g", "tickCount": 5, "grid": False},
        ),
        "y2": {"field": "high"},
        "color": field("share", scale={"type": "log", "range": list(palette.HEAT_SHARE)}, legend=None),
        "tooltip": tips(panel="arm", when="time", took="latency", shown="share", count="transactions"),
    }
    chart = {
        "data": {"name": "rows"},
        "facet": field("panel", "nominal", sort=panels, title=None, header={"labelLimit": panel_px}),
        "columns": columns,
        "spec": {"mark": {"type": "rect"}, "encoding": encoding, "width": panel_px, "height": _HEIGHT_PX},
        "title": drawing.title(
            "Latencies over time", ["darker: a greater share of the transactions at that time"]
        ),
        "padding": _PADDING,
    }
    return drawing.specification(chart, {"rows": data})


def _panel(cell: MapCell, labels: Mapping[str, str]) -> str:
    return f"{labels[cell.group]} at {cell.stratum}" if cell.stratum else labels[cell.group]


def _panels(
    layers: list[Specification],
    data: Rows,
    heading: Specification,
    strata: list[str],
    width_px: int,
) -> Specification:
    """One panel, or one for each stratum with a scale of its own: strata may differ tenfold."""
    order = list(dict.fromkeys(strata))
    if len(order) <= 1:
        chart: Specification = {"layer": layers, "width": width_px - 80, "height": _HEIGHT_PX + 40}
        return drawing.specification(chart | {"title": heading, "padding": _PADDING}, {"rows": data})
    columns = 1 if width_px <= NARROW_PX else min(3, len(order))
    panel_px = (width_px - 80 * columns) // columns
    bare = [{key: value for key, value in each.items() if key != "data"} for each in layers]
    chart = {
        "data": {"name": "rows"},
        "facet": field("stratum", "nominal", sort=order, header={"labelLimit": panel_px}),
        "columns": columns,
        "spec": {"layer": bare, "width": panel_px, "height": _HEIGHT_PX},
        "resolve": {"scale": {"y": "independent"}},
    }
    return drawing.specification(chart | {"title": heading, "padding": _PADDING}, {"rows": data})
