"""What is told by plans alone, and plans that are not the same."""

import math

import pytest

import tune_samples as samples
from finder_samples import plan
from pgassay.tune.candidate import StatementRewrite
from pgassay.tune.touched import beside, differs, is_planner_setting, is_told_by_plan


@pytest.mark.parametrize(
    ("settings", "sql", "is_setting", "is_told"),
    [
        ({"random_page_cost": "1.1", "effective_cache_size": "6GB"}, (), True, True),
        # What memory there is decides how a plan is executed, too.
        ({"random_page_cost": "1.1", "work_mem": "64MB"}, (), False, False),
        ({}, ("CREATE INDEX i ON t (a)", "create unique index j ON t (b)"), False, True),
        ({}, ("CREATE INDEX i ON t (a)", "VACUUM t"), False, False),
        ({"random_page_cost": "1.1"}, ("CREATE INDEX i ON t (a)",), False, True),
        ({"work_mem": "64MB"}, ("CREATE INDEX i ON t (a)",), False, False),
        ({}, (), False, False),
    ],
)
def test_an_index_and_the_planners_costs_change_nothing_but_plans(
    settings: dict[str, str], sql: tuple[str, ...], *, is_setting: bool, is_told: bool
) -> None:
    made = samples.candidate("one", settings=settings, sql=sql)
    assert (is_planner_setting(made), is_told_by_plan(made)) == (is_setting, is_told)


def test_a_rewrite_is_not_told_by_its_plan() -> None:
    other = StatementRewrite(statement="list", sql="SELECT 1", condition="why", proof="proven")
    made = samples.candidate("one", sql=(), rewrites=(other,), settings={"random_page_cost": "1.1"})
    assert not is_planner_setting(made) and not is_told_by_plan(made)


def test_plans_differ_by_their_nodes_and_their_cost() -> None:
    whole = plan()
    (node,) = whole.nodes
    dearer = whole.model_copy(update={"nodes": (node.model_copy(update={"cost_total": 102.0}),)})
    hardly = whole.model_copy(update={"nodes": (node.model_copy(update={"cost_total": 100.5}),)})
    by_index = whole.model_copy(update={"nodes": (node.model_copy(update={"index": "i"}),)})
    assert differs(whole, by_index, by_cost=False)
    assert differs(whole, dearer, by_cost=True) and not differs(whole, dearer, by_cost=False)
    assert not differs(whole, hardly, by_cost=True)


def test_seconds_are_set_beside_those_of_now_unless_these_were_stopped() -> None:
    assert beside(1.0, 0.6, 2.0) == pytest.approx(0.3)
    assert beside(1.0, 0.6, math.inf) == beside(1.0, 0.6, 0.0) == 0.6
