"""Published claims with what was found of them: on a terminal, as Markdown, as JSON."""

from pgassay.model.beside.claims import ClaimsResult, JudgedClaim
from pgassay.report import markdown, terminal
from pgassay.report.compare.json import render_document
from pgassay.report.section import QUIET, Cell, Column, Group, Paragraph, Row, Section, Table
from pgassay.words import interval, ratio

_TONES = {
    "reproduced": "faster",
    "refuted": "slower",
    "no difference here": "equivalent",
    "undecided": "inconclusive",
}
_COLUMNS = (
    Column("claim", is_figure=False),
    Column("published"),
    Column("here"),
    Column("interval"),
    Column("verdict", is_figure=False),
    Column("why", is_figure=False),
)
_LISTED = (Column("claim", is_figure=False), Column("published"), Column("needs", is_figure=False))


def render(result: ClaimsResult, *, width: int, colour: bool, unicode: bool) -> str:
    """The claims for a terminal, a row for each."""
    return terminal.render(_sections(result), width=width, colour=colour, unicode=unicode)


def render_markdown(result: ClaimsResult) -> str:
    """The claims as a Markdown table."""
    return markdown.render(_sections(result))


def render_json(result: ClaimsResult) -> str:
    """One JSON document with a newline at its end."""
    return render_document(result)


def _sections(result: ClaimsResult) -> list[Section]:
    rows = tuple(Row(tuple(_cells(claim, is_judged=bool(result.folder)))) for claim in result.claims)
    table = Table(_COLUMNS if result.folder else _LISTED, (Group(rows),))
    sources = dict.fromkeys(_source(claim) for claim in result.claims)
    notes = [Paragraph(f"Published: {source}.", QUIET) for source in sources]
    if result.folder:
        notes.append(Paragraph("Ratios are speeds over the control's: above 1 is faster.", QUIET))
        notes.append(Paragraph(result.family, QUIET))
        notes += [Paragraph(f"Again: {each}", QUIET) for each in {claim.command for claim in result.claims}]
    return [Section("Claims", "claims", (table,)), Section("", "notes", tuple(notes))]


def _source(claim: JudgedClaim) -> str:
    source = claim.source
    return ", ".join(part for part in (source.title, source.date, source.url) if part)


def _cells(claim: JudgedClaim, *, is_judged: bool) -> list[Cell]:
    published = "" if claim.published is None else ratio(claim.published)
    name = Cell(f"{claim.id}: {claim.text}")
    if not is_judged:
        return [name, Cell(published), Cell(claim.why)]
    here = "" if claim.here is None else ratio(claim.here)
    found = "" if claim.interval is None else interval(claim.interval)
    verdict = claim.verdict or ""
    return [
        name,
        Cell(published),
        Cell(here),
        Cell(found),
        Cell(verdict, _TONES.get(verdict, "")),
        Cell(claim.why),
    ]
