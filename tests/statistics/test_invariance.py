"""Moving, negating or inverting the data moves the sequence exactly so."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pgassay.analysis.statistics.contrasts import adjust
from pgassay.analysis.statistics.eprocess import gather_evidence, log_evidence_above, log_evidence_below
from pgassay.analysis.statistics.sequence import confidence_sequence, point_estimate

ALPHA = 0.05
VALUES = st.floats(-2, 2, allow_nan=False).map(lambda value: round(value, 6))
BLOCKS = st.tuples(st.integers(1, 25), st.integers(2, 3))
MEMBERS = BLOCKS.flatmap(lambda shape: arrays(np.float64, shape, elements=VALUES))


def ends(members: np.ndarray, running: bool) -> np.ndarray:
    """Lower end, estimate, upper end."""
    evidence = gather_evidence(members)
    interval = confidence_sequence(evidence, ALPHA, running=running)
    return np.array([interval.lower, point_estimate(evidence), interval.upper])


def same(left: np.ndarray, right: np.ndarray) -> None:
    """Equal to 1e-9, infinities included."""
    np.testing.assert_allclose(left, right, rtol=0, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(MEMBERS, st.floats(-3, 3), st.booleans())
def test_an_effect_added_to_the_arm_moves_the_sequence_by_it(members, effect, running):
    moved = members.copy()
    moved[:, 0] += effect
    same(ends(moved, running), ends(members, running) + effect)


@settings(max_examples=60, deadline=None)
@given(MEMBERS, st.booleans())
def test_negated_log_speeds_negate_the_sequence(members, running):
    same(ends(-members, running), -ends(members, running)[::-1])


@settings(max_examples=40, deadline=None)
@given(MEMBERS, st.booleans())
def test_inverted_times_invert_the_ratios(members, running):
    times = np.exp(members)
    ratios, inverted = (np.exp(ends(np.log(data), running)) for data in (times, 1 / times))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(inverted, 1 / ratios[::-1], rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(MEMBERS, arrays(np.float64, 25, elements=VALUES))
def test_what_a_whole_block_shares_changes_nothing(members, shared):
    same(ends(members + shared[: len(members), np.newaxis], True), ends(members, True))


@settings(max_examples=40, deadline=None)
@given(MEMBERS)
def test_the_ends_solve_their_equations(members):
    evidence = gather_evidence(members)
    interval = confidence_sequence(evidence, ALPHA, running=False)
    target = np.log(2 / ALPHA)
    if np.isfinite(interval.lower):
        assert log_evidence_above(evidence, interval.lower - 1e-9)[-1] >= target
        assert log_evidence_above(evidence, interval.lower + 1e-9)[-1] <= target
        assert log_evidence_below(evidence, interval.upper - 1e-9)[-1] <= target
        assert log_evidence_below(evidence, interval.upper + 1e-9)[-1] >= target
    else:
        assert evidence.members**evidence.blocks <= 2 / ALPHA


@settings(max_examples=30, deadline=None)
@given(MEMBERS, st.floats(-3, 3))
def test_an_adjusted_sequence_moves_with_the_effect_too(members, effect):
    covariate = np.sin(np.arange(members.size)).reshape(members.shape)
    moved = members.copy()
    moved[:, 0] += effect
    same(ends(adjust(moved, covariate), True), ends(adjust(members, covariate), True) + effect)


def test_a_block_alone_bounds_nothing_and_no_block_is_refused():
    assert np.isinf(ends(np.array([[0.1, 0.0]]), True)[[0, 2]]).all()
    with pytest.raises(ValueError, match="at least one block"):
        gather_evidence(np.empty((0, 2)))
