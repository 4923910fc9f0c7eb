"""Two experiments beside each other: as text for a terminal, as Markdown, and as a page."""

from collections.abc import Sequence

from markupsafe import Markup

from pgassay import __version__
from pgassay.analysis.diff.experiments import Diff
from pgassay.report.charts import palette
from pgassay.report.diff import content as diff_content
from pgassay.report.diff.content import MEDIAN_HEADS, STATEMENT_HEADS, DiffContent, Row, content_of
from pgassay.report.html.page import environment
from pgassay.report.markdown import escape
from pgassay.report.text import ascii_only

_TEMPLATE = "diff.html.jinja"


def render(diff: Diff, *, unicode: bool = True) -> str:
    """The effects that both measured with what became of each, then everything that differs."""
    content = content_of(diff)
    lines = [f"A: {content.first}", f"B: {content.second}", "", *content.sentences, *content.notes, ""]
    if content.medians:
        lines += [*_aligned((MEDIAN_HEADS, *content.medians), names=1), ""]
    if content.statements:
        lines += [content.statements_note, *_aligned((STATEMENT_HEADS, *content.statements), names=2), ""]
    lines.append(content.differences_heading + (":" if content.differences else ""))
    for subject, rows in content.differences:
        lines.append(f" {subject}")
        lines += [f"   {name}: {first} → {second}" for name, first, second in rows]
    if not unicode:
        lines = [ascii_only(line) for line in lines]
    return "\n".join(lines).rstrip() + "\n"


def render_markdown(diff: Diff) -> str:
    """The same for an issue or a pull request; the differences are folded."""
    content = content_of(diff)
    parts = [f"A: {escape(content.first)}<br>B: {escape(content.second)}"]
    parts += [f"**{escape(line)}**" for line in content.sentences]
    parts += [escape(line) for line in content.notes]
    if content.medians:
        parts.append(_markdown_table(MEDIAN_HEADS, content.medians, names=1))
    if content.statements:
        parts += [
            escape(content.statements_note),
            _markdown_table(STATEMENT_HEADS, content.statements, names=2),
        ]
    parts += _markdown_differences(content)
    return "\n\n".join(parts) + "\n"


def render_html(diff: Diff) -> str:
    """One page that needs nothing but itself and runs no script, to be written as UTF-8."""
    return (
        environment()
        .get_template(_TEMPLATE)
        .render(
            content=content_of(diff),
            median_heads=diff_content.MEDIAN_HEADS,
            statement_heads=diff_content.STATEMENT_HEADS,
            version=__version__,
            palette=palette,
            light_colours=Markup(palette.properties()),
            dark_colours=Markup(palette.properties(dark=True)),
            theme_rules="",
        )
    )


def _aligned(rows: Sequence[Row], *, names: int) -> list[str]:
    """Columns of text: the first `names` to the left, the last of a long row too, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if place < names or _is_word(place, row) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines


def _is_word(place: int, row: Row) -> bool:
    return len(row) == len(STATEMENT_HEADS) and place == len(row) - 1


def _markdown_table(heads: Row, rows: Sequence[Row], *, names: int) -> str:
    marks = ["---" if place < names or _is_word(place, heads) else "--:" for place in range(len(heads))]
    lines = [f"| {' | '.join(heads)} |", f"|{'|'.join(marks)}|"]
    lines += [f"| {' | '.join(escape(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _markdown_differences(content: DiffContent) -> list[str]:
    if not content.differences:
        return [content.differences_heading]
    rows = [(subject, *row) for subject, members in content.differences for row in members]
    table = _markdown_table(("subject", "what", "A", "B"), rows, names=4)
    return [f"<details><summary>{content.differences_heading}</summary>\n\n{table}\n\n</details>"]
