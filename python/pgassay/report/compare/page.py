"""The report of a comparison: its sections in their order.

A new section is a file with a function that makes it and a line in `SECTIONS`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pgassay import __version__
from pgassay.model.result import CompareResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report import arm_volumes
from pgassay.report.charts import result_charts
from pgassay.report.compare import (
    accounts,
    explanations,
    factors,
    load_tables,
    maintenance_section,
    plan_trees,
    qualifications,
    recorded_facts,
    repeat_and_cite,
    server_statements,
    summary,
    trials,
    verdicts,
    within_trials,
)
from pgassay.report.compare.material import Material
from pgassay.report.explain import executed_plans
from pgassay.report.mail import mail_text as mail
from pgassay.report.page import Page
from pgassay.report.profile import functions
from pgassay.report.section import EVERYWHERE, HTML, MARKDOWN, TERMINAL, Formats, Section
from pgassay.report.traffic import replay_differences as replayed


@dataclass(frozen=True)
class SectionOfComparison:
    """A section and the outputs that show it; one without blocks is left out."""

    make: Callable[[Material], Section]
    where: Formats = EVERYWHERE


SECTIONS = (
    SectionOfComparison(verdicts.verdict),
    SectionOfComparison(load_tables.capacities),
    SectionOfComparison(factors.section),
    SectionOfComparison(summary.setting),
    SectionOfComparison(qualifications.alarm, HTML),
    SectionOfComparison(qualifications.notice, HTML),
    SectionOfComparison(verdicts.arms),
    SectionOfComparison(verdicts.statements),
    SectionOfComparison(replayed.section),
    SectionOfComparison(verdicts.secondary, TERMINAL | HTML),
    SectionOfComparison(load_tables.transactions),
    SectionOfComparison(load_tables.failures),
    SectionOfComparison(load_tables.poolers),
    SectionOfComparison(load_tables.connections),
    SectionOfComparison(load_tables.load_statements, MARKDOWN | HTML),
    SectionOfComparison(load_tables.latency),
    SectionOfComparison(load_tables.checkpoints),
    SectionOfComparison(arm_volumes.section),
    SectionOfComparison(summary.basis),
    SectionOfComparison(maintenance_section.section),
    SectionOfComparison(explanations.section),
    SectionOfComparison(accounts.section, TERMINAL | HTML),
    SectionOfComparison(functions.section),
    SectionOfComparison(server_statements.section, MARKDOWN | HTML),
    SectionOfComparison(trials.section, HTML),
    SectionOfComparison(within_trials.section, HTML),
    SectionOfComparison(plan_trees.section),
    SectionOfComparison(executed_plans.section),
    SectionOfComparison(server_statements.tables),
    SectionOfComparison(server_statements.device),
    SectionOfComparison(trials.reads, HTML),
    SectionOfComparison(recorded_facts.verification, HTML),
    SectionOfComparison(recorded_facts.settings, HTML),
    SectionOfComparison(recorded_facts.protocol, HTML),
    SectionOfComparison(recorded_facts.environment, MARKDOWN | HTML),
    SectionOfComparison(qualifications.compared),
    SectionOfComparison(qualifications.section),
    SectionOfComparison(repeat_and_cite.section),
)


def brief_page(result: CompareResult, stored: StoredExperiment) -> Page:
    """What a comparison ends with on a terminal; the whole is `page_of`."""
    return Page("", result, lambda: [summary.brief(Material(result, stored))])


def page_of(result: CompareResult, stored: StoredExperiment) -> Page:
    """The report of a comparison; with --text it is a mail of its own."""
    material = Material(result, stored)
    experiment = stored.experiment
    return Page(
        experiment.title or f"Comparison of {result.workload}",
        result,
        lambda: [replace(each.make(material), where=each.where) for each in SECTIONS],
        lambda: result_charts.drawings(result, stored, material.observed),
        footer=f"pgassay {experiment.pgassay_version}, experiment of {experiment.created_at}; "
        f"report by pgassay {__version__}.",
        mail=partial(mail.render, material),
    )
