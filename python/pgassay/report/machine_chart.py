"""The drawing of the device and the processors while a trial ran."""

from collections.abc import Sequence
from typing import Any

from pgassay.report import drawing
from pgassay.report.arm_key import arm_encoding, arm_labels, legend
from pgassay.report.drawing import NARROW_PX, Specification, field, tips
from pgassay.report.series import MachineRow
from pgassay.report.text import quantity

_HEIGHT_PX = 110
# A counter that never rises above this is no panel of its own (MB/s, processors).
_SHOWN_MIN = 0.02


def specification(rows: Sequence[MachineRow], *, width_px: int) -> Specification:
    """One panel for each figure that moved: a line for each arm over the seconds of one trial."""
    labels = arm_labels(row.group for row in rows)
    peaks: dict[str, float] = {}
    for row in rows:
        peaks[row.panel] = max(peaks.get(row.panel, 0.0), row.value)
    panels = [panel for panel, peak in peaks.items() if peak > _SHOWN_MIN] or list(peaks)[:1]
    data: list[dict[str, Any]] = [
        {
            "panel": row.panel,
            "group": labels[row.group],
            "second": round(row.second, 3),
            "value": round(row.value, 4),
            "shown": quantity(row.value, ""),
            "when": f"{row.second:.1f} s",
        }
        for row in rows
        if row.panel in panels
    ]
    narrow = width_px <= NARROW_PX
    encoding = {
        "x": field("second", axis={"title": "second of the measured part", "grid": False, "tickCount": 8}),
        "y": field("value", axis={"title": None, "tickCount": 3, "format": ".3~r"}),
        "tooltip": tips(group="arm", when="at", shown="value", panel="figure"),
        **arm_encoding(labels, legend(labels, narrow=narrow, width_px=width_px), shapes=False),
    }
    chart = {
        "data": {"name": "rows"},
        "facet": field("panel", "nominal", sort=panels),
        "columns": 1,
        "spec": {
            "mark": {"type": "line", "strokeWidth": 1.6, "point": {"size": 14}},
            "encoding": encoding,
            "width": width_px - 80,
            "height": _HEIGHT_PX,
        },
        "resolve": {"scale": {"y": "independent"}},
        "title": drawing.title("The machine meanwhile", ["in the trial nearest to each arm's median"]),
        "padding": {"left": 4, "right": 12, "top": 4, "bottom": 4},
    }
    return drawing.specification(chart, {"rows": data})
