"""What was stopped early tells nothing of its estimate: in findings, beside another plan, in the tree."""

import json
from typing import Any

import pytest

from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from pgassay.plans.findings import misestimates
from pgassay.plans.plan_comparison import beside
from pgassay.report.explain.plan_lines import tree_lines
from pgassay.tune.symptom import plan_line


def node(kind: str, estimated: int, came: int, *below: dict[str, Any], **keys: Any) -> dict[str, Any]:
    times = {"Actual Startup Time": 0.1, "Actual Total Time": 90.0, "Actual Loops": 1}
    figures = {"Startup Cost": 0.0, "Total Cost": 900.0, "Plan Rows": estimated, "Actual Rows": came}
    plans = {"Plans": list(below)} if below else {}
    return {"Node Type": kind, "Plan Width": 8, **figures, **times, **plans, **keys}


def scan(estimated: int, came: int) -> dict[str, Any]:
    return node("Seq Scan", estimated, came, **{"Relation Name": "orders", "Alias": "orders"})


def plan(top: dict[str, Any]) -> ExplainedPlan:
    return read_plans(json.dumps([{"Plan": top, "Execution Time": 100.0}]), "the test")[0]


def empty_hash(join_type: str) -> ExplainedPlan:
    inner = node("Hash", 1, 0, scan(1, 0))
    return plan(node("Hash Join", 1, 0, scan(200_000, 1), inner, **{"Join Type": join_type}))


EXISTS = {"Subplan Name": "InitPlan 1", "Parent Relationship": "InitPlan"}
STOPPED = (
    plan(node("Limit", 10, 10, scan(200_000, 10))),
    plan(
        node("Merge Join", 50, 50, scan(200_000, 1_500), node("Index Scan", 50, 50), **{"Join Type": "Inner"})
    ),
    # The groups come in the order of an index.
    plan(node("Limit", 10, 10, node("Aggregate", 10, 10, scan(200_000, 900), Strategy="Sorted"))),
    plan(node("Result", 1, 1, scan(200_000, 1) | EXISTS)),
    empty_hash("Inner"),
)
IDS = ("limit", "merge join", "sorted groups", "exists", "empty hash table")


@pytest.mark.parametrize("early", STOPPED, ids=IDS)
def test_an_estimate_of_what_was_stopped_early_is_not_called_wrong(early: ExplainedPlan) -> None:
    assert misestimates(early) == {}
    assert not [each for each in early.findings if each.kind == "misestimate"]
    assert not [line for line in tree_lines(early) if "rows estimated" in line.text]
    right = plan(node("Limit", 10, 10, scan(2_000, 2_000)))
    assert not [each for each in beside(early, right).sentences if "times off" in each]


def test_bitmaps_put_together_count_no_rows() -> None:
    sides = [node("Bitmap Index Scan", 50_000, 50_000, **{"Index Name": name}) for name in ("a", "b")]
    heap = {"Relation Name": "orders", "Alias": "orders"}
    for kind in ("BitmapAnd", "BitmapOr"):
        read = plan(node("Bitmap Heap Scan", 5_000, 5_000, node(kind, 5_000, 0, *sides), **heap))
        assert misestimates(read) == {}, kind
        assert not [each for each in read.findings if each.kind == "misestimate"]


def test_rows_that_a_merge_join_went_back_for_are_no_wrong_estimate() -> None:
    def joined(inner: dict[str, Any]) -> ExplainedPlan:
        return plan(node("Merge Join", 9_000, 100_000, scan(1_000, 1_000), inner, **{"Join Type": "Inner"}))

    # Below the sort, which is read again and again, each row came once.
    assert list(misestimates(joined(node("Sort", 1_000, 100_000, scan(1_000, 1_000))))) == [0]
    assert 2 not in misestimates(joined(scan(1_000, 100_000)))
    assert misestimates(joined(node("Sort", 1_000, 100_000, scan(1_000, 100_000))))[3] == 100.0


def test_what_is_read_to_its_end_tells_of_its_estimate() -> None:
    for strategy in ("Plain", "Hashed", "Mixed"):
        groups = node("Aggregate", 10, 10, scan(200_000, 900), Strategy=strategy)
        assert 2 in misestimates(plan(node("Limit", 10, 10, groups)))
    # A left join keeps the rows of its outer side, so that all of it is read.
    assert 1 in misestimates(empty_hash("Left"))


def test_more_rows_than_estimated_are_wrong_wherever_they_stop() -> None:
    wrong = plan(node("Limit", 5_000, 5_000, scan(10, 5_000)))
    assert misestimates(wrong) == {1: 500.0}
    assert any("500 × too few rows estimated" in line.text for line in tree_lines(wrong))
    right = plan(node("Limit", 5_000, 5_000, scan(5_000, 5_000)))
    assert any("500 times off in B" in each for each in beside(right, wrong).sentences)


@pytest.mark.parametrize(
    ("estimated", "came", "loops", "is_wrong"),
    [
        (20, 2, 1, True),
        # Up to 2.5 a loop, as EXPLAIN rounds: eight times, not ten.
        (20, 2, 3, False),
        (1, 10, 3, False),
        (1, 11, 3, True),
        # From version 18 the mean has decimals.
        (20, 1.99, 3, True),
    ],
)
def test_what_rounding_over_loops_explains_is_no_wrong_estimate(
    estimated: int, came: float, loops: int, *, is_wrong: bool
) -> None:
    read = scan(estimated, 1) | {"Actual Rows": came, "Actual Loops": loops}
    assert bool(misestimates(plan(node("Gather", 60, 60, read)))) is is_wrong


def test_counts_that_follow_from_a_rounded_mean_are_told_as_such() -> None:
    def line(loops: int) -> str:
        read = scan(20, 3) | {"Rows Removed by Filter": 81_513, "Actual Loops": loops}
        return plan_line(plan(read))

    assert "3 rows, 81,513 discarded" in line(1)
    assert "about 9 rows, about 244,539 discarded" in line(3)
