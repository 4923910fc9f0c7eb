"""Sections as one HTML page: self-contained, read without a network, light or dark, on any width.

The templates escape whatever they show; only drawings and scripts of our own go in as they are.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from pgassay import __version__
from pgassay.report import text
from pgassay.report.charts import palette
from pgassay.report.charts.drawing import Drawing, svg
from pgassay.report.profile import flame
from pgassay.report.section import Block, Section, Table, columns_shown, shown

_TEMPLATE = "page.html.jinja"
# A name that a column of a telephone's width may not hold, and what joins the words in it.
_LONG_NAME, _JOINT = re.compile(r"[\w.,()/=]{29,}"), re.compile(r"([_.,(/=])(?=[^\W\d_])")


@cache
def environment() -> Environment:
    """The templates; a name that a template does not know is an error."""
    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "breakable": _breakable,
        "clean": text.clean,
        "clean_lines": text.clean_lines,
        "columns": _columns,
        "excerpt": text.excerpt,
        "sentence": _sentence,
        "shown": _shown,
        "script": Markup,
        "flame_data": lambda graph: Markup(flame.data(graph)),
        "flame_svg": lambda graph: Markup(flame.svg(graph)),
    }
    return made


def _source(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _columns(table: Table) -> list[int]:
    return columns_shown(table, "html")


def _shown(blocks: Iterable[Block]) -> list[Block]:
    return shown(blocks, "html")


def _breakable(content: str) -> Markup:
    """A text whose longest names may go on in the next line between their words, not within one."""
    return Markup(_LONG_NAME.sub(lambda name: _JOINT.sub(r"\1<wbr>", name[0]), str(escape(content))))


def _sentence(content: str) -> str:
    """A sentence in which no line breaks between a figure and its percent sign."""
    return text.clean(content).replace(" %", "\u00a0%")


def render(
    title: str,
    sections: Iterable[Section],
    *,
    footer: str,
    drawings: Sequence[Drawing] = (),
    chart_library: str = "",
) -> str:
    """The page as text, to be written as UTF-8.

    `chart_library` is the JavaScript that makes the charts live (vl-convert's bundle); without it
    the page holds the static drawings alone and runs nothing.
    """
    made = [section for section in shown(sections, "html") if _shown(section.blocks)]
    return template(
        _TEMPLATE,
        title=title,
        sections=made,
        footer=footer,
        figures={each.name: _figure(each) for each in drawings},
        scripts=_scripts(drawings, chart_library, has_flames=_has_flames(made)),
        theme_rules=Markup(palette.theme_rules("figure svg")) if drawings else "",
    )


def template(name: str, **context: object) -> str:
    """A template of this package with the colours of all pages."""
    colours = {
        "palette": palette,
        "light_colours": Markup(palette.properties()),
        "dark_colours": Markup(palette.properties(dark=True)),
    }
    return environment().get_template(name).render(version=__version__, **colours, **context)


def _figure(drawing: Drawing) -> dict[str, object]:
    """The static pictures of a drawing; vl-convert escapes the texts in them."""
    return {
        "name": drawing.name,
        "wide": Markup(svg(drawing.wide, f"{drawing.name}-wide")),
        "narrow": None if drawing.is_wide_only else Markup(svg(drawing.narrow, f"{drawing.name}-narrow")),
    }


@dataclass(frozen=True)
class _Scripts:
    """The chart library, the drawings' specifications, and what joins them.

    Nothing but `sources`, in this order, can run: `policy`, the value of script-src, names them by their
    hashes, and `data` holds no text that could end its element.
    """

    sources: tuple[str, ...]
    data: str
    policy: str


def _has_flames(sections: Iterable[Section]) -> bool:
    return any(block.kind == "flame" for section in sections for block in _shown(section.blocks))


def _scripts(drawings: Sequence[Drawing], library: str, *, has_flames: bool) -> _Scripts | None:
    """The page's scripts; None without a library or a flame graph, and then the page runs nothing.

    `library` is the JavaScript that defines vegaEmbed, as vl-convert bundles it. Raises ValueError
    for one that would end its own element.
    """
    if "</script" in library.lower() or "<!--" in library:
        raise ValueError("the chart library can't be embedded in a page: it closes its own script element")
    used = [library, _source("charts.js")] if library else []
    used += [_source("flame.js")] if has_flames else []
    if not used:
        return None
    # A browser reads every line end as one line feed before it makes the hash.
    sources = tuple(source.replace("\r\n", "\n").replace("\r", "\n") for source in used)
    return _Scripts(sources, _data(drawings), " ".join(f"'sha256-{_hash(source)}'" for source in sources))


def _data(drawings: Sequence[Drawing]) -> str:
    """The specifications as JSON without a sign that HTML gives a meaning; all of it is ASCII."""
    document = {drawing.name: {"wide": drawing.wide, "narrow": drawing.narrow} for drawing in drawings}
    made = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return made.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")
