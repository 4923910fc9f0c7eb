"""What the evidence finds: effects, equivalence, a biased twin, and what the planner promises."""

import numpy as np
import pytest

from pgassay.analysis.statistics.eprocess import EvidenceRules, gather_evidence, log_evidence_above
from pgassay.analysis.statistics.equivalence import equivalence_path, interval_level, log_margin
from pgassay.analysis.statistics.power import (
    blocks_for_detection,
    blocks_for_equivalence,
    minimum_blocks,
    upper_spread,
)
from pgassay.analysis.statistics.sequence import confidence_sequence
from pgassay.analysis.verdicts.checks.twin import GATE_EVIDENCE, check_twin, mean_evidence_path
from pgassay.experiment.planning.experiment_plan import SHARPNESS, SHARPNESS_WEIGHTS
from simulated_noise import trials

ALPHA = 0.05


@pytest.mark.parametrize(
    ("kind", "effect", "least"),
    [
        ("normal", 0.02, 0.84),
        ("normal", 0.05, 0.99),
        ("normal", 0.10, 0.99),
        ("t2.5", 0.02, 0.68),
        ("t2.5", 0.05, 0.97),
        ("t2.5", 0.10, 0.99),
    ],
)
def test_power_by_block_20(kind, effect, least):
    values = trials(kind, 4000, 20, 2, np.random.default_rng([11, int(1000 * effect)]))
    values[..., 0] += np.log1p(effect)
    assert found_share(values) >= least


@pytest.mark.parametrize("members", [2, 3], ids=["paired", "pooled"])
@pytest.mark.parametrize("kind", ["normal", "t2.5", "skewed"])
def test_equivalence_is_rarely_claimed_at_the_margin(kind, members):
    values = trials(kind, 3000, 60, members, np.random.default_rng([12, members]))
    values[..., 0] += log_margin(0.03)
    assert equivalence_path(gather_evidence(values), 0.03, ALPHA)[..., -1].mean() <= 0.055


def test_equivalence_is_the_running_interval_inside_the_margin():
    values = trials("normal", 300, 18, 3, np.random.default_rng(13), paired_spread=0.03)
    evidence = gather_evidence(values)
    ends = confidence_sequence(evidence, ALPHA, running=True)
    inside = (ends.lower >= -log_margin(0.03)) & (ends.upper <= log_margin(0.03))
    assert 0.1 < inside.mean() < 0.95
    assert np.array_equal(inside, equivalence_path(evidence, 0.03, ALPHA)[..., -1])


def twin_values(correlation: float, runs: int, blocks: int, bias: float, seed: int) -> np.ndarray:
    """(runs, measures, blocks, 2): the primary metric and five statements with correlated noise."""
    random = np.random.default_rng([14, seed, round(10 * correlation)])
    spread = 0.02
    shared = random.standard_normal((runs, 1, blocks, 2))
    own = random.standard_normal((runs, 6, blocks, 2))
    noise = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    values = spread / np.sqrt(2) * noise
    values[..., 0] += bias * spread
    return values


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_twin_gate_withholds_rarely(correlation):
    path = mean_evidence_path(gather_evidence(twin_values(correlation, 2000, 60, 0.0, 1)))
    assert (path.max(axis=-1) >= np.log(GATE_EVIDENCE)).mean() <= 0.012


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_twin_gate_catches_a_bias_of_two_standard_deviations(correlation):
    path = mean_evidence_path(gather_evidence(twin_values(correlation, 2000, 20, 2.0, 2)))
    assert (path.max(axis=-1) >= np.log(GATE_EVIDENCE)).mean() >= 0.98


def test_twin_gate_cannot_speak_before_block_8():
    values = twin_values(0.5, 1, 8, 50.0, 3)[0]
    before = check_twin(values[:, :7], ALPHA)
    assert before.ok is None
    assert before.evidence_max < GATE_EVIDENCE
    assert check_twin(values, ALPHA).ok is False


