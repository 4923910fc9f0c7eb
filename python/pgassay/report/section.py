"""A section of a report, in a form of its own: blocks of words, tables and drawings, for every output alike.

A section says what there is to say, once. `report.terminal`, `report.markdown` and `report.html` each show
any section; they make every text harmless for their output, so that a section may hold it as it was recorded.
What an output goes without is a property of the section or of its block (`where`), not a second definition.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from pgassay.analysis.profile.flame import FlameNode
from pgassay.words import Ends

Format = Literal["terminal", "markdown", "html"]
EVERYWHERE: frozenset[Format] = frozenset({"terminal", "markdown", "html"})
TERMINAL: frozenset[Format] = frozenset({"terminal"})
MARKDOWN: frozenset[Format] = frozenset({"markdown"})
HTML: frozenset[Format] = frozenset({"html"})
Formats = frozenset[Format]
# What a text is: its colour or weight follows. A verdict's word is the tone of its cell.
Tone = str
STRONG, QUIET, ALARM, WARNING = "strong", "quiet", "failed", "warning"


@dataclass(frozen=True)
class Paragraph:
    """One or more sentences; `link` is the anchor of the section that they lead to."""

    kind: ClassVar[str] = "paragraph"
    text: str
    tone: Tone = ""
    link: str = ""
    where: Formats = EVERYWHERE


@dataclass(frozen=True)
class Item:
    """A line of a list: `detail` is what it rests on, `marks` are words of a page beside it."""

    text: str
    tone: Tone = ""
    detail: str = ""
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bullets:
    """A list. With a title it is set apart: warnings, for instance."""

    kind: ClassVar[str] = "bullets"
    items: tuple[Item, ...]
    title: str = ""
    tone: Tone = ""
    where: Formats = EVERYWHERE


@dataclass(frozen=True)
class Column:
    """A column: figures stand to the right; `short` is its heading where room is scarce."""

    name: str
    is_figure: bool = True
    short: str = ""
    where: Formats = EVERYWHERE


@dataclass(frozen=True)
class Cell:
    """One cell; `notes` are lines below it on a page."""

    text: str
    tone: Tone = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """As many cells as the table has columns.

    differs: arms don't agree in it. bar: an interval of ratios and the ratio itself, drawn in text.
    """

    cells: tuple[Cell, ...]
    differs: bool = False
    bar: tuple[Ends | None, float | None] | None = None
    tone: Tone = ""
    where: Formats = EVERYWHERE


@dataclass(frozen=True)
class Group:
    """Rows of a table below a heading of their own; `marks` are (word, whether it holds)."""

    rows: tuple[Row, ...]
    heading: str = ""
    marks: tuple[tuple[str, bool], ...] = ()
    is_code: bool = False


@dataclass(frozen=True)
class Bars:
    """What the rows' bars show: a ratio of `what`, against a margin around 1."""

    what: str
    margin: float


@dataclass(frozen=True)
class Table:
    """Groups of rows; `grouped_by` says what their headings are. Columns without names have no head."""

    kind: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    grouped_by: str = ""
    bars: Bars | None = None
    where: Formats = EVERYWHERE

    @property
    def has_head(self) -> bool:
        """Whether any column has a name."""
        return any(column.name for column in self.columns)

    @property
    def is_words(self) -> bool:
        """Whether it has no column of figures."""
        return not any(column.is_figure for column in self.columns)


@dataclass(frozen=True)
class Figure:
    """A drawing by its name, where the output draws."""

    kind: ClassVar[str] = "figure"
    name: str
    where: Formats = HTML


@dataclass(frozen=True)
class Code:
    """A text to be copied or read as it is; with a label it is one line of its own."""

    kind: ClassVar[str] = "code"
    text: str
    label: str = ""
    characters_max: int = 20_000
    where: Formats = EVERYWHERE


