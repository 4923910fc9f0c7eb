"""Live progress on a terminal, by standard error."""

import sys
import time
from collections.abc import Sequence
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from pgassay.model.result import ArmResult, CompareResult
from pgassay.progress import NullProgress, Progress
from pgassay.report import interval_bar, text
from pgassay.report.labels import compared_factors, short_name
from pgassay.terminal.progress import PlainProgress, plan_text

# The view is drawn while trials are measured, so it must cost next to nothing of a core.
_REFRESH_PER_SECOND = 2
_ARMS_SHOWN_MAX = 24
_BAR_WIDTH = 25
_STAGE_BAR_WIDTH = 30


def choose(stream: TextIO | None = None, *, quiet: bool = False) -> Progress:
    """The form that suits a stream (default standard error): none, live, or lines."""
    stream = stream if stream is not None else sys.stderr
    if quiet:
        return NullProgress()
    console = Console(file=stream)
    return (
        LiveProgress(stream)
        if console.is_terminal and not console.is_dumb_terminal
        else PlainProgress(stream)
    )


class LiveProgress:
    """A view that is redrawn in place: block, time left, current trial, estimates so far."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Draws on `stream`, by default standard error, which must be a terminal."""
        self._console = Console(
            file=stream if stream is not None else sys.stderr, highlight=False, markup=False
        )
        unicode = (self._console.encoding or "").lower().startswith("utf")
        self._glyphs = interval_bar.UNICODE if unicode else interval_bar.ASCII
        self._unicode = unicode
        self._view = _View(self)
        self._live = Live(
            self._view,
            console=self._console,
            refresh_per_second=_REFRESH_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._is_open = False
        self.stage_text = ""
        self.stage_fraction: float | None = None
        self.stage_started = time.monotonic()
        self.blocks_max = 0
        self.trials_in_block = 0
        self.trial: tuple[int, int, str, float | None] | None = None
        self.trial_began = 0.0
        self.doing = ""
        self.counts: dict[str, int] = {}
        self.last_trial = ""
        self.result: CompareResult | None = None
        self.ends_at: float | None = None

    def stage(self, content: str, fraction: float | None = None) -> None:
        """Show a step of the preparation, with a bar when its fraction is known."""
        if content != self.stage_text:
            self.stage_text, self.stage_started, self.doing = content, time.monotonic(), ""
        self.stage_fraction = fraction
        self.trial = None
        self._open()

    def plan(self, arms: Sequence[str], blocks_max: int, trials_total: int, sentence: str) -> None:
        """Print the plan above the view, where it stays."""
        self.blocks_max = blocks_max
        self.trials_in_block = round(trials_total / blocks_max) if blocks_max else 0
        self.message(plan_text(arms, blocks_max, trials_total))
        if sentence:
            self.message(sentence)

    def trial_started(self, block: int, position: int, arm: str, expected_s: float | None) -> None:
        """Show the current trial with its elapsed time."""
        self.stage_text = self.doing = ""
        self.trial, self.trial_began = (block, position, arm, expected_s), time.monotonic()
        self._open()

    def trial_doing(self, content: str) -> None:
        """Show what the trial is at, from the next refresh on."""
        self.doing = text.clean(content)

    def trial_ended(self, block: int, position: int, status: str, metric_text: str) -> None:
        """Count the trial; one that isn't ok is printed above the view."""
        self.trial = None
        self.counts[status] = self.counts.get(status, 0) + 1
        self.last_trial = f"{status} {metric_text}".strip()
        if status != "ok":
            self.message(f"block {block + 1}, trial {position + 1}: {self.last_trial}")

    def estimate(self, result: CompareResult, seconds_left: float | None) -> None:
        """Show the estimates so far."""
        self.result = result
        self.ends_at = None if seconds_left is None else time.monotonic() + seconds_left
        self._open()

    def message(self, content: str) -> None:
        """Print a sentence above the view."""
        self._console.print(Text(self.plain(text.clean(content))))

    def close(self) -> None:
        """Remove the view and give the terminal back with its cursor."""
        if self._is_open:
            self._is_open = False
            self._live.stop()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._live.start()

    def plain(self, content: str) -> str:
        """The text as this terminal can show it."""
        return content if self._unicode else text.ascii_only(content)

    def header(self) -> str:
        """Block and time left."""
        blocks = self.result.blocks if self.result else 0
        block = self.trial[0] + 1 if self.trial else blocks
        parts = [f"block {block} of at most {self.blocks_max}"] if self.blocks_max and block else []
        done = sum(self.counts.values())
        if done:
            failed = done - self.counts.get("ok", 0)
            parts.append(text.plural(done, "trial") + (f", {failed} not ok" if failed else ""))
        if self.ends_at is not None:
            parts.append(f"at most {text.duration(self.ends_at - time.monotonic())} left")
        return " · ".join(parts)

    def trial_line(self) -> str:
        """The current trial, with elapsed and expected time."""
        if self.trial is None:
            return f"last trial: {self.last_trial}" if self.last_trial else ""
        _, position, arm, expected_s = self.trial
        elapsed = text.duration(time.monotonic() - self.trial_began)
        of = f" of {self.trials_in_block}" if self.trials_in_block else ""
        expected = f" of about {text.duration(expected_s)}" if expected_s is not None else ""
        name = f" ({text.clean(arm)})" if arm else ""
        doing = f" · {self.doing}" if self.doing else ""
        return f"trial {position + 1}{of}{name}: {elapsed}{expected}{doing}"

    def arm_table(self, width: int) -> Table | None:
        """The arms with their estimates so far."""
        if self.result is None:
            return None
        result = self.result
        shown = result.arms[:_ARMS_SHOWN_MAX]
        factors = compared_factors(result.arms)
        draws_bars = width >= 90
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("arm", max_width=30, overflow="ellipsis", no_wrap=True)
        for name in ("trials", "speed", "interval so far"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("so far", no_wrap=True)
        if draws_bars:
            table.add_column("", no_wrap=True)
        scale = interval_bar.scale_for(
            [arm.interval for arm in shown], [arm.ratio for arm in shown], result.margin, _BAR_WIDTH
        )
        for arm in shown:
            cells = self._cells(arm, factors, result.margin)
            if draws_bars:
                is_control = arm.verdict == "control"
                ends, ratio = (None, None) if is_control else (arm.interval, arm.ratio)
                cells.append(Text(interval_bar.draw(scale, ends, ratio, self._glyphs)))
            table.add_row(*cells)
        if len(result.arms) > len(shown):
            table.add_row(Text(self.plain(f"… and {len(result.arms) - len(shown)} more arms")))
        return table

    def _cells(self, arm: ArmResult, factors: tuple[str, ...], margin: float) -> list[Text]:
        name = short_name(arm, factors)
        if arm.stratum:
            name = f"{name} at {text.clean(arm.stratum)}"
        is_control = arm.verdict == "control"
        failed = f" ({arm.failures} failed)" if arm.failures else ""
        return [
            Text(self.plain(name)),
            Text(f"{arm.trials}{failed}"),
            Text(self.plain(text.ratio(arm.ratio))),
            Text("" if is_control else self.plain(text.interval_or_why(arm.interval, arm.ratio))),
            Text(self.plain(text.verdict_word(arm, margin))),
        ]


class _View:
    """What the live display draws; asked anew at every refresh, so that times move."""

    def __init__(self, progress: LiveProgress) -> None:
        self._progress = progress
        self._spinner = Spinner("line")

    def __rich__(self) -> RenderableType:
        """The parts that have something to say."""
        progress = self._progress
        parts: list[RenderableType] = []
        if progress.stage_text:
            parts.append(self._stage())
        header = progress.plain(progress.header())
        if header:
            parts.append(Text(header, style="bold", overflow="ellipsis", no_wrap=True))
        line = progress.plain(progress.trial_line())
        if line:
            self._spinner.update(text=Text(line, overflow="ellipsis", no_wrap=True))
            parts.append(self._spinner if progress.trial else Text(line, overflow="ellipsis", no_wrap=True))
        table = progress.arm_table(progress._console.width)
        if table is not None:
            parts.append(table)
        return Group(*parts)

    def _stage(self) -> RenderableType:
        progress = self._progress
        elapsed = text.duration(time.monotonic() - progress.stage_started)
        doing = f" · {progress.doing}" if progress.doing else ""
        content = Text(progress.plain(f"{text.clean(progress.stage_text)} {elapsed}{doing}"))
        if progress.stage_fraction is None:
            return content
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True, overflow="ellipsis")
        grid.add_column(width=_STAGE_BAR_WIDTH)
        grid.add_row(
            content, ProgressBar(total=1.0, completed=progress.stage_fraction, width=_STAGE_BAR_WIDTH)
        )
        return grid
