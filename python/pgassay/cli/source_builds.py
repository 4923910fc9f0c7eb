"""Builds the source trees that a command names before it plans anything, and says how far it is."""

import re
import sys
from collections.abc import Iterable

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from typing import Self

    from pgassay.model.build import Build

# A level that is a tree, or holds one: build=git:…, config=build=git:…
_NAMES = re.compile(r"(?:^|=|,)'?(?:git:|source:)")
_TENTH = 10


def provide_named(words: Iterable[str | None], *, quiet: bool) -> None:
    """Build each tree that is among the words of a command (a build as --pg takes it, or a factor build=…).

    Raises UsageError for one that can't be built; a word that is no tree is left to whoever reads it.
    """
    texts = [text for word in words if word and _NAMES.search(word) for text in _trees(word)]
    if texts:
        provide(texts, None, quiet=quiet)


def provide(texts: Iterable[str], jobs: int | None, *, quiet: bool) -> "list[Build]":
    """Build the trees named by `texts`, one after the other."""
    from pgassay.environment.builds.registry import SOURCE_ORIGIN

    texts = tuple(dict.fromkeys(texts))
    for text in texts:
        # A slip in the second name is said before the first is compiled for minutes.
        SOURCE_ORIGIN.find(text)
    with BuildLine(quiet=quiet) as line:
        return [SOURCE_ORIGIN.provide(text, jobs, line.step) for text in texts]


def _trees(word: str) -> list[str]:
    from pgassay.environment.source.typed import is_source
    from pgassay.factors.base import split_levels

    if is_source(word):
        return [word]
    name, _, levels = word.partition("=")
    return [level for level in split_levels(name, levels) if is_source(level)] if name == "build" else []


class BuildLine:
    """One line that rewrites itself on a terminal; elsewhere a line for each step and tenth of a build."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._is_live = sys.stderr.isatty()
        self._last = ("", 0)

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
        now = (text, int((fraction or 0.0) * _TENTH))
        if now != self._last:
            self._last = now
            print(text if fraction is None else f"{text}: {now[1] * _TENTH} %", file=sys.stderr, flush=True)
