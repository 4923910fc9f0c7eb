"""What is said of machines' speeds: equal ones are rarely told apart, others are; a step is no chance."""

import math
import re

import numpy as np
import pytest
from scipy.stats import binom

from pgassay.analysis.verdicts.stability import find_step
from pgassay.fleet.machine_facts import ROUNDS
from pgassay.fleet.spreading.machine_differences import LEVEL, speed_facts

NAMES = ("processor_s", "memory_s", "disk_s", "random_read_per_s", "fdatasync_per_s")


def fleet(
    machines: int, spread: float, random: np.random.Generator, slow: float = 0.0
) -> dict[str, dict[str, list[float]]]:
    """Readings of equal machines; of the last one in `slow` (a log ratio) worse."""
    made = {}
    for machine in range(machines):
        change = slow * (machine == machines - 1)
        noise = spread * random.standard_normal((len(NAMES), ROUNDS))
        # Slower is more seconds, and less a second.
        logs = [
            each - change if name.endswith("_per_s") else each + change
            for name, each in zip(NAMES, noise, strict=True)
        ]
        made[f"m{machine}"] = {
            name: (100 * np.exp(each)).tolist() for name, each in zip(NAMES, logs, strict=True)
        }
    return made


@pytest.mark.parametrize(("machines", "spread"), [(2, 0.01), (2, 0.2), (6, 0.05), (30, 0.1)])
def test_equal_machines_are_rarely_told_apart(machines: int, spread: float) -> None:
    random = np.random.default_rng(machines)
    runs = 300 if machines < 10 else 60
    told = sum(
        len({tuple(facts.items()) for facts in speed_facts(fleet(machines, spread, random)).values()}) > 1
        for _ in range(runs)
    )
    assert told <= binom.ppf(0.999, runs, LEVEL)


@pytest.mark.parametrize(("spread", "slow"), [(0.01, 0.08), (0.05, 0.3), (0.2, 1.0)])
def test_a_machine_that_is_slower_than_its_noise_is_told(spread: float, slow: float) -> None:
    random = np.random.default_rng(5)
    is_alone = 0
    for _ in range(20):
        found = speed_facts(fleet(4, spread, random, slow))
        assert all(re.search(r" (slower|as slow) \(", value) for value in found["m3"].values())
        usual = {value for name in ("m0", "m1", "m2") for value in found[name].values()}
        is_alone += all(value.startswith("about ") for value in usual)
    assert is_alone >= 16


def test_what_matters_to_nobody_is_not_told() -> None:
    readings = {"a": {"processor_s": [0.1] * 5}, "b": {"processor_s": [0.1005] * 5}}
    (first, second) = speed_facts(readings).values()
    assert first == second
    assert speed_facts({"a": {"processor_s": [0.1] * 5}, "b": {}}) == {"a": {}, "b": {}}


@pytest.mark.parametrize("blocks", [16, 20, 33])
def test_a_step_is_found_by_chance_once_in_a_thousand_at_most(blocks: int) -> None:
    random = np.random.default_rng(blocks)
    runs = 3000
    for values in (random.standard_normal((runs, blocks)), random.standard_cauchy((runs, blocks))):
        found = sum(find_step(series, 0.0) is not None for series in values)
        assert found <= binom.ppf(0.999, runs, 0.001)


def test_a_machine_that_throttles_once_is_found() -> None:
    random = np.random.default_rng(3)
    for place in (6, 8, 10):
        series = 0.03 * random.standard_normal(16) - 0.3 * (np.arange(16) >= place)
        step = find_step(series, 0.03)
        assert step is not None
        assert step.change == pytest.approx(-0.3, abs=0.06)
    assert find_step(series, math.expm1(0.5)) is None
    assert find_step(np.zeros(40), 0.0) is None
    assert find_step(series[:15], 0.03) is None
