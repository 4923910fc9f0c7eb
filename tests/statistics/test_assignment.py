"""The machine's e-values have expectation exactly 1 over all possible draws, and find what is wrong."""

import itertools

import numpy as np
import pytest

import analysis_samples as samples
from pgassay.analysis.statistics.assignment import (
    level_deviations,
    log_copy_evidence,
    log_draw_evidence,
)
from pgassay.analysis.verdicts.checks.machine_checks import check_machine, machine_warnings
from pgassay.analysis.verdicts.checks.trial_order import OrderedBlock, follower_draws, residuals
from pgassay.analysis.verdicts.study import gather_study
from pgassay.design.schedule import block_order
from pgassay.model.experiment import BlockDesign

# Ordinary values, and those with heavy tails.
SETS = [number if number in (0, 3) else pytest.param(number, marks=pytest.mark.slow) for number in range(8)]


def magnitudes(number: int, shape: tuple[int, ...]) -> np.ndarray:
    """Fixed log speeds: ordinary, with ties, with an outlier, heavy-tailed."""
    random = np.random.default_rng([9, number])
    values = random.standard_normal(shape) * 10.0 ** random.uniform(-3, 0)
    if number % 4 == 1:
        values = np.round(values, 2)
        values[::2] = 0.0
    if number % 4 == 2:
        values[random.integers(shape[0])] *= 50
    if number % 4 == 3:
        values = random.standard_cauchy(shape) * 0.02
    return values


def all_runs(values: np.ndarray, names: tuple[str, ...]) -> list[tuple[OrderedBlock, ...]]:
    """The experiment under every order of every block: what each arm does is fixed, the order is drawn."""
    orders = [tuple(order) for order in itertools.permutations(names)]
    runs = []
    for chosen in itertools.product(orders, repeat=len(values)):
        before: str | None = None
        blocks = []
        for number, order in enumerate(chosen):
            speeds = dict(zip(names, values[number], strict=True))
            blocks.append(OrderedBlock(number, order, speeds, {}, before, frozenset()))
            before = order[-1]
        runs.append(tuple(blocks))
    return runs


@pytest.mark.parametrize("number", SETS)
def test_position_evidence_has_expectation_one(number):
    plan = samples.experiment(arms=1)
    study = gather_study(samples.stored(plan, samples.simulate(plan, 1)))
    names = study.table.arm_ids
    draws = {0: [], -1: []}
    for blocks in all_runs(magnitudes(number, (4, 3)), names):
        for position, found in draws.items():
            rows = []
            for block, known in zip(blocks, residuals(study, blocks), strict=True):
                chosen = block.arm_ids[position]
                others = [value for name, value in known.items() if name != chosen]
                row = [known[chosen], *others] if chosen in known else []
                rows.append(row + [np.nan] * (3 - len(row)))
            found.append(rows)
    for found in draws.values():
        evidence = np.exp(log_draw_evidence(np.array(found))[:, -1])
        assert abs(evidence.mean() - 1) < 1e-9
        assert evidence.std() > 1e-6


@pytest.mark.parametrize("number", SETS)
@pytest.mark.parametrize("predecessor", [0, 1, 2], ids=["control", "arm", "twin"])
def test_predecessor_evidence_has_expectation_one(predecessor, number):
    """Neighbours across blocks included; the arm's effect is any, in every block another."""
    plan = samples.experiment(arms=1)
    study = gather_study(samples.stored(plan, samples.simulate(plan, 1)))
    names = study.table.arm_ids
    draws = np.array(
        [
            follower_draws(blocks, residuals(study, blocks), names[predecessor], frozenset(names))
            for blocks in all_runs(magnitudes(number, (4, 3)), names)
        ]
    )
    path = np.exp(log_draw_evidence(draws))
    assert abs(path[:, -1].mean() - 1) < 1e-9
    assert (path.max(axis=1) >= 20).mean() <= 0.05


