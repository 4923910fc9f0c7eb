"""Two experiments compared."""

from functools import partial

from pgassay.analysis.diff.experiments import Diff, EffectChange
from pgassay.model.result import CompareResult
from pgassay.report.diff.content import (
    MEDIAN_HEADS,
    STATEMENT_HEADS,
    DiffContent,
    content_of,
)
from pgassay.report.page import Document, Page
from pgassay.report.section import (
    EVERYWHERE,
    HTML,
    MARKDOWN,
    QUIET,
    STRONG,
    TERMINAL,
    Block,
    Column,
    Format,
    Paragraph,
    Section,
    Subheading,
    Table,
    bullets,
    plain_table,
)

DIFF_SCHEMA = 1


def page_of(diff: Diff) -> Page:
    """The effects that both measured with what became of each, then everything that differs."""
    title = "Two experiments compared"
    return Page(title, _document(diff), partial(_sections, diff), is_wrapped=False)


def _sections(diff: Diff) -> list[Section]:
    content = content_of(diff)
    sides = (Paragraph(f"A: {content.first}", QUIET), Paragraph(f"B: {content.second}", QUIET))
    return [
        Section("", "experiments", sides),
        Section("", "verdict", tuple(Paragraph(line, STRONG) for line in content.sentences)),
        Section("", "notes", tuple(Paragraph(line) for line in content.notes)),
        _medians(content),
        _statements(content),
        _differences(content),
    ]


def _medians(content: DiffContent) -> Section:
    blocks = (plain_table(MEDIAN_HEADS, content.medians),) if content.medians else ()
    return Section("Medians", "medians", blocks, titled=HTML)


def _statements(content: DiffContent) -> Section:
    if not content.statements:
        return Section("Statements", "statements", ())
    made = plain_table(STATEMENT_HEADS, content.statements, names=2)
    columns = (*made.columns[:-1], Column(STATEMENT_HEADS[-1], is_figure=False))
    table = Table(columns, made.groups)
    return Section("Statements", "statements", (Paragraph(content.statements_note), table), titled=HTML)


def _differences(content: DiffContent) -> Section:
    blocks: list[Block] = [Paragraph(content.differences_heading)]
    for subject, rows in content.differences:
        lines = [f"{name}: {first} → {second}" for name, first, second in rows]
        blocks += [
            Subheading(subject, where=EVERYWHERE - MARKDOWN),
            plain_table(("", "A", "B"), rows, names=3, where=HTML),
            bullets(lines, where=TERMINAL),
        ]
    every = [(subject, *row) for subject, rows in content.differences for row in rows]
    if every:
        blocks.append(plain_table(("subject", "what", "A", "B"), every, names=4, where=MARKDOWN))
    folded = MARKDOWN if every else frozenset[Format]()
    return Section("Other differences", "differences", tuple(blocks), folded=folded)


def _document(diff: Diff) -> Document:
    return {
        "schema": DIFF_SCHEMA,
        "first": _experiment(diff.first),
        "second": _experiment(diff.second),
        "margin": diff.margin,
        "alpha": diff.alpha,
        "changes": [_change(change) for change in diff.changes],
        "statements": [{"statement": change.statement} | _change(change) for change in diff.statements],
        "only_first": list(diff.only_first),
        "only_second": list(diff.only_second),
        "differences": [vars(difference) for difference in diff.differences],
    }


def _experiment(result: CompareResult) -> dict[str, object]:
    keys = ("folder", "workload", "control", "blocks", "stopped", "verdict")
    return {key: getattr(result, key) for key in keys} | {"metric": result.metric.model_dump()}


def _change(change: EffectChange) -> dict[str, object]:
    return {
        "name": change.name,
        "stratum": change.stratum,
        "control": change.control,
        "word": change.word,
        "ratio": change.ratio,
        "interval": change.interval,
        "first": {"ratio": change.first.ratio, "interval": change.first.interval},
        "second": {"ratio": change.second.ratio, "interval": change.second.interval},
        "median_first": change.median_first,
        "median_second": change.median_second,
    }
