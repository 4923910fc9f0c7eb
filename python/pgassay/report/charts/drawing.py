"""The style of all drawings, and the way from a specification (Vega-Lite 6) to SVG and PNG.

Specifications are plain JSON: vl-convert turns them into pictures here, and its JavaScript draws
the same ones in a browser.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgassay.report.charts import palette

WIDE_PX = 860
NARROW_PX = 346
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_TAG = re.compile(r"<[^<>]*>")
_PNG_SCALE = 2.0
# Of a word that is shortened for its ends at least this is kept.
_WORD_MIN = 6

# A specification of Vega-Lite, or a part of one.
Specification = dict[str, object]
Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class Drawing:
    """One drawing of the page, for wide and for narrow screens; `name` is its file name and its id.

    is_wide_only: without scripts a narrow screen scrolls the wide one, since a narrow one were too tall.
    """

    name: str
    wide: Specification
    narrow: Specification
    is_wide_only: bool = False


def both_widths(name: str, make: Callable[[int], Specification], *, is_wide_only: bool = False) -> Drawing:
    """A drawing by what makes its specification for a width in pixels."""
    return Drawing(name, make(WIDE_PX), make(NARROW_PX), is_wide_only)


def title(heading: str, subtitle: list[str]) -> Specification:
    """A heading that says what one sees, with lines below it."""
    return {"text": heading, "subtitle": subtitle, "anchor": "start", "frame": "bounds", "offset": 12}


def shortened(label: str, limit: int) -> str:
    """A label of at most `limit` characters, with both its ends: levels often differ at the end."""
    if len(label) <= limit:
        return label
    tail = limit // 2 - 1
    return f"{label[: limit - tail - 1]}…{label[-tail:]}"


def shortened_apart(labels: Iterable[str], limit: int) -> dict[str, str]:
    """Each label with its short form; no two are alike, since a drawing would take two rows for one.

    Labels that differ in their middle have each word shortened: what differs are levels, at words' ends.
    """
    names = list(dict.fromkeys(labels))
    for cut in (shortened, _shortened_words):
        made = {name: cut(name, limit) for name in names}
        if len(set(made.values())) == len(names):
            return made
    return {name: shortened(f"{number}: {name}", limit) for number, name in enumerate(names, start=1)}


def _shortened_words(label: str, limit: int) -> str:
    words = label.split(" ")
    room = (limit - len(words) + 1) // len(words)
    if len(label) <= limit or room < _WORD_MIN:
        return shortened(label, limit)
    return " ".join(shortened(word, room) for word in words)


def field(name: str, kind: str = "quantitative", /, **rest: object) -> Specification:
    """An encoding of a column of the data."""
    return {"field": name, "type": kind, **rest}


def tips(**columns: str) -> list[dict[str, str]]:
    """A tooltip: the heading of each line and the text column that it shows."""
    return [{"field": name, "type": "nominal", "title": heading} for name, heading in columns.items()]


def layer(
    data: str, mark: Mapping[str, object], encoding: Mapping[str, object], keep: str = ""
) -> Specification:
    """One layer over the named data; `keep` is a condition on its rows."""
    made: Specification = {"data": {"name": data}, "mark": mark, "encoding": encoding}
    return made | {"transform": [{"filter": keep}]} if keep else made


def specification(chart: Mapping[str, object], data: Mapping[str, Rows]) -> Specification:
    """A chart with its data and the style of all of them."""
    return (
        {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "config": _STYLE}
        | dict(chart)
        | {"datasets": {name: list(rows) for name, rows in data.items()}}
    )


def svg(chart: Specification, name: str) -> str:
    """The chart as an SVG element with its own identifiers and no background."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(json.dumps(chart, allow_nan=False))
    return own_identifiers(drawn, name)


def png(chart: Specification) -> bytes:
    """The chart as a PNG on white, at twice its size in pixels."""
    import vl_convert

    on_white = chart | {"config": _STYLE | {"background": "#ffffff"}}
    drawn: bytes = vl_convert.vegalite_to_png(json.dumps(on_white, allow_nan=False), scale=_PNG_SCALE)
    return drawn


def own_identifiers(drawn: str, name: str) -> str:
    """Prefix every identifier in the tags, so that several drawings can stand in one page."""

    def prefix(match: re.Match[str]) -> str:
        tag = re.sub(r'(?<=\sid=")([^"]*)', rf"{name}-\1", match.group())
        tag = re.sub(r"url\(#([^)]*)\)", rf"url(#{name}-\1)", tag)
        return re.sub(r'href="#([^"]*)"', rf'href="#{name}-\1"', tag)

    return _TAG.sub(prefix, drawn)


_STYLE: Specification = {
    "background": "transparent",
    "font": _FONT,
    "view": {"stroke": None},
    "title": {
        "fontSize": 14,
        "fontWeight": 600,
        "color": palette.INK,
        "subtitleColor": palette.QUIET_INK,
        "subtitleFontSize": 12,
    },
    "axis": {
        "labelColor": palette.QUIET_INK,
        "titleColor": palette.QUIET_INK,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titlePadding": 8,
        "gridColor": palette.GRID,
        "domainColor": palette.GRID,
        "tickColor": palette.GRID,
    },
    "header": {
        "labelColor": palette.INK,
        "labelFontSize": 12,
        "labelFontWeight": 600,
        "labelAnchor": "start",
        "title": None,
    },
    "legend": {"labelColor": palette.INK, "labelFontSize": 12},
}
