"""The report of a comparison: its sections in their order, and its text, its Markdown and its HTML page.

A new section is a file with a function that makes it and a line in `SECTIONS`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pgassay import __version__
from pgassay.model.result import CompareResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report import arm_volumes, markdown, terminal
from pgassay.report import text as texts
from pgassay.report.compare import (
    accounts,
    again,
    explanations,
    factors,
    facts,
    maintenance,
    plans,
    qualifications,
    server_statements,
    summary,
    trials,
    verdicts,
    within,
)
from pgassay.report.compare.material import Material
from pgassay.report.explain import experiment as executed_plans
from pgassay.report.html import page as html_page
from pgassay.report.profile import functions
from pgassay.report.section import EVERYWHERE, HTML, MARKDOWN, TERMINAL, Format, Formats, Section
from pgassay.report.traffic import compared as replayed

# The others are small multiples on a wide page: too tall for a still picture of a narrow one.
_NARROW_STATIC = frozenset({"factors", "intervals", "trials"})


@dataclass(frozen=True)
class SectionOfComparison:
    """A section and the outputs that show it; one without blocks is left out."""

    make: Callable[[Material], Section]
    where: Formats = EVERYWHERE


SECTIONS = (
    SectionOfComparison(verdicts.verdict),
    SectionOfComparison(within.capacities),
    SectionOfComparison(factors.section),
    SectionOfComparison(summary.setting),
    SectionOfComparison(qualifications.alarm, HTML),
    SectionOfComparison(qualifications.notice, HTML),
    SectionOfComparison(verdicts.arms),
    SectionOfComparison(verdicts.statements),
    SectionOfComparison(replayed.section),
    SectionOfComparison(verdicts.secondary, TERMINAL | HTML),
    SectionOfComparison(within.transactions),
    SectionOfComparison(within.failures),
    SectionOfComparison(within.latency),
    SectionOfComparison(arm_volumes.section),
    SectionOfComparison(summary.basis),
    SectionOfComparison(maintenance.section),
    SectionOfComparison(explanations.section),
    SectionOfComparison(accounts.section, TERMINAL | HTML),
    SectionOfComparison(functions.section),
    SectionOfComparison(server_statements.section, MARKDOWN | HTML),
    SectionOfComparison(trials.section, HTML),
    SectionOfComparison(within.section, HTML),
    SectionOfComparison(plans.section),
    SectionOfComparison(executed_plans.section),
    SectionOfComparison(server_statements.tables, MARKDOWN | HTML),
    SectionOfComparison(trials.reads, HTML),
    SectionOfComparison(facts.verification, HTML),
    SectionOfComparison(facts.settings, HTML),
    SectionOfComparison(facts.protocol, HTML),
    SectionOfComparison(facts.environment, MARKDOWN | HTML),
    SectionOfComparison(qualifications.compared),
    SectionOfComparison(qualifications.section),
    SectionOfComparison(again.section),
)


def sections(material: Material, output: Format) -> Iterator[Section]:
    """The sections that an output shows, in order; only these are made."""
    for each in SECTIONS:
        if output in each.where:
            yield each.make(material)


def render(
    result: CompareResult,
    stored: StoredExperiment,
    *,
    width: int,
    colour: bool,
    unicode: bool | None = None,
) -> str:
    """The report for a terminal of `width` columns; `colour` and `unicode` as `report.terminal.render`."""
    made = sections(Material(result, stored), "terminal")
    return terminal.render(made, width=width, colour=colour, unicode=unicode)


def render_markdown(result: CompareResult, stored: StoredExperiment) -> str:
    """The short report in Markdown, for an issue or a pull request."""
    return markdown.render(sections(Material(result, stored), "markdown"))


def render_html(result: CompareResult, stored: StoredExperiment, *, chart_library: str = "") -> str:
    """The page as text, to be written as UTF-8; `chart_library` as `report.html.page.render`."""
    # Drawing needs the heaviest libraries of all, and a command imports this module before it knows.
    from pgassay.report.charts import result_charts

    material = Material(result, stored)
    experiment = stored.experiment
    drawings = list(result_charts.drawings(result, stored, material.observed))
    return html_page.render(
        texts.clean(experiment.title) or f"Comparison of {texts.clean(result.workload)}",
        sections(material, "html"),
        footer=f"pgassay {experiment.pgassay_version}, experiment of {experiment.created_at}; "
        f"report by pgassay {__version__}.",
        drawings=drawings,
        wide_only=frozenset(each.name for each in drawings) - _NARROW_STATIC,
        chart_library=chart_library,
    )
