"""The evidence has expectation exactly 1 under every assignment of labels, stopped or not."""

import itertools

import numpy as np
import pytest

from pgassay.analysis.statistics.eprocess import BASE_RULES, EvidenceRules, gather_evidence, log_evidence
from pgassay.experiment.planning.experiment_plan import SHARPNESS, SHARPNESS_WEIGHTS

ALPHA = 0.05


def magnitude_sets(count: int, blocks: int, members: int) -> list[np.ndarray]:
    """Fixed log speeds (blocks, members): ordinary, with ties, with outliers, of many scales."""
    random = np.random.default_rng(2024)
    sets = []
    for number in range(count):
        values = random.standard_normal((blocks, members)) * 10.0 ** random.uniform(-3, 0)
        if number % 4 == 1:
            values = np.round(values, 2)
            values[::3] = 0.0
        if number % 4 == 2:
            values[random.integers(blocks)] *= 50
        if number % 4 == 3:
            values = random.standard_cauchy((blocks, members)) * 0.02
        sets.append(values)
    return sets


def assignments_paired() -> np.ndarray:
    """All 2¹² ways of calling one of two trials the arm in 12 blocks."""
    return np.array(list(itertools.product((0, 1), repeat=12)))


def assignments_pooled() -> np.ndarray:
    """All 3⁷ ways of calling one of three trials the arm in 7 blocks."""
    return np.array(list(itertools.product((0, 1, 2), repeat=7)))


def relabelled(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """(assignments, blocks, members): the chosen trial first, the others after it."""
    members = values.shape[1]
    order = (chosen[..., np.newaxis] + np.arange(members)) % members
    return np.take_along_axis(np.broadcast_to(values, (*chosen.shape, members)), order, axis=-1)


@pytest.mark.parametrize("number", range(20))
@pytest.mark.parametrize(
    ("assignments", "members"), [(assignments_paired, 2), (assignments_pooled, 3)], ids=["paired", "pooled"]
)
@pytest.mark.parametrize(
    "rules", [BASE_RULES, EvidenceRules(SHARPNESS, 0.004, SHARPNESS_WEIGHTS)], ids=["base", "new"]
)
def test_mean_evidence_is_one(assignments, members, number, rules):
    chosen = assignments()
    values = magnitude_sets(20, chosen.shape[1], members)[number]
    path = log_evidence(gather_evidence(relabelled(values, chosen), rules))
    assert abs(np.exp(path[:, -1]).mean() - 1) < 1e-9

    crossed = path >= np.log(1 / ALPHA)
    first = np.where(crossed.any(axis=1), crossed.argmax(axis=1), path.shape[1] - 1)
    stopped = np.exp(path[np.arange(len(path)), first])
    assert abs(stopped.mean() - 1) < 1e-9
    assert crossed.any(axis=1).mean() <= ALPHA


def test_a_scale_that_knew_its_own_block_would_fail():
    """The test above can fail: the same formula with a scale from all blocks breaks the expectation."""
    chosen = assignments_paired()
    # Blocks of very different size: a scale of the whole run then depends on the labels a lot.
    values = np.array([[0.0, 0.001], [0.0, 1.0]] * 6)
    members = relabelled(values, chosen)
    difference = members[..., 0] - members[..., 1]
    scale = difference.std(axis=1, ddof=1)
    kappa = 2.0 / scale[:, np.newaxis]
    product = np.prod(2 / (1 + np.exp(-kappa * difference)), axis=1)
    assert abs(product.mean() - 1) > 1e-3