@pytest.mark.parametrize("number", SETS)
@pytest.mark.parametrize(("copies", "blocks"), [(2, 9), (3, 6)])
@pytest.mark.parametrize("memory", [1.0, 8.0])
def test_copy_evidence_has_expectation_one(memory, copies, blocks, number):
    levels = np.cumsum(magnitudes(number, (blocks,)))
    drawn = np.array(list(itertools.product(range(copies), repeat=blocks)), dtype=float)
    deviations = np.array([level_deviations(levels, each, memory) for each in drawn])
    path = np.exp(log_copy_evidence(deviations, drawn, copies))
    assert abs(path[:, -1].mean() - 1) < 1e-9
    assert (path.max(axis=1) >= 20).mean() <= 0.05


def test_a_mean_that_knew_its_own_block_would_fail():
    """The tests above can fail: a level that is centred by all blocks breaks the expectation."""
    levels = np.array([0.0, 0.2, 0.0, 0.3, 0.0, 0.2, 0.1, 0.4])
    drawn = np.array(list(itertools.product(range(2), repeat=8)), dtype=float)
    deviations = []
    for copies in drawn:
        means = [levels[copies == copy].mean() if (copies == copy).any() else 0.0 for copy in (0, 1)]
        deviations.append(levels - np.where(copies == 0, means[1], means[0]))
    mean = np.exp(log_copy_evidence(np.array(deviations), drawn, 2)[:, -1]).mean()
    assert abs(mean - 1) > 1e-3


def simulated(kind: str, size: float, *, blocks: int = 40, seed: int = 1, spread: float = 0.03):
    """An experiment whose machine favours something by `size` (a log ratio)."""
    plan = samples.experiment(arms=1, statements=1).model_copy(update={"design": BlockDesign(data_copies=2)})
    random = np.random.default_rng([3, seed])
    records, before = [], None
    level = 0.0
    for block in range(blocks):
        copy = int(random.integers(2))
        level += 0.01 * random.standard_normal()
        order = [str(name) for name in random.permutation([arm.id for arm in plan.arms])]
        for position, arm_id in enumerate(order):
            log_speed = level + spread * random.standard_normal()
            log_speed -= size * (kind == "copy" and copy == 1)
            log_speed -= size * (kind == "position" and position == 0)
            log_speed -= size * (kind == "predecessor" and before == plan.contrasts[0].arm_id)
            changes = {"position": position, "data_copy": copy}
            records.append(
                samples.record(plan, len(records), block, arm_id, float(np.exp(log_speed)), **changes)
            )
            before = arm_id
    return gather_study(samples.stored(plan, records))


@pytest.mark.parametrize("kind", ["copy", "position", "predecessor"])
def test_what_is_wrong_is_found_and_named(kind):
    found = 0
    for seed in range(20):
        checks = {check.kind: check for check in check_machine(simulated(kind, 0.1, seed=seed))}
        warnings = machine_warnings(tuple(checks.values()))
        expected = "copies" if kind == "copy" else "machine"
        if checks[kind].evidence_max >= 40:
            found += 1
            assert expected in [warning.kind for warning in warnings]
            assert -0.2 < checks[kind].change < -0.03
            assert "slower" in checks[kind].where
    assert found >= 16


def test_a_fair_machine_is_rarely_suspected():
    """Over all three checks, at the thresholds of the warnings: 5 % for copies, 5 % for the other two."""
    studies = [simulated("none", 0.0, blocks=25, seed=100 + seed) for seed in range(200)]
    kinds = [warning.kind for study in studies for warning in machine_warnings(check_machine(study))]
    # Binomial bounds of 5 % of 200 (99.9 %).
    assert kinds.count("copies") <= 21
    assert kinds.count("machine") <= 21


def test_the_order_of_a_block_says_nothing_of_the_next():
    """No Latin square: the orders of neighbouring blocks are independent draws."""
    names = ["a", "b", "c"]
    orders = [tuple(block_order(seed, block, names)) for seed in range(40) for block in range(100)]
    places = {order: place for place, order in enumerate(itertools.permutations(names))}
    pairs = np.zeros((6, 6))
    for first, second in itertools.pairwise(orders):
        pairs[places[first], places[second]] += 1
    expected = pairs.sum() / 36
    # The 99.9 % quantile of chi-squared with 35 degrees of freedom is 66.6; balanced squares give thousands.
    assert ((pairs - expected) ** 2 / expected).sum() < 66.6
