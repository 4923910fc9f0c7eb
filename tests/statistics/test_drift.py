"""Evidence that weighs neighbours in time: exact, monotone in the effect, and sooner where noise drifts."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pgassay.analysis.statistics.drift import DriftEvidence, gather_drift_evidence
from pgassay.analysis.statistics.eprocess import (
    BlockEvidence,
    EvidenceRules,
    FloatArray,
    gather_evidence,
    log_evidence,
    log_evidence_above,
    log_evidence_below,
)
from pgassay.analysis.statistics.equivalence import equivalence_path, interval_level
from pgassay.analysis.statistics.sequence import confidence_sequence, point_estimate
from pgassay.experiment.planning.experiment_plan import SHARPNESS, SHARPNESS_WEIGHTS
from simulated_worlds import noise_in_time

ALPHA = 0.05
RULES = EvidenceRules(SHARPNESS, 0.05, SHARPNESS_WEIGHTS)
VALUES = st.floats(-2, 2, allow_nan=False).map(lambda value: round(value, 6))
SHAPES = st.tuples(st.integers(1, 20), st.integers(2, 3))
MEMBERS = SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=VALUES))


def autoregressive(runs: int, count: int, alike: float, random: np.random.Generator) -> FloatArray:
    """Series whose neighbours correlate by `alike`, each value with the variance 1; (runs, count)."""
    values = random.standard_normal((runs, count))
    for place in range(1, count):
        values[:, place] = alike * values[:, place - 1] + math.sqrt(1 - alike**2) * values[:, place]
    return values


def in_drawn_order(series: FloatArray, members: int, random: np.random.Generator):
    """Blocks in which it is drawn who runs when: members and slots, both (runs, blocks, members)."""
    blocks = series.reshape(len(series), -1, members)
    order = random.permuted(np.broadcast_to(np.arange(members), blocks.shape), axis=-1)
    slots = order + members * np.arange(blocks.shape[1])[:, np.newaxis]
    return np.take_along_axis(blocks, order, axis=-1), slots.astype(np.float64)


def slots_of(members: np.ndarray, seed: int = 0) -> np.ndarray:
    """An order and gaps for blocks of this shape, as where other arms run between."""
    random = np.random.default_rng(seed)
    gaps = random.integers(1, 4, members.size).cumsum().reshape(members.shape)
    return random.permuted(gaps, axis=-1).astype(np.float64)


def evidence_of(members: np.ndarray) -> DriftEvidence:
    """Of one series of blocks in some order."""
    return gather_drift_evidence(members, slots_of(members), RULES)


@pytest.mark.parametrize("members", [2, 3], ids=["paired", "pooled"])
@pytest.mark.parametrize("kind", ["independent", "alike", "walk", "ties", "outliers", "cauchy"])
def test_mean_evidence_is_one(kind, members):
    """Over all ways of drawing which trial of each block is the arm's, stopped at the first alarm or not."""
    blocks = 12 if members == 2 else 7
    random = np.random.default_rng([91, members, len(kind)])
    values = {
        "independent": lambda: random.standard_normal((blocks, members)) * 0.05,
        "alike": lambda: autoregressive(1, blocks * members, 0.9, random).reshape(blocks, members) * 0.05,
        "walk": lambda: random.standard_normal(blocks * members).cumsum().reshape(blocks, members) * 0.05,
        "ties": lambda: np.round(random.standard_normal((blocks, members)), 0) * 0.05,
        "outliers": lambda: (
            random.standard_normal((blocks, members)) * 10.0 ** random.uniform(-3, 2, (blocks, 1))
        ),
        "cauchy": lambda: random.standard_cauchy((blocks, members)) * 0.02,
    }[kind]()
    slots = random.integers(1, 4, values.size).cumsum().reshape(values.shape).astype(np.float64)
    chosen = np.array(list(itertools.product(range(members), repeat=blocks)))
    order = (chosen[..., np.newaxis] + np.arange(members)) % members
    found, when = (
        np.take_along_axis(np.broadcast_to(each, order.shape), order, -1) for each in (values, slots)
    )
    path = log_evidence(gather_drift_evidence(found, when, RULES))
    assert abs(np.exp(path[:, -1]).mean() - 1) < 1e-9
    crossed = path >= np.log(1 / ALPHA)
    first = np.where(crossed.any(axis=1), crossed.argmax(axis=1), blocks - 1)
    assert abs(np.exp(path[np.arange(len(path)), first]).mean() - 1) < 1e-9


def test_weights_that_knew_the_arm_of_their_own_block_would_fail():
    """So the test above can fail: the same slots for every draw make the arm the first in each block."""
    values = np.arange(12.0).reshape(6, 2) * 0.05
    chosen = np.array(list(itertools.product((0, 1), repeat=6)))
    order = (chosen[..., np.newaxis] + np.arange(2)) % 2
    found = np.take_along_axis(np.broadcast_to(values, order.shape), order, -1)
    fixed = np.broadcast_to(np.arange(12.0).reshape(6, 2), found.shape)
    path = log_evidence(gather_drift_evidence(found, fixed, RULES))
    assert abs(np.exp(path[:, -1]).mean() - 1) > 1e-3


