"""The report for a terminal: verdict first, then arms, statements and what qualifies them."""

from io import StringIO

from rich.box import SIMPLE_HEAD, Box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pgassay.model.result import ArmResult, CompareResult
from pgassay.record.read import StoredExperiment
from pgassay.report import bar, text
from pgassay.report.charts.drawing import shortened
from pgassay.report.compare import summary, terminal_grid
from pgassay.report.compare.accounts import HEADING as ACCOUNTS_HEADING
from pgassay.report.compare.accounts import account_tables
from pgassay.report.compare.causes import HEADING as CAUSES_HEADING
from pgassay.report.compare.causes import cause_rows, difference_sentences
from pgassay.report.compare.changes import change_sentences
from pgassay.report.compare.maintenance import HEADING, work_tables
from pgassay.report.compare.plans import statement_plans
from pgassay.report.labels import compared_factors, short_name, strata

_STYLES = {
    "faster": "bold green",
    "less": "bold green",
    "slower": "bold red",
    "more": "bold red",
    "equivalent": "bold blue",
    "control": "dim",
}
_ASCII_BOX = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
# What the columns of figures take beside the arm's name, their gaps included.
_FIGURES_WIDTH = 66
_NAME_WIDTH_MAX = 40
_BAR_WIDTH_MIN, _BAR_WIDTH_MAX = 21, 31
# Bars below a narrow table: the room for an arm's name, "speed, log scale" at least.
_BAR_BELOW_WIDTH_MAX, _LABEL_WIDTH_MIN = 51, 22


def render(
    result: CompareResult,
    stored: StoredExperiment,
    *,
    width: int,
    colour: bool,
    unicode: bool | None = None,
) -> str:
    """The report as text for `width` columns.

    `colour` adds ANSI colours; `unicode` (default: as `colour`) allows signs beyond ASCII. Without
    it the text is pure ASCII, and other characters of names are written as escapes.
    """
    allowed = colour if unicode is None else unicode
    page = _Page(result, stored, width=max(40, width), colour=colour, unicode=allowed)
    return page.render()


