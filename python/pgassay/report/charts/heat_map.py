"""The drawing of a grid: one cell for each compared arm in each stratum, with the verdict in words."""

import math
from typing import TypedDict

from pgassay.model.result import ArmResult, CompareResult
from pgassay.report import text
from pgassay.report.charts import drawing, palette
from pgassay.report.charts.drawing import NARROW_PX, Specification, field, layer, shortened_apart, tips
from pgassay.report.labels import compared_factors, levels_alone, strata

# From these ratios, to either side, a cell has the second and the third shade.
_SHADES_FROM = (math.log(1.1), math.log(1.5))


class _Cell(TypedDict):
    row: str
    column: str
    colour: str
    ratio: str
    word: str
    interval: str
    full: str
    control: str


def is_grid(result: CompareResult) -> bool:
    """Whether there is more than one stratum."""
    return len(strata(result.arms)) > 1


def specification(result: CompareResult, *, width_px: int) -> Specification:
    """Strata down, compared levels across; colour says how much, words say what is known."""
    narrow = width_px <= NARROW_PX
    cells = _cells(result, narrow=narrow)
    names_px = 96 if narrow else min(260, 24 + 7 * max((len(cell["row"]) for cell in cells), default=0))
    rows = list(dict.fromkeys(cell["row"] for cell in cells))
    columns = list(dict.fromkeys(cell["column"] for cell in cells))
    head = {"title": None, "domain": False, "ticks": False, "labelColor": palette.INK}
    across = head | {
        "orient": "top",
        "labelAngle": 0 if len(columns) < (3 if narrow else 6) else -30,
        "labelLimit": 160,
    }
    encoding = {
        "x": field("column", "nominal", sort=columns, axis=across, scale={"padding": 0.03}),
        "y": field(
            "row", "nominal", sort=rows, axis=head | {"labelLimit": names_px}, scale={"padding": 0.06}
        ),
    }
    tip = tips(full="arm", word="verdict", ratio="speed ratio", interval="interval", control="control")
    tile = encoding | {"color": field("colour", "nominal", scale=None), "tooltip": tip}
    words: Specification = {"type": "text", "color": palette.INK}
    few = len(columns) <= (3 if narrow else 8)
    layers = [
        layer("cells", {"type": "rect", "cornerRadius": 4}, tile),
        layer(
            "cells",
            words | {"dy": -7 if few else 0, "fontSize": 13, "fontWeight": 600},
            encoding | {"text": {"field": "ratio"}, "tooltip": tip},
        ),
    ]
    if few:
        layers.append(
            layer("cells", words | {"dy": 9, "fontSize": 11.5}, encoding | {"text": {"field": "word"}})
        )
    chart = {
        "layer": layers,
        "width": width_px - names_px - 46,
        "height": 50 * max(1, len(rows)),
        "title": drawing.title("Speed compared with the row's control", _key(result, narrow=narrow)),
        "padding": {"left": 4, "right": 16, "top": 4, "bottom": 4},
    }
    return drawing.specification(chart, {"cells": cells})


def _key(result: CompareResult, *, narrow: bool) -> list[str]:
    lines = [
        f"columns: {text.clean(', '.join(compared_factors(result.arms)))}",
        f"blue is faster, orange slower, green equivalent within ±{text.percent(result.margin)}, grey open",
    ]
    if narrow:
        lines[1:] = lines[1].split(", green")
        lines[2] = f"green{lines[2]}"
    return lines


def _cells(result: CompareResult, *, narrow: bool) -> list[_Cell]:
    factors = compared_factors(result.arms)
    controls = {arm.stratum: text.clean(arm.name) for arm in result.arms if arm.verdict == "control"}
    compared = [arm for arm in result.arms if arm.verdict != "control"]
    rows = shortened_apart((text.clean(arm.stratum) for arm in compared), 16 if narrow else 40)
    columns = shortened_apart((levels_alone(arm, factors) for arm in compared), 12 if narrow else 30)
    return [
        {
            "row": rows[text.clean(arm.stratum)],
            "column": columns[levels_alone(arm, factors)],
            "colour": _colour(arm),
            "ratio": text.ratio(arm.ratio) or "–",
            "word": "withheld" if arm.withheld else arm.verdict,
            "interval": text.interval_or_why(arm.interval, arm.ratio),
            "full": text.clean(arm.name),
            "control": controls.get(arm.stratum, ""),
        }
        for arm in compared
    ]


def _colour(arm: ArmResult) -> str:
    if arm.withheld or arm.verdict == "inconclusive" or not arm.ratio:
        return palette.HEAT_OPEN
    if arm.verdict == "equivalent":
        return palette.HEAT_SAME
    shade = sum(abs(math.log(arm.ratio)) >= start for start in _SHADES_FROM)
    return (palette.HEAT_FASTER if arm.verdict == "faster" else palette.HEAT_SLOWER)[shade]
