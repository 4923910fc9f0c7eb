"""Experiments of several machines as one result: for a terminal, as Markdown, as one JSON document; pure."""

from pgassay import __version__
from pgassay.model.machines.combined import CombinedArm, CombinedResult, MachineResult
from pgassay.report import cells, markdown, terminal
from pgassay.report.compare.json import render_document
from pgassay.report.html import page
from pgassay.report.section import (
    HTML,
    QUIET,
    STRONG,
    WARNING,
    Block,
    Figure,
    Paragraph,
    Section,
    bullets,
    plain_table,
)
from pgassay.report.text import clean, interval_or_why, percent, plural, ratio

# Of more arms the first are drawn: a page of hundreds of drawings is read by nobody.
_DRAWN_MAX = 12
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


def render_html(result: CombinedResult, *, chart_library: str = "") -> str:
    """The same as one page, with drawings; `chart_library` as `report.html.page.render`."""
    # Drawing needs the heaviest libraries of all, and a command imports this module before it knows.
    from pgassay.report.charts import machines_chart

    return page.render(
        f"{clean(result.workload)} on several machines",
        _sections(result),
        footer=f"Report by pgassay {__version__}.",
        drawings=machines_chart.drawings(result, _drawn(result)[:_DRAWN_MAX]),
        chart_library=chart_library,
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
        Section("The effect on each machine", "effects", _figures(result), titled=HTML),
        Section("Each machine alone", "machines", (plain_table(_HEADS, rows, names=2),)),
        Section("In what the machines differ", "confounds", (bullets(confounds),)),
        Section("Warnings", "warnings", warnings),
        Section("", "family", (Paragraph(result.family, QUIET),)),
    ]


def _drawn(result: CombinedResult) -> tuple[CombinedArm, ...]:
    """The arms whose machines are drawn one by one: all, or in a spread grid those of several machines."""
    if result.cells is None:
        return result.arms
    return tuple(arm for arm in result.arms if arm.these_machines.machines > 1)


def _figures(result: CombinedResult) -> tuple[Block, ...]:
    arms = len(_drawn(result))
    figures: list[Block] = [Figure("strata")] if result.cells is not None else []
    figures += [Figure(f"machines-{number}") for number in range(1, min(arms, _DRAWN_MAX) + 1)]
    if arms > _DRAWN_MAX:
        figures.append(Paragraph(f"The first {_DRAWN_MAX} of {arms} are drawn.", QUIET, where=HTML))
    return tuple(figures)


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
