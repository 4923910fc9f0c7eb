"""The drawings of `pgassay size`: price and time of each volume, and what more of each thing brings."""

from collections.abc import Iterator

from pgassay.model.volumes.size import SizedGroup, SizedVolume, SizeResult
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
from pgassay.words import figure, percent_fixed, seconds

_PADDING = {"left": 4, "right": 16, "top": 4, "bottom": 4}
_KINDS = ("worth its price", "recommended", "another")
_FORMATS = {"operations": "~s", "throughput": "~s", "latency": "~g"}
_TITLES = {"operations": "IOPS", "throughput": "MiB/s", "latency": "latency, ms"}


def drawings(result: SizeResult) -> Iterator[Drawing]:
    """What there is to draw, in the page's order."""
    for number, group in enumerate(result.groups):
        if any(each.price_per_month is not None for each in group.volumes):
            yield _pareto(group, result.slow_down, figure_name("pareto", number))
        if group.knees:
            yield _knees(group, figure_name("knees", number))


def figure_name(kind: str, number: int) -> str:
    """The name of a drawing of a group, by its place."""
    return kind if number == 0 else f"{kind}-{number + 1}"


def _pareto(group: SizedGroup, slow_down: float, name: str) -> Drawing:
    return both_widths(name, lambda width: pareto(group, slow_down, width_px=width))


def _knees(group: SizedGroup, name: str) -> Drawing:
    return both_widths(name, lambda width: knees(group, width_px=width))


def _kind(volume: SizedVolume) -> str:
    if volume.is_recommended:
        return "recommended"
    return "worth its price" if volume.is_on_front else "another"


def _volume_rows(group: SizedGroup) -> list[dict[str, object]]:
    return [
        {
            "volume": each.volume,
            "price": each.price_per_month,
            "time": each.seconds_per_unit,
            "low": each.seconds_per_unit if each.low_s is None else each.low_s,
            "high": each.seconds_per_unit if each.high_s is None else each.high_s,
            "kind": _kind(each),
            "is_front": each.is_on_front,
            "shown_price": f"{each.price_per_month:,.2f} {each.currency} a month",
            "shown_time": f"{seconds(each.seconds_per_unit)} a {group.unit}",
            "shown_slow": percent_fixed(each.slow_down, 1, signed=True),
        }
        for each in group.volumes
        if each.price_per_month is not None
    ]


def pareto(group: SizedGroup, slow_down: float, *, width_px: int) -> Specification:
    """A point for each volume that has a price: its price to the right, its time upwards."""
    rows = _volume_rows(group)
    scale = {"type": "log", "nice": False}
    # A logarithmic axis has no place for what costs nothing, and would have none for the others either.
    is_free = any(each.price_per_month == 0 for each in group.volumes)
    price_scale = {"type": "linear", "nice": True} if is_free else scale
    price_axis = {"title": "price per month", "format": "~s", "tickCount": 6}
    x = field("price", scale=price_scale, axis=price_axis)
    time_axis = {"title": f"seconds of a {group.unit}", "format": "~g", "tickCount": 6}
    y = field("time", scale=scale | {"zero": False}, axis=time_axis)
    colours = {"domain": list(_KINDS), "range": [palette.ARMS[0], palette.ARMS[1], palette.QUIET_INK]}
    colour = field("kind", "nominal", scale=colours, legend={"title": None, "orient": "top"})
    tip = tips(volume="volume", shown_price="price", shown_time="time", shown_slow="slow-down")
    front = layer(
        "rows",
        {
            "type": "line",
            "interpolate": "step-after",
            "strokeWidth": 1.5,
            "color": palette.ARMS[0],
            "opacity": 0.6,
        },
        {"x": x, "y": y},
        keep="datum.is_front",
    )
    ranges = layer(
        "rows",
        {"type": "rule", "strokeWidth": 1.5, "opacity": 0.45},
        {"x": x, "y": field("low", scale=scale, axis=time_axis), "y2": {"field": "high"}, "color": colour},
    )
    points = layer(
        "rows",
        {"type": "point", "filled": True, "size": 55},
        {"x": x, "y": y, "color": colour, "tooltip": tip},
    )
    bound = layer(
        "bound",
        {"type": "rule", "strokeDash": [4, 4], "color": palette.QUIET_INK},
        {"y": field("time", scale=scale, axis=time_axis)},
    )
    chart = {
        "layer": [bound, front, ranges, points],
        "width": width_px - (80 if width_px <= NARROW_PX else 110),
        "height": 320,
        "title": drawing.title(
            "Price and time of the volumes",
            [
                "line: no other volume is both cheaper and faster; vertical line: range of the assumed "
                "latency",
                f"dashed: {percent_fixed(slow_down)} slower than {drawing.shortened(group.against, 44)}",
            ],
        ),
        "padding": _PADDING,
    }
    return drawing.specification(
        chart, {"rows": rows, "bound": [{"time": group.against_s * (1 + slow_down)}]}
    )


def knees(group: SizedGroup, *, width_px: int) -> Specification:
    """A curve for each dimension, with its knee."""
    narrow = width_px <= NARROW_PX
    each_px = width_px - 80 if narrow else (width_px - 200) // len(group.knees)
    parts = []
    data = {}
    for knee in group.knees:
        name = f"curve_{knee.dimension}"
        data[name] = [
            {
                "value": point.value,
                "time": point.seconds_per_unit,
                "shown": figure(point.value),
                "shown_time": seconds(point.seconds_per_unit),
            }
            for point in knee.curve
        ]
        data[f"{name}_knee"] = [] if knee.value is None else [{"value": knee.value}]
        x = field(
            "value",
            scale={"type": "log", "nice": False},
            axis={"title": _TITLES[knee.dimension], "format": _FORMATS[knee.dimension], "tickCount": 4},
        )
        y = field(
            "time",
            scale={"type": "log", "nice": False},
            axis={"title": f"seconds of a {group.unit}", "format": "~g", "tickCount": 5},
        )
        tip = tips(shown=_TITLES[knee.dimension], shown_time="time")
        parts.append(
            {
                "layer": [
                    layer(
                        f"{name}_knee",
                        {"type": "rule", "strokeDash": [4, 4], "color": palette.QUIET_INK},
                        {"x": x},
                    ),
                    layer(
                        name,
                        {"type": "line", "point": {"size": 25}, "color": palette.ARMS[0]},
                        {"x": x, "y": y, "tooltip": tip},
                    ),
                ],
                "width": each_px,
                "height": 200,
            }
        )
    chart = {
        ("vconcat" if narrow else "hconcat"): parts,
        "title": drawing.title(
            "Gain from more of each limit", ["all other limits removed; dashed: beyond it nothing is gained"]
        ),
        "padding": _PADDING,
    }
    return drawing.specification(chart, data)
