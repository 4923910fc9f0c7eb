"""What is asked of a grid of factors: which cells stand against which.

Effects are contrasts of cells in a factorial design (Box, Hunter and Hunter, "Statistics for Experimenters"
2005, chapter 5), on logarithms: a main effect is a mean of ratios, an interaction a ratio of ratios.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["main", "at", "interaction"]
KINDS: tuple[Kind, ...] = ("main", "at", "interaction")
# A cell's level of every factor; '' of one that it lacks.
Levels = tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """Factors with their levels, the reference first, and the cells that there are."""

    factors: tuple[str, ...]
    levels: tuple[Levels, ...]
    cells: tuple[Levels, ...]


@dataclass(frozen=True)
class Question:
    """One effect: the mean over the cells `plus` less that over the cells `minus`, times `scale`, in logs.

    factor, by: places in the grid's factors; level, by_level: places in their levels, whose reference is 0.
    For an effect at a level `by_level` is that level. plus, minus: places in the grid's cells, of one length.
    """

    kind: Kind
    factor: int
    level: int
    by: int | None
    by_level: int | None
    plus: tuple[int, ...]
    minus: tuple[int, ...]

    @property
    def scale(self) -> float:
        """Of an interaction each side holds two effects."""
        return 2.0 if self.kind == "interaction" else 1.0


def grid_of(cells: Sequence[dict[str, str]], references: dict[str, str]) -> Grid:
    """The grid of these cells, factors and levels in the order in which they appear.

    references: by factor the level that the others are compared with, else its first. Factors with one level
    are left out.
    """
    names = tuple(dict.fromkeys(name for cell in cells for name in cell))
    levels: dict[str, Levels] = {}
    for name in names:
        found = list(dict.fromkeys(cell[name] for cell in cells if name in cell))
        first = references.get(name, found[0])
        levels[name] = (first, *(level for level in found if level != first))
    kept = tuple(name for name in names if len(levels[name]) > 1)
    return Grid(
        kept,
        tuple(levels[name] for name in kept),
        tuple(tuple(cell.get(name, "") for name in kept) for cell in cells),
    )


def questions(grid: Grid) -> tuple[Question, ...]:
    """Every question of a grid that cells are there for, main effects first."""
    places = {cell: place for place, cell in enumerate(grid.cells)}
    factors = range(len(grid.factors))
    found: list[Question | None] = []
    for factor in factors:
        found += [_effect(grid, places, factor, level) for level in _others(grid, factor)]
    for factor, by in itertools.permutations(factors, 2):
        for level, by_level in itertools.product(_others(grid, factor), range(len(grid.levels[by]))):
            found.append(_effect(grid, places, factor, level, by, by_level))
    for factor, by in itertools.combinations(factors, 2):
        for level, by_level in itertools.product(_others(grid, factor), _others(grid, by)):
            found.append(_interaction(grid, places, (factor, level), (by, by_level)))
    return tuple(each for each in found if each is not None)


def _others(grid: Grid, factor: int) -> range:
    return range(1, len(grid.levels[factor]))


def _with(cell: Levels, factor: int, level: str) -> Levels:
    return (*cell[:factor], level, *cell[factor + 1 :])


def _effect(
    grid: Grid,
    places: dict[Levels, int],
    factor: int,
    level: int,
    by: int | None = None,
    by_level: int | None = None,
) -> Question | None:
    name, reference = grid.levels[factor][level], grid.levels[factor][0]
    pairs = [
        (place, places[_with(cell, factor, reference)])
        for cell, place in places.items()
        if cell[factor] == name and _with(cell, factor, reference) in places
        if by is None or by_level is None or cell[by] == grid.levels[by][by_level]
    ]
    if not pairs:
        return None
    plus, minus = zip(*pairs, strict=True)
    return Question("main" if by is None else "at", factor, level, by, by_level, plus, minus)


def _interaction(
    grid: Grid, places: dict[Levels, int], first: tuple[int, int], second: tuple[int, int]
) -> Question | None:
    (factor, level), (by, by_level) = first, second
    name, reference = grid.levels[factor][level], grid.levels[factor][0]
    by_name, by_reference = grid.levels[by][by_level], grid.levels[by][0]
    plus: list[int] = []
    minus: list[int] = []
    for cell in places:
        if cell[factor] != name or cell[by] != by_name:
            continue
        corner = _with(_with(cell, factor, reference), by, by_reference)
        beside = (_with(cell, factor, reference), _with(cell, by, by_reference))
        if corner in places and all(each in places for each in beside):
            plus += [places[cell], places[corner]]
            minus += [places[each] for each in beside]
    return Question("interaction", factor, level, by, by_level, tuple(plus), tuple(minus)) if plus else None
