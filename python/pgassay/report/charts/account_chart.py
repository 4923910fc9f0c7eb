"""The drawing of the accounts: one stacked bar for each arm, side by side."""

from collections.abc import Mapping, Sequence

from pgassay.report.charts import drawing, palette
from pgassay.report.charts.drawing import NARROW_PX, Specification, field, shortened_apart, tips
from pgassay.report.compare.accounts import RESIDUE, SHOWN, AccountTable

_BAR_PX = 26
# A page of bars; what does not fit is in the tables below the drawing.
_BARS_MAX = 36
# CPU, run queue, then waits from the longest to the shortest, then the rest.
_CPU = (palette.ARMS[0], palette.ARMS[5], palette.HEAT_FASTER[1])
_RUNNABLE = palette.ARMS[3]
_WAIT_COLOURS = (
    palette.ARMS[1],
    palette.ARMS[4],
    palette.ARMS[2],
    palette.HEAT_SLOWER[2],
    palette.HEAT_FASTER[2],
)
_CLIENT = palette.GRID
_NETWORK = palette.TWIN
_REST = palette.ARMS[6]
_RESIDUE = palette.FAILURE


def specification(tables: Sequence[AccountTable], *, width_px: int) -> Specification:
    """Seconds of each kind of threads by what they did; a negative residue lies left of zero."""
    shown = _that_fit(tables)
    narrow = width_px <= NARROW_PX
    limit = 14 if narrow else 34
    labels = shortened_apart((arm for table in shown for arm in table.arms), limit)
    arms = list(labels.values())
    colours = _colours(shown)
    labels_px = 16 + 7 * max(map(len, arms))
    encoding = {
        "y": field(
            "arm",
            "nominal",
            sort=arms,
            axis={"title": None, "labelLimit": labels_px, "ticks": False, "domain": False},
            scale={"paddingInner": 0.3},
        ),
        "x": field("value", stack="zero", axis={"title": "seconds", "tickCount": 4 if narrow else 8}),
        "color": field(
            "item",
            "nominal",
            scale={"domain": list(colours), "range": list(colours.values())},
            legend={
                "title": None,
                "orient": "bottom",
                "columns": 1 if narrow else 3,
                "labelLimit": width_px - 60 if narrow else 250,
            },
        ),
        "order": field("order"),
        "tooltip": tips(full="arm", item="what", shown="time", panel="of"),
    }
    chart = {
        "data": {"name": "items"},
        "facet": field("panel", "nominal", sort=[table.title for table in shown]),
        "columns": 1,
        "spec": {
            "mark": {"type": "bar", "stroke": palette.GRID, "strokeWidth": 0.5},
            "encoding": encoding,
            "width": width_px - labels_px - 50,
            "height": {"step": _BAR_PX},
        },
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
        "title": drawing.title("Where the time went", ["all threads of each kind, mean over trials"]),
        "padding": {"left": 4, "right": 16, "top": 4, "bottom": 4},
    }
    return drawing.specification(chart, {"items": _data(shown, labels)})


def _that_fit(tables: Sequence[AccountTable]) -> list[AccountTable]:
    """The first table and as many of the next as have room, connections before all others."""
    shown: list[AccountTable] = []
    for table in sorted(tables, key=lambda table: list(SHOWN).index(table.process)):
        if shown and sum(len(each.arms) for each in [*shown, table]) > _BARS_MAX:
            break
        shown.append(table)
    return [table for table in tables if table in shown]


def _data(tables: Sequence[AccountTable], labels: Mapping[str, str]) -> list[dict[str, object]]:
    return [
        {
            "panel": table.title,
            "arm": labels[arm],
            "full": arm,
            "item": row.name,
            "order": order,
            "value": round(value, 6),
            "shown": row.cells[place],
        }
        for table in tables
        for place, arm in enumerate(table.arms)
        for order, row in enumerate(table.rows)
        if (value := row.seconds[place])
    ]


def _colours(tables: Sequence[AccountTable]) -> dict[str, str]:
    """A colour for each item: the kinds keep theirs, the longest waits have one each."""
    longest: dict[tuple[str, str], float] = {}
    for row in (row for table in tables for row in table.rows):
        key = row.name, row.kind
        longest[key] = max(longest.get(key, 0.0), *(abs(value or 0.0) for value in row.seconds))
    fixed = {"runnable": _RUNNABLE, "client": _CLIENT, "network": _NETWORK, RESIDUE: _RESIDUE}
    cpu, waits = iter(_CPU), iter(_WAIT_COLOURS)
    found: dict[tuple[str, str], str] = {}
    for key in sorted(longest, key=lambda key: -longest[key]):
        if key[1] == "cpu":
            found[key] = next(cpu, _REST)
        elif key[1] == "wait":
            found[key] = next(waits, _REST)
        else:
            found[key] = fixed.get(key[1], _REST)
    return {name: found[name, kind] for name, kind in longest}
