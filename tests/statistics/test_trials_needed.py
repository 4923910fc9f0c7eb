"""How many trials whole experiments take until they tell what is true: simulated, all roles counted."""

import itertools
import math

import numpy as np
import pytest

from pgassay.analysis.statistics.power import blocks_for_equivalence
from pgassay.model.trial import TrialRecord, TrialSpec
from simulated_worlds import NOISES, World
from whole_experiments import arms_of, as_before, planned, run_whole, statements_record

ONE_ARM = ("work_mem=1MB,2MB",)
LARGE_GRID = ("io_method=sync,worker,io_uring,other", "work_mem=1MB,2MB,3MB", "io_workers=1,2")
BLOCKS, SPREAD = 24, 0.03


@pytest.mark.parametrize("runs", [40, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("spread", "known", "unknown"),
    [
        pytest.param(0.01, 18, 18, marks=pytest.mark.slow),
        (0.03, 24, 24),
        pytest.param(0.07, 84, 84, marks=pytest.mark.slow),
    ],
)
def test_trials_until_five_percent_are_found(spread, known, unknown, runs):
    """In the median, on a machine that has run such an experiment before, and on one that has not."""
    for scale, most in ((spread * math.sqrt(1.5), known), (None, unknown)):
        assert np.median([_trials(run, spread, scale) for run in range(runs)]) <= most


def _trials(run: int, spread: float, scale: float | None) -> float:
    """The trials until 5 % are found; `scale` is what the machine's history says of the evidence's spread."""
    experiment = planned(*ONE_ARM, seed=run, blocks=60)
    if scale is not None:
        contract = experiment.contract.model_copy(update={"first_scale": scale})
        experiment = experiment.model_copy(update={"contract": contract})
    effects = {arm.name: math.log(1.05) for arm in arms_of(experiment)}
    source = World("normal", spread, np.random.default_rng([79, run]), effects=effects)
    ended = run_whole(experiment, source)
    return ended.trials if ended.directions() else math.inf


@pytest.mark.parametrize("runs", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_a_grid_takes_little_more_than_half_of_the_trials_that_it_took(runs):
    """Four methods in six strata, on noise like that of recorded trials: what is near in time is alike.

    It took half before sign flips had to confirm each of its 18 verdicts, which may be of a noisier arm.
    """
    now, before = [], []
    for run in range(runs):
        experiment = planned(*LARGE_GRID, seed=run, blocks=40)
        sizes = {"worker": 0.1, "io_uring": -0.1, "other": 0.2}
        effects = {arm.name: sizes[arm.levels["io_method"]] for arm in arms_of(experiment)}
        for each, counts in ((experiment, now), (as_before(experiment), before)):
            random = np.random.default_rng([80, run])
            counts.append(run_whole(each, World("wave", 0.07, random, effects=effects)).trials)
    assert np.mean(now) <= np.mean(before) * 0.57


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


@pytest.mark.parametrize(
    ("factors", "runs"),
    [
        pytest.param(ONE_ARM, 8, id="one arm"),
        pytest.param(ONE_ARM, 16, id="one arm, all noises twice", marks=pytest.mark.slow),
        pytest.param(("work_mem=1MB,2MB,3MB",), 2, id="two arms"),
        pytest.param(("work_mem=1MB,2MB,3MB",), 6, id="two arms, more noises", marks=pytest.mark.slow),
    ],
)
def test_questions_that_are_left_out_change_nothing(factors, runs):
    for run, noise in zip(range(runs), itertools.cycle(NOISES), strict=False):
        experiment = planned(*factors, seed=run, blocks=BLOCKS)
        first, *others = (arm.name for arm in arms_of(experiment))
        effects = {first: 0.02 * (run % 3), **dict.fromkeys(others, 0.06)}
        world = {"effects": effects, "failing": 0.2 * (run % 2), "failing_arms": {first}}
        ended = [
            run_whole(
                experiment,
                World(noise, SPREAD, np.random.default_rng([82, run]), **world),
                **how,
            )
            for how in ({"look_at_each": True}, {}, {"for_directions": True})
        ]
        assert ended[0].directions() == ended[2].directions()
        assert ended[0].standing == ended[1].standing
        assert ended[0].stored == ended[1].stored
