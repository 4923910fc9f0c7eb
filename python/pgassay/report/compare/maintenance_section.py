"""The section "what it did" of maintenance commands."""

from dataclasses import dataclass

from pgassay.model.maintenance import WorkFigure, WorkResult
from pgassay.model.result import CompareResult
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.labels import compared_factors, short_name
from pgassay.report.section import STRONG, Block, Cell, Column, Group, Paragraph, Row, Section, Table

# Counts of work that lie closer together than this are called alike.
ALIKE_FRACTION = 0.01
# How the work was served and not how much of it there was: these differ by chance and by memory.
HOW_SERVED = frozenset({"buffers hit", "buffers read", "WAL buffers full", "parallel workers launched"})
HEADING = "Work done (medians; descriptive, without a verdict)"


@dataclass(frozen=True)
class WorkRow:
    """A figure with one cell per arm.

    `per_unit`: the cost of a unit of work. `differs`: a count of work in which the arms aren't alike.
    """

    name: str
    per_unit: bool
    cells: tuple[str, ...]
    differs: bool


@dataclass(frozen=True)
class WorkTable:
    """What one command did in the arms of one stratum ('' when there are none)."""

    title: str
    arms: tuple[str, ...]
    rows: tuple[WorkRow, ...]

    @property
    def sentence(self) -> str:
        """Whether the arms did the same work, which decides what their times say."""
        limit = text.percent(ALIKE_FRACTION)
        names = [row.name for row in self.rows if row.differs]
        if not names:
            return f"The arms did the same work: no count differs by more than {limit}."
        return (
            f"The arms did not do the same work; counts that differ by more than {limit}: {', '.join(names)}."
        )


def work_tables(result: CompareResult) -> tuple[WorkTable, ...]:
    """One table per command and stratum; names cleaned of what could steer a terminal."""
    return tuple(
        _table(result, work, stratum) for work in result.work for stratum in dict.fromkeys(work.strata)
    )


def _table(result: CompareResult, work: WorkResult, stratum: str) -> WorkTable:
    places = [place for place, found in enumerate(work.strata) if found == stratum]
    factors = compared_factors(result.arms)
    labels = {(arm.name, arm.stratum): short_name(arm, factors) for arm in result.arms}
    where = f" at {text.clean(stratum)}" if stratum else ""
    name, command = text.clean(work.statement), work.command.upper()
    return WorkTable(
        title=f"{name} ({command}){where}",
        arms=tuple(labels.get((work.arms[place], stratum), work.arms[place]) for place in places),
        rows=tuple(
            WorkRow(
                figure.name,
                figure.per_unit,
                tuple(_cell(figure, place) for place in places),
                _differs(figure, places),
            )
            for figure in (*work.figures, *work.server_times)
            if any(figure.medians[place] is not None for place in places)
        ),
    )


def _differs(figure: WorkFigure, places: list[int]) -> bool:
    """Whether a count differs between the arms that tell it; a time is no work."""
    if figure.per_unit or figure.unit in ("s", "ms") or figure.name in HOW_SERVED:
        return False
    known = [value for place in places if (value := figure.medians[place]) is not None]
    return len(known) > 1 and max(known) - min(known) > ALIKE_FRACTION * max(known)


def _cell(figure: WorkFigure, place: int) -> str:
    value = figure.medians[place]
    if value is None:
        return "-"
    if figure.unit == "B":
        return text.size(value)
    if figure.unit in ("s", "ms"):
        return text.seconds(value if figure.unit == "s" else value / 1e3)
    return f"{value:,.0f}"


def section(material: Material) -> Section:
    """Whether the arms did the same work, and what each did."""
    blocks: list[Block] = []
    for work in work_tables(material.result):
        columns = (Column(work.title, is_figure=False), *(Column(arm) for arm in work.arms))
        rows = tuple(
            Row(
                (Cell(row.name, STRONG if row.per_unit else ""), *(Cell(cell) for cell in row.cells)),
                differs=row.differs,
            )
            for row in work.rows
        )
        blocks += [Paragraph(work.sentence), Table(columns, (Group(rows),))]
    return Section(HEADING, "work", tuple(blocks), link="Work done")
