"""Rounds of a start: how many, in which order, what figure comes of them, and which arms can have them."""

import math
from collections import Counter

import pytest

from pgassay.analysis.statistics.start_rounds import start_seconds
from pgassay.design.schedule import round_order
from pgassay.trial.shared_start import planned_turns


@pytest.mark.parametrize(
    ("rehearsed_s", "rounds", "repeats"),
    [
        ([[0.001]] * 3, 60, [10]),
        ([[0.01]] * 3, 33, [1]),
        ([[0.3]] * 3, 5, [0]),
        ([[6.0]] * 3, 3, [0]),
        # Starts are what counts: three rounds of minutes would say no more than one.
        ([[30.0]] * 3, 1, [0]),
        # The slow arm decides for all of them; and so large a difference needs half the rounds.
        ([[0.001], [0.1]], 9, [0]),
        ([[0.3], [0.39]], 3, [0]),
        ([[0.3], [0.38]], 5, [0]),
        # A short statement beside a long one is executed several times in each of the few rounds.
        ([[0.5, 0.001], [0.5, 0.0002]], 5, [0, 10]),
    ],
)
def test_rounds_follow_from_an_execution_that_counts_for_nothing(
    rehearsed_s: list[list[float]], rounds: int, repeats: list[int]
) -> None:
    turns = planned_turns(rehearsed_s)
    assert turns.rounds == rounds and turns.repeats == (tuple(repeats),) * len(rehearsed_s)


def test_arms_of_other_statements_are_repeated_by_their_own() -> None:
    assert planned_turns([[0.001], [0.1, 0.001]]).repeats == ((10,), (0, 10))


def test_what_a_switch_takes_is_a_part_of_each_turn() -> None:
    assert planned_turns([[0.3]] * 3, switch_s=0.0).rounds == 5
    assert planned_turns([[0.01]] * 2, switch_s=0.03).rounds == 20


def test_each_round_has_an_order_of_its_own() -> None:
    orders = [tuple(round_order(7, 2, number, 3)) for number in range(600)]
    assert orders == [tuple(round_order(7, 2, number, 3)) for number in range(600)]
    counts = Counter(orders)
    assert len(counts) == 6 and min(counts.values()) > 60
    assert orders != [tuple(round_order(7, 3, number, 3)) for number in range(600)]


def test_the_ratio_of_two_arms_is_the_median_of_the_rounds_ratios() -> None:
    """What slows a whole round down is taken out, and one round of a checkpoint moves nothing."""
    slowness = [1.0, 1.3, 0.9, 5.0, 1.1]
    first = [[0.1 * each] for each in slowness]
    second = [[0.12 * each] for each in slowness]
    second[2] = [3.0]
    (one,), (other,) = start_seconds([first, second])
    assert math.isclose(other / one, 1.2)


def test_arms_with_more_statements_are_taken_alone() -> None:
    one, other = start_seconds([[[1.0], [2.0], [3.0]], [[1.0, 4.0], [2.0, 4.0], [3.0, 4.0]]])
    assert one == pytest.approx([2.0])
    assert other == pytest.approx([2.0, 4.0])