@settings(max_examples=60, deadline=None)
@given(MEMBERS, arrays(np.float64, 12, elements=st.floats(-4, 4)))
def test_the_evidence_is_monotone_in_the_effect(members, effects):
    evidence = evidence_of(members)
    assert (evidence.slopes > 0).all()
    above = np.array([log_evidence_above(evidence, effect) for effect in np.sort(effects)])
    below = np.array([log_evidence_below(evidence, effect) for effect in np.sort(effects)])
    assert (np.diff(above, axis=0) <= 1e-9).all()
    assert (np.diff(below, axis=0) >= -1e-9).all()


@settings(max_examples=60, deadline=None)
@given(MEMBERS, st.floats(-3, 3), st.booleans())
def test_the_sequence_moves_with_the_effect_and_is_mirrored(members, effect, running):
    def ends(values: np.ndarray) -> np.ndarray:
        interval = confidence_sequence(evidence_of(values), ALPHA, running=running)
        return np.array([interval.lower, point_estimate(evidence_of(values)), interval.upper])

    moved = members.copy()
    moved[:, 0] += effect
    np.testing.assert_allclose(ends(moved), ends(members) + effect, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ends(-members), -ends(members)[::-1], rtol=0, atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(MEMBERS)
def test_the_ends_solve_their_equations(members):
    evidence = evidence_of(members)
    interval = confidence_sequence(evidence, ALPHA, running=False)
    target = np.log(2 / ALPHA)
    if np.isfinite(interval.lower):
        assert log_evidence_above(evidence, interval.lower - 1e-8)[-1] >= target
        assert log_evidence_above(evidence, interval.lower + 1e-8)[-1] <= target
        assert log_evidence_below(evidence, interval.upper - 1e-8)[-1] <= target
        assert log_evidence_below(evidence, interval.upper + 1e-8)[-1] >= target
    else:
        assert evidence.members**evidence.blocks <= 2 / ALPHA


def test_many_contrasts_at_once_are_each_as_if_alone():
    random = np.random.default_rng(92)
    members = random.standard_normal((3, 2, 9, 3))
    slots = np.stack([slots_of(members[0, 0], seed) for seed in range(2)])[np.newaxis]
    together = log_evidence(gather_drift_evidence(members, slots, RULES), 0.1)
    for measure, contrast in itertools.product(range(3), range(2)):
        alone = gather_drift_evidence(members[measure, contrast], slots[0, contrast], RULES)
        np.testing.assert_allclose(together[measure, contrast], log_evidence(alone, 0.1), atol=1e-9)


def test_no_block_and_slots_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="at least one block"):
        gather_drift_evidence(np.empty((0, 2)), np.empty((0, 2)), RULES)
    with pytest.raises(ValueError, match="don't fit"):
        gather_drift_evidence(np.zeros((3, 2)), np.zeros((3, 3)), RULES)


RUNS = [100, pytest.param(2000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("members", [2, 3], ids=["paired", "pooled"])
@pytest.mark.parametrize(
    "kind", ["normal", "half", "wave", "walk", "drift", "two-speed-persistent", "cauchy"]
)
def test_equal_arms_are_seldom_given_a_direction(kind, members, runs):
    """At any of 60 looks; 5 % and two standard errors."""
    random = np.random.default_rng([93, members, len(kind)])
    if kind == "half":
        series = 0.03 * autoregressive(runs, 60 * members, 0.5, random)
    else:
        series = np.stack([noise_in_time(kind, 60 * members, 0.03, random) for _ in range(runs)])
    evidence = gather_drift_evidence(*in_drawn_order(series, members, random), RULES)
    highest = np.maximum(log_evidence_above(evidence), log_evidence_below(evidence)).max(axis=-1)
    allowed = ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / runs)
    assert (highest >= np.log(2 / ALPHA)).mean() <= allowed


def blocks_taken(evidence: BlockEvidence, margin: float | None) -> FloatArray:
    """Blocks until an effect above 0 is found, or equivalence within the margin; one more than there are."""
    if margin is None:
        found = log_evidence_above(evidence) >= np.log(2 / ALPHA)
    else:
        found = equivalence_path(evidence, margin, interval_level(ALPHA, "each"))
    return np.where(found.any(axis=-1), found.argmax(axis=-1) + 1, evidence.blocks + 1)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("question", ["effect", "equivalence"])
@pytest.mark.parametrize(("alike", "most"), [(0.0, 1.03), (0.5, 0.95), (0.8, 0.85), (0.9, 0.82)])
def test_blocks_beside_those_without_neighbours(alike, most, question, runs):
    """The same draws by both; trials of a block spread by 7 %, of which the first scale knows.

    In the mean, and two standard errors of so many runs.
    """
    random = np.random.default_rng([94, round(10 * alike), len(question)])
    spread = 0.07 / math.sqrt(1 - (2 * alike + alike**2) / 3)
    values, slots = in_drawn_order(spread * autoregressive(runs, 270, alike, random), 3, random)
    if question == "effect":
        values[..., 0] += math.log(1.05)
    rules = EvidenceRules(SHARPNESS, 0.07 * math.sqrt(1.5), SHARPNESS_WEIGHTS)
    margin = None if question == "effect" else 0.06
    plain = blocks_taken(gather_evidence(values, rules), margin)
    weighed = blocks_taken(gather_drift_evidence(values, slots, rules), margin)
    beyond = weighed - most * plain
    assert beyond.mean() <= 2 * beyond.std() / math.sqrt(runs)
