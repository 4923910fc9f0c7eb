"""Sections as text for a terminal: laid out by rich for a width, in colours or in pure ASCII."""

from collections.abc import Iterable
from io import StringIO
from textwrap import wrap

from rich.box import SIMPLE_HEAD, Box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from pgassay.report import interval_bar, text
from pgassay.report.charts.drawing import shortened
from pgassay.report.section import (
    ALARM,
    QUIET,
    STRONG,
    WARNING,
    Block,
    Bullets,
    Code,
    Fold,
    Group,
    Item,
    Paragraph,
    Row,
    Section,
    Subheading,
    Table,
    Tree,
    TreeLine,
    columns_shown,
    shown,
)

# What rich makes of a tone; a word of a verdict is one too.
_STYLES = {
    STRONG: "bold",
    QUIET: "dim",
    ALARM: "bold red",
    WARNING: "yellow",
    "faster": "bold green",
    "less": "bold green",
    "slower": "bold red",
    "more": "bold red",
    "equivalent": "bold blue",
    "control": "dim",
}
_ASCII_BOX = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
# What the columns of figures take beside the arm's name, their gaps included.
_FIGURES_WIDTH = 62
_NAME_WIDTH_MAX = 40
_NAME_WIDTH_MIN, _WORD_WIDTH_MIN = 14, 12
# Words up to the length of "infrastructure" are not broken.
_WHOLE_WORD_MAX = 14
_BAR_WIDTH_MIN, _BAR_WIDTH_MAX = 21, 31
# Bars below a narrow table: the room for an arm's name, "speed, log scale" at least.
_BAR_BELOW_WIDTH_MAX, _LABEL_WIDTH_MIN = 51, 22
_CAPTION_WIDTH = len("speed, log scale")
_WIDTH_MIN = 40
# Below this width a tree is moved in by less; at any width its text keeps this room.
_TREE_WIDE_MIN, _TREE_TEXT_MIN = 90, 40
# What stands between two columns of a table.
_GAP_WIDTH = 2
# A name, a verdict and a ratio stay in however narrow a table.
_COLUMNS_KEPT = 3
# Wider than any line: for a page that is written as lines and left to the terminal to wrap.
UNWRAPPED = 10_000
_LABEL_WIDTH = 8


def render(
    sections: Iterable[Section], *, width: int, colour: bool = False, unicode: bool | None = None
) -> str:
    """The sections as text for `width` columns, 40 at least.

    `colour` adds ANSI colours; `unicode` (default: as `colour`) allows signs beyond ASCII. Without it the
    text is pure ASCII, and other characters of names are written as escapes.
    """
    page = _Page(width=max(_WIDTH_MIN, width), colour=colour, unicode=colour if unicode is None else unicode)
    for section in shown(sections, "terminal"):
        page.section(section)
    return page.finish()


