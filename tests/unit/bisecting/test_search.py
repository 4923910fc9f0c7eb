"""The search's own decisions: what is measured next, what needs no measuring, when it parts the line."""

import numpy as np
import pytest

from pgassay.analysis.bisection.block_likelihood import MeasuredBlock
from pgassay.analysis.bisection.line_search import Line
from pgassay.analysis.bisection.search import RULES, STEPLESS_BLOCKS, LinePart, Search
from pgassay.experiment.planning.experiment_plan import CLIPPED_SHARE, SHARPNESS, SHARPNESS_WEIGHTS
from samples.searches.simulated import World, searched, step

ENDS = MeasuredBlock((0, 0, 100), (0.0, 0.002, -0.2))


def test_sizes_are_judged_as_new_experiments_are() -> None:
    assert RULES.sharpness == SHARPNESS
    assert RULES.weights == SHARPNESS_WEIGHTS
    assert RULES.clipped_share == CLIPPED_SHARE


def _line(last: int = 100) -> Line:
    line = Line(last)
    for shift in (0.0, 0.01, -0.01, 0.02):
        line.observe(MeasuredBlock((0, 0, last), (shift, shift + 0.002, shift - 0.2)))
    return line


def test_after_the_ends_the_quarters_are_measured() -> None:
    line = _line()
    assert line.has_step
    assert line.next_places() == (25, 50, 75)


def test_places_that_do_not_build_are_passed_over() -> None:
    assert not {49, 50, 51} & {*_line().next_places({49, 50, 51})}


def test_equal_programs_exclude_what_lies_between_them_without_a_trial() -> None:
    line = _line()
    line.alike(0, 40)
    assert line.left() == list(range(41, 101))
    assert min(line.next_places()) > 40


def test_equal_programs_on_both_sides_leave_one_commit() -> None:
    """Neither side needs a trial of its own: each is what an end is."""
    search = Search(100)
    for block in _line().blocks:
        search.observe(search.parts[0], block)
    search.alike(0, 59)
    search.alike(60, 100)
    assert search.parts[0].left() == [60]
    assert search.next_round() is None
    assert search.is_found(search.parts[0])


def test_one_commit_that_equal_programs_leave_is_judged_by_the_ends_alone() -> None:
    """Of places that build what an end does none is chosen, which would come to nothing again and again."""
    search = Search(100)
    search.alike(0, 59)
    search.alike(60, 100)
    for block in _line().blocks:
        wanted = search.next_round()
        if wanted is None:
            break
        assert wanted.members == (0, 100)
        search.observe(wanted.part, block)
    assert len(search.blocks) >= 2
    assert search.next_round() is None
    assert search.is_found(search.parts[0])
    assert search.parts[0].left() == [60]


def test_equal_ends_of_a_part_are_given_up() -> None:
    search = Search(200)
    search.parts = [LinePart(0, 100, Line(100, 0.025), 1), LinePart(100, 200, Line(100, 0.025), 1)]
    search.alike(0, 59)
    search.alike(60, 100)
    part = search.parts[0]
    while (wanted := search.next_round()) is not None and wanted.part is part:
        for shift in np.linspace(-0.02, 0.02, wanted.blocks):
            search.observe(part, MeasuredBlock((0, 0, 100), (shift, 0.002 - shift, 0.001 * shift)))
    assert part.is_stepless


@pytest.mark.parametrize("last", [1, 50])
def test_what_the_ends_have_shown_is_searched_for_however_noisy_the_trials_are(last: int) -> None:
    """A step as large as the spread of a trial: the ends took more blocks than a part gets to show one."""
    for seed in range(8):
        world, random = step(last, 1 if last == 1 else 20, -0.05, 0.05), np.random.default_rng(seed)
        search = searched(world, random, told_after=STEPLESS_BLOCKS).search
        (part,) = search.parts
        assert search.is_found(part), seed
        assert part.left() == [1 if last == 1 else 20], seed


def test_a_commit_that_was_reverted_and_applied_again_is_the_later_of_the_two() -> None:
    """Places 1, 2 and 3 build what 3, 0 and 1 do: the last step from good to bad is with 3, in any order."""
    block = MeasuredBlock((0, 0, 3), (0.0, 0.0, -0.2))
    for pairs in (((0, 2), (1, 3)), ((1, 3), (0, 2)), ((0, 2),)):
        line = Line(3, blocks=[block], ends_differ=True)
        for low, high in pairs:
            line.alike(low, high)
        assert line.left() == [3] and line.is_found(), pairs


def test_equal_programs_exclude_nothing_where_another_lies_between_them() -> None:
    """Commits 41 to 43 of 100: applied, reverted, applied again; neither has the programs of an end."""
    line = _line()
    line.observe(MeasuredBlock((0, 0, 41, 42, 100), (0.0, 0.0, -0.2, 0.0, -0.2)))
    line.alike(40, 42)
    line.alike(41, 43)
    assert {41, 42, 43} <= {*line.left()}
    assert line.next_places()


def test_where_nothing_is_left_nothing_is_measured() -> None:
    line = _line()
    line.alike(0, 100)
    assert line.left() == [] and line.next_places() == ()


def test_a_place_that_was_measured_and_then_failed_is_not_taken_again() -> None:
    line = _line()
    line.observe(MeasuredBlock((0, 0, 25, 50, 75, 100), (0.0, 0.0, -0.1, -0.1, -0.1, -0.2)))
    assert not {25, 50, 75} & {*line.next_places({25, 50, 75})}


def test_around_a_likely_commit_both_of_its_sides_are_measured() -> None:
    line = _line()
    for shift in (0.0, 0.01):
        line.observe(MeasuredBlock((0, 0, 40, 41, 100), (shift, shift, shift, shift - 0.2, shift - 0.2)))
    assert line.next_places() == (40, 41)


def test_the_posterior_excludes_nothing() -> None:
    """After one block the peak is likely, and nothing is excluded yet."""
    line = _line()
    line.observe(MeasuredBlock((0, 0, 40, 41, 100), (0.0, 0.0, 0.0, -0.2, -0.2)))
    assert line.posterior()[41] > 0.5
    assert len(line.left()) == 100


def test_a_commit_that_is_like_neither_end_parts_the_line() -> None:
    world = World(100, lambda place: -0.2 * (place >= 30) - 0.2 * (place >= 70), 0.01)
    found = searched(world, np.random.default_rng(1)).search
    assert found.was_parted
    assert [part.left() for part in found.parts] == [[30], [70]]
    assert not found.is_gradual


def test_a_speed_up_is_found_as_a_slow_down_is() -> None:
    found = searched(step(100, 33, 0.2, 0.02), np.random.default_rng(2)).search
    assert [part.left() for part in found.parts] == [[33]]
