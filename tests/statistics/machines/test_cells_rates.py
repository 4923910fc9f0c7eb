"""Strata of a grid on different machines: error rates at any look, what ties them, what nothing can tie."""

from collections.abc import Mapping

import numpy as np
import pytest

from pgassay.analysis.machines.anchored_effects import (
    TiedArm,
    overall_level,
    pairs_of,
    terms_of,
    weights_of_all,
    weights_of_pair,
)
from pgassay.analysis.machines.pooled_evidence import log_disagreement
from pgassay.analysis.machines.weighted_sums import Term, sum_interval
from pgassay.analysis.statistics.contrasts import evidence_of
from pgassay.analysis.statistics.eprocess import (
    BlockEvidence,
    EvidenceRules,
    FloatArray,
    log_evidence,
    log_evidence_above,
    log_evidence_below,
)
from pgassay.experiment.planning.experiment_plan import CLIPPED_SHARE, SHARPNESS, SHARPNESS_WEIGHTS
from pgassay.model.machines.spread import SpreadGrid, SpreadStratum
from simulated_noise import trials

ALPHA = 0.05
RULES = EvidenceRules(SHARPNESS, 0.03, SHARPNESS_WEIGHTS, CLIPPED_SHARE)
N = pytest.mark.parametrize("runs", [100, pytest.param(2000, marks=pytest.mark.slow)])
# Intervals of sums take longer than a look at the evidence.
OF_SUMS = pytest.mark.parametrize("runs", [30, pytest.param(2000, marks=pytest.mark.slow)])
Cell = tuple[str, str]


def within(share: float, runs: int) -> bool:
    """Whether a share of errors is within alpha, with two and a half standard errors of slack."""
    return share <= ALPHA + 2.5 * np.sqrt(ALPHA * (1 - ALPHA) / runs)


def grid_of(strata: int, anchors: int, machines: int = 2) -> SpreadGrid:
    names = [f"s{number}" for number in range(strata)]
    return SpreadGrid(
        strata=tuple(SpreadStratum(name=name, arms=1) for name in names),
        anchors=tuple(names[:anchors]),
        machines=tuple(f"m{number}" for number in range(machines)),
    )


def cells_of(grid: SpreadGrid, machines: int) -> list[Cell]:
    """Every stratum on its machine, the anchors on all."""
    anchors = [(name, f"m{number}") for name in grid.anchors for number in range(machines)]
    own = [each.name for each in grid.strata if each.name not in grid.anchors]
    return anchors + [(name, f"m{place % machines}") for place, name in enumerate(own)]


def measured(
    effects: Mapping[Cell, FloatArray], kind: str, runs: int, blocks: int, random: np.random.Generator
) -> dict[Cell, FloatArray]:
    """(runs, blocks, 3 members and 3 slots) of each cell.

    Machines are of unequal noise, each block has a speed of its own, and every other machine becomes slower
    by 1 % from trial to trial.
    """
    made = {}
    for (stratum, machine), effect in effects.items():
        number = int(machine[1:])
        values = trials(kind, runs, blocks, 3, random, paired_spread=(0.015, 0.05, 0.03)[number % 3])
        values[..., 0] += effect[..., np.newaxis]
        slots = random.permuted(np.broadcast_to(np.arange(3.0), values.shape), axis=-1)
        slots = slots + 3.0 * np.arange(blocks)[:, np.newaxis]
        values = values - (0.01 if number % 2 else 0.0) * slots
        made[stratum, machine] = np.concatenate([values, slots], axis=-1)
    return made


def evidence(values: FloatArray) -> BlockEvidence:
    return evidence_of(values[..., :3], values[..., 3:], RULES)


def tied_arm(values: Mapping[Cell, FloatArray], blocks: int) -> TiedArm:
    found: dict[str, dict[str, BlockEvidence]] = {}
    for (stratum, machine), each in values.items():
        found.setdefault(stratum, {})[machine] = evidence(each[:, :blocks])
    return TiedArm("arm", "control", found, {}, [])


