"""The short report in Markdown, for an issue or a pull request."""

import re

from pgassay.model.result import ArmResult, CompareResult
from pgassay.record.read import StoredExperiment
from pgassay.report import text
from pgassay.report.compare import summary
from pgassay.report.compare.causes import HEADING as CAUSES_HEADING
from pgassay.report.compare.causes import cause_rows, difference_sentences
from pgassay.report.compare.changes import change_sentences
from pgassay.report.compare.maintenance import HEADING, WorkTable, work_tables
from pgassay.report.compare.plans import statement_plans
from pgassay.report.compare.server_statements import HEADING as STATEMENTS_HEADING
from pgassay.report.compare.server_statements import statement_table
from pgassay.report.labels import compared_factors, short_name, strata

# Signs that begin markup wherever they stand; the underscore does so only at the edge of a word.
_SPECIAL = re.compile(r"[\\`*{}\[\]<>|~&!$]|(?<!\w)_|_(?!\w)|:(?=//)")
# A host may turn these into a mention or a reference; the '#' of an entity made here is none.
_REFERENCE = re.compile(r"(?<!&)[@#](?=\w)")


def escape(content: str) -> str:
    """A text that Markdown shows as it is: no markup, link, mention or table column comes of it."""
    plain = _SPECIAL.sub(lambda match: f"&#{ord(match.group())};", text.clean(content))
    return _REFERENCE.sub(lambda match: f"{match.group()}&#8203;", plain)


def code(content: str) -> str:
    """A code span that holds the text whatever back-ticks are in it; for a place outside tables."""
    cleaned = text.clean(content)
    fence = "`"
    while fence in cleaned:
        fence += "`"
    room = " " if cleaned.startswith("`") or cleaned.endswith("`") else ""
    return f"{fence}{room}{cleaned}{room}{fence}"


def render(result: CompareResult, stored: StoredExperiment) -> str:
    """Verdict, a table of arms per stratum, statements, what qualifies it, and how to repeat it."""
    parts = [f"**{escape(line)}**" for line in summary.headline_lines(result)]
    if summary.is_tallied(result):
        sentences = "\n".join(f"- {escape(line)}" for line in summary.verdict_lines(result))
        parts.append(f"<details><summary>The verdicts in sentences</summary>\n\n{sentences}\n\n</details>")
    cache = f", cache {code(result.cache)}" if result.cache else ""
    parts.append(f"Workload {code(result.workload)}{cache}: {escape(summary.metric_text(result))}.")
    factors = compared_factors(result.arms)
    for stratum in strata(result.arms):
        heading = [f"At {escape(stratum)}:"] if stratum else []
        members = [arm for arm in result.arms if arm.stratum == stratum]
        parts += [*heading, _arm_table(members, factors, result)]
    parts.append("\n".join(f"- {escape(line)}" for line in summary.how_sure(result)))
    parts += _statements(result, factors)
    tables = work_tables(result)
    parts += [f"{HEADING}:"] if tables else []
    parts += [_work(table) for table in tables]
    parts += _causes(result)
    parts += _server_statements(result)
    notes = [*result.confounds, *result.warnings, *result.skipped]
    if notes:
        parts.append("\n".join(f"- {escape(note)}" for note in notes))
    parts += [
        f"The plans of {escape(plans.statement)} differ: {escape(summary.plan_uses(plans))}."
        for plans in statement_plans(stored)
        if plans.differ
    ]
    parts += [_environment(stored), f"Again: {code(summary.reproduce_command(stored))}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _arm_table(members: list[ArmResult], factors: tuple[str, ...], result: CompareResult) -> str:
    lines = ["| arm | verdict | speed ratio | interval | median | trials |", "|---|---|--:|--:|--:|--:|"]
    for arm in members:
        failed = f" ({arm.failures} failed)" if arm.failures else ""
        cells = [
            escape(short_name(arm, factors)),
            escape(text.verdict_word(arm, result.margin)),
            text.ratio(arm.ratio),
            "" if arm.verdict == "control" else text.interval(arm.interval) or "none yet",
            escape(text.quantity(arm.median, result.metric.unit)),
            f"{arm.trials}{failed}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _causes(result: CompareResult) -> list[str]:
    """Limits and faults with their figures, then what explains the differences."""
    lines = [
        f"- {escape(row.sentence)}" + (f" ({escape(row.figures)})" if row.figures else "")
        for row in cause_rows(result)
    ]
    lines += [
        f"- {escape(sentence)}" for sentence in (*difference_sentences(result), *change_sentences(result))
    ]
    return [f"{CAUSES_HEADING}:", "\n".join(lines)] if lines else []


def _work(work: WorkTable) -> str:
    heads = " | ".join(escape(arm) for arm in work.arms)
    lines = [f"| {escape(work.title)} | {heads} |", f"|---|{'--:|' * len(work.arms)}"]
    for row in work.rows:
        cells = " | ".join(escape(cell) for cell in row.cells)
        lines.append(f"| {escape(row.name)} | {cells} |")
    return "\n".join([*lines, "", escape(work.sentence)])


def _statements(result: CompareResult, factors: tuple[str, ...]) -> list[str]:
    """A folded table of the statements' compared arms."""
    if not result.statements:
        return []
    lines = ["| statement | arm | verdict | speed ratio | interval |", "|---|---|---|--:|--:|"]
    for statement in result.statements:
        marks = summary.marks(statement.cold, statement.aio)
        for arm in statement.arms:
            if arm.verdict == "control":
                continue
            where = f" at {arm.stratum}" if arm.stratum else ""
            cells = [
                escape(f"{statement.name} ({marks})"),
                escape(short_name(arm, factors) + where),
                escape(text.verdict_word(arm, result.margin)),
                text.ratio(arm.ratio),
                text.interval(arm.interval) or "none yet",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join(lines)
    return [f"<details><summary>Statements</summary>\n\n{table}\n\n</details>"]


def _server_statements(result: CompareResult) -> list[str]:
    """A folded table of what the server counted, where it did."""
    table = statement_table(result)
    if table is None:
        return []
    lines = [f"| statement | arm | {' | '.join(table.heads)} |", f"|---|---|{'--:|' * len(table.heads)}"]
    lines += [
        f"| {escape(statement.query)} | {escape(row.arm)} | {' | '.join(map(escape, row.cells))} |"
        for statement in table.statements
        for row in statement.rows
    ]
    return [f"<details><summary>{STATEMENTS_HEADING}</summary>\n\n" + "\n".join(lines) + "\n\n</details>"]


def _environment(stored: StoredExperiment) -> str:
    """PostgreSQL's version and origin, and the machine's main facts, in one line."""
    experiment = stored.experiment
    builds = dict.fromkeys(
        f"PostgreSQL {arm.spec.build.version} ({arm.spec.build.origin})" for arm in experiment.arms
    )
    machine = experiment.environment.machine
    known = {name: machine.get(name) for name in ("cpu_model", "cores_online", "kernel")}
    facts = [f"{name.replace('_', ' ')} {value}" for name, value in known.items() if value]
    caps = summary.caps(stored)
    facts += [f"caps on the server: {caps}"] if caps else []
    return escape("; ".join([*builds, *facts, f"pgassay {experiment.pgassay_version}"]))
