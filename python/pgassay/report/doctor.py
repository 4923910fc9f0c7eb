"""What the doctor found, as lines for a person or one document for scripts; pure."""

from pgassay.model.doctor import DoctorReport, Finding
from pgassay.report.compare.json import render_document
from pgassay.report.text import ascii_only, clean, plural

_WORDS = {"ok": "ok", "missing": "MISSING", "warning": "warning"}
_STYLES = {"ok": "32", "missing": "1;31", "warning": "33"}
_STATUS_WIDTH = 9


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
    return render_document(report)
