"""Whole experiments, simulated through plan, schedule and verdicts: what is promised of their words.

Every rate is that of whole experiments which end at their first verdict. A rate of 5 % may be missed by two
standard errors of its estimate, so that chance alone fails few of these tests; their seeds are fixed.
"""

import math

import numpy as np
import pytest

from pgassay.analysis.statistics.power import blocks_for_equivalence
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.trial import TrialRecord, TrialSpec
from simulated_worlds import NOISES, World
from whole_experiments import Ended, as_before, planned, run_whole, statements_record

ALPHA = 0.05
ONE_ARM = ("work_mem=1MB,2MB",)
THREE_ARMS = ("work_mem=1MB,2MB,3MB,4MB",)
OWN_DATA = ("prepare=none,SELECT 1",)
GRID = ("io_method=sync,worker,io_uring", "work_mem=1MB,2MB")
LARGE_GRID = ("io_method=sync,worker,io_uring,other", "work_mem=1MB,2MB,3MB", "io_workers=1,2")
NUMBERS_OF_RUNS = [200, pytest.param(2000, marks=pytest.mark.slow)]
BLOCKS, SPREAD = 24, 0.03


def allowed(runs: int) -> float:
    """The rate of errors that is accepted of so many experiments."""
    return ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


def arms_of(experiment: Experiment) -> list[Arm]:
    """What is compared with a control."""
    return [arm for arm in experiment.arms if arm.role == "arm"]


def ran(factors: tuple[str, ...], run: int, noise: str, **world: object) -> Ended:
    """One experiment of equal arms; `world` says what is wrong with the machine."""
    experiment = planned(*factors, seed=run, blocks=BLOCKS)
    names = frozenset(arm.name for arm in arms_of(experiment))
    if "carry_over" in world:
        world["leaving"] = names
    if "failing" in world:
        world["failing_arms"] = names
    random = np.random.default_rng([77, run])
    return run_whole(experiment, World(noise, SPREAD, random, **world))  # type: ignore[arg-type]


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize(
    ("factors", "noise"),
    [*((ONE_ARM, noise) for noise in NOISES), (THREE_ARMS, "normal"), (THREE_ARMS, "wave"), (GRID, "wave")],
)
def test_equal_arms_are_seldom_given_a_direction(factors, noise, runs):
    wrong = sum(bool(ran(factors, run, noise).directions()) for run in range(runs))
    assert wrong / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("difference", [0.01, 0.03, 0.05])
def test_copies_that_arms_share_may_differ(difference, runs):
    wrong = sum(
        bool(ran(ONE_ARM, run, "normal", copy_difference=difference).directions()) for run in range(runs)
    )
    assert wrong / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("spread", [0.015, 0.03, 0.05])
def test_copies_that_arms_own_may_differ(spread, runs):
    """Each fresh copy draws what chance gave it: 200 blocks on two copies would tell nothing of the arm."""
    wrong = sum(bool(ran(OWN_DATA, run, "normal", copy_spread=spread).directions()) for run in range(runs))
    assert wrong / runs <= allowed(runs)


def test_copies_that_are_kept_mislead():
    """So these simulations can fail: the design before never made a fresh copy of an arm's own data."""
    wrong = 0
    for run in range(60):
        experiment = as_before(planned(*OWN_DATA, seed=run, blocks=BLOCKS))
        source = World("normal", SPREAD, np.random.default_rng([77, run]), copy_spread=0.03)
        wrong += bool(run_whole(experiment, source).directions())
    assert wrong / 60 >= 0.2


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("carry_over", [0.01, 0.02, 0.05])
@pytest.mark.parametrize("factors", [ONE_ARM, THREE_ARMS], ids=["one-arm", "three-arms"])
def test_what_an_arm_leaves_behind_is_warned_of_or_withheld(factors, carry_over, runs):
    ended = (ran(factors, run, "normal", carry_over=carry_over) for run in range(runs))
    silent = sum(bool(each.directions()) and "carry-over" not in each.warned_kinds() for each in ended)
    assert silent / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("failing", [0.5, 1.0])
@pytest.mark.parametrize("factors", [ONE_ARM, THREE_ARMS], ids=["one-arm", "three-arms"])
def test_trials_that_fail_by_their_outcome_are_warned_of_or_withheld(factors, failing, runs):
    """A slow trial of an arm breaks a rule and is repeated: what is left of the arm is its faster trials."""
    ended = (ran(factors, run, "normal", failing=failing) for run in range(runs))
    silent = sum(bool(each.directions()) and "failures" not in each.warned_kinds() for each in ended)
    assert silent / runs <= allowed(runs)


