"""The answer of an upgrade: for a terminal, as Markdown, as a page, as one JSON document; pure."""

from collections.abc import Sequence

from pgassay import __version__
from pgassay.model.upgrades.answer import UpgradedStatement, UpgradeFinding, UpgradeResult
from pgassay.report import markdown, terminal
from pgassay.report.compare.json import render_document
from pgassay.report.html import page
from pgassay.report.section import (
    QUIET,
    STRONG,
    WARNING,
    Block,
    Bullets,
    Code,
    Item,
    Paragraph,
    Section,
    Subheading,
    bullets,
    plain_table,
)
from pgassay.report.text import clean, percent, plural

_HEADS = ("statement", "", "before", "after", "× as fast", "95 % interval", "share of time")
_TITLES = (
    ("in the way", "In the way"),
    ("work", "To do before or right after"),
    ("changed", "What changes"),
)
_SHOWN_MAX = 40
_UNTOUCHED = ("as fast", "faster", "not decided")


def render(
    result: UpgradeResult,
    *,
    width: int = terminal.UNWRAPPED,
    colour: bool = False,
    unicode: bool = True,
) -> str:
    """The decision first, then what is in the way, then the statements, the slower ones first."""
    return terminal.render(_sections(result), width=width, colour=colour, unicode=unicode)


def render_markdown(result: UpgradeResult) -> str:
    """The same for an issue or a change request."""
    return markdown.render(_sections(result))


def render_html(result: UpgradeResult) -> str:
    """The same as one page."""
    return page.render(
        f"Upgrade of {clean(result.source)} from {result.from_version} to {result.to_version}",
        _sections(result),
        footer=f"Report by pgassay {__version__}.",
    )


def render_json(result: UpgradeResult) -> str:
    """One JSON document with a newline at its end; schema in schemas/upgrade.schema.json."""
    return render_document(result)


def _sections(result: UpgradeResult) -> list[Section]:
    head = f"{result.source}, PostgreSQL {result.source_version}; nothing was done to it."
    sections = [
        Section("", "decision", (Paragraph(result.headline, STRONG), Paragraph(head, QUIET))),
        *_findings(result.findings),
        *_statements(result),
    ]
    if result.warnings:
        sections.append(Section("Warnings", "warnings", (bullets(result.warnings, tone=WARNING),)))
    if result.experiment:
        timed = f"{plural(result.blocks, 'block')}, margin {percent(result.margin)}; all figures are in"
        sections.append(Section("", "experiment", (Paragraph(f"{timed} {result.experiment}", QUIET),)))
    return sections


def _findings(findings: Sequence[UpgradeFinding]) -> list[Section]:
    made = []
    for severity, title in _TITLES:
        items = tuple(
            Item(each.sentence, detail="; ".join(part for part in (_where(each), each.remedy) if part))
            for each in findings
            if each.severity == severity
        )
        if items:
            made.append(Section(title, severity.replace(" ", "-"), (Bullets(items),), link=title))
    return made


def _where(each: UpgradeFinding) -> str:
    return "" if not each.where or each.where in each.sentence else each.where


def _statements(result: UpgradeResult) -> list[Section]:
    if not result.statements:
        return []
    rows = [_row(each) for each in result.statements[:_SHOWN_MAX]]
    blocks: list[Block] = [plain_table(_HEADS, rows, names=2)]
    if len(result.statements) > _SHOWN_MAX:
        blocks.append(
            Paragraph(f"{_SHOWN_MAX} of {len(result.statements)} statements; --json has all.", QUIET)
        )
    for each in result.statements:
        if each.verdict not in _UNTOUCHED and each.verdict != "not run":
            blocks += _details(each)
    left = [f"{each.name}: {each.reason}" for each in result.statements if each.verdict == "not run"]
    if left:
        blocks += [Subheading("Not run"), bullets(left)]
    if result.why:
        blocks += [Subheading("Where the time went otherwise"), bullets(result.why)]
    slower = [each.name for each in result.statements if each.verdict == "slower" and not each.fix]
    if slower:
        blocks.append(
            Paragraph(
                f"To look longer for what makes {slower[0]} as fast again: pgassay tune DSN --pg "
                f"{result.to_version}, with the connection string of the server."
            )
        )
    return [Section("Statements", "statements", tuple(blocks), link="Statements")]


def _row(each: UpgradedStatement) -> tuple[str, ...]:
    return (
        each.name,
        each.verdict,
        _ms(each.before_ms),
        _ms(each.after_ms),
        "" if each.ratio is None else f"{each.ratio:.3g}",
        "" if each.interval is None else f"{each.interval[0]:.3g} to {each.interval[1]:.3g}",
        "" if each.share is None else percent(each.share),
    )


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.3g} ms"


def _details(each: UpgradedStatement) -> list[Block]:
    blocks: list[Block] = [Subheading(f"{each.name}: {each.verdict}"), Code(each.sql.strip())]
    if each.reason:
        blocks.append(Paragraph(each.reason))
    if each.plan:
        blocks.append(bullets(each.plan))
    if each.fix:
        blocks += [Paragraph(f"Fix: {each.fix}", STRONG), Code(each.fix_sql)]
    return blocks
