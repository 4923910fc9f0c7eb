"""A probe as one HTML page: self-contained, light or dark, on any width."""

from typing import Any

from markupsafe import Markup

from pgassay.model.probe import ProbeComparison, ProbeResult
from pgassay.report.charts import palette
from pgassay.report.charts.drawing import Drawing, svg
from pgassay.report.html import interactive
from pgassay.report.html.page import environment
from pgassay.report.probe import text
from pgassay.report.text import clean

_TEMPLATE = "probe.html.jinja"


def render(result: ProbeResult, comparison: ProbeComparison | None = None, *, chart_library: str = "") -> str:
    """The page as text, to be written as UTF-8. Everything but the drawings is escaped by the template.

    `chart_library` is the JavaScript that makes the charts live (vl-convert's bundle); without it the page
    holds the static drawings alone and runs nothing.
    """
    return environment().get_template(_TEMPLATE).render(**_context(result, comparison, chart_library))


def _context(result: ProbeResult, comparison: ProbeComparison | None, chart_library: str) -> dict[str, Any]:
    from pgassay.report.charts import probe_charts

    drawn = list(probe_charts.drawings(result))
    return {
        "version": result.pgassay_version,
        "result": result,
        "comparison": comparison,
        "title": f"Probe of {clean(result.path)}",
        "headline": list(comparison.sentences[:2]) if comparison else list(result.sentences[:1]),
        "sentences": list(result.sentences if comparison else result.sentences[1:]),
        "facts": text.facts(result),
        "tables": text.tables(result, comparison),
        "settings": text.settings_lines(result),
        "recommend": result.recommend,
        "notes": [*result.warnings, *result.missing.values()],
        "device": [(name, str(value)) for name, value in result.device.items() if value is not None],
        "drawings": dict.fromkeys(probe_charts.NAMES) | {each.name: _figure(each) for each in drawn},
        "scripts": interactive.make_scripts(drawn, chart_library),
        "palette": palette,
        "light_colours": Markup(palette.properties()),
        "dark_colours": Markup(palette.properties(dark=True)),
        "theme_rules": Markup(palette.theme_rules("figure svg")),
    }


def _figure(drawn: Drawing) -> dict[str, Any]:
    """The static pictures of a drawing; vl-convert escapes the texts in them."""
    return {
        "name": drawn.name,
        "wide": Markup(svg(drawn.wide, f"{drawn.name}-wide")),
        "narrow": Markup(svg(drawn.narrow, f"{drawn.name}-narrow")),
    }
