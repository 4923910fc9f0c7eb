"""Arms that are noisier than their controls, by the rules of new experiments and what `compare` judges by.

Equal means and medians: every direction is false. Rates are of 60 looks. Each is simulated with few runs, and
with many where `slow` tests run. With a reading before each trial as covariate too: never wrong, and sooner.
"""

import numpy as np
import pytest

from pgassay.analysis.statistics.contrasts import ContrastSet, Rows, adjust, evidence_of, member_slopes
from pgassay.analysis.statistics.eprocess import EvidenceRules
from pgassay.analysis.statistics.joined_evidence import BothMustAgree, strict
from pgassay.analysis.statistics.sign_flips import gather_flips
from pgassay.analysis.verdicts.primary_family import findings_of
from pgassay.analysis.verdicts.verdict import judge
from pgassay.experiment.planning.experiment_plan import CLIPPED_SHARE, SHARPNESS, SHARPNESS_WEIGHTS
from pgassay.model.experiment import Contrast
from simulated_noise import noise

ALPHA, MARGIN, BLOCKS, LEAST = 0.05, 0.03, 60, 4
BEFORE = EvidenceRules(SHARPNESS, 0.05, SHARPNESS_WEIGHTS, CLIPPED_SHARE)
RULES = EvidenceRules(SHARPNESS, 0.05, SHARPNESS_WEIGHTS, CLIPPED_SHARE, flips=True)
COLUMNS = {"a": 0, "c": 1, "t": 2}
CONTRAST = (Contrast(arm_id="a", control_id="c", twin_id="t", stratum=""),)
RUNS = [pytest.param(200, id="200"), pytest.param(4000, id="4000", marks=pytest.mark.slow)]


def at_most(bound: float, runs: int) -> float:
    """What a rate whose probability is `bound` exceeds in one of a thousand simulations."""
    return bound + 3.1 * np.sqrt(bound * (1 - bound) / runs)


