"""A diagnosis as one HTML page: self-contained, light or dark, on any width; it runs nothing."""

from typing import Any

from markupsafe import Markup

from pgassay.model.live.diagnosis import Diagnosis
from pgassay.report.charts import palette
from pgassay.report.diagnosis import text
from pgassay.report.html.page import environment
from pgassay.report.text import clean

_TEMPLATE = "diagnose.html.jinja"


def render(diagnosis: Diagnosis) -> str:
    """The page as text, to be written as UTF-8; the template escapes everything."""
    return environment().get_template(_TEMPLATE).render(**_context(diagnosis))


def _context(diagnosis: Diagnosis) -> dict[str, Any]:
    headline = text.headline(diagnosis)
    return {
        "version": diagnosis.pgassay_version,
        "title": f"Diagnosis of {clean(diagnosis.server.name)}",
        "headline": headline,
        "causes": [[line.strip() for line in lines] for lines in text.cause_lines(diagnosis)],
        "next": diagnosis.next,
        "tables": text.tables(diagnosis),
        "notes": text.notes(diagnosis),
        "cost": text.cost_sentence(diagnosis),
        "started_at": diagnosis.started_at,
        "palette": palette,
        "light_colours": Markup(palette.properties()),
        "dark_colours": Markup(palette.properties(dark=True)),
        "theme_rules": Markup(palette.theme_rules("figure svg")),
    }