def true_effects(
    grid: SpreadGrid, machines: int, runs: int, shift: float, random: np.random.Generator
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Each stratum's own effect, and by how much each machine changes all of them."""
    strata = {each.name: 0.05 * random.standard_normal(runs) for each in grid.strata}
    return strata, {f"m{number}": shift * random.standard_normal(runs) for number in range(machines)}


def missed(terms: list[Term], truth: FloatArray, level: float) -> FloatArray:
    found = sum_interval(terms, level)
    result: FloatArray = (found.lower > truth) | (found.upper < truth)
    return result


@OF_SUMS
@pytest.mark.parametrize(
    ("kind", "shift"), [("normal", 0.0), ("t2.5", 0.03)], ids=["alike", "machines change effects"]
)
def test_what_is_said_across_strata_is_rarely_wrong_at_any_look(runs, kind, shift):
    """All pairs and the mean together, also where each machine changes the effects of all strata alike."""
    random = np.random.default_rng([60, int(100 * shift)])
    grid, machines = grid_of(3, 1), 2
    strata, shifts = true_effects(grid, machines, runs, shift, random)
    effects = {cell: strata[cell[0]] + shifts[cell[1]] for cell in cells_of(grid, machines)}
    values = measured(effects, kind, runs, 12, random)
    wrong = np.zeros(runs, dtype=bool)
    mean = sum(strata.values()) / len(strata) + sum(shifts.values()) / len(shifts)
    for look in (5, 12):
        arm = tied_arm(values, look)
        for pair, level in pairs_of(grid, ALPHA):
            terms = terms_of(arm, weights_of_pair(arm, pair, grid))
            wrong |= missed(terms, strata[pair[0]] - strata[pair[1]], level)
        terms = terms_of(arm, weights_of_all(arm, grid))
        wrong |= missed(terms, mean, overall_level(grid, ALPHA))
    assert within(float(wrong.mean()), runs)


@N
@pytest.mark.parametrize(
    ("strata", "machines", "anchors", "kind"), [(6, 3, 1, "skewed"), (12, 4, 2, "bimodal")]
)
def test_the_region_of_all_effects_holds_them_at_every_look(runs, strata, machines, anchors, kind):
    """Whatever machine changes whatever stratum: of a region all sums are right where the region is."""
    random = np.random.default_rng([61, strata])
    grid = grid_of(strata, anchors)
    effects = {cell: 0.1 * random.standard_normal(runs) for cell in cells_of(grid, machines)}
    values = measured(effects, kind, runs, 10, random)
    against = np.stack(
        [log_evidence(evidence(each), effects[cell]) for cell, each in values.items()], axis=-1
    )
    mixture = np.logaddexp(against.sum(axis=-1), np.log(np.exp(against).mean(axis=-1))) - np.log(2.0)
    assert within(float((mixture.max(axis=-1) >= np.log(1 / ALPHA)).mean()), runs)


@N
def test_each_stratum_is_right_on_its_machine_whatever_the_others_show(runs):
    """Each cell has an effect of its own, so that nothing ties anything: all strata together, at any look."""
    random = np.random.default_rng(62)
    grid, machines = grid_of(6, 1), 3
    cells = [cell for cell in cells_of(grid, machines) if cell[0] not in grid.anchors]
    effects = {cell: 0.1 * random.standard_normal(runs) for cell in cells}
    target = np.log(2 * len(grid.strata) / ALPHA)
    wrong = np.zeros(runs, dtype=bool)
    for cell, each in measured(effects, "t2.5", runs, 20, random).items():
        found = evidence(each)
        above = log_evidence_above(found, effects[cell]).max(axis=-1)
        wrong |= (above >= target) | (log_evidence_below(found, effects[cell]).max(axis=-1) >= target)
    assert within(float(wrong.mean()), runs)


def test_every_sum_over_the_region_lies_in_its_interval():
    """Points of the region, drawn and pushed to its edge, are never outside of what is said of their sum."""
    random = np.random.default_rng(63)
    grid = grid_of(3, 1)
    cells = cells_of(grid, 2)
    values = measured(dict.fromkeys(cells, np.full(1, 0.03)), "normal", 1, 12, random)
    parts = [evidence(each[0]) for each in values.values()]
    weights = [1.0, -1.0, 1.0, -1.0]
    level = 0.05
    found = sum_interval([Term(*each) for each in zip(weights, parts, strict=True)], level)
    target = np.log(1 / level)
    closest = 0.0
    for _ in range(60):
        direction = random.standard_normal(len(parts))
        inside, outside = 0.0, 1.0
        for _ in range(10):
            middle = (inside + outside) / 2
            point = 0.03 + middle * direction
            against = np.array(
                [log_evidence(part, each)[-1] for part, each in zip(parts, point, strict=True)]
            )
            mixture = np.logaddexp(against.sum(), np.log(np.exp(against).mean())) - np.log(2.0)
            inside, outside = (middle, outside) if mixture < target else (inside, middle)
        total = float(np.dot(weights, 0.03 + inside * direction))
        assert found.lower <= total <= found.upper
        closest = max(closest, (total - found.estimate) / (found.upper - found.estimate))
    # The interval is not much wider than the region.
    assert closest > 0.5


def test_strata_that_differ_are_found_over_machines_that_change_effects():
    runs, random = 20, np.random.default_rng(64)
    grid = grid_of(3, 1)
    strata = {"s0": 0.0, "s1": 0.02, "s2": 0.30}
    shifts = {"m0": 0.0, "m1": 0.02}
    effects = {cell: np.full(runs, strata[cell[0]] + shifts[cell[1]]) for cell in cells_of(grid, 2)}
    arm = tied_arm(measured(effects, "normal", runs, 20, random), 20)
    ((pair, level),) = [each for each in pairs_of(grid, ALPHA) if set(each[0]) == {"s1", "s2"}]
    found = sum_interval(terms_of(arm, weights_of_pair(arm, pair, grid)), level)
    assert (found.lower > 0).mean() >= 0.9
    assert abs(float(np.median(found.estimate)) - 0.28) < 0.02
    mean = sum_interval(terms_of(arm, weights_of_all(arm, grid)), overall_level(grid, ALPHA))
    assert (mean.lower > 0).mean() >= 0.9


def test_machines_that_change_effects_much_are_found_at_the_anchor():
    """Then nothing is tied, though the sums would still be right."""
    runs, random = 100, np.random.default_rng(65)
    effects = {("s0", "m0"): np.full(runs, 0.05), ("s0", "m1"): np.full(runs, -0.10)}
    values = measured(effects, "normal", runs, 20, random)
    against = log_disagreement([evidence(each) for each in values.values()])
    assert (against >= np.log(3 / ALPHA)).mean() >= 0.9


def test_what_a_machine_does_to_one_stratum_alone_no_anchor_shows():
    """The assumption is needed: such a pair is wrong, and the documents say so."""
    runs, random = 20, np.random.default_rng(66)
    grid = grid_of(3, 1)
    effects = {cell: np.full(runs, 0.3 if cell == ("s2", "m1") else 0.0) for cell in cells_of(grid, 2)}
    arm = tied_arm(measured(effects, "normal", runs, 20, random), 20)
    ((pair, level),) = [each for each in pairs_of(grid, ALPHA) if set(each[0]) == {"s1", "s2"}]
    assert missed(terms_of(arm, weights_of_pair(arm, pair, grid)), np.zeros(runs), level).mean() > 0.5
