"""Rates of what is said besides a direction: the shape, equivalence of statements, failures of an arm.

Each is simulated with few runs, and with many where `slow` tests run. A bound is of a probability, so a rate
may pass it by what chance allows.
"""

from collections.abc import Callable

import numpy as np
import pytest

from analysis_samples import experiment, record, stored
from pgassay.analysis.statistics import ebh, power
from pgassay.analysis.statistics.contrasts import ContrastSet
from pgassay.analysis.statistics.eprocess import EvidenceRules
from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.statistics.failures import log_failure_evidence
from pgassay.analysis.verdicts.checks.failures import WARNING_EVIDENCE, failure_warnings
from pgassay.analysis.verdicts.primary_family import analyse_primary, findings_of
from pgassay.analysis.verdicts.study import gather_study
from pgassay.analysis.verdicts.verdict import DISTRIBUTION_CHANGED, judge
from pgassay.experiment.planning.experiment_plan import CLIPPED_SHARE, SHARPNESS, SHARPNESS_WEIGHTS
from pgassay.model.experiment import Contrast
from pgassay.model.trial import TrialRecord

ALPHA, MARGIN, LOOKS = 0.05, 0.03, (6, 10, 15, 20, 30, 45, 60)
RUNS = [pytest.param(100, id="100"), pytest.param(2000, id="2000", marks=pytest.mark.slow)]
COLUMNS = {"a": 0, "c": 1, "t": 2}
CONTRAST = (Contrast(arm_id="a", control_id="c", twin_id="t", stratum=""),)
Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape], np.ndarray]


def at_most(bound: float, runs: int) -> float:
    """What a rate whose probability is `bound` exceeds in one of a thousand simulations."""
    return bound + 3.1 * np.sqrt(bound * (1 - bound) / runs)


