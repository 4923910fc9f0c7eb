"""Evidence in which outliers are clipped: exact, monotone in the effect, and sooner where noise has tails."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pgassay.analysis.statistics.clipped_evidence import ClippedEvidence, with_clipped
from pgassay.analysis.statistics.contrasts import evidence_of
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
from pgassay.experiment.planning.experiment_plan import CLIPPED_SHARE, SHARPNESS, SHARPNESS_WEIGHTS
from simulated_worlds import noise_in_time

ALPHA = 0.05
RULES = EvidenceRules(SHARPNESS, 0.05, SHARPNESS_WEIGHTS, CLIPPED_SHARE)
# Clipped values almost alone, so that a fault of theirs shows.
ALMOST_ALONE = EvidenceRules(SHARPNESS, 0.05, SHARPNESS_WEIGHTS, 0.99)
VALUES = st.floats(-2, 2, allow_nan=False).map(lambda value: round(value, 6))
SHAPES = st.tuples(st.integers(1, 20), st.integers(2, 3))
MEMBERS = SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=VALUES))


def of_blocks(members: FloatArray, rules: EvidenceRules = ALMOST_ALONE) -> ClippedEvidence:
    found = with_clipped(gather_evidence(members, rules), members, rules)
    assert isinstance(found, ClippedEvidence)
    return found


def every_draw(values: FloatArray) -> FloatArray:
    """All ways of drawing which trial of each block is the arm's, (draws, blocks, members)."""
    blocks, members = values.shape
    chosen = np.array(list(itertools.product(range(members), repeat=blocks)))
    order = (chosen[..., np.newaxis] + np.arange(members)) % members
    return np.take_along_axis(np.broadcast_to(values, order.shape), order, -1)


@pytest.mark.parametrize("members", [2, 3], ids=["paired", "pooled"])
@pytest.mark.parametrize("kind", ["normal", "walk", "ties", "outliers", "cauchy", "alike"])
def test_mean_evidence_is_one(kind, members):
    """Stopped at the first alarm or not."""
    blocks = 12 if members == 2 else 7
    random = np.random.default_rng([101, members, len(kind)])
    normal = random.standard_normal((blocks, members))
    values = {
        "normal": normal * 0.05,
        "walk": normal.cumsum().reshape(blocks, members) * 0.05,
        "ties": np.round(normal) * 0.05,
        "outliers": normal * 10.0 ** random.uniform(-3, 2, (blocks, 1)),
        "cauchy": random.standard_cauchy((blocks, members)) * 0.02,
        "alike": np.ones((blocks, members)),
    }[kind]
    path = log_evidence(of_blocks(every_draw(values)))
    assert abs(np.exp(path[:, -1]).mean() - 1) < 1e-9
    crossed = path >= np.log(1 / ALPHA)
    first = np.where(crossed.any(axis=1), crossed.argmax(axis=1), blocks - 1)
    assert abs(np.exp(path[np.arange(len(path)), first]).mean() - 1) < 1e-9


def test_a_spread_that_knew_its_own_block_would_fail():
    """So the test above can fail: the arm's value of a block must not decide how sharply it is bet on."""
    values = np.random.default_rng(102).standard_cauchy((7, 3)) * 0.05
    draws = every_draw(values)
    known = of_blocks(draws)
    cheating = ClippedEvidence(known.base, draws, np.roll(known.spread, -1, axis=-1), known.share)
    assert abs(np.exp(log_evidence(cheating)[:, -1]).mean() - 1) > 1e-3


@settings(max_examples=60, deadline=None)
@given(MEMBERS, arrays(np.float64, 12, elements=st.floats(-4, 4)))
def test_the_evidence_is_monotone_in_the_effect(members, effects):
    evidence = of_blocks(members)
    above = np.array([log_evidence_above(evidence, effect) for effect in np.sort(effects)])
    below = np.array([log_evidence_below(evidence, effect) for effect in np.sort(effects)])
    assert (np.diff(above, axis=0) <= 1e-9).all()
    assert (np.diff(below, axis=0) >= -1e-9).all()


@settings(max_examples=60, deadline=None)
@given(MEMBERS, st.floats(-3, 3), st.booleans())
def test_the_sequence_moves_with_the_effect_and_is_mirrored(members, effect, running):
    def ends(values: FloatArray) -> FloatArray:
        evidence = of_blocks(values, RULES)
        interval = confidence_sequence(evidence, ALPHA, running=running)
        return np.array([interval.lower, point_estimate(evidence), interval.upper])

    moved = members.copy()
    moved[:, 0] += effect
    np.testing.assert_allclose(ends(moved), ends(members) + effect, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ends(-members), -ends(members)[::-1], rtol=0, atol=1e-8)


@settings(max_examples=60, deadline=None)
@given(MEMBERS)
def test_the_ends_solve_their_equations(members):
    evidence = of_blocks(members, RULES)
    interval = confidence_sequence(evidence, ALPHA, running=False)
    target = np.log(2 / ALPHA)
    if np.isfinite(interval.lower):
        assert log_evidence_above(evidence, interval.lower - 1e-8)[-1] >= target
        assert log_evidence_above(evidence, interval.lower + 1e-8)[-1] <= target
        assert log_evidence_below(evidence, interval.upper - 1e-8)[-1] <= target
        assert log_evidence_below(evidence, interval.upper + 1e-8)[-1] >= target
    else:
        assert evidence.members**evidence.blocks * (1 - CLIPPED_SHARE) <= 2 / ALPHA


def test_without_a_share_nothing_is_clipped():
    members = np.random.default_rng(103).standard_normal((5, 3))
    base = gather_evidence(members)
    assert with_clipped(base, members, EvidenceRules()) is base


def drawn(kind: str, runs: int, blocks: int) -> tuple[FloatArray, FloatArray]:
    """Blocks in which it is drawn who runs when, and the slots, both (runs, blocks, 3)."""
    random = np.random.default_rng([104, len(kind)])
    series = np.stack([noise_in_time(kind, 3 * blocks, 0.03, random) for _ in range(runs)])
    values = series.reshape(runs, blocks, 3)
    order = random.permuted(np.broadcast_to(np.arange(3), values.shape), axis=-1)
    slots = order + 3.0 * np.arange(blocks)[:, np.newaxis]
    return np.take_along_axis(values, order, axis=-1), slots


@pytest.mark.parametrize("runs", [100, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["normal", "t2.5", "cauchy", "wave", "two-speed", "two-speed-persistent"])
def test_equal_arms_are_seldom_given_a_direction(kind, runs):
    """At any of 60 looks; 5 % and two standard errors."""
    members, slots = drawn(kind, runs, 60)
    evidence = evidence_of(members, slots, RULES)
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


@pytest.mark.parametrize("runs", [100, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("question", ["effect", "equivalence"])
@pytest.mark.parametrize(
    ("kind", "most"),
    [("normal", 1.02), ("wave", 1.02), ("t2.5", 0.9), ("cauchy", 0.96), ("two-speed-persistent", 0.88)],
)
def test_blocks_beside_those_without_clipping(kind, most, question, runs):
    """The same draws by both, in the mean, and two standard errors of so many runs."""
    values, slots = drawn(kind, runs, 120)
    if question == "effect":
        values[..., 0] += math.log(1.03)
    margin = None if question == "effect" else 0.03
    plain = EvidenceRules(SHARPNESS, 0.05, SHARPNESS_WEIGHTS)
    without, clipped = (blocks_taken(evidence_of(values, slots, each), margin) for each in (plain, RULES))
    beyond = clipped - most * without
    assert beyond.mean() <= 2 * beyond.std() / math.sqrt(runs)
