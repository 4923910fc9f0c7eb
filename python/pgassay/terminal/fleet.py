"""What a spread experiment shows while it runs: one view over all machines, or a line for each event."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pgassay.model.machines.combined import CombinedResult, MachineResult
from pgassay.report import text
from pgassay.terminal.progress import Lines
from pgassay.words import interval_or_why, plural, ratio

_REFRESH_PER_SECOND = 2
_MACHINES_SHOWN_MAX = 30
_ARMS_SHOWN_MAX = 8
_STATES = {"asked": "is asked", "lost": "no answer", "ended": "has ended"}


@dataclass(frozen=True)
class MachineRow:
    """A machine: what it does, the blocks of which a trial came home, its own latest line of progress."""

    name: str
    state: str
    blocks: int
    progress: str


class FleetView(Protocol):
    """Where a coordinator tells what happens; a context manager, so that a terminal is given back."""

    def message(self, content: str) -> None:
        """A sentence a person should see."""

    def standing(self, machines: Sequence[MachineRow], result: CombinedResult | None) -> None:
        """Where all machines and the question stand; called often."""

    def __enter__(self) -> Self:
        """Take the terminal, where the form needs it."""

    def __exit__(self, *details: object) -> None:
        """Give the terminal back."""


class PlainFleetView:
    """Lines: a sentence as it is, and the estimates when further blocks are complete."""

    def __init__(self, stream: TextIO | None) -> None:
        """Writes to `stream`; nothing without one."""
        self._lines = Lines(stream)
        self._blocks = 0

    def message(self, content: str) -> None:
        """The sentence as a line."""
        self._lines.write(content)

    def standing(self, machines: Sequence[MachineRow], result: CombinedResult | None) -> None:
        """A line for each arm when there are more complete blocks than the last time."""
        del machines
        blocks = _blocks(result)
        if result is None or blocks <= self._blocks:
            return
        self._blocks = blocks
        for line in arm_lines(result):
            self.message(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        pass


class LiveFleetView:
    """A table of all machines that is redrawn in place, with the common effects below it."""

    def __init__(self, stream: TextIO) -> None:
        """Draws on `stream`, which must be a terminal."""
        self._console = Console(file=stream, highlight=False, markup=False)
        self._machines: Sequence[MachineRow] = ()
        self._result: CombinedResult | None = None
        self._live = Live(
            get_renderable=self.shown,
            console=self._console,
            refresh_per_second=_REFRESH_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def message(self, content: str) -> None:
        """The sentence above the table, where it stays."""
        self._console.print(Text(text.clean(content)))

    def standing(self, machines: Sequence[MachineRow], result: CombinedResult | None) -> None:
        """Shown from the next refresh on."""
        self._machines, self._result = machines, result

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._live.stop()

    def shown(self) -> RenderableType:
        """The table, with the common effects below it."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("machine", "", "blocks", "speed", "interval so far"):
            table.add_column(name, no_wrap=True, justify="right" if name in ("blocks", "speed") else "left")
        table.add_column("now", no_wrap=True, overflow="ellipsis")
        own = {machine.name: machine for machine in self._result.machines} if self._result else {}
        for row in self._machines[:_MACHINES_SHOWN_MAX]:
            table.add_row(*(Text(text.clean(cell)) for cell in _cells(row, own.get(row.name))))
        parts: list[RenderableType] = [table]
        if len(self._machines) > _MACHINES_SHOWN_MAX:
            parts.append(Text(f"and {len(self._machines) - _MACHINES_SHOWN_MAX} more machines"))
        if self._result is not None:
            parts += [Text(text.clean(line)) for line in arm_lines(self._result)]
        return Group(*parts)


def choose(stream: TextIO | None = None, *, quiet: bool = False) -> FleetView:
    """The form that suits a stream (default standard error): none, live, or lines."""
    if quiet:
        return PlainFleetView(None)
    stream = stream if stream is not None else sys.stderr
    console = Console(file=stream)
    return (
        LiveFleetView(stream)
        if console.is_terminal and not console.is_dumb_terminal
        else PlainFleetView(stream)
    )


def arm_lines(result: CombinedResult) -> list[str]:
    """A line for each arm: the common effect so far, or that the machines disagree."""
    lines = []
    for arm in result.arms[:_ARMS_SHOWN_MAX]:
        these = arm.these_machines
        counted = f"after {plural(these.blocks, 'block')} on {plural(these.machines, 'machine')}"
        where = f" ({arm.stratum})" if arm.stratum and arm.stratum not in arm.name else ""
        found = f"{ratio(these.ratio) or 'no ratio'} ({interval_or_why(these.interval, these.ratio)})"
        word = "withheld" if these.withheld else these.verdict
        lines.append(f"{counted}: {arm.name}{where}: {found} {word}")
    if len(result.arms) > _ARMS_SHOWN_MAX:
        lines.append(f"and {plural(len(result.arms) - _ARMS_SHOWN_MAX, 'more arm')}")
    return lines


def _cells(row: MachineRow, own: MachineResult | None) -> list[str]:
    figures = [ratio(own.ratio), interval_or_why(own.interval, own.ratio)] if own else ["", ""]
    return [row.name, _STATES.get(row.state, row.state), str(row.blocks), *figures, row.progress]


def _blocks(result: CombinedResult | None) -> int:
    return sum(arm.these_machines.blocks for arm in result.arms) if result else 0
