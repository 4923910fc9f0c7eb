"""Short names of arms: inside a stratum only the levels that are compared need saying."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from pgassay.model.arm import Arm
from pgassay.report.text import clean

_NAMES_MAX = 8


class Levelled(Protocol):
    """An arm of the plan or of the result."""

    @property
    def name(self) -> str:
        """The name in full, which tables shorten."""

    @property
    def levels(self) -> dict[str, str]:
        """Its level of every factor."""

    @property
    def stratum(self) -> str:
        """The levels of the factors that are not compared; '' when there are none."""


class InStratum(Protocol):
    """What is told of an arm in a stratum, by their names."""

    @property
    def arm(self) -> str:
        """The arm's name."""

    @property
    def stratum(self) -> str:
        """The stratum's; '' without strata."""


def arm_at(each: InStratum) -> str:
    """The arm, with its stratum where arms of several stand together."""
    return clean(f"{each.arm} at {each.stratum}" if each.stratum else each.arm)


def compared_factors(arms: Iterable[Levelled]) -> tuple[str, ...]:
    """The factors whose levels differ within a stratum, in the order the arms name them."""
    levels: dict[tuple[str, str], set[str]] = {}
    for arm in arms:
        for factor, level in arm.levels.items():
            levels.setdefault((arm.stratum, factor), set()).add(level)
    return tuple(dict.fromkeys(factor for (_, factor), values in levels.items() if len(values) > 1))


def short_name(arm: Levelled, factors: tuple[str, ...]) -> str:
    """The arm's compared levels alone, e.g. 'io_method=worker'; its whole name when it has none."""
    levels = [f"{factor}={arm.levels[factor]}" for factor in factors if factor in arm.levels]
    return clean(" ".join(levels)) or clean(arm.name)


def levels_alone(arm: Levelled, factors: tuple[str, ...]) -> str:
    """The compared levels without their factors' names, for a place that names the factors once."""
    levels = [arm.levels[factor] for factor in factors if factor in arm.levels]
    return clean(", ".join(levels)) or short_name(arm, factors)


def described(members: Sequence[Arm], everyone: Sequence[Arm]) -> str:
    """A part of all arms in words: the levels that they alone share, else their names.

    Of more than half of them, and many, it says that they are the others.
    """
    shared = dict(members[0].levels) if members else {}
    for arm in members[1:]:
        shared = {factor: level for factor, level in shared.items() if arm.levels.get(factor) == level}
    alike = sum(all(arm.levels.get(key) == level for key, level in shared.items()) for arm in everyone)
    if len(members) > 1 and shared and alike == len(members):
        levels = " ".join(f"{factor}={level}" for factor, level in shared.items())
        return f"{clean(levels)} ({len(members)} arms)"
    if len(members) > max(_NAMES_MAX, len(everyone) // 2):
        return f"the other {len(members)} arms"
    return ", ".join(clean(arm_name(arm)) for arm in members)


def arm_name(arm: Arm) -> str:
    """An arm's name as reports write it: the twin is named after its role and stratum."""
    return f"twin ({arm.name})" if arm.role == "twin" else arm.name


def strata(arms: Iterable[Levelled]) -> tuple[str, ...]:
    """The strata in the order they appear."""
    return tuple(dict.fromkeys(arm.stratum for arm in arms))
