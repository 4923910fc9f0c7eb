"""Two trees in K layouts each: how often a direction is said of equal ones, and of how large a difference.

What layouts do is drawn for each tree, as its linker would; every block runs the layouts that its plan draws.
"""

import numpy as np
import pytest

from analysis_samples import experiment, record, stored
from pgassay.analysis.profile.judge_functions import Profiled, judged
from pgassay.analysis.verdicts.layouts import LayoutNoise, layout_noise, widened
from pgassay.analysis.verdicts.primary_family import findings_of
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.analysis.verdicts.verdict import judge
from pgassay.design.layouts import planned_layouts
from pgassay.design.schedule import plan_block
from pgassay.experiment.planning.experiment_plan import CLIPPED_SHARE, SHARPNESS, SHARPNESS_WEIGHTS
from pgassay.model.build import SourceTree
from pgassay.model.experiment import BlockDesign, BlockPlan, Experiment

ALPHA, MARGIN, LOOKS = 0.05, 0.03, (4, 5, 6, 8, 10, 12, 16, 20, 30, 60)
RUNS = [pytest.param(200, id="200"), pytest.param(4000, id="4000", marks=pytest.mark.slow)]
# Of one experiment's plan; another has other draws.
TOGETHER = 50


def of_two_trees(layouts: int, seed: int, **contract: object) -> Experiment:
    """A control with its twin, and an arm of another tree, linked so many times each; 1: as built."""
    plan = experiment(statements=0, seed=seed, pool_twin=True, **contract)
    arms = []
    for arm in plan.arms:
        folder = "/builds/other/bin" if arm.role == "arm" else "/builds/first/bin"
        tree = SourceTree(
            name=folder, tree="", compiler="", options=(), layouts=("",) * (layouts if layouts > 1 else 0)
        )
        build = arm.spec.build.model_copy(update={"bin_directory": folder, "source": tree})
        arms.append(arm.model_copy(update={"spec": arm.spec.model_copy(update={"build": build})}))
    design = BlockDesign(data_copies=2, layouts=planned_layouts(arms, layouts))
    return plan.model_copy(update={"arms": tuple(arms), "design": design})


def with_blocks(plan: Experiment, blocks: int) -> tuple[Study, dict[int, BlockPlan]]:
    """The study after so many blocks, whose logs are to be replaced, and their plans."""
    plans: dict[int, BlockPlan] = {}
    records = []
    for block in range(blocks):
        plans[block] = plan_block(plan, plans)
        for arm_id in plans[block].arm_ids:
            records.append(record(plan, len(records), block, arm_id, 1.0))
    made = stored(plan, records)
    object.__setattr__(made, "block_plans", plans)
    return gather_study(made), plans


def simulated(
    plan: Experiment, plans: dict[int, BlockPlan], layout: float, trial: float, effect: float, seed: int
) -> np.ndarray:
    """Log speeds of many runs, (runs, blocks, arms)."""
    random = np.random.default_rng([seed, plan.contract.seed])
    layouts = max(1, plan.design.layouts)
    of_tree = {
        folder: layout * random.standard_normal((TOGETHER, layouts + 1))
        for folder in {arm.spec.build.bin_directory: None for arm in plan.arms}
    }
    values = trial * random.standard_normal((TOGETHER, len(plans), len(plan.arms)))
    values += 0.1 * random.standard_normal((TOGETHER, len(plans), 1))
    for column, arm in enumerate(plan.arms):
        for block, each in plans.items():
            values[:, block, column] += of_tree[arm.spec.build.bin_directory][:, each.layouts.get(arm.id, 0)]
        values[:, :, column] += effect * (arm.role == "arm")
    return values


def verdicts(
    layouts: int, layout: float, trial: float, effect: float, runs: int, looks: tuple[int, ...] = LOOKS
) -> list[list[str]]:
    """The verdict of each run at each look."""
    found: list[list[str]] = []
    for seed in range(runs // TOGETHER):
        plan = of_two_trees(
            layouts,
            seed,
            sharpness=SHARPNESS,
            sharpness_weights=SHARPNESS_WEIGHTS,
            clipped_share=CLIPPED_SHARE,
            equivalence="each",
        )
        values = None
        said: list[list[str]] = [[] for _ in range(TOGETHER)]
        for blocks in sorted(looks, reverse=True):
            study, plans = with_blocks(plan, blocks)
            if values is None:
                values = simulated(plan, plans, layout, trial, effect, seed)
            logs = values[:, :blocks]
            contrasts = study.contrast_set(logs)
            intervals = contrasts.intervals(ALPHA, running=True)
            findings = widened(study, findings_of(contrasts, intervals, ALPHA), logs, ALPHA)
            for run, (finding,) in enumerate(findings):
                said[run].insert(0, judge(finding, MARGIN).verdict)
        found += said
    return found


def rate_of_directions(found: list[list[str]]) -> float:
    """Of the runs in which a direction was said at some look."""
    return float(np.mean([any(word in ("faster", "slower") for word in run) for run in found]))


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(
    ("layouts", "layout", "trial"),
    [
        (4, 0.02, 0.01),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((4, 0.03, 0.03), (8, 0.02, 0.01))),
    ],
)
def test_equal_trees_get_a_direction_in_five_percent_at_most(layouts, layout, trial, runs):
    """At any of ten looks, which is what people take."""
    rate = rate_of_directions(verdicts(layouts, layout, trial, 0.0, runs))
    assert rate <= 0.05 + 3.1 * np.sqrt(0.05 * 0.95 / runs)


def test_with_one_layout_most_equal_trees_get_a_direction():
    """Their layouts differ by 2 %, as adding a function that nobody calls may change them."""
    assert rate_of_directions(verdicts(1, 0.02, 0.01, 0.0, 100, looks=(30,))) > 0.3


