"""Rates of false alarms and of intervals that miss the truth, over 60 looks; the figures are the contract."""

import numpy as np
import pytest

from pgassay.analysis.statistics import ebh
from pgassay.analysis.statistics.contrasts import ContrastSet, adjust
from pgassay.analysis.statistics.eprocess import (
    gather_evidence,
    log_evidence,
    log_evidence_above,
    log_evidence_below,
)
from pgassay.analysis.statistics.sequence import confidence_sequence, median_sequence, point_estimate
from pgassay.analysis.verdicts.verdict import Finding, judge
from pgassay.model.experiment import Contrast
from simulated_noise import NOISES, trials

LOOKS, ALPHA = 60, 0.05
RUNS = pytest.mark.parametrize("runs", [1000, pytest.param(4000, marks=pytest.mark.slow)])


def alarms(members: np.ndarray, alpha: float = ALPHA) -> float:
    """The share of runs in which the evidence against no effect ever reached 1/α."""
    return float((log_evidence(gather_evidence(members)).max(axis=-1) >= np.log(1 / alpha)).mean())


@RUNS
@pytest.mark.parametrize(
    "members", [pytest.param(2, id="paired", marks=pytest.mark.slow), pytest.param(3, id="pooled")]
)
@pytest.mark.parametrize("kind", NOISES)
def test_type_one_error_and_uniform_miscoverage(kind, members, runs):
    random = np.random.default_rng([1, members, NOISES.index(kind)])
    values = trials(kind, runs, LOOKS, members, random)
    assert 0.020 <= alarms(values) <= 0.045

    # The truth leaves the running interval exactly when one side's evidence against it reaches 2/α.
    effect, target = 0.05, np.log(2 / ALPHA)
    values[..., 0] += effect
    evidence = gather_evidence(values)
    sides = log_evidence_above(evidence, effect), log_evidence_below(evidence, effect)
    missed = np.maximum(*sides).max(axis=-1) >= target
    assert 0.020 <= missed.mean() <= 0.045

    few = slice(0, 150)
    ends = confidence_sequence(gather_evidence(values[few]), ALPHA, running=True)
    assert np.array_equal((ends.lower > effect) | (ends.upper < effect), missed[few])


@RUNS
@pytest.mark.parametrize("kind", NOISES)
def test_a_position_that_is_off_raises_no_alarm(kind, runs):
    """One of three trials of a block is slower by its place; random order makes it harmless."""
    random = np.random.default_rng([2, NOISES.index(kind)])
    values = trials(kind, runs, LOOKS, 3, random)
    places = random.permuted(np.broadcast_to(np.arange(3), values.shape), axis=-1)
    assert alarms(values - 0.05 * (places == 0)) <= 0.045


@RUNS
@pytest.mark.parametrize("kind", NOISES)
def test_an_arm_that_rests_by_what_earlier_blocks_said_raises_no_alarm(kind, runs):
    """It rests in every other block while its sum is behind, as where nobody waits for it any more."""
    random = np.random.default_rng([7, NOISES.index(kind)])
    values = trials(kind, runs, 2 * LOOKS, 3, random)
    difference = values[..., 0] - values[..., 1:].mean(axis=-1)
    sums, took_part = np.zeros(runs), np.empty(difference.shape, dtype=bool)
    for block in range(2 * LOOKS):
        took_part[:, block] = (sums >= 0) | (block % 2 == 0)
        sums += np.where(took_part[:, block], difference[:, block], 0.0)
    first = np.argsort(~took_part, axis=1, kind="stable")[:, :LOOKS]
    assert np.take_along_axis(took_part, first, axis=1).all() and not took_part.all()
    assert alarms(np.take_along_axis(values, first[..., np.newaxis], axis=1)) <= 0.045


@RUNS
def test_a_fixed_order_raises_alarms_and_a_random_one_does_not(runs):
    """The first trial of each block is half a standard deviation faster."""
    random = np.random.default_rng(3)
    spread = 0.02
    values = trials("normal", runs, LOOKS, 2, random, paired_spread=spread)
    fixed = values.copy()
    fixed[..., 0] += 0.5 * spread
    assert alarms(fixed) >= 0.70

    first = random.integers(0, 2, size=values.shape[:2])
    randomised = values + 0.5 * spread * (np.arange(2) == first[..., np.newaxis])
    assert alarms(randomised) <= 0.045


def four_contrasts() -> tuple[dict[str, int], tuple[Contrast, ...]]:
    """Control in column 0, its twin in column 1, four arms after them."""
    columns = {name: place for place, name in enumerate(("c", "t", "a0", "a1", "a2", "a3"))}
    arms = ("a0", "a1", "a2", "a3")
    return columns, tuple(Contrast(arm_id=arm, control_id="c", twin_id="t", stratum="") for arm in arms)