def world(
    runs: int,
    ratio: float,
    random: np.random.Generator,
    *,
    kind: str = "normal",
    spread: float = 0.03,
    drift: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Log speeds and slots, (runs, blocks, 3): the arm first, in an order drawn for each block.

    drift: neighbours in time correlate by 0.9.
    """
    shape = (runs, BLOCKS, 3)
    order = random.permuted(np.broadcast_to(np.arange(3), shape), axis=-1)
    slots = order + 3 * np.arange(BLOCKS)[:, np.newaxis]
    values = spread * noise(kind, shape, random)
    values[..., 0] *= ratio
    in_time = np.zeros((runs, 3 * BLOCKS))
    if drift:
        shocks = spread * random.standard_normal(in_time.shape)
        for place in range(1, in_time.shape[1]):
            in_time[:, place] = 0.9 * in_time[:, place - 1] + np.sqrt(0.19) * shocks[:, place]
    return values + np.take_along_axis(in_time, slots.reshape(runs, -1), axis=-1).reshape(shape), slots


def directions(values: np.ndarray, slots: np.ndarray, rules: EvidenceRules) -> float:
    """The share of runs that `compare` calls faster or slower at some look.

    No interval widens, so who has a direction has it at the look at which the interval first excludes no
    effect, or later, when the median agrees.
    """
    evidence = evidence_of(values, slots.astype(np.float64), rules)
    highest = np.maximum(evidence.log_highest_above(0.0), evidence.log_highest_below(0.0))
    excludes = highest >= np.log(2 / ALPHA)
    excludes[:, : LEAST - 1] = False
    told = 0
    for run in np.flatnonzero(excludes.any(axis=-1)):
        first = int(excludes[run].argmax()) + 1
        told += any(
            _word(values[run, :blocks], slots[run, :blocks], rules) in ("faster", "slower")
            for blocks in sorted({first, min(first + 2, BLOCKS), min(first + 8, BLOCKS), BLOCKS})
        )
    return told / len(values)


def _word(values: np.ndarray, slots: np.ndarray, rules: EvidenceRules) -> str:
    blocks = tuple((place,) for place in range(len(values)))
    rows = [Rows(("a", "c", "t"), blocks, tuple(map(tuple, slots.tolist())))]
    contrasts = ContrastSet(values[np.newaxis], COLUMNS, CONTRAST, pool_twin=True, rows=rows, rules=rules)
    intervals, inside = contrasts.intervals_at([ALPHA, 2 * ALPHA], running=True)
    ((finding,),) = findings_of(contrasts, intervals, ALPHA, inside)
    return judge(finding, MARGIN).verdict


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0, 3.0, 5.0])
def test_an_arm_that_is_noisier_seldom_gets_a_direction(ratio, runs):
    values, slots = world(runs, ratio, np.random.default_rng([111, round(10 * ratio)]))
    assert directions(values, slots, RULES) <= at_most(ALPHA, runs)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("kind", ["t2.5", "bimodal"])
def test_whatever_its_shape_if_it_is_symmetric(kind, runs):
    values, slots = world(runs, 3.0, np.random.default_rng([112, len(kind)]), kind=kind)
    assert directions(values, slots, RULES) <= at_most(ALPHA, runs)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_on_a_machine_that_drifts(ratio, runs):
    random = np.random.default_rng([113, round(ratio)])
    values, slots = world(runs, ratio, random, drift=True)
    assert directions(values, slots, RULES) <= at_most(ALPHA, runs)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("spread", [0.01, 0.15])
def test_whatever_its_size(spread, runs):
    """What confirms a large effect takes no noise for one, however far it reaches."""
    random = np.random.default_rng([114, round(100 * spread)])
    values, slots = world(runs, 5.0, random, spread=spread)
    assert directions(values, slots, RULES) <= at_most(ALPHA, runs)


@pytest.mark.parametrize("runs", RUNS)
def test_the_members_alone_are_fooled(runs):
    """By the rules of experiments that were planned before: what the flips are for."""
    values, slots = world(runs, 3.0, np.random.default_rng(115))
    before = directions(values, slots, BEFORE)
    assert before >= 0.07
    assert directions(values, slots, RULES) <= 0.6 * before


@pytest.mark.parametrize("members", [2, 3])
def test_a_large_effect_takes_no_more_blocks_than_before(members):
    """Of five comparisons, signs alone would take eight blocks; a pair is a sign flip already."""
    random = np.random.default_rng([116, members])
    values = 0.05 * random.standard_normal((200, 12, members))
    values[..., 0] += np.log(1.5)
    found = []
    for rules in (BEFORE, RULES):
        highest = evidence_of(values, None, rules).log_highest_above(0.0)
        found.append((highest >= np.log(2 * 5 / ALPHA)).argmax(axis=-1) + 1)
    assert np.median(found[1]) <= np.median(found[0])


def test_what_is_an_e_value_is_not_eased():
    values, slots = world(300, 1.0, np.random.default_rng(117))
    evidence = evidence_of(values, slots.astype(np.float64), RULES)
    assert isinstance(evidence, BothMustAgree)
    path = strict(evidence).log_path_above(0.0)
    assert np.all(path <= evidence.first.log_path_above(0.0) + 1e-12)
    assert np.all(path <= evidence.second.log_path_above(0.0) + 1e-12)
    assert np.all(path <= evidence.log_path_above(0.0))


def test_flips_have_expectation_one_under_every_change_of_signs():
    """Exact: all 2⁸ signs of one experiment's differences."""
    values = np.random.default_rng(118).standard_normal((8, 3)) * 0.03
    difference = values[:, 0] - values[:, 1:].mean(axis=-1)
    signs = np.where(np.arange(256)[:, np.newaxis] >> np.arange(8) & 1, 1.0, -1.0)
    flipped = np.stack([signs * difference, np.zeros((256, 8)), np.zeros((256, 8))], axis=-1)
    path = gather_flips(flipped, None, RULES).log_path_above(0.0)
    assert np.exp(path[:, -1]).mean() == pytest.approx(1.0, abs=1e-9)
    assert (path.max(axis=-1) >= np.log(20)).mean() <= 0.05


def decided_at(values: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """After which block each run's interval excludes no effect; infinite where it never does."""
    evidence = evidence_of(values, slots.astype(np.float64), RULES)
    found = np.maximum(evidence.log_highest_above(0.0), evidence.log_highest_below(0.0)) >= np.log(2 / ALPHA)
    found[:, : LEAST - 1] = False
    return np.where(found.any(axis=-1), found.argmax(axis=-1) + 1.0, np.inf)


def explained(
    share: float, effect: float, runs: int, spread: float = 0.07
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log speeds of which a reading explains this share of the variance, the reading, and the slots."""
    random = np.random.default_rng([121, round(10 * share), round(1000 * effect)])
    values, slots = world(runs, 1.0, random, spread=spread * np.sqrt(1 - share))
    reading = 0.04 * random.standard_normal(values.shape)
    values = values - np.sqrt(share) * spread / 0.04 * reading
    values[..., 0] += effect
    return values, reading, slots


@pytest.mark.parametrize("runs", [300, pytest.param(2000, marks=pytest.mark.slow)])
def test_half_of_the_variance_explained_takes_60_trials_for_five_percent_at_7(runs):
    values, reading, slots = explained(0.5, np.log(1.05), runs)
    # In 300 runs the median may be a block off.
    assert np.median(decided_at(adjust(values, reading, "members"), slots)) * 3 <= (60 if runs > 1000 else 63)


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("runs", [400, pytest.param(4000, marks=pytest.mark.slow)])
def test_an_adjusted_experiment_seldom_has_a_false_direction(share, runs):
    values, reading, slots = explained(share, 0.0, runs)
    told = np.isfinite(decided_at(adjust(values, reading, "members"), slots)).mean()
    assert told <= at_most(ALPHA, runs)


def test_a_slope_comes_from_earlier_blocks_and_no_effect_moves_it():
    values, reading, _ = explained(0.5, 0.0, 5)
    found = member_slopes(values, reading)
    assert np.all(found[:, :2] == 0)
    later = values.copy()
    later[:, 20:] += np.random.default_rng(1).standard_normal(later[:, 20:].shape)
    assert np.allclose(member_slopes(later, reading)[:, :21], found[:, :21])
    assert np.allclose(member_slopes(values + np.array([2.0, 0.0, 0.0]), reading), found, atol=1e-9)
    assert np.all(member_slopes(values, np.zeros_like(reading)) == 0)
