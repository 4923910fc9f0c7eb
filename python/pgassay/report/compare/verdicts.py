"""The verdicts: in sentences, and in tables of arms against their control, of each metric."""

from collections import Counter
from collections.abc import Sequence

from pgassay.model.result import ArmResult, CompareResult, TwinResult
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.labels import strata
from pgassay.report.section import (
    ALARM,
    EVERYWHERE,
    HTML,
    MARKDOWN,
    QUIET,
    STRONG,
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
    bullets,
)

# More tables, or longer ones, are folded on a page.
_STRATA_OPEN_MAX = 4
_ROWS_OPEN_MAX = 12
# With more arms than this a report counts the verdicts first.
_SENTENCES_MAX = 7


def verdict_lines(result: CompareResult) -> list[str]:
    """The verdict's sentences, one per line; what to say when there is none yet."""
    lines = [text.clean(line) for line in result.verdict.splitlines() if line.strip()]
    if lines:
        return lines
    if result.blocks == 0:
        return ["No verdict yet: no block is complete, so there is nothing to compare."]
    return ["No verdict was given for this experiment."]


def tally(result: CompareResult) -> str:
    """What a large grid found, in one sentence: how many comparisons have which verdict."""
    counts = Counter(
        "withheld" if arm.withheld else arm.verdict for arm in result.arms if arm.verdict != "control"
    )
    order = ("faster", "slower", "equivalent", "inconclusive", "withheld")
    parts = [f"{counts[word]} {word}" for word in order if counts[word]]
    return f"{text.plural(sum(counts.values()), 'comparison')}: {text.join(parts)}."


def is_tallied(result: CompareResult) -> bool:
    """Whether there are so many arms that a count of the verdicts stands for their sentences."""
    return len(result.arms) > _SENTENCES_MAX


def headline_lines(result: CompareResult) -> list[str]:
    """What a person reads first: the verdicts' sentences, or their count where they are many."""
    return [tally(result)] if is_tallied(result) and result.blocks else verdict_lines(result)


def verdict(material: Material) -> Section:
    """What a person reads first: the verdicts' sentences, or their count and a grid where they are many."""
    result = material.result
    blocks: list[Block] = [Paragraph(line, STRONG) for line in headline_lines(result)]
    if is_tallied(result):
        lines = verdict_lines(result)
        blocks.append(
            Fold(
                f"{text.plural(len(lines), 'verdict')} in sentences",
                (bullets(lines),),
                is_titled=False,
                where=EVERYWHERE - TERMINAL,
            )
        )
        grid = _grid(material) if result.blocks else None
        blocks += [grid] if grid is not None else []
    return Section("", "verdict", tuple(blocks))


def _grid(material: Material) -> Table | None:
    """Many arms at a glance, strata down and compared levels across; None where they are one list."""
    compared = [arm for arm in material.result.arms if arm.verdict != "control"]
    places = {(arm.stratum, material.label(arm)): arm for arm in compared}
    if len(strata(compared)) < 2:
        return None
    levels = list(dict.fromkeys(level for _, level in places))
    rows = []
    for stratum in strata(compared):
        cells = [Cell(stratum)]
        for level in levels:
            arm = places.get((stratum, level))
            if arm is None:
                cells.append(Cell(""))
                continue
            words = f"{text.ratio(arm.ratio)} {text.verdict_word(arm, material.result.margin)}".strip()
            cells.append(Cell(words, "" if arm.withheld else arm.verdict))
        rows.append(Row(tuple(cells)))
    columns = (Column("at", is_figure=False), *(Column(level, is_figure=False) for level in levels))
    return Table(columns, (Group(tuple(rows)),), where=TERMINAL)


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
    note = Paragraph("Not a measure of speed: a ratio below 1 is less than the control's, not slower.", QUIET)
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
            # Of a replay nothing is cold, and no plan is read.
            marks=()
            if material.is_replay
            else (
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
                "A second family of comparisons, with its own control of false discoveries.",
                QUIET,
                where=EVERYWHERE - MARKDOWN,
            ),
            Paragraph(
                "The time of a statement is the mean of its executions in a trial."
                if material.is_replay
                else "“cold”: started with none of its relations in a visible cache. "
                "“AIO”: its plan can read asynchronously.",
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
