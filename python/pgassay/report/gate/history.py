"""Effects over time: for a terminal, as Markdown, as a page with drawings, as JSON."""

from collections.abc import Sequence

from pgassay import __version__
from pgassay.model.gates.history import HistoryChange, HistoryResult, HistorySeries
from pgassay.report import markdown, terminal
from pgassay.report.compare.json import render_document
from pgassay.report.html import page
from pgassay.report.section import (
    HTML,
    QUIET,
    STRONG,
    WARNING,
    Block,
    Cell,
    Column,
    Figure,
    Group,
    Paragraph,
    Row,
    Section,
    Subheading,
    Table,
    bullets,
)
from pgassay.words import interval, percent_rounded, plural, ratio

# What is drawn: series with a change first, then whole workloads; a page of hundreds is read by nobody.
DRAWN_MAX = 24
_COLUMNS = (
    Column("series", is_figure=False),
    Column("runs"),
    Column("latest"),
    Column("interval"),
    Column("changes", is_figure=False),
)


def render(result: HistoryResult, *, width: int, colour: bool, unicode: bool) -> str:
    """The history for a terminal."""
    return terminal.render(sections(result), width=width, colour=colour, unicode=unicode)


def render_markdown(result: HistoryResult) -> str:
    """The history for an issue or a wiki."""
    return markdown.render(sections(result))


def render_json(result: HistoryResult) -> str:
    """One JSON document with a newline at its end."""
    return render_document(result)


def render_html(result: HistoryResult, *, chart_library: str = "") -> str:
    """The page as text, to be written as UTF-8; `chart_library` as `report.html.page.render`."""
    # Drawing needs the heaviest libraries of all, and a command imports this module before it knows.
    from pgassay.report.charts import history_chart

    return page.render(
        "Effects over time",
        sections(result),
        footer=f"Made by pgassay {__version__} from {plural(len(result.runs), 'run')} below {result.folder}.",
        drawings=history_chart.drawings(result, drawn(result)),
        chart_library=chart_library,
    )


def drawn(result: HistoryResult) -> list[HistorySeries]:
    """The series that a page draws: those that changed, then workloads before their statements."""
    order = sorted(result.series, key=lambda each: (not each.changes, "/" in each.name, each.name))
    return order[:DRAWN_MAX]


def sections(result: HistoryResult) -> list[Section]:
    """What there is to say, for every output."""
    lines = tuple(Paragraph(line, STRONG) for line in result.verdict.splitlines())
    blocks: list[Block] = []
    for number, series in enumerate(drawn(result), start=1):
        blocks += [Subheading(series.name, where=HTML), Figure(f"history-{number}")]
    left = len(result.series) - len(drawn(result))
    if left:
        blocks.append(
            Paragraph(f"{plural(left, 'more series')} without a change are in the table.", where=HTML)
        )
    return [
        Section("", "verdict", lines),
        Section("Effects", "effects", tuple(blocks), link="Effects", titled=HTML),
        Section("Series", "series", _table(result), link="Series", titled=HTML),
        Section("", "notes", _notes(result)),
    ]


def _notes(result: HistoryResult) -> tuple[Block, ...]:
    notes: list[Block] = [
        Paragraph(
            f"A folder in which nothing changed shows a change in at most {percent_rounded(result.alpha)} of "
            "cases, over all its series together.",
            QUIET,
        )
    ]
    if result.skipped:
        notes.append(bullets(result.skipped, title="Left out", tone=WARNING))
    return tuple(notes)


def _table(result: HistoryResult) -> tuple[Table, ...]:
    if not result.series:
        return ()
    ordered = sorted(result.series, key=lambda each: not each.changes)
    rows = tuple(Row(tuple(Cell(text) for text in _cells(result, each))) for each in ordered)
    return (Table(_COLUMNS, (Group(rows),)),)


def _cells(result: HistoryResult, series: HistorySeries) -> Sequence[str]:
    latest = series.points[-1]
    return (
        series.name,
        str(len(series.points)),
        ratio(latest.ratio),
        interval(latest.interval),
        "; ".join(_change(result, change) for change in series.changes),
    )


def _change(result: HistoryResult, change: HistoryChange) -> str:
    return f"{ratio(change.before)} → {ratio(change.after)} at {result.runs[change.run].name}"
