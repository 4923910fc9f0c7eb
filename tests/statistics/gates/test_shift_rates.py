"""How often a history without a change shows one, how often a change is found, and where it is said to be."""

import math

import numpy as np
import pytest

from pgassay.analysis.statistics.shifts import LEVEL, shifts
from simulated_noise import NOISES, noise

SERIES, RUNS = 12, 24
FEW = 60
SLOW = [pytest.mark.slow, pytest.mark.timeout(3600)]
MANY = pytest.param(1000, marks=SLOW)


def history(kind, random, *, shared=0.0):
    """Effects of equal systems, with standard errors of their own that are not quite right."""
    own = noise(kind, (SERIES, RUNS), random)
    errors = np.exp(0.3 * random.standard_normal((SERIES, RUNS)))
    return errors * own + shared * random.standard_normal((1, RUNS)), errors


@pytest.mark.parametrize(
    ("kind", "shared", "histories"),
    [
        ("t2.5", 0.0, FEW),
        ("normal", 1.0, FEW),
        *(pytest.param(kind, 0.0, 1000, marks=SLOW) for kind in NOISES),
        pytest.param("normal", 1.0, 1000, marks=SLOW),
    ],
)
def test_a_history_without_a_change_seldom_shows_one(kind, shared, histories):
    random = np.random.default_rng([5, len(kind), int(shared)])
    wrong = sum(
        any(shifts(*history(kind, random, shared=shared), seed=number)) for number in range(histories)
    )
    assert wrong / histories <= LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / histories)


@pytest.mark.parametrize("histories", [40, MANY])
def test_a_change_of_three_standard_errors_is_found_where_it_is(histories):
    random = np.random.default_rng(6)
    found = within = beside = 0
    for number in range(histories):
        values, errors = history("normal", random)
        at = int(random.integers(6, RUNS - 5))
        values[4, at:] += 3.0
        shown = shifts(values, errors, seed=number)
        beside += any(each for place, each in enumerate(shown) if place != 4)
        if shown[4]:
            found += 1
            within += any(shift.earliest <= at <= shift.latest for shift in shown[4])
    assert found / histories >= 0.85 - 2 * math.sqrt(0.85 * 0.15 / histories)
    assert within / found >= 0.9 - 2 * math.sqrt(0.9 * 0.1 / found)
    assert beside / histories <= LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / histories)