@pytest.mark.parametrize(
    "effects",
    [
        pytest.param((0, 0, 0, 0), id="all-null", marks=pytest.mark.slow),
        pytest.param((0.03, 0, 0.1, 0), id="mixed"),
    ],
)
def test_family_wise_error_of_the_words(effects):
    """No direction for an arm without an effect: ContrastSet and judge, as compare uses them."""
    random = np.random.default_rng(4)
    runs, blocks = 500, 30
    columns, contrasts = four_contrasts()
    values = trials("t2.5", runs, blocks, 6, random)
    values[..., 2:] += np.array(effects)
    # A run takes the place of a measure: the contrasts of every run are judged by one call.
    found = ContrastSet(values, columns, contrasts, pool_twin=True)
    level = ALPHA / len(contrasts)
    estimates, ends = found.effects(), found.intervals(level, running=True)
    guard = found.median_intervals(level)
    wrong, right = 0, 0
    for run in range(runs):
        words = [
            judge(
                Finding(
                    estimates[run, place],
                    ends.lower[run, place],
                    ends.upper[run, place],
                    guard.lower[run, place],
                    guard.upper[run, place],
                ),
                0.0001,
            ).verdict
            for place in range(4)
        ]
        wrong += any(
            word in ("faster", "slower") for word, effect in zip(words, effects, strict=True) if not effect
        )
        right += sum(word == "faster" for word, effect in zip(words, effects, strict=True) if effect)
    assert wrong / runs <= 0.06
    if any(effects):
        assert right / (2 * runs) >= 0.95


def test_false_discoveries_of_statements():
    """e-BH over 20 hypotheses, half of them true nulls that share their controls' noise."""
    random = np.random.default_rng(5)
    runs, blocks, hypotheses = 2000, 20, 20
    values = trials("skewed", runs, blocks, hypotheses + 2, random)
    is_real = np.arange(hypotheses) % 2 == 0
    values[..., 2:] += np.where(is_real, 0.02, 0.0)
    proportions, power = [], []
    evidences = np.stack(
        [
            log_evidence(gather_evidence(values[..., [2 + place, 0, 1]]))[..., -1]
            for place in range(hypotheses)
        ],
        axis=-1,
    )
    for row in evidences:
        selected = ebh.select(row, ALPHA).selected
        proportions.append((selected & ~is_real).sum() / max(1, selected.sum()))
        power.append(selected[is_real].mean())
    assert np.mean(proportions) <= 0.06
    assert np.mean(power) >= 0.5


@RUNS
def test_an_adjustment_by_the_canary_keeps_the_error_and_narrows_the_interval(runs):
    random = np.random.default_rng(6)
    blocks = LOOKS
    speed = 0.02 * random.standard_normal((runs, blocks, 3))
    values = trials("normal", runs, blocks, 3, random, paired_spread=0.01) + 1.5 * speed
    adjusted = adjust(values, -speed)
    assert alarms(adjusted) <= 0.045
    raw = confidence_sequence(gather_evidence(values[:200]), ALPHA, running=False)
    better = confidence_sequence(gather_evidence(adjusted[:200]), ALPHA, running=False)
    assert np.median(better.upper - better.lower) < 0.6 * np.median(raw.upper - raw.lower)


def test_the_guard_withholds_direction_when_only_the_shape_changed():
    """An arm with rare long stalls and an equal mean fools a mean-like method; the guard says so."""
    random = np.random.default_rng(7)
    runs, blocks = 600, LOOKS
    values = trials("normal", runs, blocks, 2, random)
    values[..., 0] += -0.4 * (random.random((runs, blocks)) < 0.1) + 0.04
    evidence = gather_evidence(values)
    estimate, ends = point_estimate(evidence), confidence_sequence(evidence, ALPHA, running=True)
    guard = median_sequence(values[..., 0] - values[..., 1], ALPHA)
    told = (ends.lower > 0) | (ends.upper < 0)
    mistrusted = (estimate < guard.lower) | (estimate > guard.upper)
    assert told.mean() >= 0.30
    assert (told & ~mistrusted).mean() <= 0.045

    equal = trials("skewed", runs, blocks, 2, random)
    estimate = point_estimate(gather_evidence(equal))
    guard = median_sequence(equal[..., 0] - equal[..., 1], ALPHA)
    assert ((estimate < guard.lower) | (estimate > guard.upper)).mean() <= ALPHA
