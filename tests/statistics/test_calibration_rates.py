"""What a calibration says of levels, copies and two speeds, as often right as it claims to be."""

import itertools
import math

import numpy as np
import pytest

from pgassay.analysis.calibration import variance
from pgassay.analysis.calibration.speed_modes import modes
from pgassay.analysis.calibration.variance import LevelCost, MeanSquare
from pgassay.analysis.calibration.variance_levels import MeasuredLevels, copy_effect
from pgassay.analysis.causes.rank import gain_interval
from pgassay.analysis.statistics.contrasts import adjust
from pgassay.analysis.statistics.eprocess import FloatArray, gather_evidence, log_evidence
from simulated_noise import NOISES, noise

RUNS = pytest.mark.parametrize("runs", [250, pytest.param(1000, marks=pytest.mark.slow)])


def slack(rate: float, runs: int) -> float:
    """Three standard errors of a share over so many runs."""
    return 3 * math.sqrt(rate * (1 - rate) / runs)


def measured(logs: FloatArray) -> MeasuredLevels:
    """Equal arms on copies of their own."""
    blocks, arms = logs.shape
    return MeasuredLevels(logs, [list(range(arms))] * blocks, [])


@RUNS
@pytest.mark.parametrize(("copies", "spread"), [(3, 0.0), (3, 0.01), (3, 0.05), (6, 0.02), (9, 0.01)])
def test_the_interval_of_the_copies_spread_holds_it(copies: int, spread: float, runs: int) -> None:
    random = np.random.default_rng([1, copies, round(1000 * spread)])
    held = found = 0
    variances = []
    for _ in range(runs):
        logs = (
            0.1 * random.standard_normal((12, 1))
            + spread * random.standard_normal(copies)
            + 0.02 * random.standard_normal((12, copies))
        )
        effect = copy_effect(measured(logs), "host")
        assert effect is not None
        low, high = effect.interval
        held += low <= spread <= high
        found += effect.differ
        between = MeanSquare(float(12 * np.var(logs.mean(axis=0), ddof=1)), copies - 1)
        residuals = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
        degrees = 11 * (copies - 1)
        within = MeanSquare(float((residuals**2).sum() / degrees), degrees)
        variances.append(variance.component(between, within, 12).variance)
    assert held / runs >= 0.95 - slack(0.05, runs)
    assert held / runs <= 0.99, "an interval much wider than it says is not a better"
    error = np.std(variances) / math.sqrt(runs)
    assert np.mean(variances) == pytest.approx(spread**2, abs=4 * error), "the component is unbiased"
    if spread == 0:
        assert found / runs <= 0.025 + slack(0.025, runs)
    if spread == 0.05:
        assert found / runs >= 0.9


