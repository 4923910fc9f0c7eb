"""Which layout of a build's functions each arm of a block runs, and what is said of builds linked once."""

from collections import Counter

import pytest

from analysis_samples import experiment
from pgassay.analysis.verdicts.layouts import layout_warnings
from pgassay.design.layouts import planned_layouts
from pgassay.design.schedule import arms_of_block, next_step, plan_block
from pgassay.errors import UsageError
from pgassay.model.build import SourceTree
from pgassay.model.experiment import BlockDesign, BlockPlan, Experiment

LAYOUTS = 4


def of_trees(folders: tuple[str, ...], layouts: int = LAYOUTS, wanted: int | None = None) -> Experiment:
    """An experiment whose control and arms are of these trees, in their order."""
    plan = experiment(statements=0, arms=len(folders) - 1, seed=5)
    arms = []
    for place, arm in enumerate(plan.arms):
        folder = folders[place % len(folders)]
        source = SourceTree(
            name="git:x", tree="", compiler="", options=(), layouts=tuple(f"sha{n}" for n in range(layouts))
        )
        build = arm.spec.build.model_copy(update={"bin_directory": f"{folder}/bin", "source": source})
        arms.append(arm.model_copy(update={"spec": arm.spec.model_copy(update={"build": build})}))
    made = BlockDesign(data_copies=2, layouts=planned_layouts(arms, wanted))
    return plan.model_copy(update={"arms": tuple(arms), "design": made})


def drawn(plan: Experiment, blocks: int) -> dict[int, BlockPlan]:
    plans: dict[int, BlockPlan] = {}
    for block in range(blocks):
        plans[block] = plan_block(plan, plans)
    return plans


def test_in_as_many_blocks_every_arm_meets_each_layout_once() -> None:
    plan = of_trees(("/first", "/second"))
    plans = drawn(plan, 3 * LAYOUTS)
    for cycle in range(3):
        blocks = [plans[cycle * LAYOUTS + place].layouts for place in range(LAYOUTS)]
        for arm in plan.arms:
            assert sorted(each[arm.id] for each in blocks) == [1, 2, 3, 4]
        control, twin = plan.arms[0].id, plan.arms[-1].id
        assert all(each[control] != each[twin] for each in blocks)
    orders = Counter(tuple(each.layouts.values()) for each in plans.values())
    assert len(orders) > LAYOUTS
    # The same seed draws the same, wherever the files are.
    assert [each.layouts for each in drawn(plan, 4).values()] == [
        each.layouts for each in drawn(of_trees(("/elsewhere", "/second")), 4).values()
    ]


def test_a_trial_runs_the_server_of_its_layout() -> None:
    plan = of_trees(("/first", "/second"))
    block = plan_block(plan, {})
    for arm in arms_of_block(plan, block, 0):
        number = block.layouts[arm.id]
        assert arm.spec.build.bin_directory.endswith(f"/layouts/0{number}/bin")
        assert arm.spec.build.binary_sha256 == f"sha{number - 1}"
    step = next_step(plan, [], {0: block})
    assert "/layouts/" in step.spec.arm.spec.build.bin_directory
    # What the data are made with is the build itself.
    assert {arm.spec.build.bin_directory for arm in plan.arms} == {"/first/bin", "/second/bin"}


@pytest.mark.parametrize(
    ("folders", "layouts", "wanted", "expected"),
    [
        (("/first", "/second"), 4, None, 4),
        (("/first", "/second"), 8, None, 4),
        (("/first", "/second"), 8, 8, 8),
        (("/first", "/second"), 4, 1, 0),
        (("/one", "/one"), 4, None, 0),
        (("/first", "/second"), 0, None, 0),
    ],
)
def test_layouts_are_drawn_where_builds_are_compared(folders, layouts, wanted, expected) -> None:
    plan = of_trees(folders, layouts, wanted)
    assert plan.design.layouts == expected
    assert bool(plan_block(plan, {}).layouts) == bool(expected)


def test_layouts_of_a_single_build_are_refused() -> None:
    with pytest.raises(UsageError, match="--layouts 4: no two builds from source are compared here"):
        of_trees(("/one", "/one"), 4, 4)


def test_trees_that_were_linked_once_are_told_as_such() -> None:
    plan = of_trees(("/first", "/second"))
    assert layout_warnings(plan) == ()
    once = plan.model_copy(update={"design": BlockDesign(data_copies=2)})
    (sentence,) = layout_warnings(once)
    assert sentence.startswith("Each tree was linked once")
    assert layout_warnings(experiment()) == ()
