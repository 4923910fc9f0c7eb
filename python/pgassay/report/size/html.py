"""What `pgassay size` found as one HTML page: self-contained, light or dark, on any width."""

from pgassay.model.volumes.size import SizeResult
from pgassay.report.html import page
from pgassay.report.size.text import sections


def render(result: SizeResult, *, chart_library: str = "") -> str:
    """The page as text, to be written as UTF-8; `chart_library` as `report.html.page.render`."""
    # Drawing needs the heaviest libraries of all, and a command imports this module before it knows.
    from pgassay.report.charts import size_charts

    return page.render(
        f"Volumes for {result.workload}",
        sections(result),
        footer=f"Predicted by pgassay {result.pgassay_version}.",
        drawings=list(size_charts.drawings(result)),
        chart_library=chart_library,
    )