class _Page:
    """One rendering: collects the parts on a console that writes into a string."""

    def __init__(self, *, width: int, colour: bool, unicode: bool) -> None:
        self.unicode = unicode
        self.glyphs = interval_bar.UNICODE if unicode else interval_bar.ASCII
        self.buffer = StringIO()
        self.console = Console(
            file=self.buffer,
            width=width,
            force_terminal=colour,
            color_system="standard" if colour else None,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=False,
            _environ={},
        )

    def finish(self) -> str:
        """What was written, without spaces at the ends of lines and without two empty lines in a row."""
        lines = [line.rstrip() for line in self.buffer.getvalue().splitlines()]
        kept = [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]
        return "\n".join(kept).strip("\n") + "\n"

    def section(self, section: Section) -> None:
        """An empty line, the heading, the blocks."""
        blocks = shown(section.blocks, "terminal")
        if not blocks:
            return
        self.console.print()
        if section.title and "terminal" in section.titled:
            self.say(section.title, "bold")
        for block in blocks:
            self.block(block)

    def block(self, block: Block) -> None:
        """One block; what only a page can draw has been left out."""
        match block:
            case Paragraph():
                self.say(block.text, _STYLES.get(block.tone, ""))
            case Subheading():
                self.console.print()
                self.say(block.text, "bold", indent=1)
            case Bullets():
                if block.title:
                    self.console.print()
                    self.say(block.title, "bold")
                for item in block.items:
                    self.bullet(item, _STYLES.get(item.tone or block.tone, ""))
            case Table():
                self.table(block)
            case Code():
                # Not wrapped, and no sign becomes another one, so that it can be copied.
                label = f"{block.label}: ".ljust(_LABEL_WIDTH) if block.label else ""
                content = text.clean_lines(text.excerpt(block.text, block.characters_max))
                for copied in content.splitlines():
                    shown_line = self.copied(f"{label or '  '}{copied}")
                    self.console.print(Text(shown_line), soft_wrap=True)
            case Tree():
                for line in block.lines:
                    self.tree_line(line)
            case Fold():
                if block.is_titled:
                    self.console.print()
                    self.say(block.title, "bold", indent=1)
                for each in shown(block.blocks, "terminal"):
                    self.block(each)
            case _:
                pass

    def tree_line(self, line: TreeLine) -> None:
        """A line of a tree; one that is longer than the width goes on below its own beginning."""
        width = self.console.width
        if width < _TREE_WIDE_MIN:
            before = f"{line.lead_short or line.lead}{' ' * line.depth}{line.mark}"
            if len(before) > width // 2:
                # No room to move it in: its depth is said.
                before = f"{line.lead_short or line.lead}[{line.depth}] {line.mark}"
        else:
            before = f"{line.lead}{'  ' * line.depth}{line.mark}"
        margin = min(len(before), max(width // 2, width - _TREE_TEXT_MIN))
        room = width - margin
        content = self.plain(line.text)
        style = _STYLES.get(line.tone, "")
        parts = wrap(content, room, break_on_hyphens=False, subsequent_indent="  ") or [""]
        self.console.print(Text(self.plain(before)[:margin].ljust(margin)) + Text(parts[0], style=style))
        for part in parts[1:]:
            self.console.print(Text(" " * margin) + Text(part, style=style))

    def plain(self, content: str) -> str:
        """The text as this output can show it."""
        cleaned = text.clean(content)
        return cleaned if self.unicode else text.ascii_only(cleaned)

    def copied(self, content: str) -> str:
        """A text to be copied, whose signs beyond ASCII are escapes where this output can't show them."""
        return content if self.unicode else content.encode("ascii", "backslashreplace").decode("ascii")

    def text(self, content: str, style: str = "") -> Text:
        """The same with a style."""
        return Text(self.plain(content), style=style)

    def say(self, content: str, style: str = "", indent: int = 0) -> None:
        """Print a paragraph, wrapped at the width and moved in by `indent` columns."""
        text = self.text(content, style)
        if indent == 0 and any(len(word) > self.console.width for word in text.plain.split()):
            # A folder's name in two lines can't be copied into a command.
            lines = wrap(text.plain, self.console.width, break_long_words=False, break_on_hyphens=False)
            self.console.print(Text("\n".join(lines), style=style), soft_wrap=True)
            return
        self.console.print(Padding(text, (0, 0, 0, indent)))

    def bullet(self, item: Item, style: str) -> None:
        """A line with a dash before it and a hanging indent, and what it rests on below."""
        grid = RichTable.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column()
        grid.add_row("-", self.text(item.text, style))
        self.console.print(grid)
        if item.detail:
            self.say(item.detail, "dim", indent=2)

    def table(self, table: Table) -> None:
        """A table; its bars stand in it or, where it is narrow, below it."""
        places = columns_shown(table, "terminal")
        rows = [row for group in table.groups for row in group.rows if "terminal" in row.where]
        names = [self.plain(row.cells[0].text) for row in rows]
        name_width = min(_NAME_WIDTH_MAX, max(map(len, names), default=0))
        scale = self.scale(table, rows, names) if table.bars else None
        is_wide = scale is not None and self.bar_room(name_width) >= _BAR_WIDTH_MIN
        keeps_figures = bool(table.bars or table.grouped_by)
        # Such figures don't wrap: what has no room is named, for half a figure is a wrong one.
        left_out: list[str] = []
        # Others are told below the table, row by row.
        told_below: list[int] = []
        while len(places) > _COLUMNS_KEPT and self.is_too_wide(table, places, name_width):
            if keeps_figures:
                left_out.insert(0, table.columns[places[-1]].name)
            else:
                told_below.insert(0, places[-1])
            places = places[:-1]
        made = self.laid_out(table, places, name_width, scale if is_wide else None)
        self.console.print(made)
        if left_out:
            self.say(f"Not shown in this width: {', '.join(left_out)}.", "dim", indent=1)
        for row in rows:
            told = [
                f"{table.columns[place].name} {row.cells[place].text}"
                for place in told_below
                if row.cells[place].text
            ]
            if told:
                self.say(f"{row.cells[0].text}: {', '.join(told)}", "dim", indent=1)
        if table.bars and scale is not None and not is_wide:
            self.bars_below(rows, names, scale, table.bars.what)

    def laid_out(
        self, table: Table, places: list[int], name_width: int, scale: interval_bar.Scale | None
    ) -> RichTable:
        """The table with these of its columns, and with bars where there is a scale for them."""
        made = self.new_table(has_head=table.has_head)
        keeps_figures = bool(table.bars or table.grouped_by)
        widths: list[int | None] = [None] * len(places) if keeps_figures else [*self.widths(table, places)]
        for place, width in zip(places, widths, strict=True):
            column = table.columns[place]
            heading = self.text(column.short or column.name)
            if place == 0:
                joined = f"{table.grouped_by} and {column.name}" if table.grouped_by else column.name
                least = min(name_width, _NAME_WIDTH_MIN) if keeps_figures else None
                made.add_column(self.text(joined), overflow="fold", min_width=least, width=width)
            elif column.is_figure:
                made.add_column(heading, justify="right", no_wrap=keeps_figures, overflow="fold", width=width)
            else:
                least = _WORD_WIDTH_MIN if keeps_figures else None
                made.add_column(heading, overflow="fold", min_width=least, width=width)
        if scale is not None:
            made.add_column("against the margin", no_wrap=True)
        for group in table.groups:
            self.group(made, group, places, scale)
        if scale is not None:
            made.add_row(*[""] * len(places), Text(interval_bar.axis(scale), style="dim"))
        return made

    def widths(self, table: Table, places: list[int]) -> list[int]:
        """The columns' widths: the widest is wrapped first, and no word is broken as long as that goes."""
        widths = [max(map(len, self.texts(table, place))) for place in places]
        room = self.console.width - _GAP_WIDTH * len(places)
        for least in ([self.least_width(table, place) for place in places], [1] * len(places)):
            while sum(widths) > room:
                over = [at for at, width in enumerate(widths) if width > least[at]]
                if not over:
                    break
                widths[max(over, key=lambda at: widths[at])] -= 1
        return widths

    def least_width(self, table: Table, place: int) -> int:
        """What a column needs: figures stay whole, and so do words.

        But for a name's of more than two fifths of the width, which is broken in any case.
        """
        heading, *cells = self.texts(table, place)
        if table.columns[place].is_figure:
            return max(map(len, (*heading.split(), *cells)), default=1)
        words = [len(word) for each in (heading, *cells) for word in each.split()]
        if place:
            return min(_WHOLE_WORD_MAX, max(words, default=1))
        longest = max(map(len, (heading, *cells)))
        kept = [size for size in words if size <= self.console.width * 2 // 5]
        return min(longest, max(_NAME_WIDTH_MIN, *kept, 0))

    def texts(self, table: Table, place: int) -> list[str]:
        """A column's heading and its cells."""
        column = table.columns[place]
        cells = (row.cells[place].text for group in table.groups for row in group.rows)
        return [self.plain(each) for each in (column.short or column.name, *cells)]

    def is_too_wide(self, table: Table, places: list[int], name_width: int) -> bool:
        """Whether figures in these columns would be cut off, or a name broken within a word."""
        needed = _GAP_WIDTH * len(places)
        if not (table.bars or table.grouped_by):
            return needed + sum(self.least_width(table, place) for place in places) > self.console.width
        needed += min(name_width, _NAME_WIDTH_MIN)
        for place in places[1:]:
            is_figure = table.columns[place].is_figure
            needed += max(map(len, self.texts(table, place))) if is_figure else _WORD_WIDTH_MIN
        return needed > self.console.width

    def group(
        self, made: RichTable, group: Group, places: list[int], scale: interval_bar.Scale | None
    ) -> None:
        """The rows of a group, below its heading."""
        if group.heading:
            marks = ", ".join(word for word, _ in group.marks)
            made.add_row(self.text(f"{group.heading} ({marks})" if marks else group.heading, "bold"))
        for row in group.rows:
            if "terminal" not in row.where:
                continue
            style = _STYLES.get(row.tone, "")
            cells = [
                self.text(row.cells[place].text, _STYLES.get(row.cells[place].tone, style))
                for place in places
            ]
            if group.heading:
                cells[0] = Text("  ") + cells[0]
            if scale is not None:
                ends, ratio = row.bar or (None, None)
                cells.append(Text(interval_bar.draw(scale, ends, ratio, self.glyphs)))
            made.add_row(*cells)

    def new_table(self, *, has_head: bool) -> RichTable:
        """An empty table in the page's style."""
        box = SIMPLE_HEAD if self.unicode else _ASCII_BOX
        return RichTable(
            box=box, header_style="bold", show_header=has_head, pad_edge=False, padding=(0, 1, 0, 0)
        )

    def bar_room(self, name_width: int) -> int:
        """The columns that a bar within the table can have."""
        return self.console.width - name_width - _FIGURES_WIDTH

    def label_width(self, names: list[str]) -> int:
        """The room for a name, or for the axis's caption, beside a bar below the table."""
        longest = max(_CAPTION_WIDTH, *map(len, names))
        return min(longest, max(_LABEL_WIDTH_MIN, self.console.width // 3))

    def scale(self, table: Table, rows: list[Row], names: list[str]) -> interval_bar.Scale:
        """One axis for all bars of the table."""
        room = self.bar_room(min(_NAME_WIDTH_MAX, max(map(len, names), default=0)))
        below = self.console.width - self.label_width(names) - 6
        width = (
            min(_BAR_WIDTH_MAX, room)
            if room >= _BAR_WIDTH_MIN
            else max(_BAR_WIDTH_MIN, min(_BAR_BELOW_WIDTH_MAX, below))
        )
        bars = [row.bar for row in rows if row.bar is not None]
        margin = table.bars.margin if table.bars else 0.0
        return interval_bar.scale_for([ends for ends, _ in bars], [ratio for _, ratio in bars], margin, width)

    def bars_below(self, rows: list[Row], names: list[str], scale: interval_bar.Scale, what: str) -> None:
        """The bars of the ratios of `what`, below a narrow table; of a long name both ends are kept."""
        width = self.label_width(names)
        grid = RichTable.grid(padding=(0, 2))
        grid.add_column(max_width=width, overflow="ellipsis", no_wrap=True)
        grid.add_column(no_wrap=True)
        for row, name in zip(rows, names, strict=True):
            ends, ratio = row.bar or (None, None)
            if ends is None:
                continue
            # In ASCII the sign of what is left out takes three places instead of one.
            room = width if self.unicode else width - 2
            label = name if len(name) <= width else self.plain(shortened(name, room))
            grid.add_row(Text(label), Text(interval_bar.draw(scale, ends, ratio, self.glyphs)))
        if not grid.row_count:
            return
        grid.add_row(Text(f"{what}, log scale", style="dim"), Text(interval_bar.axis(scale), style="dim"))
        self.console.print(Padding(grid, (0, 0, 0, 1)))
