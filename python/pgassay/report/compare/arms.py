"""The tables of arms against their control: the primary metric, the statements, the secondary metrics."""

from collections.abc import Sequence

from pgassay.model.result import ArmResult, TwinResult
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.compare.summary import is_tallied
from pgassay.report.labels import strata
from pgassay.report.section import (
    ALARM,
    EVERYWHERE,
    HTML,
    MARKDOWN,
    QUIET,
    TERMINAL,
    Bars,
    Block,
    Cell,
    Column,
    Figure,
    Fold,
    Formats,
    Group,
    Paragraph,
    Row,
    Section,
    Subheading,
    Table,
)

# More tables, or longer ones, are folded on a page.
_STRATA_OPEN_MAX = 4
_ROWS_OPEN_MAX = 12


def arms(material: Material) -> Section:
    """Every arm's verdict, ratio and interval, a table per stratum; on a page the drawings first."""
    result = material.result
    tables: list[Block] = []
    for stratum in strata(result.arms):
        members = material.members(stratum)
        twins = [twin for twin in result.twins or (result.twin,) if twin.stratum == stratum]
        tables += [Subheading(f"At {stratum}")] if stratum else []
        tables.append(_table(material, members, result.metric.unit, "speed ratio", "speed", twins))
        tables += _notes(material, members)
    count = len(strata(result.arms))
    if count > _STRATA_OPEN_MAX:
        tables = [Fold(f"Tables of {count} strata", tuple(tables), is_titled=False)]
    return Section("Arms", "arms", (Figure("grid"), Figure("intervals"), *tables), link="Arms")


def secondary(material: Material) -> Section:
    """Secondary metrics: another question than speed, so other words."""
    blocks: list[Block] = []
    for metric in material.result.secondary:
        blocks.append(Subheading(metric.name))
        tables: list[Block] = []
        for stratum in strata(metric.arms):
            members = [arm for arm in metric.arms if arm.stratum == stratum]
            tables += [Paragraph(f"At {stratum}:")] if stratum else []
            tables.append(_table(material, members, metric.unit, "ratio", "ratio", ()))
            tables += _notes(material, members)
        if len(metric.arms) > _ROWS_OPEN_MAX:
            tables = [Fold(f"Table of {len(metric.arms)} arms", tuple(tables), is_titled=False)]
        blocks += tables
    note = Paragraph(
        "Another question than speed: a ratio below 1 is less than the control's, not slower.", QUIET
    )
    return Section(
        "Secondary metrics", "secondary", (note, *blocks) if blocks else (), link="Secondary metrics"
    )


def statements(material: Material) -> Section:
    """A row per statement and arm, once there is a block to compare."""
    result = material.result
    if not result.statements or result.blocks == 0:
        return Section("Statements", "statements", ())
    groups = tuple(
        Group(
            tuple(
                _row(material, arm, "s", label=material.label_at(arm), where=_not_in_markdown(arm))
                for arm in statement.arms
            ),
            heading=statement.name,
            marks=(
                ("cold" if statement.cold else "not cold", statement.cold),
                ("AIO" if statement.aio else "no AIO", statement.aio),
            ),
        )
        for statement in result.statements
    )
    return Section(
        "Statements",
        "statements",
        (
            Paragraph(
                "A second family of comparisons, with its own control of false findings.",
                QUIET,
                where=EVERYWHERE - MARKDOWN,
            ),
            Paragraph(
                "“cold”: began with nothing of its relations in a cache that can be seen. “AIO”: its plan "
                "can read asynchronously.",
                QUIET,
                where=HTML,
            ),
            Table(_columns("speed ratio", "", HTML, EVERYWHERE - MARKDOWN), groups, grouped_by="statement"),
        ),
        link="Statements",
        folded=MARKDOWN,
    )


def _not_in_markdown(arm: ArmResult) -> Formats:
    """An issue needs the compared arms alone."""
    return EVERYWHERE - MARKDOWN if arm.verdict == "control" else EVERYWHERE


def _columns(
    ratio: str, unit: str, trials: Formats = EVERYWHERE, median: Formats = EVERYWHERE
) -> tuple[Column, ...]:
    named = "" if unit in ("", "s") else unit
    return (
        Column("arm", is_figure=False),
        Column("verdict", is_figure=False),
        Column(ratio, short="ratio"),
        Column("interval"),
        Column(f"median ({named})" if named else "median", short=named, where=median),
        Column("trials", where=trials),
    )


def _table(
    material: Material,
    members: Sequence[ArmResult],
    unit: str,
    ratio: str,
    what: str,
    twins: Sequence[TwinResult],
) -> Table:
    rows = tuple(_row(material, arm, unit) for arm in members) + tuple(_twin(twin) for twin in twins)
    return Table(_columns(ratio, unit), (Group(rows),), bars=Bars(what, material.result.margin))


def _row(
    material: Material, arm: ArmResult, unit: str, *, label: str = "", where: Formats = EVERYWHERE
) -> Row:
    is_control = arm.verdict == "control"
    failed = f" ({arm.failures} failed)" if arm.failures else ""
    return Row(
        (
            Cell(label or material.label(arm)),
            Cell(
                text.verdict_word(arm, material.result.margin),
                "withheld" if arm.withheld else arm.verdict,
                (arm.note,) if arm.note else (),
            ),
            Cell(text.ratio(arm.ratio)),
            Cell("" if is_control else text.interval_or_why(arm.interval, arm.ratio)),
            Cell(text.bare_quantity(arm.median, unit)),
            Cell(f"{arm.trials}{failed}", ALARM if failed else ""),
        ),
        bar=(None, None) if is_control else (arm.interval, arm.ratio),
        where=where,
    )


def _twin(twin: TwinResult) -> Row:
    """The hidden duplicate of the control; in texts a sentence says it."""
    word = {None: "not yet tested", True: "no difference", False: "differs"}[twin.ok]
    return Row(
        (
            Cell("twin of the control"),
            Cell(word, ALARM if twin.ok is False else ""),
            Cell(text.ratio(twin.ratio)),
            Cell(text.interval_or_why(twin.interval, twin.ratio)),
            Cell(""),
            Cell(""),
        ),
        tone=QUIET,
        where=HTML,
    )


def _notes(material: Material, members: Sequence[ArmResult]) -> list[Block]:
    """What qualifies a row, as sentences that name the arm; the verdict's sentences need no repeating."""
    return [
        Paragraph(_note(arm, material.label(arm)), QUIET, where=TERMINAL)
        for arm in members
        if arm.note and arm.note not in material.result.verdict and not _is_said_by_its_row(material, arm)
    ]


def _is_said_by_its_row(material: Material, arm: ArmResult) -> bool:
    """Whether a note only repeats that nothing is known yet, of one arm among many."""
    return is_tallied(material.result) and arm.verdict == "inconclusive" and not arm.withheld


def _note(arm: ArmResult, name: str) -> str:
    sentence = arm.note if name in arm.note else f"{name}: {arm.note}"
    return sentence.rstrip(".") + "."
