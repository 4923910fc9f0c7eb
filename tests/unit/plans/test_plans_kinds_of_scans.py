"""What is advised of each kind of scan: results and foreign tables, bitmaps that were lossy."""

import pytest

from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans


def plan_of(*lines: str) -> ExplainedPlan:
    (plan,) = read_plans("\n".join(lines), "a test")
    return plan


def sql_of(plan: ExplainedPlan) -> list[str]:
    return [each.sql or "" for each in plan.advice if each.kind not in ("tune", "nothing")]


def scan(name: str, condition: str = "(rn = 1)", estimated: int = 10, removed: int = 99_990) -> list[str]:
    """A scan of ten rows."""
    return [
        f"{name}  (cost=0.00..2000.00 rows={estimated} width=8) (actual time=1.0..500.0 rows=10 loops=1)",
        f"  Filter: {condition}",
        f"  Rows Removed by Filter: {removed}",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "Subquery Scan on s",
        "CTE Scan on s",
        "Function Scan on f s",
        "WorkTable Scan on s",
        "Foreign Scan on s",
    ],
)
@pytest.mark.parametrize("condition", ["(rn = 1)", "((made)::date = '2026-01-01'::date)"])
def test_what_is_not_a_table_of_the_server_gets_no_index(name: str, condition: str) -> None:
    assert not sql_of(plan_of(*scan(name, condition)))
    assert "CREATE INDEX" in sql_of(plan_of(*scan("Seq Scan on s", condition)))[0]


@pytest.mark.parametrize(
    ("name", "advised"),
    [
        ("Subquery Scan on s", []),
        ("CTE Scan on s", []),
        ("Function Scan on f s", []),
        ("Foreign Scan on s", ["ANALYZE s;"]),
        ("Sample Scan on s", ["ANALYZE s;"]),
        ("Seq Scan on s", ["ANALYZE s;"]),
    ],
)
def test_what_has_no_statistics_is_not_analyzed(name: str, advised: list[str]) -> None:
    assert sql_of(plan_of(*scan(name, estimated=100_000, removed=5))) == advised
