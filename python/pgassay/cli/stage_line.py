"""One line about what is being done, for commands that have no screen of their own."""

import sys

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from typing import Self

_TENTHS = 10


class StageLine:
    """One line that rewrites itself on a terminal; elsewhere a line for each stage; nothing when quiet.

    A stage is a text without the number at its end; with `by_tenth` it is the whole text, and each tenth of
    it has a line.
    """

    def __init__(self, *, quiet: bool, by_tenth: bool = False) -> None:
        self._quiet = quiet
        self._by_tenth = by_tenth
        self._is_live = sys.stderr.isatty()
        self._last = ""

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live and not self._quiet:
            sys.stderr.write("\r\x1b[K")

    def step(self, text: str, fraction: float | None) -> None:
        """Say what is being done; `fraction` of it is done, 0 to 1."""
        if self._quiet:
            return
        if self._is_live:
            share = "" if fraction is None else f" ({fraction:.0%})"
            sys.stderr.write(f"\r\x1b[K{text}{share}")
            sys.stderr.flush()
            return
        line = text if self._by_tenth else text.rstrip("0123456789 ")
        if self._by_tenth and fraction is not None:
            line += f": {int(fraction * _TENTHS) * _TENTHS} %"
        if line != self._last:
            self._last = line
            print(line, file=sys.stderr, flush=True)