def two_speeds(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """A device with two rates, of which each trial gets one."""
    return 0.02 * random.standard_normal(shape) - np.log(2.5) * (random.random(shape) < 0.3)


def persistent(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """As two_speeds, but a rate lasts for some ten trials."""
    runs, blocks, arms = shape
    turned = random.random((runs, blocks * arms)) < 0.1
    slow = (np.cumsum(turned, axis=-1) + random.integers(0, 2, (runs, 1))) % 2
    # The columns are arms, so the order in which they ran is drawn for each block.
    slow = random.permuted(slow.reshape(shape), axis=-1)
    return 0.02 * random.standard_normal(shape) - np.log(2.5) * slow


NOISES: dict[str, Draw] = {
    "gaussian": lambda random, shape: 0.03 * random.standard_normal(shape),
    "t2.5": lambda random, shape: 0.03 * random.standard_t(2.5, shape),
    "cauchy": lambda random, shape: 0.02 * random.standard_cauchy(shape),
    "two speeds": two_speeds,
    "persistent speeds": persistent,
}


def judged(values: np.ndarray, blocks: int) -> list[tuple[str, str]]:
    """(verdict, note) of each run after so many blocks; a run takes the place of a measure."""
    contrasts = ContrastSet(values[:, :blocks], COLUMNS, CONTRAST, pool_twin=True)
    intervals = contrasts.intervals(ALPHA, running=True)
    found = findings_of(contrasts, intervals, ALPHA)
    judgements = [judge(finding, MARGIN) for (finding,) in found]
    return [(judgement.verdict, judgement.note) for judgement in judgements]


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("effect", [pytest.param(0.0, marks=pytest.mark.slow), 0.05])
def test_the_distribution_changed_is_seldom_said_of_an_arm_that_only_shifts(kind, effect, runs):
    random = np.random.default_rng([11, list(NOISES).index(kind), int(100 * effect)])
    values = NOISES[kind](random, (runs, LOOKS[-1], 3))
    values[..., 0] += effect
    said = np.zeros(runs, dtype=np.bool_)
    for blocks in LOOKS:
        said |= [note == DISTRIBUTION_CHANGED for _, note in judged(values, blocks)]
    assert said.mean() <= at_most(ALPHA, runs)


def test_an_arm_whose_mean_and_median_differ_greatly_changed_the_distribution():
    """Three of four trials are 5 % faster, the fourth half as fast: neither figure describes it."""
    random = np.random.default_rng(12)
    values = 0.01 * random.standard_normal((100, 120, 3))
    values[..., 0] += np.where(random.random((100, 120)) < 0.25, -0.65, 0.05)
    notes = [note for _, note in judged(values, 120)]
    assert np.mean([note == DISTRIBUTION_CHANGED for note in notes]) >= 0.7


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("pooled", [True, False], ids=["pooled", "paired"])
@pytest.mark.parametrize("spread", [0.015, 0.02, 0.03, 0.04, 0.06])
def test_identical_statements_are_found_equivalent_at_the_planned_size(spread, pooled, runs):
    """Twelve statements of an arm like its control: four of five of them, by the current evidence.

    By the rules of new experiments with the first scale that history gives; 0.02 is left for two standard
    errors of the fewest runs.
    """
    statements, members = 12, 3 if pooled else 2
    blocks = power.blocks_for_equivalence(spread, MARGIN, pooled=pooled)
    random = np.random.default_rng([14, int(1000 * spread)])
    first_scale = spread * np.sqrt(0.75 if pooled else 1.0)
    rules = EvidenceRules(SHARPNESS, first_scale, SHARPNESS_WEIGHTS, CLIPPED_SHARE)
    found = []
    for count in [50] * (runs // 50):
        # A statement of a run takes the place of a measure: each has noise of its own.
        values = spread / np.sqrt(2) * random.standard_normal((count * statements, blocks, members))
        contrasts = ContrastSet(values, COLUMNS, CONTRAST, pool_twin=pooled, rules=rules)
        different = contrasts.log_evidence().reshape(count, statements)
        equivalent = contrasts.log_equivalence(log_margin(MARGIN)).reshape(count, statements)
        found += [
            ebh.select(np.concatenate(row), ALPHA, true_max=statements).selected[statements:].mean()
            for row in zip(different, equivalent, strict=True)
        ]
    assert np.mean(found) >= 0.8 - 0.02 * np.sqrt(200 / runs)


@pytest.mark.parametrize("runs", RUNS)
def test_false_discoveries_of_equivalence_and_difference_together(runs):
    """Of twelve statements a third is at the margin's edge, a third unchanged, a third 10 % faster."""
    random = np.random.default_rng(15)
    blocks, spread = 25, 0.03
    statements, edge = 12, log_margin(MARGIN)
    effects = np.repeat([edge, 0.0, 0.1], statements // 3)
    # Evidence alone: statements take the place of contrasts, runs that of measures.
    columns = {"c": 0, "t": 1} | {f"a{place}": 2 + place for place in range(statements)}
    family = tuple(
        Contrast(arm_id=f"a{place}", control_id="c", twin_id="t", stratum="") for place in range(statements)
    )
    values = spread / np.sqrt(2) * random.standard_normal((runs, blocks, statements + 2))
    values[..., 2:] += effects
    contrasts = ContrastSet(values, columns, family, pool_twin=True)
    different, equivalent = contrasts.log_evidence(), contrasts.log_equivalence(edge)
    proportions = []
    for row in range(runs):
        evidences = np.concatenate([different[row], equivalent[row]])
        selected = ebh.select(evidences, ALPHA, true_max=statements).selected
        of_difference, of_equivalence = selected[:statements], selected[statements:]
        false = (of_difference & (effects == 0)).sum() + (of_equivalence & (effects >= edge)).sum()
        proportions.append(false / max(1, selected.sum()))
    assert np.mean(proportions) <= ALPHA


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("rates", [(0.2, 0.2), (0.05, 0.6), (0.9, 0.9)], ids=["steady", "rising", "high"])
def test_failures_that_do_not_depend_on_the_arm_seldom_are_evidence(runs, rates):
    random = np.random.default_rng([16, int(10 * rates[1])])
    blocks = 60
    chance = np.linspace(*rates, blocks)[:, np.newaxis]
    fired = [
        log_failure_evidence(random.random((blocks, 3)) < chance).max() >= np.log(WARNING_EVIDENCE)
        for _ in range(runs)
    ]
    assert np.mean(fired) <= at_most(1 / WARNING_EVIDENCE, runs)


def test_an_arm_that_fails_in_a_fifth_of_its_trials_is_found():
    random = np.random.default_rng(17)
    chance = np.array([0.2, 0.01, 0.01])
    fired = [
        log_failure_evidence(random.random((60, 3)) < chance).max() >= np.log(WARNING_EVIDENCE)
        for _ in range(400)
    ]
    assert np.mean(fired) >= 0.8


@pytest.mark.parametrize("runs", RUNS)
def test_screening_by_outcome_gives_no_direction_that_is_not_warned_of(runs):
    """A fifth of all trials is slow; the arm's slow ones alone are called invalid, and repeated once."""
    plan = experiment(statements=1)
    random = np.random.default_rng(18)
    count = runs // 10
    unwarned, told = 0, 0
    for _ in range(count):
        study = gather_study(stored(plan, screened_trials(plan, 30, random)))
        (judgement,) = analyse_primary(study).judgements
        warned = bool(failure_warnings(study, (judgement,)))
        told += warned
        unwarned += judgement.verdict in ("faster", "slower") and not warned
    assert unwarned / count <= at_most(ALPHA, count)
    assert told / count >= 0.5


def screened_trials(plan, blocks: int, random: np.random.Generator) -> list[TrialRecord]:
    records: list[TrialRecord] = []
    ids = {arm.role: arm.id for arm in plan.arms}
    for block in range(blocks):
        for arm_id in random.permutation(list(ids.values())):
            number, attempt = len({item.number for item in records}), 1
            while True:
                slow = random.random() < 0.2
                speed = float(np.exp(0.01 * random.standard_normal() - 0.1 * slow))
                item = record(plan, number, block, str(arm_id), speed, attempt=attempt)
                if not (slow and arm_id == ids["arm"]) or attempt == 2:
                    records.append(item)
                    break
                records.append(item.model_copy(update={"status": "invalid", "reason": "cache not warm"}))
                attempt += 1
    return records