@dataclass(frozen=True)
class TreeLine:
    """A line of a plan's tree: `tone` is what it is, `mark` stands before it, `lead` before the margin.

    lead_short: the same for a narrow screen.
    opens: the lines below it can be folded away where an output folds; closes: how many such lines' parts end
    with this one.
    """

    depth: int
    text: str
    tone: Tone = ""
    mark: str = ""
    differs: bool = False
    lead: str = ""
    lead_short: str = ""
    opens: bool = False
    closes: int = 0


@dataclass(frozen=True)
class Tree:
    """Lines that are indented by their depth."""

    kind: ClassVar[str] = "tree"
    lines: tuple[TreeLine, ...]
    where: Formats = HTML


@dataclass(frozen=True)
class Subheading:
    """The heading of what follows within the section."""

    kind: ClassVar[str] = "subheading"
    text: str
    where: Formats = EVERYWHERE


@dataclass(frozen=True)
class Fold:
    """Blocks behind a title, where an output can fold them away.

    is_titled: whether the title says more than what is folded, so that other outputs show it too.
    is_raw: a form for programs, which is left out on paper.
    """

    kind: ClassVar[str] = "fold"
    title: str
    blocks: "tuple[Block, ...]"
    is_open: bool = False
    is_titled: bool = True
    is_raw: bool = False
    marks: tuple[str, ...] = ()
    where: Formats = EVERYWHERE


@dataclass(frozen=True)
class Beside:
    """Lists of blocks beside each other, where there is room."""

    kind: ClassVar[str] = "beside"
    parts: "tuple[tuple[Block, ...], ...]"
    where: Formats = HTML


@dataclass(frozen=True)
class FlameGraph:
    """A flame graph of an arm and its control; `unit`: what a time is of; `sample_us`: one sample of it.

    Of one server alone both have its name.
    """

    kind: ClassVar[str] = "flame"
    name: str
    control: str
    arm: str
    unit: str
    root: FlameNode
    sample_us: float
    where: Formats = HTML

    @property
    def is_of_one(self) -> bool:
        """Whether it compares nothing."""
        return self.control == self.arm

    @property
    def label(self) -> str:
        """What it shows, in a sentence, for who can't see it."""
        if self.is_of_one:
            return (
                f"Flame graph of the server's CPU time per {self.unit}: {self.arm}, {self.root.arm_us:.1f} µs"
            )
        return (
            f"Flame graph of the server's CPU time per {self.unit}: {self.arm} against {self.control}, "
            f"{self.root.arm_us:.1f} and {self.root.control_us:.1f} µs"
        )


Block = Paragraph | Bullets | Table | Figure | Code | Tree | Subheading | Fold | Beside | FlameGraph


@dataclass(frozen=True)
class Section:
    """A heading with blocks. Without a title it belongs to the head of the report.

    anchor: its address within a page. link: its name in the page's list of sections, '' to be left out.
    titled: the outputs that show the title. folded: those that fold the section away behind it.
    where: those that show it at all.
    """

    title: str
    anchor: str
    blocks: tuple[Block, ...]
    link: str = ""
    titled: Formats = EVERYWHERE
    folded: Formats = frozenset()
    where: Formats = EVERYWHERE


Shown = TypeVar("Shown", bound=Block | Section)


def shown(parts: Iterable[Shown], output: Format) -> list[Shown]:
    """The sections, or the blocks of one, that an output shows."""
    return [part for part in parts if output in part.where]


def bullets(
    lines: Iterable[str], *, title: str = "", tone: Tone = "", where: Formats = EVERYWHERE
) -> Bullets:
    """A list of plain lines."""
    return Bullets(tuple(Item(line) for line in lines), title, tone, where)


def plain_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1, where: Formats = EVERYWHERE
) -> Table:
    """A table of plain cells: the first `names` columns hold words, the others figures."""
    columns = tuple(Column(head, is_figure=place >= names) for place, head in enumerate(heads))
    made = tuple(Row(tuple(Cell(cell) for cell in row)) for row in rows)
    return Table(columns, (Group(made),), where=where)


def columns_shown(table: Table, output: Format) -> list[int]:
    """The indices of the columns that an output shows."""
    return [index for index, column in enumerate(table.columns) if output in column.where]
