"""What is read again for each row of something else: by which condition, and what is no reading."""

import pytest

from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from pgassay.plans.repeated_reads import repeated_read


def plan_of(*lines: str) -> ExplainedPlan:
    (plan,) = read_plans("\n".join(lines), "a test")
    return plan


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("(f.loan_id = l.id)", ": no index on fines.loan_id is used"),
        ("(f.loan_id < l.id)", ""),
        ("(f.amount > 3)", ": joined without a condition"),
    ],
)
def test_the_condition_of_a_lateral_is_that_of_its_scan(condition: str, why: str) -> None:
    joined = plan_of(
        "Nested Loop  (cost=0.00..9000.00 rows=500 width=4) (actual time=0.010..900.000 rows=500 loops=1)",
        "  ->  Seq Scan on loans l  (cost=0.00..10.00 rows=500 width=4) "
        "(actual time=0.010..1.000 rows=500 loops=1)",
        "  ->  Limit  (cost=0.00..90.00 rows=1 width=4) (actual time=0.001..1.700 rows=1 loops=500)",
        "        ->  Seq Scan on fines f  (cost=0.00..90.00 rows=5000 width=4) "
        "(actual time=0.001..1.700 rows=1 loops=500)",
        f"              Filter: {condition}",
        "              Rows Removed by Filter: 4999",
        "Execution Time: 901.0 ms",
    )
    read = "fines is read again for each row of loans, 500 times 5,000 rows"
    assert repeated_read(joined, joined.nodes[3]) == f"{read}{why}"


def test_what_is_remembered_is_not_read_again() -> None:
    joined = plan_of(
        "Nested Loop  (cost=0.00..9000.00 rows=500 width=4) (actual time=0.010..95.000 rows=43600 loops=1)",
        "  ->  Seq Scan on copies c  (cost=0.00..10.00 rows=500 width=4) "
        "(actual time=0.010..1.000 rows=43600 loops=1)",
        "  ->  Memoize  (cost=0.00..90.00 rows=1 width=4) (actual time=0.002..0.002 rows=1 loops=43600)",
        "        Cache Key: c.title_id",
        "        Hits: 43590  Misses: 10  Evictions: 0  Overflows: 0  Memory Usage: 2kB",
        "        ->  Index Scan using titles_pkey on titles t  (cost=0.00..90.00 rows=1 width=4) "
        "(actual time=0.001..0.001 rows=1 loops=10)",
        "              Index Cond: (t.id = c.title_id)",
        "Execution Time: 96.0 ms",
    )
    assert not any(repeated_read(joined, node) for node in joined.nodes)