def test_a_large_difference_is_found_in_as_many_blocks_as_without_layouts():
    found = verdicts(4, 0.01, 0.01, 0.1, 100, looks=(4, 5, 8))
    assert np.mean([run[1] == "faster" for run in found]) > 0.9
    equal = verdicts(4, 0.0, 0.01, 0.0, 100, looks=(30,))
    assert np.mean([run[0] == "equivalent" for run in equal]) > 0.9


def test_what_layouts_do_is_told_from_the_noise_of_trials():
    found: list[LayoutNoise] = []
    for seed in range(8):
        plan = of_two_trees(4, seed)
        study, plans = with_blocks(plan, 24)
        values = simulated(plan, plans, 0.02, 0.01, 0.0, seed)
        found += [noise for logs in values[:10] if (noise := layout_noise(study, logs, "")) is not None]
    assert len(found) == 80
    assert {noise.freedom for noise in found} == {6}
    own = [noise.deviation**2 for noise in found if noise.deviation is not None]
    assert np.mean(own) == pytest.approx(0.02**2, rel=0.25)
    assert 0.6 < np.mean([noise.share or 0.0 for noise in found]) < 0.9


def test_the_layouts_are_not_judged_before_each_was_met():
    plan = of_two_trees(4, 1)
    study, plans = with_blocks(plan, 3)
    assert layout_noise(study, simulated(plan, plans, 0.02, 0.01, 0.0, 1)[0], "") is None


@pytest.mark.parametrize("rests_after", [0, 3])
def test_a_build_that_never_ran_or_rests_early_takes_nothing_from_the_others(rests_after):
    """The second of three trees is dropped, or decided before it met all layouts; the third is the first."""
    wrong, told = 0, 0
    for seed in range(2):
        made = experiment(arms=2, statements=0, seed=seed, pool_twin=True)
        arms = []
        for arm in made.arms:
            folder = f"/builds/{arm.levels['io_method']}/bin"
            tree = SourceTree(name=folder, tree="", compiler="", options=(), layouts=("",) * 4)
            build = arm.spec.build.model_copy(update={"bin_directory": folder, "source": tree})
            arms.append(arm.model_copy(update={"spec": arm.spec.model_copy(update={"build": build})}))
        design = BlockDesign(data_copies=2, layouts=planned_layouts(arms, 4), decided_rest=True)
        plan = made.model_copy(update={"arms": tuple(arms), "design": design})
        resting = plan.contrasts[0].arm_id
        plans: dict[int, BlockPlan] = {}
        for block in range(40):
            plans[block] = plan_block(plan, plans, {resting} if block >= rests_after else set())
        records = [
            record(plan, 10 * block + number, block, arm_id, 1.0)
            for block, each in plans.items()
            for number, arm_id in enumerate(each.arm_ids)
        ]
        kept = stored(plan, records)
        object.__setattr__(kept, "block_plans", plans)
        study, values = gather_study(kept), simulated(plan, plans, 0.02, 0.01, 0.0, seed)
        for block, each in plans.items():
            for column, arm in enumerate(plan.arms):
                if arm.id not in each.arm_ids:
                    values[:, block, column] = np.nan
        contrasts = study.contrast_set(values)
        intervals = contrasts.intervals(ALPHA / 2, running=True)
        findings = widened(study, findings_of(contrasts, intervals, ALPHA / 2), values, ALPHA / 2)
        wrong += sum(not of_run[1].lower <= 0 <= of_run[1].upper for of_run in findings)
        told += sum(layout_noise(study, logs, "") is not None for logs in values)
    assert told == 2 * TOGETHER
    assert wrong <= 8


PROFILE_ROUNDS, FUNCTIONS = 10, 24
# Of a function's time, in logs: what another layout does to it, and another trial.
FUNCTION_LAYOUT, FUNCTION_TRIAL = 0.05, 0.03
PROFILES = [pytest.param(12, id="12"), pytest.param(200, id="200", marks=pytest.mark.slow)]


def differing(seed: int, effect: float) -> set[str]:
    """The functions that are said to differ; `effect`: of the first of them."""
    plan = of_two_trees(
        4,
        seed,
        sharpness=SHARPNESS,
        sharpness_weights=SHARPNESS_WEIGHTS,
        clipped_share=CLIPPED_SHARE,
        noise="equal",
    )
    study, plans = with_blocks(plan, PROFILE_ROUNDS)
    logs = simulated(plan, plans, FUNCTION_LAYOUT, FUNCTION_TRIAL, 0.0, seed)[:FUNCTIONS]
    logs[0] += effect * np.array([arm.role == "arm" for arm in plan.arms])
    samples = {f"function_{place}": 1000 * np.exp(each) for place, each in enumerate(logs)}
    totals = sum(samples.values())
    profiled = Profiled(997.0, np.full(totals.shape, 1000.0), totals, samples, samples)
    found = judged(study, profiled, own=True)
    assert len(found) == FUNCTIONS
    return {each.name for each in found if any(arm.verdict in ("less", "more") for arm in each.arms)}


@pytest.mark.parametrize("runs", PROFILES)
def test_what_layouts_do_to_a_function_is_no_difference_of_trees(runs: int) -> None:
    wrong = sum(bool(differing(seed, 0.0)) for seed in range(runs))
    assert wrong <= 0.05 * runs + 3.1 * np.sqrt(0.05 * 0.95 * runs)


def test_a_function_that_takes_half_as_much_more_is_still_found() -> None:
    assert sum("function_0" in differing(seed, np.log(1.5)) for seed in range(4)) >= 3
