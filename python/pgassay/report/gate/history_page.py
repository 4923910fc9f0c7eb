"""Effects over time."""

from collections.abc import Sequence
from functools import partial

from pgassay import __version__
from pgassay.model.gates.history import HistoryChange, HistoryResult, HistorySeries
from pgassay.report.charts import history_chart
from pgassay.report.page import Page
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


def page_of(result: HistoryResult) -> Page:
    """Effects over time, with their changes."""
    return Page(
        "Effects over time",
        result,
        partial(sections, result),
        lambda: history_chart.drawings(result, drawn(result)),
        footer=f"Made by pgassay {__version__} from {plural(len(result.runs), 'run')} below {result.folder}.",
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
        blocks.append(Paragraph(f"The table has {left} more series.", where=HTML))
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
