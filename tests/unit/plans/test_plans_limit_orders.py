"""Which index gives the rows in the order in which a LIMIT wants the first of them."""

import pytest

from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans


def plan_of(*lines: str) -> ExplainedPlan:
    (plan,) = read_plans("\n".join(lines), "a test")
    return plan


@pytest.mark.parametrize(
    ("filter_", "order", "columns"),
    [
        ("(amount > '5'::numeric)", "added DESC", "added DESC"),
        ("(added > '2026-01-01'::date)", "added DESC, id", "added DESC, id"),
        ("((status = 'open'::text) AND (amount > '5'::numeric))", "added DESC", "status, added DESC"),
        ("((status = 'open'::text) AND (added IS NULL))", "added, id", "status, added, id"),
        ("(status = ANY ('{open,new}'::text[]))", "added DESC", "added DESC"),
    ],
)
def test_nothing_but_what_is_equal_stands_before_the_order_of_an_index(
    filter_: str, order: str, columns: str
) -> None:
    """Behind a column that is only bounded the rows come in that one's order, and are sorted as before."""
    sorted_ = plan_of(
        "Limit  (cost=9000.00..9000.00 rows=10 width=8) (actual time=900.010..900.010 rows=10 loops=1)",
        "  ->  Sort  (cost=9000.00..9000.00 rows=40000 width=8) (actual time=900.0..900.001 rows=10 loops=1)",
        f"        Sort Key: {order}",
        "        Sort Method: top-N heapsort  Memory: 25kB",
        "        ->  Seq Scan on orders  (cost=0.00..8000.00 rows=40000 width=8) "
        "(actual time=0.010..800.000 rows=40000 loops=1)",
        f"              Filter: {filter_}",
        "              Rows Removed by Filter: 10000",
        "Execution Time: 901.0 ms",
    )
    (index,) = [each.sql for each in sorted_.advice if each.kind == "index"]
    assert index == f"CREATE INDEX CONCURRENTLY ON orders ({columns});"
