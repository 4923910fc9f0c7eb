"""A partition whose statistics are old: what is said of it is its own, and not its partitioned table's."""

import json

from finder_samples import ROWS, facts, symptom
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.finders.registry import find


def test_when_it_was_analysed_is_told_of_the_partition_that_was_read() -> None:
    """Autovacuum analyses partitions, and never the table that has them."""
    part = facts(rows=ROWS, last_analyze="2026-11-01 10:20:30.5+00", changed_since_analyze=ROWS).tables[0]
    root = part.model_copy(
        update={"name": "whole", "kind": "partitioned", "last_analyze": None, "changed_since_analyze": 0}
    )
    read = {
        "Node Type": "Seq Scan", "Relation Name": "t", "Alias": "t", "Schema": "public", "Filter": "(a = 7)",
        "Plan Rows": 1, "Plan Width": 12, "Startup Cost": 0, "Total Cost": 100, "Actual Rows": 20_000,
        "Actual Loops": 1, "Actual Startup Time": 0.1, "Actual Total Time": 10.0, "Rows Removed by Filter": 9,
        "Parent Relationship": "Outer",
    }  # fmt: skip
    inner = read | {
        "Relation Name": "other", "Alias": "other", "Actual Rows": 1, "Actual Loops": 20_000,
        "Actual Total Time": 0.02, "Parent Relationship": "Inner", "Filter": "(id = t.b)",
    }  # fmt: skip
    top = {
        "Node Type": "Nested Loop", "Join Type": "Inner", "Plan Rows": 1, "Plan Width": 12, "Startup Cost": 0,
        "Total Cost": 900, "Actual Rows": 20_000, "Actual Loops": 1, "Actual Startup Time": 0.1,
        "Actual Total Time": 500.0, "Plans": [read, inner],
    }  # fmt: skip
    seen = read_plans(json.dumps([{"Plan": top, "Planning Time": 0.1, "Execution Time": 500.1}]), "made")[0]
    known = facts().model_copy(
        update={
            "tables": (
                root,
                part.model_copy(update={"parent": "whole", "parent_schema": "public"}),
                part.model_copy(update={"name": "other", "rows": 10.0}),
            )
        }
    )
    (analyze,) = [each for each in find(symptom(seen, known=known)) if each.kind == "analyze"]
    assert analyze.sql == ("ANALYZE public.whole",)
    assert "last analysed: 2026-11-01 10:20, 100,000 rows changed since" in analyze.reason
