"""A probe as one HTML page: self-contained, light or dark, on any width."""

from pgassay.model.probe import ProbeComparison, ProbeResult
from pgassay.report.html import page
from pgassay.report.probe.text import sections


def render(result: ProbeResult, comparison: ProbeComparison | None = None, *, chart_library: str = "") -> str:
    """The page as text, to be written as UTF-8; `chart_library` as `report.html.page.render`."""
    # Drawing needs the heaviest libraries of all, and a command imports this module before it knows.
    from pgassay.report.charts import probe_charts

    return page.render(
        f"Probe of {result.path}",
        sections(result, comparison),
        footer=f"Measured {result.measured_at} by pgassay {result.pgassay_version}.",
        drawings=list(probe_charts.drawings(result)),
        chart_library=chart_library,
    )
