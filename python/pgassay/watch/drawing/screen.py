"""The terminal of `pgassay watch`: a screen of its own, redrawn in place, given back however it ends."""

import os
import select
import signal
import termios
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pgassay.model.running_server.watch import WatchSample
from pgassay.watch.drawing.layout import SHOWN_S, layout

_ECHO_AND_LINES = termios.ECHO | termios.ICANON
_SAMPLES_MAX = 1000


def can_draw(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can move its cursor."""
    console = Console(file=stream)
    return console.is_terminal and not console.is_dumb_terminal


class Screen:
    """A context manager: the terminal's other screen while it is open, its last picture on the usual one.

    `keyboard` is the terminal's input, whose keys are not shown meanwhile. Ctrl-Z gives the terminal back,
    and `fg` takes it again.
    """

    def __init__(self, stream: TextIO, keyboard: TextIO | None) -> None:
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=False)
        self._unicode = (self._console.encoding or "").lower().startswith("utf")
        self._keyboard = keyboard if keyboard is not None and keyboard.isatty() else None
        self._samples: deque[WatchSample] = deque(maxlen=_SAMPLES_MAX)
        self._live: Live | None = None
        self._keys: list[int | list[bytes | int]] | None = None
        self._is_drawing = False
        self._handlers = ExitStack()

    def __enter__(self) -> Self:
        self._handle(signal.SIGWINCH, self._resized)
        self._handle(signal.SIGTSTP, self._suspended)
        self._open()
        return self

    def __exit__(self, *details: object) -> None:
        self._handlers.close()
        self._close()
        if self._samples:
            # As top leaves its last picture behind.
            self._console.print(self._picture(), overflow="crop", no_wrap=True, end="\n")

    def show(self, sample: WatchSample) -> None:
        """Draw what is known now."""
        self._samples.append(sample)
        while sample.clock_ns - self._samples[0].clock_ns > 2 * SHOWN_S * 1e9:
            self._samples.popleft()
        self._draw()

    def is_asked_to_end(self) -> bool:
        """Whether somebody has typed q; what else was typed is forgotten."""
        typed = b""
        while self._keyboard is not None and select.select([self._keyboard], [], [], 0)[0]:
            key = os.read(self._keyboard.fileno(), 64)
            typed += key
            if not key:  # the terminal has hung up
                return True
        return b"q" in typed.lower()

    def _open(self) -> None:
        if self._keyboard is not None:
            with suppress(termios.error):
                self._keys = keys = termios.tcgetattr(self._keyboard)
                silent = [*keys[:3], keys[3] & ~_ECHO_AND_LINES, *keys[4:]]
                termios.tcsetattr(self._keyboard, termios.TCSANOW, silent)
        self._live = Live(
            console=self._console, screen=True, auto_refresh=False,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._live.start()
        self._draw()

    def _close(self) -> None:
        live, self._live = self._live, None
        try:
            if live is not None:
                live.stop()
        finally:
            keys, self._keys = self._keys, None
            if keys is not None and self._keyboard is not None:
                with suppress(termios.error):
                    termios.tcsetattr(self._keyboard, termios.TCSADRAIN, keys)

    def _draw(self) -> None:
        if self._live is None or not self._samples or self._is_drawing:
            return
        self._is_drawing = True
        try:
            self._live.update(self._picture(), refresh=True)
        finally:
            self._is_drawing = False

    def _picture(self) -> Text:
        size = self._console.size
        lines = layout(list(self._samples), size.width, size.height, unicode=self._unicode)
        picture = Text(overflow="crop", no_wrap=True, end="")
        for place, line in enumerate(lines):
            for content, style in line:
                picture.append(content, style or None)
            if place + 1 < len(lines):
                picture.append("\n")
        return picture

    def _handle(self, number: signal.Signals, handler: Callable[[int, FrameType | None], None]) -> None:
        before = signal.signal(number, handler)
        self._handlers.callback(signal.signal, number, before)

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        self._draw()

    def _suspended(self, _number: int, _frame: FrameType | None) -> None:
        """Give the terminal back before stopping, and take it again when we go on."""
        self._close()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._open()
