"""A scan that a LIMIT ended is not called one of the whole table."""

import json

import pytest

from finder_samples import ROWS, facts, symptom
from pgassay.plans.explain_plan import read_plans
from pgassay.sql_text import identifier
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence


def sentence(*above: str, looked_at: int) -> str:
    node = {
        "Node Type": "Seq Scan", "Relation Name": "t", "Alias": "t", "Schema": "public", "Plan Rows": ROWS,
        "Plan Width": 12, "Startup Cost": 0, "Total Cost": 100, "Actual Rows": 10, "Actual Loops": 1,
        "Actual Startup Time": 0.1, "Actual Total Time": 5, "Rows Removed by Filter": looked_at - 10,
        "Filter": "(a = 7)",
    }  # fmt: skip
    for name in above:
        rest = {key: value for key, value in node.items() if key.startswith(("Actual", "Plan ", "S", "T"))}
        below = node | {"Parent Relationship": "Outer"}
        node = {**rest, "Node Type": name, "Sort Key": ["t.a"], "Plans": [below]}
        node.pop("Schema", None)
    document = [{"Plan": node, "Planning Time": 0.1, "Execution Time": 6}]
    (scan,) = FinderEvidence(symptom(read_plans(json.dumps(document), "made")[0], known=facts())).scans
    return scan.sentence


def test_what_a_limit_ended_was_not_read_whole() -> None:
    said = sentence("Limit", looked_at=700)
    assert said.startswith("t was read until a LIMIT had its rows: 700 rows looked at, 10 wanted")


@pytest.mark.parametrize(
    ("above", "looked_at"), [((), ROWS), (("Limit",), ROWS), (("Sort", "Limit"), 700), (("Sort",), ROWS)]
)
def test_what_reads_all_rows_was(above: tuple[str, ...], looked_at: int) -> None:
    assert "t was fully read" in sentence(*above, looked_at=looked_at)


@pytest.mark.parametrize(
    ("name", "said"),
    [("t", "t"), ("select", '"select"'), ("T", '"T"'), ('a"; DROP', '"a""; DROP"'), ("ilike", '"ilike"'),
     ("1a", '"1a"'), ("ä", '"ä"'), ("a\n", '"a\n"')],
)  # fmt: skip
def test_names_are_quoted_where_sql_would_read_them_otherwise(name: str, said: str) -> None:
    assert identifier(name) == said