@pytest.mark.parametrize("pooled", [False, True], ids=["paired", "pooled"])
@pytest.mark.parametrize("effect", [0.02, 0.04])
def test_the_planner_keeps_its_promise_of_power(pooled, effect):
    """An 8-block pilot gives s_U; as many new blocks as the planner says find the effect in 80 %."""
    runs, spread = 1500, 0.03
    random = np.random.default_rng([15, pooled, int(1000 * effect)])
    pilot = trials("normal", runs, 8, 2, random, paired_spread=spread)
    pairs = pilot[..., 0] - pilot[..., 1]
    planned = np.array([blocks_for_detection(upper_spread(run), effect, pooled=pooled) for run in pairs])
    assert found_within(planned, effect, spread, pooled, random) >= 0.80


@pytest.mark.parametrize("pooled", [False, True], ids=["paired", "pooled"])
@pytest.mark.parametrize(("power", "least"), [(0.8, 0.78), (0.9, 0.88)])
def test_planned_blocks_with_a_known_spread(pooled, power, least):
    """The promise itself is 80 or 90 %; 0.02 is left for rounding and two standard errors of 1500 runs."""
    random = np.random.default_rng([16, pooled, int(10 * power)])
    blocks = blocks_for_detection(0.03, 0.03, pooled=pooled, power=power)
    assert found_within(np.full(1500, blocks), 0.03, 0.03, pooled, random) >= least


def found_within(
    planned: np.ndarray, effect: float, spread: float, pooled: bool, random: np.random.Generator
) -> float:
    """The share of runs whose evidence finds the effect within the planned number of blocks."""
    found = 0
    for blocks in np.unique(planned):
        runs = int((planned == blocks).sum())
        values = trials("normal", runs, int(blocks), 3 if pooled else 2, random, paired_spread=spread)
        values[..., 0] += np.log1p(effect)
        found += round(found_share(values) * runs)
    return found / len(planned)


def found_share(values: np.ndarray) -> float:
    """The share of runs whose running interval lies above no effect, told from the evidence itself."""
    above = log_evidence_above(gather_evidence(values)).max(axis=-1)
    return float((above >= np.log(2 / ALPHA)).mean())


def test_the_running_interval_lies_above_0_when_the_evidence_says_so():
    values = trials("normal", 200, 15, 2, np.random.default_rng(19))
    values[..., 0] += 0.02
    evidence = gather_evidence(values)
    ends = confidence_sequence(evidence, ALPHA, running=True)
    found = log_evidence_above(evidence).max(axis=-1) >= np.log(2 / ALPHA)
    assert 0.2 < found.mean() < 0.95
    assert np.array_equal(ends.lower > 0, found)


@pytest.mark.parametrize("pooled", [False, True], ids=["paired", "pooled"])
def test_planned_blocks_for_equivalence(pooled):
    random = np.random.default_rng([17, pooled])
    blocks = blocks_for_equivalence(0.03, 0.03, pooled=pooled)
    values = trials("normal", 1500, blocks, 3 if pooled else 2, random, paired_spread=0.03)
    level = interval_level(ALPHA, "each")
    evidence = gather_evidence(values, EvidenceRules(SHARPNESS, 0.05, SHARPNESS_WEIGHTS))
    assert equivalence_path(evidence, 0.03, level)[..., -1].mean() >= 0.78


@pytest.mark.parametrize(("pooled", "contrasts"), [(True, 1), (False, 1), (True, 5), (False, 5)])
def test_the_least_number_of_blocks_is_the_first_that_bounds_a_clear_effect(pooled, contrasts):
    least = minimum_blocks(pooled=pooled, contrasts=contrasts)
    values = trials("normal", 1, least, 3 if pooled else 2, np.random.default_rng(18), paired_spread=1e-4)
    values[..., 0] += 3.0
    ends = confidence_sequence(gather_evidence(values), ALPHA / contrasts, running=True)
    assert ends.lower[0] > 0
    members = 3 if pooled else 2
    assert members**least > 2 * contrasts / ALPHA
