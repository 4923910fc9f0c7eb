"""The contract of a kind of factor, and how levels are split: quotes keep a comma inside one level."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pgassay.errors import UsageError
from pgassay.model.arm import ArmSpec
from pgassay.model.build import Build

# A comma also separates a kind's own options, so a new level begins only where a kind is named.
_NEXT_KIND = re.compile(r",(?=\s*[a-z-]+\s*(?::|,|$))")
# Applied after all others: it rests on the rate, which may be a factor too.
LAST = ("arrivals",)
_LEVEL = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^,']*?))\s*(,|$)")


@dataclass(frozen=True)
class FactorKind:
    """A kind of factor.

    split(text): the levels as typed after `=`, in order; raises UsageError.
    apply(name, level, spec): the arm's description with this level; raises UsageError when the
    level makes no sense for the rest of the description. Pure: no machine is touched.
    bind(name, levels): called once before any apply, by kinds whose levels name builds; returns the
    kind whose apply knows them, and whose `builds` are those of the levels. Looks at this machine,
    never at the network; raises UsageError for a build that isn't at hand.
    is_base: it chooses what the others patch, so it is applied before them.
    fixed_by: what is typed before a level to give it to all arms, like `--pg `; '' where nothing does.
    """

    split: Callable[[str, str], tuple[str, ...]]
    apply: Callable[[str, str, ArmSpec], ArmSpec]
    bind: Callable[[str, tuple[str, ...]], FactorKind] | None = None
    builds: Mapping[str, Build] = field(default_factory=dict)
    is_base: bool = False
    fixed_by: str = ""


@dataclass(frozen=True)
class Factor:
    """A factor as the user named it, with its levels in the order typed."""

    name: str
    levels: tuple[str, ...]
    kind: FactorKind


def split_levels(name: str, text: str) -> tuple[str, ...]:
    """`a,b,'c,d'` → ('a', 'b', 'c,d'); raises UsageError for none, an empty one or a repeated one."""
    levels, position = [], 0
    while True:
        match = _LEVEL.match(text, position)
        if match is None:
            raise UsageError(f"{name}={text}: a quote is not closed: write levels as a,b,'c,d'")
        quoted, plain, separator = match.groups()
        if quoted is None and plain == "":
            raise UsageError(f"{name}={text}: a level is empty: write a,b (or '' for an empty value)")
        levels.append(plain if quoted is None else quoted.replace("''", "'"))
        position = match.end()
        if separator != ",":
            return distinct(name, tuple(levels))


def split_kinds(text: str) -> tuple[str, ...]:
    """`a:x=1,y=2,b` → ('a:x=1,y=2', 'b'): levels of kinds that have options of their own."""
    return tuple(level.strip() for level in _NEXT_KIND.split(text))


def level_text(level: str) -> str:
    """A level as `split_levels` reads it: in quotes where it holds a comma or a quote of its own."""
    return "'" + level.replace("'", "''") + "'" if "," in level or "'" in level else level


def distinct(name: str, levels: tuple[str, ...]) -> tuple[str, ...]:
    """The levels, or UsageError when one stands twice."""
    for level in levels:
        if levels.count(level) > 1:
            raise UsageError(f"{name}: level '{level}' is given twice: give each level once")
    return levels
