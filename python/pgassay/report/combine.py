"""Experiments of several machines as one result: for a terminal, as Markdown, as one JSON document; pure."""

from pgassay import __version__
from pgassay.model.machines.combined import CombinedResult, MachineResult
from pgassay.report import cells, markdown, terminal
from pgassay.report.compare.json import render_document
from pgassay.report.html import page
from pgassay.report.section import (
    QUIET,
    STRONG,
    WARNING,
    Paragraph,
    Section,
    bullets,
    plain_table,
)
from pgassay.report.text import clean, interval_or_why, percent, plural, ratio

_HEADS = ("machine", "arm", "blocks", "ratio", "interval", "verdict")


def render(
    result: CombinedResult,
    *,
    width: int = terminal.UNWRAPPED,
    colour: bool = False,
    unicode: bool = True,
) -> str:
    """Both answers for every arm, each machine's own, in what machines differ."""
    return terminal.render(_sections(result), width=width, colour=colour, unicode=unicode)


def render_html(result: CombinedResult) -> str:
    """The same as one page."""
    return page.render(
        f"{clean(result.workload)} on several machines",
        _sections(result),
        footer=f"Report by pgassay {__version__}.",
    )


def render_markdown(result: CombinedResult) -> str:
    """The same for an issue or a pull request."""
    return markdown.render(_sections(result))


def render_json(result: CombinedResult) -> str:
    """One JSON document with a newline at its end; schema in schemas/combine.schema.json."""
    return render_document(result)


def _sections(result: CombinedResult) -> list[Section]:
    names = dict.fromkeys(machine.name for machine in result.machines)
    head = (
        f"{plural(len(result.folders), 'experiment')} on {plural(len(names), 'machine')}, "
        f"workload {result.workload}, margin {percent(result.margin)}"
    )
    rows = [_row(machine) for machine in result.machines]
    confounds = result.confounds or ("Nothing that was recorded differs between them.",)
    warnings = (bullets(result.warnings, tone=WARNING),) if result.warnings else ()
    return [
        Section("", "experiments", (Paragraph(head, QUIET),)),
        Section("", "verdict", tuple(Paragraph(line, STRONG) for line in result.verdict.splitlines())),
        *cells.sections(result.cells),
        Section("Each machine alone", "machines", (plain_table(_HEADS, rows, names=2),)),
        Section("In what the machines differ", "confounds", (bullets(confounds),)),
        Section("Warnings", "warnings", warnings),
        Section("", "family", (Paragraph(result.family, QUIET),)),
    ]


def _row(machine: MachineResult) -> tuple[str, ...]:
    word = "withheld" if machine.withheld else machine.verdict
    where = f" ({machine.stratum})" if machine.stratum and machine.stratum not in machine.arm else ""
    return (
        machine.name,
        f"{machine.arm}{where}",
        str(machine.blocks),
        ratio(machine.ratio),
        interval_or_why(machine.interval, machine.ratio),
        word,
    )
