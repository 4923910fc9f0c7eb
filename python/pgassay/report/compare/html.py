"""The report as one HTML page: self-contained, read without a network, light or dark, on any width."""

from typing import Any

from markupsafe import Markup

from pgassay import __version__
from pgassay.model.result import ArmResult, CompareResult
from pgassay.record.read import StoredExperiment
from pgassay.report import text
from pgassay.report.charts import palette
from pgassay.report.charts.drawing import Drawing, svg
from pgassay.report.compare import facts, plans, series, server_statements, summary, trials
from pgassay.report.compare.accounts import HEADING as ACCOUNTS_HEADING
from pgassay.report.compare.accounts import account_tables
from pgassay.report.compare.causes import HEADING as CAUSES_HEADING
from pgassay.report.compare.causes import cause_rows, difference_sentences
from pgassay.report.compare.changes import change_sentences
from pgassay.report.compare.maintenance import HEADING, work_tables
from pgassay.report.html import interactive
from pgassay.report.html.page import environment
from pgassay.report.labels import compared_factors, short_name, strata

_TEMPLATE = "report.html.jinja"
_NARROW_STATIC = frozenset({"intervals", "trials"})


def render(result: CompareResult, stored: StoredExperiment, *, chart_library: str = "") -> str:
    """The page as text, to be written as UTF-8. Everything but the drawings is escaped by the template.

    `chart_library` is the JavaScript that makes the charts live (vl-convert's bundle); without it
    the page holds the static drawings alone and runs nothing.
    """
    return environment().get_template(_TEMPLATE).render(**_context(result, stored, chart_library))


def _context(result: CompareResult, stored: StoredExperiment, chart_library: str) -> dict[str, Any]:
    """What the template reads."""
    # Drawing needs the heaviest libraries of all, and a command imports this module before it knows.
    from pgassay.report.charts import result_charts

    factors = compared_factors(result.arms)
    observed = series.observe(stored)
    drawings = list(result_charts.drawings(result, stored, observed))
    figures = {drawing.name: _figure(drawing) for drawing in drawings}
    return {
        "version": __version__,
        "result": result,
        "experiment": stored.experiment,
        "title": text.clean(stored.experiment.title) or f"Comparison of {text.clean(result.workload)}",
        "verdicts": [_unbroken(line) for line in summary.verdict_lines(result)],
        "tally": summary.tally(result) if summary.is_tallied(result) else "",
        "how_sure": [_unbroken(line) for line in summary.how_sure(result)],
        "control": _control(result, factors),
        "metric": summary.metric_text(result),
        "caps": summary.caps(stored),
        "command": summary.reproduce_command(stored),
        "plans_sentence": summary.differing_statements(result),
        "folder": text.clean(result.folder),
        "strata": [_stratum(result, stratum, factors) for stratum in strata(result.arms)],
        "statements": [_statement(statement, factors, result) for statement in result.statements],
        "secondary": [
            (metric, [_arm(arm, factors, result) for arm in metric.arms]) for metric in result.secondary
        ],
        "causes_heading": CAUSES_HEADING,
        "causes": cause_rows(result),
        "differences": [
            _unbroken(line) for line in (*difference_sentences(result), *change_sentences(result))
        ],
        "server_statements": server_statements.statement_table(result),
        "server_statements_words": server_statements,
        "accounts_heading": ACCOUNTS_HEADING,
        "accounts": account_tables(result),
        "work_heading": HEADING,
        "work": work_tables(result),
        "drawings": figures,
        **_within(observed, figures),
        "scripts": interactive.make_scripts(drawings, chart_library),
        "trials": trials.trial_rows(stored),
        "reads": trials.read_rows(stored),
        "plans": plans.statement_plans(stored),
        "statement_sql": _statement_sql(stored),
        "facts": facts.trial_tables(stored, "facts"),
        "verification": facts.trial_tables(stored, "verification"),
        "counters": facts.trial_tables(stored, "counters"),
        "machine": facts.environment_tables(stored),
        "builds": facts.builds(stored),
        "protocol": list(facts.flatten(stored.experiment.protocol.model_dump()).items()),
        "contract": list(facts.flatten(stored.experiment.contract.model_dump()).items()),
        "citation": summary.citation(stored),
        "theme_rules": Markup(palette.theme_rules("figure svg")),
        "light_colours": Markup(palette.properties()),
        "dark_colours": Markup(palette.properties(dark=True)),
        "palette": palette,
    }


def _within(observed: series.Observed, figures: dict[str, Any]) -> dict[str, Any]:
    """What was seen within the trials, and the drawing of each arm's single trial with the arm's name."""
    drawn = enumerate(observed.timelines, start=1)
    return {
        "observed": observed,
        "percentiles": series.PERCENTILES,
        "timelines": [(figures[f"timeline-{number}"], each.group) for number, each in drawn],
    }


def _control(result: CompareResult, factors: tuple[str, ...]) -> str:
    """The control's name; in a grid the levels that it has in every stratum."""
    controls = [arm for arm in result.arms if arm.verdict == "control"]
    if len(controls) < 2:
        return text.clean(result.control)
    return f"{short_name(controls[0], factors)} in each stratum"


def _unbroken(sentence: str) -> str:
    """A sentence in which no line breaks between a figure and its percent sign."""
    return sentence.replace(" %", "\u00a0%")


def _arm(arm: ArmResult, factors: tuple[str, ...], result: CompareResult) -> dict[str, Any]:
    """An arm with the words of its row."""
    return {
        "label": short_name(arm, factors),
        "arm": arm,
        "is_control": arm.verdict == "control",
        "word": text.verdict_word(arm, result.margin),
        "tone": "withheld" if arm.withheld else arm.verdict,
    }


def _stratum(result: CompareResult, stratum: str, factors: tuple[str, ...]) -> dict[str, Any]:
    twins = [twin for twin in result.twins or (result.twin,) if twin.stratum == stratum]
    return {
        "name": text.clean(stratum),
        "arms": [_arm(arm, factors, result) for arm in result.arms if arm.stratum == stratum],
        "twins": twins,
    }


def _statement(statement: Any, factors: tuple[str, ...], result: CompareResult) -> dict[str, Any]:
    return {
        "name": text.clean(statement.name),
        "cold": statement.cold,
        "aio": statement.aio,
        "arms": [_arm(arm, factors, result) for arm in statement.arms],
    }


def _statement_sql(stored: StoredExperiment) -> dict[str, str]:
    """The SQL of every statement, by name."""
    return {
        statement.name: statement.sql
        for arm in stored.experiment.arms
        for statement in arm.spec.workload.statements
    }


def _figure(drawing: Drawing) -> dict[str, Any]:
    """The static pictures of a drawing; vl-convert escapes the texts in them.

    Those that are small multiples on a wide page scroll on a narrow one that runs no script.
    """
    narrow = drawing.narrow if drawing.name in _NARROW_STATIC else None
    return {
        "name": drawing.name,
        "wide": Markup(svg(drawing.wide, f"{drawing.name}-wide")),
        "narrow": Markup(svg(narrow, f"{drawing.name}-narrow")) if narrow else None,
    }
