"""What the doctor found, and what the load generator can do, for a person or as one document; pure."""

from collections.abc import Sequence

from pgassay.model.doctor import DoctorReport, Finding
from pgassay.model.workload import ClientCeiling
from pgassay.report import terminal
from pgassay.report.page import json_text
from pgassay.report.section import Paragraph, Section, plain_table
from pgassay.report.text import ascii_only, clean, percent_fixed, plural, seconds, size

_WORDS = {"ok": "ok", "missing": "MISSING", "warning": "warning"}
_STYLES = {"ok": "32", "missing": "1;31", "warning": "33"}
_STATUS_WIDTH = 9
_HEADS = (
    "clients",
    "threads",
    "transactions/s",
    "client CPU",
    "busy",
    "p50",
    "p99",
    "own delay p99",
    "memory",
)


def render(report: DoctorReport, *, colour: bool = False, unicode: bool = True) -> str:
    """One line for each finding under its group's heading, with a remedy below where one is needed."""
    lines: list[str] = []
    group = ""
    for finding in report.findings:
        if finding.group != group:
            group = finding.group
            lines += ([""] if lines else []) + [group.capitalize()]
        lines += _finding_lines(finding, colour=colour)
    lines += ["", summary(report)]
    text = "\n".join(lines) + "\n"
    return text if unicode else ascii_only(text)


def _finding_lines(finding: Finding, *, colour: bool) -> list[str]:
    word = _WORDS[finding.status].ljust(_STATUS_WIDTH)
    if colour:
        word = f"\x1b[{_STYLES[finding.status]}m{word}\x1b[0m"
    lines = [f"  {word}{clean(finding.text)}"]
    if finding.remedy:
        lines.append(f"  {' ' * _STATUS_WIDTH}-> {clean(finding.remedy)}")
    return lines


def summary(report: DoctorReport) -> str:
    """How many of each, in one sentence."""
    counts = {status: sum(item.status == status for item in report.findings) for status in _WORDS}
    return (
        f"{counts['ok']} ok, {plural(counts['warning'], 'warning')}, {counts['missing']} missing. "
        "What is missing is needed only by what uses it; 'pgassay calibrate' says what this machine resolves."
    )


def render_json(report: DoctorReport) -> str:
    """One JSON document, ASCII, numbers that are not finite as null."""
    return json_text(report)


def render_ceilings(workload: str, ceilings: Sequence[ClientCeiling], *, unicode: bool) -> str:
    """A table with a line for each number of clients, and what to make of it."""
    rows = [
        [
            str(each.clients),
            str(each.threads),
            f"{each.transactions_per_s:,.0f}",
            seconds(each.cpu_us / 1e6),
            percent_fixed(each.busy),
            seconds(each.latency_p50_ms / 1e3),
            seconds(each.latency_p99_ms / 1e3),
            seconds(each.own_delay_p99_ms / 1e3),
            size(each.memory_bytes) or "-",
        ]
        for each in ceilings
    ]
    most = max(each.transactions_per_s for each in ceilings)
    meaning = (
        f"At most {most:,.0f} transactions a second: what a real server gives near that is the client's "
        "figure. Client CPU is of one transaction, polling for the next answer included; busy is without it. "
        "The server that answers at once takes processors as well."
    )
    title = f"What the load generator can do at most here: {clean(workload)}"
    section = Section(title, "client", (plain_table(_HEADS, rows), Paragraph(meaning)))
    return terminal.render([section], width=100, colour=False, unicode=unicode)
