"""The report of a comparison as one HTML page."""

from pgassay import __version__
from pgassay.model.result import CompareResult
from pgassay.record.read import StoredExperiment
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.compare.page import sections
from pgassay.report.html import page

# The others are small multiples on a wide page: too tall for a still picture of a narrow one.
_NARROW_STATIC = frozenset({"intervals", "trials"})


def render(result: CompareResult, stored: StoredExperiment, *, chart_library: str = "") -> str:
    """The page as text, to be written as UTF-8; `chart_library` as `report.html.page.render`."""
    # Drawing needs the heaviest libraries of all, and a command imports this module before it knows.
    from pgassay.report.charts import result_charts

    material = Material(result, stored)
    experiment = stored.experiment
    drawings = list(result_charts.drawings(result, stored, material.observed))
    return page.render(
        text.clean(experiment.title) or f"Comparison of {text.clean(result.workload)}",
        sections(material, "html"),
        footer=f"pgassay {experiment.pgassay_version}, experiment of {experiment.created_at}; "
        f"report by pgassay {__version__}.",
        drawings=drawings,
        wide_only=frozenset(each.name for each in drawings) - _NARROW_STATIC,
        chart_library=chart_library,
    )
