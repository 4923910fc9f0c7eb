"""Short names of arms: inside a stratum only the levels that are compared need saying."""

from collections.abc import Iterable
from typing import Protocol

from pgassay.report.text import clean


class Levelled(Protocol):
    """An arm of the plan or of the result."""

    @property
    def name(self) -> str:
        """Its full name."""

    @property
    def levels(self) -> dict[str, str]:
        """Its level of every factor."""

    @property
    def stratum(self) -> str:
        """The levels of the factors that are not compared; '' when there are none."""


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


def strata(arms: Iterable[Levelled]) -> tuple[str, ...]:
    """The strata in the order they appear."""
    return tuple(dict.fromkeys(arm.stratum for arm in arms))
