"""What is advised of each kind of scan: results and foreign tables, bitmaps that were lossy."""

import pytest

from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans import scan_conditions
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


def bitmap(*lines: str, estimated: int = 50) -> ExplainedPlan:
    return plan_of(
        f"Bitmap Heap Scan on orders  (cost=5.00..2000.00 rows={estimated} width=8) "
        "(actual time=1.0..500.0 rows=100 loops=1)",
        *(f"  {line}" for line in lines),
        f"  ->  Bitmap Index Scan on orders_customer  (cost=0.00..5.00 rows={estimated} width=0) "
        "(actual time=0.5..0.5 rows=100 loops=1)",
        "        Index Cond: (customer_id = 5)",
        "Execution Time: 501.0 ms",
    )


def test_the_condition_of_a_bitmap_s_index_is_part_of_the_new_one() -> None:
    plan = bitmap(
        "Recheck Cond: (customer_id = 5)",
        "Filter: (status = 'open'::text)",
        "Rows Removed by Filter: 99990",
        "Heap Blocks: exact=5000",
    )
    assert sql_of(plan) == ["CREATE INDEX CONCURRENTLY ON orders (customer_id, status);"]


def test_what_a_lossy_bitmap_has_checked_again_calls_for_memory_and_for_no_index() -> None:
    for filter_ in ((), ("Filter: (status = 'open'::text)", "Rows Removed by Filter: 3")):
        plan = bitmap(
            "Recheck Cond: (customer_id = 5)",
            "Rows Removed by Index Recheck: 99990",
            *filter_,
            "Heap Blocks: exact=100 lossy=5000",
        )
        (setting,) = [each for each in plan.advice if each.kind != "tune"]
        assert setting.sql == "SET work_mem = '64MB';"
        assert "bitmap" in setting.sentence and "temporary files" not in setting.sentence
        assert plan.nodes[0].rows_rechecked == 99_990
        assert plan.nodes[0].rows_removed == 99_990 + (3 if filter_ else 0)


def test_statistics_are_of_the_columns_of_all_conditions_of_a_scan() -> None:
    expected = [
        "CREATE STATISTICS orders_customer_id_status_stats ON customer_id, status FROM orders; "
        "ANALYZE orders;"
    ]
    conditions = ("Recheck Cond: (customer_id = 5)", "Filter: (status = 'open'::text)")
    assert sql_of(bitmap(*conditions, "Rows Removed by Filter: 3", estimated=100_000)) == expected
    of_index = scan("Index Scan using i on orders", "(status = 'open'::text)", estimated=100_000, removed=3)
    assert sql_of(plan_of(of_index[0], "  Index Cond: (customer_id = 5)", *of_index[1:])) == expected


@pytest.mark.parametrize("condition", ["(lower(email) ~~ 'ab%'::text)", "(lower(email) ~~* '%abc%'::text)"])
def test_statistics_have_no_operator_class(condition: str) -> None:
    seq_scan = scan("Seq Scan on users", condition, estimated=100_000, removed=3)
    assert sql_of(plan_of(*seq_scan)) == [
        "CREATE STATISTICS users_lower_email_stats ON (lower(email)) FROM users; ANALYZE users;"
    ]


def test_a_subplan_is_not_hashed_because_the_tenth_is() -> None:
    plan = plan_of(
        "Seq Scan on t  (cost=0.00..2000000.00 rows=500 width=8) (actual time=1.0..5000.0 rows=100 loops=1)",
        "  Filter: ((a > (SubPlan 1)) AND (NOT (hashed SubPlan 10)))",
        "  Rows Removed by Filter: 99",
        "  SubPlan 1",
        "    ->  Seq Scan on u  (cost=0.00..100.00 rows=1 width=4) (actual time=20.0..24.0 rows=1 loops=200)",
        "          Filter: (x = t.x)",
        "          Rows Removed by Filter: 9999",
        "  SubPlan 10",
        "    ->  Seq Scan on v  (cost=0.00..100.00 rows=1 width=4) (actual time=0.1..1.0 rows=1000 loops=1)",
        "Execution Time: 5001.0 ms",
    )
    assert [each.node for each in plan.findings if each.kind == "subplan"] == [0]
    (again,) = [each.sentence for each in plan.advice if each.kind == "rewrite"]
    assert "runs SubPlan 1 again for each row" in again and "NOT IN" not in again
    assert scan_conditions.is_not_in("(NOT (SubPlan 10))", "SubPlan 10")
    assert not scan_conditions.is_not_in("((a > (SubPlan 1)) AND (NOT (SubPlan 10)))", "SubPlan 1")
