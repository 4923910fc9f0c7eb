"""The drawing of all trials in run order."""

from pgassay.record.experiment import StoredExperiment
from pgassay.report import text
from pgassay.report.charts import drawing, palette
from pgassay.report.charts.arm_key import arm_encoding, arm_labels, has_key, legend
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX, Specification, field, layer, tips
from pgassay.report.compare.trials import TrialRow, arm_groups, trial_rows

_HEIGHT_PX = 260


def specification(stored: StoredExperiment, *, width_px: int = WIDE_PX) -> Specification:
    """The metric of every trial in run order, coloured by arm; failed trials are crosses at the foot."""
    metric = stored.experiment.contract.metric
    rows = trial_rows(stored)
    labels = arm_labels([*arm_groups(stored.experiment.arms), *(row.group for row in rows)])
    narrow = width_px <= NARROW_PX
    remarks = _remarks(rows, metric.better, has_key(labels))
    shared = {
        "x": field(
            "order",
            scale={"domain": [0, max(2, len(rows) + 1)], "nice": False},
            axis={"title": "trial, in run order", "grid": False, "tickMinStep": 1, "format": "d"},
        ),
        "y": _value_axis(rows, f"{text.clean(metric.name)}, {text.clean(metric.unit)}".rstrip(", ")),
        "tooltip": tips(number="trial", block="block", name="arm", shown="result"),
    }
    key = legend(labels, narrow=narrow, width_px=width_px)
    point = {"type": "point", "filled": True, "size": 42, "opacity": 0.85}
    cross = {"type": "text", "text": "✕", "fontSize": 14, "fontWeight": "bold", "color": palette.FAILURE}
    chart = {
        "layer": [
            layer("points", point, shared | arm_encoding(labels, key, shapes=True), "datum.ok"),
            layer("points", cross, shared, "!datum.ok"),
        ],
        "width": width_px - 80,
        "height": _HEIGHT_PX,
        "title": drawing.title(
            "Every trial, in the order they ran", remarks if narrow else ["; ".join(remarks)]
        ),
        "padding": {"left": 4, "right": 12, "top": 4, "bottom": 4},
    }
    return drawing.specification(chart, {"points": _points(rows, labels, metric.unit)})


def _points(rows: list[TrialRow], labels: dict[str, str], unit: str) -> list[dict[str, object]]:
    """Data of the drawing; a trial without a figure stands below the smallest one."""
    foot = min((row.value for row in rows if row.value is not None), default=0.0) * 0.97
    return [
        {
            "order": row.order,
            "value": foot if row.value is None else row.value,
            "group": labels[row.group],
            "ok": row.value is not None,
            "number": str(row.order),
            "block": str(row.block + 1),
            "name": text.clean(row.name),
            "shown": text.quantity(row.value, unit) or f"{row.status}: {text.clean(row.reason)[:120]}",
        }
        for row in rows
    ]


def _value_axis(rows: list[TrialRow], title: str) -> Specification:
    """The metric's axis; without any figure an automatic one would have no finite end."""
    has_values = any(row.value is not None for row in rows)
    scale = {"zero": False} if has_values else {"domain": [0, 1]}
    return field("value", scale=scale, axis={"title": title, "tickCount": 6, "labels": has_values})


def _remarks(rows: list[TrialRow], better: str, has_legend: bool) -> list[str]:
    """What stands below the title."""
    failed = sum(1 for row in rows if row.value is None)
    remarks = [f"{text.plural(len(rows), 'trial')}, {better} is better"]
    if failed:
        remarks.append(f"✕ marks {failed} without a valid figure")
    if not has_legend:
        remarks.append("too many arms for a key: see the table")
    return remarks
