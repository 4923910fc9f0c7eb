"""Builds the source trees that a command names before it plans anything, and says how far it is."""

import re
from collections.abc import Iterable

from pgassay.cli.stage_line import StageLine

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.model.build import Build

# A level that is a tree, or holds one: build=git:…, config=build=git:…
_NAMES = re.compile(r"(?:^|=|,)'?(?:git:|source:)")


def provide_named(words: Iterable[str | None], *, quiet: bool, layouts: int | None = None) -> None:
    """Build each tree that is among the words of a command (a build as --pg takes it, or a factor build=…).

    layouts: in how many orders of its functions, None for the default. Raises UsageError for one that can't
    be built or is too old to be measured; a word that is no tree is left to whoever reads it.
    """
    texts = [text for word in words if word and _NAMES.search(word) for text in _trees(word)]
    if texts:
        from pgassay.environment.builds.registry import measured_by_make

        provide(texts, None, quiet=quiet, layouts=layouts, by_make=measured_by_make(texts))


def provide(
    texts: Iterable[str],
    jobs: int | None,
    *,
    quiet: bool,
    layouts: int | None = None,
    by_make: bool = False,
) -> "list[Build]":
    """Build the trees named by `texts`, one after the other; `by_make`: none of them by meson."""
    from pgassay.environment.builds.registry import SOURCE_ORIGIN

    texts = tuple(dict.fromkeys(texts))
    for text in texts:
        # A slip in the second name is said before the first is compiled for minutes.
        SOURCE_ORIGIN.tree(text)
    with StageLine(quiet=quiet, by_tenth=True) as line:
        return [SOURCE_ORIGIN.provide(text, jobs, line.step, layouts, by_make=by_make) for text in texts]


def _trees(word: str) -> list[str]:
    from pgassay.environment.source_builds.tree_syntax import is_source
    from pgassay.factors import config
    from pgassay.factors.base import split_levels

    if is_source(word):
        return [word]
    name, _, text = word.partition("=")
    levels = split_levels(name, text) if name in (config.BUILD, config.NAME) else ()
    if name == config.NAME:
        levels = tuple(config.parts_of(level).get(config.BUILD, "") for level in levels)
    return [level for level in levels if is_source(level)]
