"""Statements whose time goes into the triggers of constraints."""

import json

import pytest

from pgassay.model.plans.explained_plan import ExplainedPlan, ExplainResult
from pgassay.plans.explain_plan import read_plans
from pgassay.report.explain import explain_page

FIGURES = "(cost=0.00..2.00 rows=0 width=0) (actual time=1.000..2.000 rows=0.00 loops=1)"
WHERE = (
    "SELECT conrelid::regclass, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'lines_fkey';"
)


def in_text(change: str, trigger: str) -> ExplainedPlan:
    (plan,) = read_plans(f"{change} on orders  {FIGURES}\n{trigger}\nExecution Time: 200.000 ms", "a test")
    return plan


def in_json(change: str, name: str) -> ExplainedPlan:
    top = {
        "Node Type": "ModifyTable", "Operation": change, "Relation Name": "orders", "Total Cost": 2.0,
        "Actual Total Time": 2.0, "Actual Rows": 0.0, "Actual Loops": 1,
    }  # fmt: skip
    trigger = {"Trigger Name": name, "Constraint Name": "lines_fkey", "Time": 198.0, "Calls": 100}
    document = [{"Plan": top, "Triggers": [trigger], "Execution Time": 200.0}]
    (plan,) = read_plans(json.dumps(document), "a test")
    return plan


@pytest.mark.parametrize(
    "plan",
    [
        in_text("Delete", "Trigger for constraint lines_fkey: time=198.000 calls=100"),
        in_json("Delete", "RI_ConstraintTrigger_a_16400"),
        in_json("Update", "RI_ConstraintTrigger_a_16401"),
    ],
)
def test_a_foreign_key_that_takes_the_time_is_told_with_its_remedy(plan: ExplainedPlan) -> None:
    (finding,) = plan.findings
    assert finding.kind == "trigger"
    assert "The trigger of the constraint lines_fkey took 198 ms of 200 ms, 100 calls." in finding.sentence
    assert "the table of the foreign key lines_fkey is searched" in plan.advice[0].sentence
    assert plan.advice[0].sql == WHERE
    # The name that a person gave it, and not the one with a number.
    shown = explain_page.page_of(ExplainResult(plans=(plan,))).terminal(width=120)
    assert "Trigger lines_fkey:" in shown and "RI_" not in shown


@pytest.mark.parametrize(
    "plan",
    [
        # A row that refers looks for its key, which has an index.
        in_text("Insert", "Trigger for constraint lines_fkey: time=198.000 calls=100"),
        in_json("Update", "RI_ConstraintTrigger_c_16402"),
        # A trigger that somebody made has its own name.
        in_json("Delete", "lines_fkey_check"),
        in_text("Delete", "Trigger for constraint lines_fkey: time=19.000 calls=100"),
    ],
)
def test_no_index_is_asked_for_where_none_helps(plan: ExplainedPlan) -> None:
    assert all(advice.sql != WHERE for advice in plan.advice)