class _Page:
    """One rendering: collects the parts on a console that writes into a string."""

    def __init__(
        self, result: CompareResult, stored: StoredExperiment, *, width: int, colour: bool, unicode: bool
    ) -> None:
        self.result = result
        self.stored = stored
        self.unicode = unicode
        self.glyphs = bar.UNICODE if unicode else bar.ASCII
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

    def render(self) -> str:
        """All parts in order."""
        self.verdict()
        self.arms()
        self.statements()
        self.secondary()
        self.work()
        self.causes()
        self.accounts()
        self.notes()
        self.place()
        lines = [line.rstrip() for line in self.buffer.getvalue().splitlines()]
        kept = [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]
        return "\n".join(kept).strip("\n") + "\n"

    def say(self, content: str, style: str = "", indent: int = 0) -> None:
        """One paragraph."""
        self.console.print(Padding(Text(self.plain(content), style=style), (0, 0, 0, indent)))

    def plain(self, content: str) -> str:
        """The text as this output can show it."""
        return content if self.unicode else text.ascii_only(content)

    def heading(self, content: str) -> None:
        """A heading with an empty line before it."""
        self.console.print()
        self.say(content, style="bold")

    def bullets(self, lines: list[str], style: str = "") -> None:
        """Lines with a dash before each and a hanging indent."""
        for line in lines:
            grid = Table.grid(padding=(0, 1))
            grid.add_column(width=1)
            grid.add_column()
            grid.add_row("-", Text(self.plain(text.clean(line)), style=style))
            self.console.print(grid)

    def verdict(self) -> None:
        """The sentences a person acts on, then what they rest on."""
        for line in summary.headline_lines(self.result):
            self.say(line, style="bold")
        if summary.is_tallied(self.result) and self.result.blocks:
            self.grid()
        self.console.print()
        title = text.clean(self.stored.experiment.title)
        if title:
            self.say(title)
        cache = f", cache {self.result.cache}" if self.result.cache else ""
        self.say(f"Workload {text.clean(self.result.workload)}{cache}: {summary.metric_text(self.result)}.")
        caps = summary.caps(self.stored)
        if caps:
            self.say(f"Caps on the server: {caps}.")
        for line in summary.how_sure(self.result):
            alarm = "DIFFERS" in line or "FAILED" in line
            self.say(line, style="bold red" if alarm else "")

    def grid(self) -> None:
        """Many arms at a glance."""
        table = self.table()
        if terminal_grid.fill(table, self.result, self.styled):
            self.console.print()
            self.console.print(table)

    def styled(self, words: str, verdict: str) -> Text:
        """A cell in the colour of its verdict."""
        return Text(self.plain(words), style=_STYLES.get(verdict, ""))

    def arms(self) -> None:
        """A table per stratum."""
        for stratum in strata(self.result.arms):
            members = [arm for arm in self.result.arms if arm.stratum == stratum]
            self.heading(f"Arms at {text.clean(stratum)}" if stratum else "Arms")
            self.arm_table(members, self.result.metric.unit)

    def arm_table(self, members: list[ArmResult], unit: str, what: str = "speed") -> None:
        """Arms with figures; the bar stands in the table or, where it is narrow, below it."""
        factors = compared_factors(self.result.arms)
        labels = [short_name(arm, factors) for arm in members]
        name_width = min(_NAME_WIDTH_MAX, max(map(len, labels)))
        room = self.console.width - name_width - _FIGURES_WIDTH
        is_wide = room >= _BAR_WIDTH_MIN
        label_width = min(max(map(len, labels)), max(_LABEL_WIDTH_MIN, self.console.width // 3))
        below = max(_BAR_WIDTH_MIN, min(_BAR_BELOW_WIDTH_MAX, self.console.width - label_width - 6))
        bar_width = min(_BAR_WIDTH_MAX, room) if is_wide else below
        scale = bar.scale_for(
            [arm.interval for arm in members], [arm.ratio for arm in members], self.result.margin, bar_width
        )
        table = self.table()
        table.add_column("arm", overflow="fold", min_width=min(name_width, 24))
        has_failures = any(arm.failures for arm in members)
        median = "median" if unit == "s" else self.plain(text.clean(unit)) or "median"
        for name in ("trials", *(("failed",) if has_failures else ()), median, "ratio", "interval"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("verdict", min_width=12)
        if is_wide:
            table.add_column("against the margin", no_wrap=True)
        for arm in members:
            failed = [Text(str(arm.failures or ""), style="red")] if has_failures else []
            label, trials = Text(self.plain(short_name(arm, factors))), Text(str(arm.trials))
            cells = [label, trials, *failed, *self.figures(arm, unit)]
            if is_wide:
                cells.append(Text(self.bar_of(arm, scale)))
            table.add_row(*cells)
        if is_wide:
            empty = [""] * (len(table.columns) - 1)
            table.add_row(*empty, Text(bar.axis(scale), style="dim"))
        self.console.print(table)
        if not is_wide:
            self.bars(members, scale, label_width, what)
        for arm in members:
            if arm.note and arm.note not in self.result.verdict and not self.is_said_by_its_row(arm):
                self.note(arm.note, short_name(arm, factors))

    def is_said_by_its_row(self, arm: ArmResult) -> bool:
        """Whether a note only repeats that nothing is known yet, of one arm among many."""
        return summary.is_tallied(self.result) and arm.verdict == "inconclusive" and not arm.withheld

    def note(self, note: str, name: str) -> None:
        """What qualifies an arm's row, as a sentence that names the arm."""
        sentence = text.clean(note) if name in note else f"{name}: {text.clean(note)}"
        self.say(sentence.rstrip(".") + ".", indent=1)

    def figures(self, arm: ArmResult, unit: str) -> list[Text]:
        """Median, ratio, interval and verdict of an arm's row."""
        is_control = arm.verdict == "control"
        word = text.verdict_word(arm, self.result.margin)
        return [
            Text(self.plain(text.bare_quantity(arm.median, unit))),
            Text(self.plain(text.ratio(arm.ratio))),
            Text("" if is_control else self.plain(text.interval(arm.interval) or "none yet")),
            Text(self.plain(word), style="" if arm.withheld else _STYLES.get(arm.verdict, "")),
        ]

    def bar_of(self, arm: ArmResult, scale: bar.Scale) -> str:
        """The bar of an arm; the control's is the band alone."""
        if arm.verdict == "control":
            return bar.draw(scale, None, None, self.glyphs)
        return bar.draw(scale, arm.interval, arm.ratio, self.glyphs)

    def bars(self, members: list[ArmResult], scale: bar.Scale, label_width: int, what: str) -> None:
        """The bars of the ratios of `what`, below a narrow table; of a long name both ends are kept."""
        factors = compared_factors(self.result.arms)
        compared = [arm for arm in members if arm.verdict != "control" and arm.interval is not None]
        if not compared:
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(max_width=label_width, overflow="ellipsis", no_wrap=True)
        grid.add_column(no_wrap=True)
        for arm in compared:
            # In ASCII the sign of what is left out takes three places instead of one.
            room = label_width if self.unicode else label_width - 2
            label = self.plain(short_name(arm, factors))
            label = label if len(label) <= label_width else self.plain(shortened(label, room))
            grid.add_row(Text(label), Text(self.bar_of(arm, scale)))
        grid.add_row(Text(f"{what}, log scale", style="dim"), Text(bar.axis(scale), style="dim"))
        self.console.print(Padding(grid, (0, 0, 0, 1)))

    def statements(self) -> None:
        """A row per statement and arm, once there is a block to compare."""
        if not self.result.statements or self.result.blocks == 0:
            return
        self.heading("Statements (a second family, with its own control of false findings)")
        factors = compared_factors(self.result.arms)
        table = self.table()
        table.add_column("statement and arm", overflow="fold", min_width=12)
        for name in ("median", "ratio", "interval"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("verdict")
        for statement in self.result.statements:
            name = f"{text.clean(statement.name)} ({summary.marks(statement.cold, statement.aio)})"
            table.add_row(Text(self.plain(name), style="bold"))
            for arm in statement.arms:
                label = short_name(arm, factors)
                where = f"{label} at {text.clean(arm.stratum)}" if arm.stratum else label
                table.add_row(Text(self.plain(f"  {where}")), *self.figures(arm, "s"))
        self.console.print(table)

    def secondary(self) -> None:
        """Secondary metrics: another question, so other words."""
        for metric in self.result.secondary:
            self.heading(
                f"{text.clean(metric.name)} (a secondary metric, not speed: a ratio below 1 is less)"
            )
            for stratum in strata(metric.arms):
                if stratum:
                    self.console.print()
                    self.say(f"At {text.clean(stratum)}", indent=1)
                self.arm_table([arm for arm in metric.arms if arm.stratum == stratum], metric.unit, "ratio")

    def work(self) -> None:
        """What maintenance commands did, an arm per column."""
        tables = work_tables(self.result)
        if tables:
            self.heading(HEADING)
        for work in tables:
            self.say(work.title, style="bold", indent=1)
            table = self.table()
            table.add_column("figure", overflow="fold", min_width=16)
            for arm in work.arms:
                table.add_column(Text(self.plain(arm)), justify="right", overflow="fold")
            for row in work.rows:
                cells = [Text(self.plain(cell)) for cell in row.cells]
                table.add_row(Text(row.name, style="bold" if row.per_unit else ""), *cells)
            self.console.print(table)
            self.say(work.sentence, indent=1)

    def causes(self) -> None:
        """What limits each arm, what should be mended, and what explains a difference."""
        rows = cause_rows(self.result)
        told = [*difference_sentences(self.result), *change_sentences(self.result)]
        if rows or told:
            self.heading(CAUSES_HEADING)
        for row in rows:
            self.bullets([row.sentence], "yellow" if row.kind == "fault" else "")
            if row.figures:
                self.say(row.figures, style="dim", indent=2)
        self.bullets(told)

    def accounts(self) -> None:
        """Where the connections' time went, and that of the processes that worked for them."""
        tables = account_tables(self.result)
        if tables:
            self.heading(ACCOUNTS_HEADING)
        for account in tables:
            table = self.table()
            table.add_column(Text(self.plain(account.title)), overflow="fold", min_width=16)
            for arm in account.arms:
                table.add_column(Text(self.plain(arm)), justify="right", overflow="fold")
            for row in account.rows:
                table.add_row(Text(self.plain(row.name)), *(Text(self.plain(cell)) for cell in row.cells))
            walls = (text.quantity(wall, "s") for wall in account.walls_s)
            table.add_row(Text("wall time", style="bold"), *(Text(self.plain(wall)) for wall in walls))
            self.console.print(table)

    def notes(self) -> None:
        """Plans where they differ, then what qualifies the verdict."""
        different = [plans for plans in statement_plans(self.stored) if plans.differ]
        if self.result.plans_differ or different:
            self.heading("Plans")
            self.bullets([summary.differing_statements(self.result)] if self.result.plans_differ else [])
            for plans in different:
                self.bullets([f"{plans.statement}: {summary.plan_uses(plans)}"])
        self.qualifications()

    def qualifications(self) -> None:
        """Confounds, warnings, arms left out."""
        for title, lines, style in (
            ("Confounds", self.result.confounds, "yellow"),
            ("Warnings", self.result.warnings, "yellow"),
            ("Left out", self.result.skipped, ""),
        ):
            if lines:
                self.heading(title)
                self.bullets(list(lines), style)

    def place(self) -> None:
        """Where everything is, and how to do it again."""
        self.console.print()
        self.console.print(Text(self.plain(f"Folder: {text.clean(self.result.folder)}")), soft_wrap=True)
        again = f"Again:  {summary.reproduce_command(self.stored)}"
        self.console.print(Text(self.plain(again)), soft_wrap=True)

    def table(self) -> Table:
        """An empty table in the page's style."""
        box = SIMPLE_HEAD if self.unicode else _ASCII_BOX
        return Table(box=box, header_style="bold", pad_edge=False, padding=(0, 1), collapse_padding=False)
