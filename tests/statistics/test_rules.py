"""The rules of new experiments: the grid of sharpness, the first scale, equivalence at α on each side."""

import numpy as np
import pytest

from pgassay.analysis.statistics.eprocess import (
    BASE_RULES,
    BoolArray,
    EvidenceRules,
    FloatArray,
    gather_evidence,
    log_evidence_above,
    log_evidence_below,
)
from pgassay.analysis.statistics.equivalence import equivalence_path, interval_level, log_margin
from pgassay.analysis.statistics.power import blocks_for_detection, blocks_for_equivalence, minimum_blocks
from pgassay.experiment.planning.experiment_plan import SHARPNESS, SHARPNESS_WEIGHTS
from simulated_noise import trials

ALPHA, MARGIN = 0.05, 0.03
NEW_RULES = EvidenceRules(SHARPNESS, 0.05, SHARPNESS_WEIGHTS)
NEVER = 10**9
# Experiments drawn at once: what their evidence takes in memory is bounded.
TOGETHER = 50


def drawn(runs: int, blocks: int, members: int, cv: float, effect: float, seed: int) -> FloatArray:
    """Log speeds of pooled blocks whose single trials have this coefficient of variation."""
    random = np.random.default_rng([41, seed, blocks, round(1000 * cv), round(1000 * effect)])
    spread = float(np.sqrt(2 * np.log1p(cv**2)))
    values = trials("normal", runs, blocks, members, random, paired_spread=spread)
    values[..., 0] += np.log1p(effect)
    return values


def direction_found(values: FloatArray, rules: EvidenceRules) -> BoolArray:
    """After each block whether the running interval excludes no effect, (runs, blocks)."""
    evidence = gather_evidence(values, rules)
    both = np.maximum(log_evidence_above(evidence), log_evidence_below(evidence))
    found: BoolArray = np.maximum.accumulate(both, axis=-1) >= np.log(2 / ALPHA)
    return found


def blocks_until(found: BoolArray, least: int) -> FloatArray:
    """The first block of each run at which it is found, `least` or later; NEVER if it is not."""
    counted = found[:, least - 1 :]
    return np.where(counted.any(axis=-1), counted.argmax(axis=-1) + least, NEVER)


def direction_blocks(
    rules: EvidenceRules, cv: float, effect: float, *, runs: int, blocks: int, seed: int = 1
) -> FloatArray:
    least = minimum_blocks(pooled=True)
    parts = [
        blocks_until(direction_found(drawn(TOGETHER, blocks, 3, cv, effect, seed + part), rules), least)
        for part in range(runs // TOGETHER)
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize(
    ("cv", "known", "unknown", "runs"), [(0.01, 5, 5, 200), (0.03, 8, 8, 400), (0.07, 30, 33, 400)]
)
def test_median_blocks_for_five_percent(cv, known, unknown, runs):
    """15, 21 and 84 trials where the first scale is known, with room for the chance of so few runs."""
    scale = cv * np.sqrt(1.5)
    blocks = 30 if cv < 0.05 else 130
    found = direction_blocks(
        EvidenceRules(SHARPNESS, scale, SHARPNESS_WEIGHTS), cv, 0.05, runs=runs, blocks=blocks
    )
    assert np.median(found) <= known
    assert np.median(direction_blocks(NEW_RULES, cv, 0.05, runs=runs, blocks=blocks)) <= unknown


@pytest.mark.slow
@pytest.mark.parametrize(("cv", "most", "blocks"), [(0.01, 5, 12), (0.03, 7, 40), (0.07, 28, 130)])
def test_median_blocks_for_five_percent_with_many_runs(cv, most, blocks):
    rules = EvidenceRules(SHARPNESS, float(f"{cv * np.sqrt(1.5):.3g}"), SHARPNESS_WEIGHTS)
    assert np.median(direction_blocks(rules, cv, 0.05, runs=6000, blocks=blocks)) <= most


def test_the_wide_grid_finds_a_small_effect_in_noise_sooner():
    """+2 % where single trials spread by 7 %: the same draws by both rules."""
    old = direction_blocks(BASE_RULES, 0.07, 0.02, runs=150, blocks=900)
    new = direction_blocks(NEW_RULES, 0.07, 0.02, runs=150, blocks=900)
    assert np.mean(new) <= 0.88 * np.mean(old)
    assert np.median(new) <= 185


@pytest.mark.slow
def test_the_wide_grid_finds_two_percent_in_162_blocks():
    rules = EvidenceRules(SHARPNESS, 0.07 * np.sqrt(1.5), SHARPNESS_WEIGHTS)
    assert np.median(direction_blocks(rules, 0.07, 0.02, runs=1500, blocks=900)) <= 165


@pytest.mark.parametrize("kind", ["normal", "t2.5", "bimodal", "skewed"])
def test_no_effect_is_rarely_excluded(kind):
    values = trials(kind, 1000, 60, 3, np.random.default_rng([42, len(kind)]))
    assert direction_found(values, NEW_RULES)[:, -1].mean() <= 0.045


@pytest.mark.parametrize("members", [2, 3], ids=["paired", "pooled"])
@pytest.mark.parametrize("kind", ["normal", "t2.5", "skewed"])
def test_equivalence_at_alpha_on_each_side_is_rarely_claimed_at_the_margin(kind, members):
    values = trials(kind, 2000, 60, members, np.random.default_rng([43, members]))
    values[..., 0] += log_margin(MARGIN)
    level = interval_level(ALPHA, "each")
    claimed = equivalence_path(gather_evidence(values, NEW_RULES), MARGIN, level)[..., -1].mean()
    # Two standard errors of 2000 runs at 5 % are 0.01; the bound itself is 5 %.
    assert claimed <= ALPHA


def test_equivalence_at_alpha_on_each_side_takes_fewer_blocks():
    values = drawn(300, 60, 3, 0.03, 0.0, 9)
    evidence = gather_evidence(values, NEW_RULES)
    shared, each = (
        blocks_until(equivalence_path(evidence, MARGIN, interval_level(ALPHA, kind)), 4)
        for kind in ("shared", "each")
    )
    assert (each <= shared).all()
    assert np.median(each) <= 0.92 * np.median(shared)


@pytest.mark.parametrize("pooled", [False, True], ids=["paired", "pooled"])
@pytest.mark.parametrize("deviations", [0.6, 1.0, 2.0, pytest.param(3.0, marks=pytest.mark.slow)])
def test_the_planned_blocks_are_enough(pooled, deviations):
    """The constants of `power`: the planned blocks find an effect, or equivalence, in 80 (90) % of runs.

    `deviations` is the spread of pairs over the effect. 0.03 is left for rounding and two standard errors.
    """
    runs, spread = 1000, 0.03
    effect = float(np.expm1(spread / deviations))
    members, random = 3 if pooled else 2, np.random.default_rng([44, pooled, int(10 * deviations)])
    for power in (0.8, 0.9):
        blocks = blocks_for_detection(spread, effect, pooled=pooled, power=power)
        values = trials("normal", runs, blocks, members, random, paired_spread=spread)
        values[..., 0] += np.log1p(effect)
        assert direction_found(values, NEW_RULES)[:, -1].mean() >= power - 0.03
    blocks = blocks_for_equivalence(spread, effect, pooled=pooled)
    values = trials("normal", runs, blocks, members, random, paired_spread=spread)
    level = interval_level(ALPHA, "each")
    assert equivalence_path(gather_evidence(values, NEW_RULES), effect, level)[:, -1].mean() >= 0.77
