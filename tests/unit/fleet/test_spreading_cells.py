"""Which machine runs which strata: balance, anchors, what is taken over; pure."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.errors import UsageError
from pgassay.fleet.machine_runs import MachineRun, RunRequest
from pgassay.fleet.spreading import spread_plan as plans
from pgassay.fleet.spreading.cell_assignment import (
    allotted,
    grid_of,
    left_to_do,
    lines_of_plan,
    orphans,
    taken_over,
)
from pgassay.fleet.spreading.results import why_all_ended
from pgassay.model.machines.combined import CombinedResult, MachineResult
from pgassay.model.machines.spread import SpreadExperiment, SpreadGrid, SpreadStratum
from pgassay.model.result import Planned, PlannedCell


def grid(costs: list[dict[str, float]], anchors: int = 1) -> SpreadGrid:
    strata = tuple(SpreadStratum(name=f"s{place}", arms=1, block_s=cost) for place, cost in enumerate(costs))
    return SpreadGrid(strata=strata, anchors=tuple(each.name for each in strata[:anchors]))


def planned(*block_s: float | None) -> Planned:
    cells = tuple(
        PlannedCell(
            stratum=f"s{place}", control="c", arms=("a",), blocks=None, resolves=None, is_decidable=None,
            block_s=takes,
        )
        for place, takes in enumerate(block_s)
    )  # fmt: skip
    return Planned.model_construct(cells=cells)


def test_the_anchor_takes_least_and_many_strata_have_two() -> None:
    assert grid_of({"a": planned(5.0, 2.0, 9.0), "b": planned(6.0, 3.0, None)}).anchors == ("s1",)
    assert grid_of({"a": planned(None, None)}).anchors == ("s0",)
    assert grid_of({"a": planned(9.0, 8.0, 1.0, 7.0, 6.0, 5.0, 2.0, 4.0)}).anchors == ("s2", "s6")
    assert grid_of({"a": planned(5.0, 2.0), "b": planned(6.0, None)}).strata[1].block_s == {"a": 2.0}
    with pytest.raises(UsageError, match="there is one stratum: add a factor"):
        grid_of({"a": planned(5.0)})


def test_what_takes_longest_is_given_first_to_who_ends_it_first() -> None:
    costs = [1.0, 8.0, 7.0, 3.0, 2.0]
    assert allotted(grid([dict.fromkeys("ab", cost) for cost in costs]), ["a", "b"]) == {
        "a": ("s0", "s1", "s4"),
        "b": ("s0", "s2", "s3"),
    }
    # A machine that takes thrice as long gets what it ends first.
    uneven = grid([{"a": cost, "b": 3 * cost} for cost in costs])
    assert allotted(uneven, ["a", "b"]) == {"a": ("s0", "s1", "s2", "s4"), "b": ("s0", "s3")}


@given(
    costs=st.lists(st.floats(0.1, 100), min_size=2, max_size=30),
    machines=st.integers(2, 8),
    anchors=st.integers(1, 2),
)
def test_each_stratum_goes_to_one_machine_and_anchors_to_all(
    costs: list[float], machines: int, anchors: int
) -> None:
    names = [f"m{number}" for number in range(machines)]
    made = grid([dict.fromkeys(names, cost) for cost in costs], min(anchors, len(costs) - 1))
    given = allotted(made, names)
    assert given == allotted(made, names)
    own = [name for strata in given.values() for name in strata if name not in made.anchors]
    assert sorted(own) == sorted(each.name for each in made.strata if each.name not in made.anchors)
    assert len(given) >= 2
    assert all(set(made.anchors) <= set(strata) for strata in given.values())
    # No machine ends later than the mean and the longest stratum together.
    loads = [
        sum(cost for place, cost in enumerate(costs) if f"s{place}" in strata and f"s{place}" in own)
        for strata in given.values()
    ]
    total = sum(cost for place, cost in enumerate(costs) if f"s{place}" in own)
    assert max(loads) <= total / machines + max(costs) + 1e-9


def spread(tmp_path: Path) -> SpreadExperiment:
    plan = plans.new_plan(
        command=("pgassay", "compare"), words=("a=1,2",), files={}, fleet_file=tmp_path / "f.toml", seed=7,
        blocks_max=10, time_max_s=60.0, until_decided=True, facts={name: {"host": name} for name in "abc"},
    )  # fmt: skip
    made = grid([{"a": 1.0}, {"a": 2.0}, {"a": 3.0}])
    return plans.with_cells(plan, made, {"a": ("s0", "s2"), "b": ("s0", "s1")})


def test_a_plan_with_strata_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = spread(tmp_path)
    assert [machine.name for machine in plan.machines] == ["a", "b"]
    plans.write(tmp_path, plan)
    assert plans.read(tmp_path) == plan
    assert lines_of_plan(plan) == [
        "s0 is the anchor: every machine runs it",
        "a runs s2, 4 seconds for a block of each",
        "b runs s1",
    ]


def test_strata_of_a_machine_that_is_away_are_taken_over_once(tmp_path: Path) -> None:
    plan = spread(tmp_path)
    assert orphans(plan, [], None) == []
    left = orphans(plan, ["b"], None)
    # The anchor is still run by the other.
    assert [each.name for each in left] == ["s1"]
    assert taken_over(plan, left, ["a"]) == {"a": ("s1",)}
    assert taken_over(plan, left, []) == {}
    further, run = plans.with_further_run(plan, "a", ("s1",))
    assert run.strata == ("s1",)
    assert orphans(further, ["b"], None) == []
    assert taken_over(further, orphans(further, ["a", "b"], None), ["a", "b"]) == {"b": ("s2",)}


def test_what_has_all_its_blocks_is_not_begun_again(tmp_path: Path) -> None:
    plan = spread(tmp_path)
    assert left_to_do(plan, "b", None) == ("s0", "s1")
    rows = [
        MachineResult(
            name="b",
            arm="x",
            stratum=stratum,
            blocks=blocks,
            ratio=None,
            interval=None,
            verdict="inconclusive",
        )
        for stratum, blocks in (("s0", 10), ("s1", 3))
    ]
    document = CombinedResult.model_construct(arms=(), machines=tuple(rows), cells=None)
    assert left_to_do(plan, "b", document) == ("s1",)


def test_why_all_machines_ended() -> None:
    assert why_all_ended(set(), is_something_left=False) == "failed"
    assert why_all_ended({"decided"}, is_something_left=False) == "decided"
    assert why_all_ended({"decided", "blocks"}, is_something_left=False) == "blocks"
    assert why_all_ended({"blocks"}, is_something_left=True) == "interrupted"
    assert why_all_ended({"blocks", "max-time"}, is_something_left=True) == "max-time"


def test_a_machine_is_told_its_strata_and_when_to_stop(tmp_path: Path) -> None:
    run = MachineRun(tmp_path, "x")
    request = RunRequest(words=("a=1,2",), seed=3, blocks=9, max_time_s=60.0)
    assert run._words(request)[2:7] == ["--blocks", "9", "--max-time", "60.000s", "--seed"]
    assert "--all-blocks" in run._words(request)
    words = run._words(
        request.model_copy(update={"strata": ("n=1", "n=2 m=3"), "until_decided": True, "decided_rest": True})
    )
    assert words[-2:] == ["--stratum=n=1", "--stratum=n=2 m=3"]
    assert not {"--blocks", "--all-blocks"} & set(words)
