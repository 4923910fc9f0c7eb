"""The key of a drawing: which colour and which sign stands for which arm."""

from collections.abc import Iterable

from pgassay.report.charts import palette
from pgassay.report.charts.drawing import Specification, shortened

_LABEL_CHARACTERS_MAX = 40


def arm_labels(groups: Iterable[str]) -> dict[str, str]:
    """Group → its name in the key, the twin last; long names are cut unless that makes two alike."""
    ordered = sorted(dict.fromkeys(groups), key=lambda group: group == "twin")
    labels = {group: shortened(group, _LABEL_CHARACTERS_MAX) for group in ordered}
    return labels if len(set(labels.values())) == len(labels) else {group: group for group in ordered}


def has_key(labels: dict[str, str]) -> bool:
    """Whether there are few enough arms for a key: beyond, colours repeat."""
    return len(labels) <= len(palette.ARMS) + 1


def legend(labels: dict[str, str], *, narrow: bool, width_px: int) -> Specification | None:
    """The key above a drawing; None when colours would repeat."""
    if not has_key(labels):
        return None
    return {
        "title": None,
        "orient": "top",
        "columns": 1 if narrow else 4,
        "labelLimit": min(300, width_px - 80),
        "symbolOpacity": 1,
    }


def arm_encoding(labels: dict[str, str], key: Specification | None, *, shapes: bool) -> Specification:
    """Colour, and shape where marks have one, by the column `group`; they repeat in a large grid."""
    colours, signs = [], []
    for number, group in enumerate(labels):
        is_twin = group == "twin"
        colours.append(palette.TWIN if is_twin else palette.ARMS[number % len(palette.ARMS)])
        signs.append("diamond" if is_twin else palette.SHAPES[number % len(palette.SHAPES)])
    base: Specification = {"field": "group", "type": "nominal", "legend": key}
    domain = list(labels.values())
    encoding: Specification = {"color": base | {"scale": {"domain": domain, "range": colours}}}
    if shapes:
        encoding["shape"] = base | {"scale": {"domain": domain, "range": signs}}
    return encoding
