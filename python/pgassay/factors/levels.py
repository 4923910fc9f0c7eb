"""Splitting a list of levels; quotes keep a comma inside one level."""

import re

from pgassay.errors import UsageError

_LEVEL = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^,']*?))\s*(,|$)")


def split_levels(name: str, text: str) -> tuple[str, ...]:
    """`a,b,'c,d'` → ('a', 'b', 'c,d'); raises UsageError for none, an empty one or a repeated one."""
    levels, position = [], 0
    while True:
        match = _LEVEL.match(text, position)
        if match is None:
            raise UsageError(f"{name}={text}: a quote is never closed: write levels as a,b,'c,d'")
        quoted, plain, separator = match.groups()
        if quoted is None and plain == "":
            raise UsageError(f"{name}={text}: a level is empty: write a,b (or '' for an empty value)")
        levels.append(plain if quoted is None else quoted.replace("''", "'"))
        position = match.end()
        if separator != ",":
            return distinct(name, tuple(levels))


def distinct(name: str, levels: tuple[str, ...]) -> tuple[str, ...]:
    """The levels, or UsageError when one stands twice."""
    for level in levels:
        if levels.count(level) > 1:
            raise UsageError(f"{name}: level '{level}' is given twice: give each level once")
    return levels