@pytest.mark.parametrize("runs", [150, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", NOISES)
def test_equal_copies_give_no_evidence_and_unequal_ones_do(kind: str, runs: int) -> None:
    """At any look: the largest evidence of twelve looks reaches 20 in at most 5 % of experiments."""
    random = np.random.default_rng([2, NOISES.index(kind)])
    false = true = 0
    for _ in range(runs):
        logs = 0.1 * random.standard_normal((24, 1)) + 0.02 * noise(kind, (24, 3), random)
        far = logs + np.array([0.04, 0.0, -0.04])
        looks = range(2, 25, 2)
        false += max(evidence(logs[:look]) for look in looks) >= 20
        true += evidence(far) >= 20
    assert false / runs <= 0.05 + slack(0.05, runs)
    assert true / runs >= 0.8


def evidence(logs: FloatArray) -> float:
    effect = copy_effect(measured(logs), "host")
    assert effect is not None and effect.evidence is not None
    return effect.evidence


@RUNS
def test_three_nested_levels_are_told_apart_without_bias(runs: int) -> None:
    random = np.random.default_rng(3)
    measurement, start = 0.03, 0.02
    squares, starts, held = [], [], 0
    for _ in range(runs):
        values = start * random.standard_normal((20, 1)) + measurement * random.standard_normal((20, 3))
        values = values + np.array([0.0, 0.1, 0.1])  # the first after a start is always slower
        within = variance.mean_square_within(values)
        between = MeanSquare(float(3 * np.var(values.mean(axis=1), ddof=1)), 19)
        made = variance.component(between, within, 3)
        squares.append(within.value)
        starts.append(made.variance)
        held += made.lower <= start**2 <= made.upper
    assert np.mean(squares) == pytest.approx(measurement**2, rel=0.02)
    assert np.mean(starts) == pytest.approx(start**2, rel=0.05)
    assert 0.95 - slack(0.05, runs) <= held / runs <= 0.99


@pytest.mark.parametrize(
    ("variances", "costs"),
    [
        ((9e-4, 4e-4, 1e-4), (0.5, 6.0, 60.0)),
        ((1e-4, 1e-4, 1e-4), (1.0, 1.0, 1.0)),
        ((4e-3, 1e-4, 1e-5), (0.1, 5.0, 9.0)),
    ],
)
def test_no_other_repetitions_give_a_narrower_interval_in_the_same_time(
    variances: tuple[float, float, float], costs: tuple[float, float, float]
) -> None:
    def price(first: int, second: int) -> float:
        """Variance of the mean times the time for it, per unit of the outermost level."""
        spent = (costs[0] * first + costs[1]) * second + costs[2]
        return spent * ((variances[0] / first + variances[1]) / second + variances[2])

    levels = [LevelCost(*pair) for pair in zip(variances, costs, strict=True)]
    first, second, outermost = variance.repetitions(levels, 0.03)
    assert first is not None and second is not None and outermost is not None
    best = min(price(*counts) for counts in itertools.product(range(1, 60), range(1, 60)))
    assert price(first, second) <= 1.15 * best, "whole numbers are rounded up"
    narrower = variance.repetitions(levels, 0.01)[2]
    assert narrower is not None and narrower > outermost >= 2


@RUNS
def test_the_outermost_repetitions_hold_the_interval_to_the_margin(runs: int) -> None:
    random = np.random.default_rng(4)
    count = variance.repetitions([LevelCost(0.02**2, 1.0)], 0.03)[0]
    assert count is not None
    values = 0.02 * random.standard_normal((runs, 2, count))
    difference = values[:, 0].mean(axis=1) - values[:, 1].mean(axis=1)
    assert np.mean(np.abs(difference) <= math.log(1.03)) >= 0.95 - slack(0.05, runs)


@RUNS
@pytest.mark.parametrize("kind", ["normal", "t2.5"])
@pytest.mark.parametrize("blocks", [6, 12, 40])
def test_one_speed_is_not_taken_for_two_and_readings_of_nothing_tell_nothing(
    kind: str, blocks: int, runs: int
) -> None:
    random = np.random.default_rng([5, blocks, len(kind)])
    found = declared = told = 0
    for _ in range(runs):
        logs = 0.02 * noise(kind, (blocks, 3), random)
        readings = {name: 0.1 * noise(kind, (blocks, 3), random) for name in ("canary", "memory", "disk")}
        made = modes(logs, readings)  # type: ignore[arg-type]  # the names are those of covariates
        assert made is not None
        found += made.found
        declared += made.declare is not None
        told += any(fit.tells for fit in made.covariates)
    assert found / runs <= 0.01 + slack(0.01, runs)
    assert declared / runs <= 0.01 + slack(0.01, runs)
    # With heavy tails in both the t test of a slope is a little off.
    assert told / runs <= (0.01 if kind == "normal" else 0.03) + slack(0.01, runs)


def two_speeds(runs: int, blocks: int, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Log speeds of equal arms and the log of a reading before each, shape (runs, blocks, 3).

    A slow phase takes about six trials, two blocks, and a fast one as long; the slow speed is a quarter less.
    The reading tells the phase, but not exactly.
    """
    stays = random.random((runs, 3 * blocks)) >= 1 / 6
    slow = np.empty((runs, 3 * blocks), dtype=bool)
    slow[:, 0] = random.random(runs) < 0.5
    for trial in range(1, 3 * blocks):
        slow[:, trial] = np.where(stays[:, trial], slow[:, trial - 1], ~slow[:, trial - 1])
    in_order = slow.reshape(runs, blocks, 3)
    places = random.permuted(np.broadcast_to(np.arange(3), in_order.shape), axis=-1)
    modes_of_arms = np.take_along_axis(in_order, places, axis=-1)
    speeds = -0.3 * modes_of_arms + 0.02 * random.standard_normal(in_order.shape)
    return speeds, 0.8 * modes_of_arms + 0.05 * random.standard_normal(in_order.shape)


def first_look(values: FloatArray, reach: float = math.log(20)) -> FloatArray:
    """The block at which each run is decided; infinite where it is not."""
    over = log_evidence(gather_evidence(values)) >= reach
    return np.where(over.any(axis=-1), over.argmax(axis=-1) + 1.0, np.inf)


@RUNS
def test_a_covariate_that_tells_the_speed_decides_sooner_and_keeps_the_error(runs: int) -> None:
    random = np.random.default_rng(6)
    speeds, reading = two_speeds(runs, 60, random)
    false = np.isfinite(first_look(adjust(speeds, reading))).mean()
    assert false <= 0.05 + slack(0.05, runs)
    blind = np.isfinite(first_look(adjust(speeds, random.standard_normal(speeds.shape)))).mean()
    assert blind <= 0.05 + slack(0.05, runs), "one that tells nothing does no harm either"

    speeds[..., 0] += 0.05
    without = np.median(first_look(speeds))
    adjusted = np.median(first_look(adjust(speeds, reading)))
    assert adjusted <= 0.6 * without


def test_two_speeds_are_found_with_the_covariate_that_tells_them() -> None:
    random = np.random.default_rng(7)
    runs = 300
    speeds, reading = two_speeds(runs, 20, random)
    found = declared = 0
    shrinks = []
    for logs, told in zip(speeds, reading, strict=True):
        made = modes(logs, {"canary": random.standard_normal(logs.shape), "memory": told})
        assert made is not None
        found += made.found
        declared += made.declare == "memory"
        if made.ratio is not None:
            assert 1.2 < made.ratio < 1.5
            assert made.slow_share is not None and 0 < made.slow_share < 1
        shrinks += [fit.spread for fit in made.covariates if fit.name == "memory"]
    assert found / runs >= 0.9
    assert declared / runs >= 0.95
    assert np.median(shrinks) < 0.04, "what is left of a spread of about 0.15"


@RUNS
@pytest.mark.parametrize("trials", [2, 3, 8])
def test_the_interval_of_a_predicted_gain_holds_it(trials: int, runs: int) -> None:
    random = np.random.default_rng([8, trials])
    held = 0
    for _ in range(runs):
        gains = np.exp(math.log(1.8) + 0.05 * random.standard_normal(trials))
        ends = gain_interval(float(np.sort(gains)[(trials - 1) // 2]), [float(each) for each in gains])
        assert ends is not None
        held += ends[0] <= 1.8 <= ends[1]
    assert held / runs >= 0.95 - slack(0.05, runs)
    assert held / runs <= 0.99
