"""Starts whose rounds end by their own noise: equal arms get no direction by it, and rounds tell most.

As a start runs (`trial/shared_start.py`): after each round from the third on the rule is asked, and the
figures are those of the rounds so far.
"""

import math

import numpy as np
import pytest

from pgassay.analysis.statistics.joined_evidence import EitherWillDo
from pgassay.analysis.statistics.start_rounds import CLEAR_ERROR_MAX, is_exact_enough, start_figures
from pgassay.analysis.statistics.starts import gather_start_evidence

ALPHA, LOOKS, ROUNDS_MAX = 0.05, 8, 30
ARM = [(0, (1, 2))]
START_S, ROUND_S = 12.0, 0.9
RUNS = [pytest.param(100, id="100"), pytest.param(4000, id="4000", marks=pytest.mark.slow)]


def noise(kind: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """What rounds do to each arm, with about the standard deviation 1."""
    if kind == "tails":
        return random.standard_t(3, shape) / math.sqrt(3)
    made = random.standard_normal(shape)
    if kind == "rare jumps":
        made -= 20.0 * (random.random(shape) < 0.02)
    if kind == "noisy arm":
        made[..., 0] *= 3.0
    return made


def rounds_of(logs: np.ndarray, start_s: float = START_S, round_s: float = ROUND_S) -> int:
    """How many rounds a start has whose rounds would be `logs`, (rounds, arms)."""
    for rounds in range(3, len(logs)):
        if is_exact_enough(logs[np.newaxis, :rounds], ARM, start_s, round_s):
            return rounds
    return len(logs)


def figures(
    kind: str, between: float, within: float, runs: int, random: np.random.Generator, effect: float = 0.0
) -> np.ndarray:
    """The figures of starts, (runs, starts, arms), each of as many rounds as the rule gives it."""
    of_starts = between * random.standard_normal((runs, LOOKS, 1, 3))
    logs = of_starts + within * noise(kind, (runs, LOOKS, ROUNDS_MAX, 3), random)
    logs[..., 0] += effect
    logs += 0.2 * random.standard_normal((runs, LOOKS, ROUNDS_MAX, 1))
    ended = [[start_figures(of_start[: rounds_of(of_start)]).values for of_start in run] for run in logs]
    return np.array(ended)


def excluded(evidence: EitherWillDo, effect: float) -> float:
    """In how many experiments an effect is outside of the interval after some start from the third on."""
    highest = np.maximum(evidence.log_highest_above(effect), evidence.log_highest_below(effect))
    return float((highest[:, 2:] >= math.log(2 / ALPHA)).any(axis=-1).mean())


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(
    ("between", "within"),
    [
        pytest.param(0.0, 0.01, marks=pytest.mark.slow),
        (0.01, 0.03),
        pytest.param(0.01, 0.2, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("kind", ["normal", "tails", "rare jumps", "noisy arm"])
def test_equal_arms_seldom_get_a_direction_by_when_their_rounds_end(
    kind: str, between: float, within: float, runs: int
) -> None:
    random = np.random.default_rng(hash_of(kind, between, within))
    evidence = gather_start_evidence(figures(kind, between, within, runs, random))
    false = excluded(evidence, 0.0)
    assert false <= ALPHA + 3.1 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("effect", [0.05, 0.2, 2.0])
def test_the_interval_has_the_effect_however_soon_a_clear_difference_ends_the_rounds(
    effect: float, runs: int
) -> None:
    random = np.random.default_rng(hash_of("effect", effect, 0.0))
    evidence = gather_start_evidence(figures("normal", 0.01, 0.05, runs, random, effect))
    missed = excluded(evidence, effect)
    assert missed <= ALPHA + 3.1 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


def hash_of(kind: str, one: float, other: float) -> list[int]:
    """A seed that is the same in every run."""
    return [sum(map(ord, kind)), round(1000 * one), round(1000 * other)]


@pytest.mark.parametrize(("within", "start_s"), [(0.01, 3.0), (0.02, 3.0), (0.02, 12.0), (0.05, 12.0)])
def test_rounds_are_as_many_as_tell_most_in_a_given_time(within: float, start_s: float) -> None:
    """Of starts that differ by 1 %: the variance that a second leaves is within 10 % of the smallest."""
    random = np.random.default_rng(5)
    found = [
        rounds_of(within * random.standard_normal((200, 3)), start_s=start_s, round_s=0.5) for _ in range(200)
    ]
    rounds = np.arange(3, 200)

    def left(count: np.ndarray) -> np.ndarray:
        # The arm against the mean of two controls, and the median in the place of the mean.
        of_rounds = 1.5 * within**2 * math.pi / 2
        return (0.01**2 + of_rounds / count) * (start_s + 0.5 * count)

    assert float(np.mean(left(np.array(found)))) <= 1.15 * float(left(rounds).min())


@pytest.mark.parametrize("between", [0.01, 0.05])
@pytest.mark.parametrize("within", [0.05, 0.3])
def test_rounds_take_no_longer_than_the_start_and_leave_at_most_twice_the_smallest_variance(
    within: float, between: float
) -> None:
    """Of starts that differ by more than is assumed, on a machine where rounds are noisy."""
    random, start_s, round_s = np.random.default_rng(8), 2.0, 0.25
    found = [
        rounds_of(within * random.standard_normal((400, 3)), start_s=start_s, round_s=round_s)
        for _ in range(50)
    ]
    assert max(found) <= start_s / round_s
    rounds = np.arange(3, 2000)

    def left(count: np.ndarray) -> np.ndarray:
        return (between**2 + 1.5 * within**2 * math.pi / 2 / count) * (start_s + round_s * count)

    assert float(np.mean(left(np.array(found)))) <= 2.0 * float(left(rounds).min())


def test_a_clear_difference_takes_few_rounds_and_a_small_one_in_the_same_noise_many() -> None:
    random = np.random.default_rng(6)
    logs = 0.1 * random.standard_normal((200, 200, 3))
    small = np.median([rounds_of(each, start_s=60.0) for each in logs])
    clear = np.median([rounds_of(each + np.array([2.0, 0.0, 0.0]), start_s=60.0) for each in logs])
    assert clear <= 4 and small >= 5 * clear
    errors = [start_figures(each[: int(clear), :]).errors[1] for each in logs]
    assert float(np.median(errors)) <= CLEAR_ERROR_MAX


def test_of_several_statements_half_decide_and_arms_that_never_vary_are_exact_at_once() -> None:
    exact, noisy = np.zeros((3, 3)), np.random.default_rng(7).standard_normal((3, 3))
    assert is_exact_enough(np.stack([exact, noisy]), ARM, START_S, ROUND_S)
    assert not is_exact_enough(np.stack([exact, noisy, noisy]), ARM, START_S, ROUND_S)
    assert not is_exact_enough(exact[np.newaxis, :1], ARM, START_S, ROUND_S)
