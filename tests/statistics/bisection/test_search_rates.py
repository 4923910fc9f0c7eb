"""How often a search for a commit is right, how soon it ends, and what it calls what is no single step."""

from dataclasses import replace

import numpy as np
import pytest

from pgassay.bisecting.run_bisection import LAYOUTS_OF_SEARCH
from samples.searches.simulated import World, searched, step, trials_of_one_who_knows

# Of 60 searches that are right with 95 %, 52 or fewer are with a probability of 0.7 %.
FEW, FEW_RIGHT_MIN = 60, 53
# Of 1000, 932 or fewer are with 0.7 %.
MANY, MANY_RIGHT_MIN = 1000, 933
KNOWING_TIMES_MAX = 1.5
# "One of these 1 to 3 commits."
NAMED_MAX = 3
# Where the noise is larger than the step a search takes several times as many trials. By default the least
# noise and the most, each with a step that stands out of it.
CASES = [
    (0.01, -0.05),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in ((0.03, -0.105), (0.07, -0.105))),
    (0.07, -0.27),
]
LINES = [pytest.param(1000, FEW, FEW_RIGHT_MIN, id="1000")] + [
    pytest.param(last, MANY, MANY_RIGHT_MIN, id=f"{last}-many", marks=pytest.mark.slow)
    for last in (1000, 4000)
]


@pytest.mark.parametrize(
    "tails", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["normal", "tails"]
)
@pytest.mark.parametrize(("spread", "size"), CASES)
@pytest.mark.parametrize(("last", "count", "right_min"), LINES)
def test_one_step_is_found_as_often_as_promised_and_as_soon_as_by_one_who_knows_the_noise(
    last: int, count: int, right_min: int, spread: float, size: float, tails: bool
) -> None:
    random = np.random.default_rng([38, last, round(1000 * spread), round(-1000 * size), tails])
    right, wrong, trials = 0, 0, []
    for _ in range(count):
        commit = int(random.integers(1, last + 1))
        found = searched(step(last, commit, size, spread, tails=tails), random)
        search = found.search
        claimed = [part.left() for part in search.parts if search.is_found(part)]
        # One that names a second step is wrong as well, and one that names nobody is neither.
        wrong += search.is_gradual or any(commit not in left for left in claimed)
        right += [commit in left and len(left) <= NAMED_MAX for left in claimed] == [True]
        trials.append(found.trials)
        assert found.has_begun
    assert right >= right_min
    assert wrong <= count - right_min
    assert np.mean(trials) <= KNOWING_TIMES_MAX * trials_of_one_who_knows(last, size, spread)


def named_wrong(layouts: int, size: float, count: int) -> tuple[int, int]:
    """Of `count` searches where layouts spread by 2 %: how many name the commit, and how many another one."""
    random = np.random.default_rng([44, layouts, round(-1000 * size)])
    right = wrong = 0
    for _ in range(count):
        commit = int(random.integers(1, 201))
        world = replace(step(200, commit, size, 0.01), layout=0.02, layouts=layouts)
        search = searched(world, random).search
        claimed = [part.left() for part in search.parts if search.is_found(part)]
        wrong += search.is_gradual or any(commit not in left for left in claimed)
        right += [commit in left for left in claimed] == [True]
    return right, wrong


@pytest.mark.parametrize(
    "size", [-0.05, *(pytest.param(each, marks=pytest.mark.slow) for each in (-0.03, -0.02))]
)
def test_a_layout_is_not_taken_for_the_speed_of_a_commit(size: float) -> None:
    right, wrong = named_wrong(LAYOUTS_OF_SEARCH, size, FEW)
    assert wrong <= FEW - FEW_RIGHT_MIN
    assert right >= FEW_RIGHT_MIN or size == -0.02, "a step as large as the spread may stay undecided"


@pytest.mark.slow
def test_four_layouts_are_too_few_for_a_search() -> None:
    """Met again and again, each commit's four stay apart from its neighbour's by 1 %."""
    assert named_wrong(4, -0.03, FEW)[1] > FEW // 5


@pytest.mark.parametrize(
    "spread", [0.01, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.03, 0.07))]
)
def test_where_there_is_no_difference_no_commit_is_named(spread: float) -> None:
    random = np.random.default_rng([39, round(1000 * spread)])
    begun = [searched(step(1000, 1, 0.0, spread), random).has_begun for _ in range(FEW)]
    assert sum(begun) <= FEW - FEW_RIGHT_MIN


@pytest.mark.parametrize(
    ("spread", "right_min", "two_min"),
    [
        (0.01, 53, 53),
        pytest.param(0.03, 53, 52, marks=pytest.mark.slow),
        pytest.param(0.07, 46, 37, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_two_steps_are_told_as_two(spread: float, right_min: int, two_min: int) -> None:
    """Of 60; in much noise one of them may be named alone, and few answers are wrong."""
    random = np.random.default_rng([40, round(1000 * spread)])
    right = two = 0
    for _ in range(FEW):
        first, second = sorted(random.choice(np.arange(1, 1001), 2, replace=False).tolist())
        world = World(
            1000,
            lambda place, a=first, b=second: -0.15 * (place >= a) - 0.12 * (place >= b),  # type: ignore[misc]
            spread,
        )
        found = searched(world, random).search
        # Two commits next to each other, or at an end, can be one for all that is measured.
        is_right = all({first, second} & {*part.left()} for part in found.parts) and not found.is_gradual
        right += is_right
        two += is_right and found.was_parted
    assert right >= right_min
    assert two >= two_min


@pytest.mark.parametrize(
    "spread", [0.01, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.03, 0.07))]
)
def test_a_slope_is_neither_one_commit_nor_two(spread: float) -> None:
    random = np.random.default_rng([41, round(1000 * spread)])
    slope = World(1000, lambda place: -0.4 * place / 1000, spread)
    assert sum(searched(slope, random).search.is_gradual for _ in range(FEW // 2)) >= FEW // 2 - 2


def test_what_was_repaired_in_part_is_found_at_one_of_its_steps() -> None:
    random = np.random.default_rng(42)
    right = 0
    for _ in range(FEW):
        first, second = sorted(random.choice(np.arange(1, 1001), 2, replace=False).tolist())
        world = World(
            1000,
            lambda place, a=first, b=second: -0.3 * (place >= a) + 0.15 * (place >= b),  # type: ignore[misc]
            0.03,
        )
        found = searched(world, random).search
        right += all({first, second} & {*part.left()} for part in found.parts)
    assert right >= FEW_RIGHT_MIN


def test_commits_that_do_not_build_stay_with_the_next_that_does() -> None:
    random = np.random.default_rng(43)
    broken = frozenset(range(300, 305))
    right = 0
    for number in range(FEW):
        commit = 299 + number % 8
        found = searched(step(1000, commit, -0.2, 0.02), random, broken).search
        (part,) = found.parts
        right += commit in part.left() and {*part.left()} <= {*range(300, 306)} | {commit}
    assert right >= FEW_RIGHT_MIN
