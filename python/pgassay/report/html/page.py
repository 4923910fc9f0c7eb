"""Sections as one HTML page: self-contained, read without a network, light or dark, on any width.

The templates escape whatever they show; only drawings and scripts of our own go in as they are.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from pgassay import __version__
from pgassay.report import text
from pgassay.report.charts import palette
from pgassay.report.charts.drawing import Drawing, svg
from pgassay.report.html import interactive
from pgassay.report.section import Block, Section, Table, columns_shown, shown

_TEMPLATE = "page.html.jinja"


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
        "clean": text.clean,
        "clean_lines": text.clean_lines,
        "columns": _columns,
        "excerpt": text.excerpt,
        "sentence": _sentence,
        "shown": _shown,
        "script": Markup,
    }
    return made


def _source(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _columns(table: Table) -> list[int]:
    return columns_shown(table, "html")


def _shown(blocks: Iterable[Block]) -> list[Block]:
    return shown(blocks, "html")


def _sentence(content: str) -> str:
    """A sentence in which no line breaks between a figure and its percent sign."""
    return text.clean(content).replace(" %", "\u00a0%")


def render(
    title: str,
    sections: Iterable[Section],
    *,
    footer: str,
    drawings: Sequence[Drawing] = (),
    wide_only: frozenset[str] = frozenset(),
    chart_library: str = "",
) -> str:
    """The page as text, to be written as UTF-8.

    `wide_only` names drawings that are the same on every width, and scroll on a narrow one that runs no
    script. `chart_library` is the JavaScript that makes the charts live (vl-convert's bundle); without it
    the page holds the static drawings alone and runs nothing.
    """
    made = [section for section in sections if _shown(section.blocks)]
    return template(
        _TEMPLATE,
        title=title,
        sections=made,
        footer=footer,
        figures={each.name: _figure(each, is_wide_only=each.name in wide_only) for each in drawings},
        scripts=interactive.make_scripts(drawings, chart_library),
        theme_rules=Markup(palette.theme_rules("figure svg")) if drawings else "",
    )


def template(name: str, **context: Any) -> str:
    """A template of this package with the colours of all pages."""
    colours = {
        "palette": palette,
        "light_colours": Markup(palette.properties()),
        "dark_colours": Markup(palette.properties(dark=True)),
    }
    return environment().get_template(name).render(version=__version__, **colours, **context)


def _figure(drawing: Drawing, *, is_wide_only: bool) -> dict[str, Any]:
    """The static pictures of a drawing; vl-convert escapes the texts in them."""
    return {
        "name": drawing.name,
        "wide": Markup(svg(drawing.wide, f"{drawing.name}-wide")),
        "narrow": None if is_wide_only else Markup(svg(drawing.narrow, f"{drawing.name}-narrow")),
    }
