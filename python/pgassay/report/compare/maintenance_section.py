"""The section "what it did" of maintenance commands."""

from collections.abc import Sequence
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
# A phase explains a difference if it has at least this share of it.
_OF_THE_DIFFERENCE = 0.5
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
    """What one command did in the arms of one stratum ('' when there are none).

    `phases`: in which phase the arms' times differ most, '' where that is not known.
    """

    title: str
    arms: tuple[str, ...]
    rows: tuple[WorkRow, ...]
    phases: str = ""

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
    time, others = work.figures[:1], work.figures[1:]
    named = [(figure.name, figure) for figure in (*time, *work.server_times)]
    phases = [(f"phase: {text.clean(phase.name)}", phase) for phase in work.phases]
    named += [*phases, *((figure.name, figure) for figure in others)]
    arms = tuple(labels.get((work.arms[place], stratum), work.arms[place]) for place in places)
    return WorkTable(
        title=f"{name} ({command}){where}",
        arms=arms,
        rows=tuple(
            WorkRow(
                shown,
                figure.per_unit,
                tuple(_cell(figure, place, is_phase=figure in work.phases) for place in places),
                _differs(figure, places),
            )
            for shown, figure in named
            if any(figure.medians[place] is not None for place in places)
        ),
        phases=_phases(work, places, arms),
    )


def _phases(work: WorkResult, places: Sequence[int], arms: Sequence[str]) -> str:
    """The phase in which the arms' times differ most, if most of the difference is there."""
    spreads = [(_spread(phase, places), phase) for phase in work.phases]
    largest, phase = max(spreads, key=lambda pair: pair[0], default=(0.0, None))
    least_s = _OF_THE_DIFFERENCE * _spread(work.figures[0], places)
    if phase is None or not largest or largest < least_s:
        return ""
    cells = [_cell(phase, place, is_phase=True) for place in places]
    times = [f"{cell} with {arm}" for cell, arm in zip(cells, arms, strict=True)]
    return f"The times differ most in the phase {text.clean(phase.name)}: {text.join(times)}."


def _spread(figure: WorkFigure, places: Sequence[int]) -> float:
    known = [value for place in places if (value := figure.medians[place]) is not None]
    return max(known) - min(known) if len(known) > 1 else 0.0


def _differs(figure: WorkFigure, places: list[int]) -> bool:
    """Whether a count differs between the arms that tell it; a time is no work."""
    if figure.per_unit or figure.unit in ("s", "ms") or figure.name in HOW_SERVED:
        return False
    known = [value for place in places if (value := figure.medians[place]) is not None]
    return len(known) > 1 and max(known) - min(known) > ALIKE_FRACTION * max(known)


def _cell(figure: WorkFigure, place: int, *, is_phase: bool = False) -> str:
    value = figure.medians[place]
    if value is None:
        return "-"
    if is_phase and not value:
        # It was shorter than the time between two samples.
        return "not seen"
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
        blocks += [
            Paragraph(" ".join(filter(None, (work.sentence, work.phases)))),
            Table(columns, (Group(rows),)),
        ]
    return Section(HEADING, "work", tuple(blocks), link="Work done")
