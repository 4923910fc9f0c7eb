"""Main effects and interactions of a grid, simulated: how often anything false is said of them."""

import math
from functools import cache

import numpy as np
import pytest

from pgassay.analysis.effects.effect_evidence import question_set, rules_of_pairs
from pgassay.analysis.effects.judge_effects import level_of
from pgassay.analysis.effects.questions import KINDS, grid_of, questions
from pgassay.analysis.verdicts.study import Study, gather_study
from simulated_worlds import World, noise_in_time
from whole_experiments import planned, run_whole

ALPHA = 0.05
GRID = ("io_method=sync,worker,io_uring", "work_mem=1MB,2MB", "jit=on,off")
ROUNDS = 24
FEW, MANY = 60, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])


def allowed(runs: int) -> float:
    return ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


@cache
def rules():
    experiment = planned(*GRID, seed=1)
    study: Study = gather_study(run_whole(experiment_of_rounds(1, 1), world("normal", 0)).stored)
    assert experiment.contract.noise == "any"
    return rules_of_pairs(study.rules)


def experiment_of_rounds(seed: int, rounds: int):
    made = planned(*GRID, seed=seed, blocks=rounds)
    design = made.design.model_copy(update={"decided_rest": False})
    return made.model_copy(update={"design": design})


def world(noise: str, run: int, effects: dict[str, float] | None = None) -> World:
    return World(noise, 0.03, np.random.default_rng([39, run]), effects=effects or {})


def drawn_rounds(runs: int, noise: str, random: np.random.Generator) -> tuple:
    """Log speeds of many experiments, (runs, rounds, cells), in drawn orders of strata and arms.

    Each stratum's trials are neighbours in time; noise is one series through the whole experiment.
    """
    grid = grid_of(_cells(), {})
    strata = [cell[1:] for cell in grid.cells[: len(grid.cells) // 3]]
    logs = np.zeros((runs, ROUNDS, len(grid.cells)))
    count = ROUNDS * len(grid.cells)
    for run in range(runs):
        series = noise_in_time(noise, count, 0.03, random)
        at = 0
        for turn in range(ROUNDS):
            for stratum in random.permutation(len(strata)):
                mine = [place for place, cell in enumerate(grid.cells) if cell[1:] == strata[stratum]]
                for place in random.permutation(mine):
                    logs[run, turn, place] = series[at]
                    at += 1
    return grid, logs


def _cells() -> list[dict[str, str]]:
    levels = [text.partition("=") for text in GRID]
    names = [name for name, _, _ in levels]
    choices = [rest.split(",") for _, _, rest in levels]
    return [
        dict(zip(names, (a, b, c), strict=True)) for a in choices[0] for b in choices[1] for c in choices[2]
    ]


@pytest.mark.parametrize("runs", [FEW, MANY])
@pytest.mark.parametrize(
    "noise",
    [
        "t2.5",
        "wave",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("normal", "walk", "two-speed", "two-speed-persistent")
        ),
    ],
)
def test_equal_cells_are_seldom_told_apart_at_any_round(runs, noise):
    """All kinds together: one family. Intervals are those of 24 looks, so a false one stays false."""
    grid, logs = drawn_rounds(runs, noise, np.random.default_rng([3, runs]))
    asked = questions(grid)
    wrong = np.zeros(runs, dtype=bool)
    for kind in KINDS:
        of_kind = [each for each in asked if each.kind == kind]
        contrasts = question_set(logs, of_kind, rules())
        found = contrasts.intervals(level_of(kind, len(of_kind), ALPHA), running=True)
        wrong |= ((found.lower > 0) | (found.upper < 0)).any(axis=1)
    assert wrong.mean() <= allowed(runs)


@pytest.mark.parametrize("runs", [FEW, MANY])
def test_the_mean_of_unequal_effects_is_covered(runs):
    """The estimand is the mean over the other factors' levels, whatever the cells' own effects are."""
    random = np.random.default_rng([5, runs])
    grid, logs = drawn_rounds(runs, "wave", random)
    true = random.normal(0, 0.2, len(grid.cells))
    logs = logs + true
    asked = questions(grid)
    missed = np.zeros(runs, dtype=bool)
    for kind in KINDS:
        of_kind = [each for each in asked if each.kind == kind]
        effects = [
            each.scale * (true[list(each.plus)].mean() - true[list(each.minus)].mean()) for each in of_kind
        ]
        found = question_set(logs, of_kind, rules()).intervals(
            level_of(kind, len(of_kind), ALPHA), running=True
        )
        missed |= ((found.lower > effects) | (found.upper < effects)).any(axis=1)
    assert missed.mean() <= allowed(runs)


@pytest.mark.parametrize("runs", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_a_large_factor_is_found_and_a_small_one_bounded(runs):
    """2 × of a factor of the strata, beside nothing of the compared one, from six rounds."""
    random = np.random.default_rng([7, runs])
    grid, logs = drawn_rounds(runs, "normal", random)
    logs = logs + np.array([math.log(2) * (cell[1] == "2MB") for cell in grid.cells])
    main = [each for each in questions(grid) if each.kind == "main"]
    contrasts = question_set(logs[:, :6], main, rules())
    found = contrasts.intervals(level_of("main", len(main), ALPHA), running=True)
    place = next(i for i, each in enumerate(main) if grid.factors[each.factor] == "work_mem")
    assert (found.lower[:, place] > 0).mean() >= 0.95
    later = question_set(logs, main, rules()).intervals(level_of("main", len(main), ALPHA), running=True)
    reach = np.maximum(-later.lower, later.upper)
    others = [i for i in range(len(main)) if i != place]
    assert (reach[:, others] < math.log(1.05)).mean() >= 0.8


@pytest.mark.parametrize("noise", ["normal", pytest.param("two-speed", marks=pytest.mark.slow)])
def test_whole_experiments_of_equal_arms_name_no_factor(noise):
    """Through plan, schedule and analysis, as `compare` does."""
    wrong = 0
    for run in range(10):
        ended = run_whole(experiment_of_rounds(run, 10), world(noise, run), until_decided=False)
        effects = ended.result().effects
        assert effects is not None and effects.rounds == 10
        wrong += any(size.ratio is not None for size in effects.ranking)
    assert wrong <= 1