@pytest.mark.parametrize("runs", NUMBERS_OF_RUNS)
@pytest.mark.parametrize("noise", ["normal", "t2.5", "wave"])
def test_a_difference_of_the_margin_is_seldom_called_equivalent(noise, runs):
    """The truth lies on the edge; alternating sides."""
    wrong = 0
    for run in range(runs):
        experiment = planned(*ONE_ARM, seed=run, blocks=BLOCKS)
        effect = math.log1p(experiment.contract.margin) * (-1) ** run
        effects = {arm.name: effect for arm in arms_of(experiment)}
        source = World(noise, SPREAD, np.random.default_rng([78, run]), effects=effects)
        wrong += run_whole(experiment, source).standing.arms[0].verdict == "equivalent"
    assert wrong / runs <= allowed(runs)


@pytest.mark.parametrize("runs", [100, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("spread", "trials"), [(0.01, 15), (0.03, 21), (0.07, 84)])
def test_trials_until_five_percent_are_found(spread, trials, runs):
    """All roles are counted: control, twin and arm."""
    needed = []
    for run in range(runs):
        experiment = planned(*ONE_ARM, seed=run, blocks=60)
        effects = {arm.name: math.log(1.05) for arm in arms_of(experiment)}
        ended = run_whole(
            experiment, World("normal", spread, np.random.default_rng([79, run]), effects=effects)
        )
        needed.append(ended.trials if ended.directions() else math.inf)
    assert np.median(needed) <= trials


@pytest.mark.parametrize("runs", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_a_grid_takes_half_of_the_trials_that_it_took(runs):
    """Four methods in six strata, on noise like that of recorded trials: what is near in time is alike."""
    now, before = [], []
    for run in range(runs):
        experiment = planned(*LARGE_GRID, seed=run, blocks=40)
        sizes = {"worker": 0.1, "io_uring": -0.1, "other": 0.2}
        effects = {arm.name: sizes[arm.levels["io_method"]] for arm in arms_of(experiment)}
        for each, counts in ((experiment, now), (as_before(experiment), before)):
            random = np.random.default_rng([80, run])
            counts.append(run_whole(each, World("wave", 0.07, random, effects=effects)).trials)
    assert np.mean(now) <= np.mean(before) / 2


class Statements:
    """Records of several statements, each with noise of its own beside that of its trial."""

    def __init__(self, spread: float, random: np.random.Generator) -> None:
        self._spread = spread
        self._random = random

    def __call__(self, spec: TrialSpec, status: str, log_speed: float) -> TrialRecord:
        names = [statement.name for statement in spec.arm.spec.workload.statements]
        noise = self._spread * self._random.standard_normal(len(names))
        return statements_record(spec, status, dict(zip(names, log_speed + noise, strict=True)))


@pytest.mark.parametrize("runs", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_identical_statements_are_called_equivalent(runs):
    """In as many blocks as are planned for the margin, with so many comparisons: at least four in five."""
    spread, found = 0.02, []
    for run in range(runs):
        planned_blocks = blocks_for_equivalence(math.sqrt(2) * spread, 0.03, pooled=True, contrasts=6)
        experiment = planned(*ONE_ARM, seed=run, blocks=planned_blocks, workload="full-scan")
        random = np.random.default_rng([81, run])
        source, records = World("normal", 0.001, random), Statements(spread, random)
        result = run_whole(experiment, source, record_of=records, until_decided=False).result()
        found += [arm.verdict for each in result.statements for arm in each.arms if arm.verdict != "control"]
    assert found.count("equivalent") / len(found) >= 0.8


def test_looks_that_are_left_out_change_nothing():
    for run, noise in enumerate(NOISES * 2):
        experiment = planned(*ONE_ARM, seed=run, blocks=BLOCKS)
        effects = {arms_of(experiment)[0].name: 0.02 * (run % 3)}
        ended = [
            run_whole(
                experiment,
                World(noise, SPREAD, np.random.default_rng([82, run]), effects=effects),
                look_at_each=each,
            )
            for each in (False, True)
        ]
        assert ended[0].standing == ended[1].standing
        assert ended[0].trials == ended[1].trials
