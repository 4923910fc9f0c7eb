"""What `explain` advises: the index, the rewrite, the setting that one plan calls for, executed or not."""

import json

import pytest

from pgassay.model.plans.explained_plan import ExplainedPlan, ExplainResult
from pgassay.plans import scan_conditions
from pgassay.plans.explain_plan import read_plans
from pgassay.plans.repeated_reads import repeated_read
from pgassay.report.explain import explain_page
from pgassay.tune.symptom import plan_line
from pgassay.tune.timeouts.estimated_plan import plausible_execution


def plan_of(*lines: str) -> ExplainedPlan:
    (plan,) = read_plans("\n".join(lines), "a test")
    return plan


@pytest.mark.parametrize("table", ["pg_attribute", "pg_catalog.pg_attribute"])
def test_the_system_s_own_tables_are_given_no_index(table: str) -> None:
    plan = plan_of(
        f"Seq Scan on {table}  (cost=0.00..9000.00 rows=9 width=8) (actual time=0.01..90.00 rows=9 loops=1)",
        "  Filter: ((attname ~~ 'abc%'::text) AND (atttypid = 23))",
        "  Rows Removed by Filter: 400000",
        "Execution Time: 91.000 ms",
    )
    assert [each.kind for each in plan.advice] == ["tune"]


def advised(plan: ExplainedPlan) -> dict[str, str]:
    return {each.kind: each.sql or each.sentence for each in reversed(plan.advice)}


NOT_IN = plan_of(
    "Seq Scan on customers c  (cost=0.00..767000000.00 rows=25000 width=8)",
    "  Filter: (NOT (ANY (id = (SubPlan 1).col1)))",
    "  SubPlan 1",
    "    ->  Materialize  (cost=0.00..30675.00 rows=1000000 width=4)",
    "          ->  Seq Scan on orders o  (cost=0.00..21675.00 rows=1000000 width=4)",
)
OFFSET = plan_of(
    "Limit  (cost=9800.00..9801.00 rows=20 width=8)",
    "  ->  Index Scan using orders_pkey on orders  (cost=0.42..49000.00 rows=1000000 width=8)",
)
WHOLE = plan_of(
    "Seq Scan on public.order_lines l  (cost=0.00..28450.00 rows=30 width=8)",
    "  Filter: ((status = 'open'::text) AND (order_id = 4711) AND (added > '2026-01-01'::date))",
)


def test_a_plan_that_was_not_executed_is_judged() -> None:
    sentences = {each.kind: each.sentence for each in NOT_IN.findings}
    assert "runs SubPlan 1 again for each row: about 50,008 times" in sentences["subplan"]
    assert "for a cost of 767,000,000" in sentences["subplan"]
    (not_exists,) = [each.sql for each in NOT_IN.advice if each.kind == "rewrite"]
    assert not_exists == "WHERE NOT EXISTS (SELECT FROM orders i WHERE i.column = c.id)"
    assert "skips about 199,993 rows (OFFSET) and returns 20 rows" in OFFSET.findings[0].sentence
    assert "keyset pagination" in OFFSET.advice[0].sentence
    assert "reads the whole table for an estimated 30 rows" in WHOLE.findings[0].sentence
    assert advised(WHOLE)["index"] == (
        "CREATE INDEX CONCURRENTLY ON public.order_lines (status, order_id, added);"
    )
    for plan in (NOT_IN, OFFSET, WHOLE):
        assert plan.advice[-1].sql == "pgassay tune --dataset dump:FILE --workload sql:FILE"


@pytest.mark.parametrize(
    "filter_", ["(c.is_open OR (NOT (SubPlan 1)))", "(NOT (ANY (c.id = (SubPlan 1).col1)))"]
)
def test_a_subquery_that_asks_for_other_rows_each_time_is_no_not_in_that_is_too_large(filter_: str) -> None:
    """A NOT EXISTS of 16 and older, and a NOT IN that names a column from outside."""
    asked = plan_of(
        "Seq Scan on customers c  (cost=0.00..767000.00 rows=25000 width=8) "
        "(actual time=0.010..900.000 rows=25000 loops=1)",
        f"  Filter: {filter_}",
        "  SubPlan 1",
        "    ->  Index Scan using orders_customer on orders o  (cost=0.42..8.44 rows=1 width=4) "
        "(actual time=0.030..0.030 rows=0 loops=25000)",
        "          Index Cond: (customer_id = c.id)",
        "Execution Time: 900.0 ms",
    )
    rewrites = [each.sentence for each in asked.advice if each.kind == "rewrite"]
    assert rewrites and not any("NOT IN" in each for each in rewrites)
    assert "NOT IN" not in repeated_read(asked, asked.nodes[1])


def test_a_subplan_that_is_hashed_and_a_page_that_comes_first_are_left_alone() -> None:
    hashed = plan_of(
        "Seq Scan on c  (cost=2000.00..22000.00 rows=900000 width=8)",
        "  Filter: (NOT (ANY (id = (hashed SubPlan 1).col1)))",
        "  SubPlan 1",
        "    ->  Seq Scan on o  (cost=0.00..1000.00 rows=100 width=4)",
    )
    first = plan_of(
        "Limit  (cost=0.42..1.40 rows=20 width=8)",
        "  ->  Index Scan using orders_pkey on orders  (cost=0.42..49000.00 rows=1000000 width=8)",
    )
    small = plan_of("Seq Scan on c  (cost=0.00..1.05 rows=1 width=8)", "  Filter: (id = 3)")
    assert not hashed.findings and not first.findings and not small.findings
    assert [each.kind for each in first.advice] == [each.kind for each in small.advice] == ["nothing"]


def test_a_scan_that_a_limit_ended_did_not_read_the_table_whole() -> None:
    ended = plan_of(
        "Limit  (cost=0.00..850.00 rows=1 width=8) (actual time=0.010..90.000 rows=1 loops=1)",
        "  ->  Seq Scan on orders  (cost=0.00..17000.00 rows=20 width=8) "
        "(actual time=0.010..90.000 rows=1 loops=1)",
        "        Filter: (customer = 3)",
        "        Rows Removed by Filter: 99999",
        "Execution Time: 90.100 ms",
    )
    (index,) = [each for each in ended.advice if each.kind == "index"]
    assert "scans the table until it has enough rows, 100,000 rows for 1 row" in index.sentence
    planned = plan_of(
        "Limit  (cost=0.00..850.00 rows=1 width=8)",
        "  ->  Seq Scan on orders  (cost=0.00..17000.00 rows=20 width=8)",
        "        Filter: (customer = 3)",
    )
    assert not any("whole" in each.sentence for each in (*planned.findings, *planned.advice))
    sorted_first = plan_of(
        "Limit  (cost=17000.00..17000.00 rows=1 width=8)",
        "  ->  Sort  (cost=17000.00..17000.00 rows=20 width=8)",
        "        Sort Key: id",
        "        ->  Seq Scan on orders  (cost=0.00..17000.00 rows=20 width=8)",
        "              Filter: (customer = 3)",
    )
    assert any("reads the whole table" in each.sentence for each in sorted_first.findings)


def test_an_executed_plan_ends_in_what_to_do() -> None:
    plan = plan_of(
        "Seq Scan on t  (cost=0.00..1000.00 rows=10 width=4) (actual time=0.010..80.000 rows=10 loops=1)",
        "  Filter: (lower(email) = 'a@b'::text)",
        "  Rows Removed by Filter: 99990",
        "Execution Time: 81.000 ms",
    )
    assert advised(plan)["index"] == "CREATE INDEX CONCURRENTLY ON t ((lower(email)));"
    result = ExplainResult(plans=(plan,))
    shown = explain_page.page_of(result).terminal(width=100)
    last = shown[shown.index("What to do") :]
    assert "100,000 rows for 10 rows" in last and "CREATE INDEX" in last and "pgassay tune" in last
    assert "10 rows (estimated 10)" in shown
    assert (
        "CREATE INDEX" in explain_page.page_of(result).markdown()
        and "CREATE INDEX" in explain_page.page_of(result).html()
    )


@pytest.mark.parametrize(
    ("ms", "rows", "kind"), [(60, 12, "nothing"), (60, 4000, "tune"), (120, 12, "tune"), (6, 4000, "nothing")]
)
def test_few_rows_on_a_busy_machine_call_for_nothing(ms: int, rows: int, kind: str) -> None:
    plan = plan_of(
        f"Index Scan using orders_customer on orders  (cost=0.42..48.00 rows={rows} width=16) "
        f"(actual time=0.05..{ms}.00 rows={rows} loops=1)",
        "  Index Cond: (customer = 4711)",
        f"Execution Time: {ms}.100 ms",
    )
    assert plan.advice[-1].kind == kind


def test_the_inner_side_of_a_nested_loop_and_a_sort_below_a_limit_get_an_index() -> None:
    loop = plan_of(
        "Nested Loop  (cost=0.00..9000.00 rows=10 width=4) (actual time=0.010..900.000 rows=10 loops=1)",
        "  Join Filter: (o.id = l.order_id)",
        "  ->  Seq Scan on o  (cost=0.00..10.00 rows=500 width=4) "
        "(actual time=0.010..1.000 rows=500 loops=1)",
        "  ->  Seq Scan on l  (cost=0.00..90.00 rows=5000 width=4) "
        "(actual time=0.001..1.700 rows=5000 loops=500)",
    )
    assert advised(loop)["index"] == "CREATE INDEX CONCURRENTLY ON l (order_id);"
    top = plan_of(
        "Limit  (cost=9000.00..9000.10 rows=10 width=4) (actual time=90.000..90.010 rows=10 loops=1)",
        "  ->  Sort  (cost=9000.00..9100.00 rows=9000 width=4) (actual time=90.000..90.001 rows=10 loops=1)",
        "        Sort Key: created DESC, id",
        "        Sort Method: top-N heapsort  Memory: 26kB",
        "        ->  Seq Scan on e  (cost=0.00..90.00 rows=9000 width=4) "
        "(actual time=0.010..60.000 rows=9000 loops=1)",
    )
    assert advised(top)["index"] == "CREATE INDEX CONCURRENTLY ON e (created DESC, id);"


def test_what_is_gone_through_again_is_told_in_the_statement_s_own_words() -> None:
    again = plausible_execution(NOT_IN, 4.8, lambda _: 80_000.0)
    kept = next(node for node in again.nodes if node.type == "Materialize")
    told = repeated_read(again, kept)
    assert told.startswith("orders is read again for each row of customers, ")
    assert told.endswith(" times 1,000,000 rows: NOT IN too large to hash")
    joined = plan_of(
        "Nested Loop  (cost=0.00..9000.00 rows=10 width=4) (actual time=0.010..900.000 rows=10 loops=1)",
        "  Join Filter: (f.loan_id = l.id)",
        "  ->  Seq Scan on loans l  (cost=0.00..10.00 rows=500 width=4) "
        "(actual time=0.010..1.000 rows=500 loops=1)",
        "  ->  Materialize  (cost=0.00..90.00 rows=5000 width=4) "
        "(actual time=0.001..1.700 rows=5000 loops=500)",
        "        ->  Seq Scan on fines f  (cost=0.00..90.00 rows=5000 width=4) "
        "(actual time=0.001..1.700 rows=5000 loops=1)",
        "Execution Time: 901.0 ms",
    )
    assert repeated_read(joined, joined.nodes[2]) == (
        "fines is read again for each row of loans, 500 times 5,000 rows: no index on fines.loan_id is used"
    )
    assert plan_line(joined) == repeated_read(joined, joined.nodes[2])
    assert not repeated_read(joined, joined.nodes[3]) and not repeated_read(joined, joined.nodes[1])


WITHOUT_ZONE = {"made": "timestamp without time zone", "day": "date"}
WITH_ZONE = {"made": "timestamp with time zone"}


@pytest.mark.parametrize(
    ("condition", "types", "key"),
    [
        ("((l.made)::date = $1)", WITHOUT_ZONE, "((made)::date)"),
        ("((l.made)::date = '2026-01-01'::date)", WITH_ZONE, None),
        ("((l.made)::date = '2026-01-01'::date)", {}, None),
        ("(EXTRACT(year FROM l.made) = '2026'::numeric)", WITHOUT_ZONE, "(EXTRACT(year FROM made))"),
        ("(EXTRACT(doy FROM day) > '7'::numeric)", WITHOUT_ZONE, "(EXTRACT(doy FROM day))"),
        ("(EXTRACT(year FROM made) = $1)", WITH_ZONE, None),
        ("(date_trunc('day'::text, made) = $1)", WITHOUT_ZONE, "(date_trunc('day'::text, made))"),
        (
            "(((made AT TIME ZONE 'UTC'::text))::date = $1)",
            WITH_ZONE,
            "(((made AT TIME ZONE 'UTC'::text))::date)",
        ),
        ("(((made AT TIME ZONE 'UTC'::text))::date = $1)", WITHOUT_ZONE, None),
        ("((made)::time without time zone = $1)", WITHOUT_ZONE, None),
    ],
)
def test_a_part_of_a_timestamp_has_an_index_where_no_setting_changes_it(
    condition: str, types: dict[str, str], key: str | None
) -> None:
    keys = scan_conditions.keys_of(condition, "l", types)
    assert (keys.columns if keys else None) == ((key,) if key else None)


@pytest.mark.parametrize(
    ("condition", "as_range"),
    [
        (
            "((l.made)::date = '2026-01-01'::date)",
            "l.made >= '2026-01-01'::date AND l.made < '2026-01-01'::date + 1",
        ),
        ("((made)::date = $1)", "made >= $1::date AND made < $1::date + 1"),
        ("((made)::date > $1)", "made >= $1::date + 1"),
        ("(EXTRACT(year FROM made) <= '2025'::numeric)", "made < '2026-01-01'"),
        (
            "(date_part('year'::text, made) = '2025'::double precision)",
            "made >= '2025-01-01' AND made < '2026-01-01'",
        ),
        ("(EXTRACT(month FROM made) = '5'::numeric)", ""),
        ("((made)::date > (CURRENT_DATE - 7))", "made >= (CURRENT_DATE - 7) + 1"),
        (
            "((made)::date <= ((now() - '7 days'::interval))::date)",
            "made < ((now() - '7 days'::interval))::date + 1",
        ),
        # These are no dates, or not one: a range of days has other rows, or does not run.
        ("((made)::date >= (now() - '7 days'::interval))", ""),
        ("((made)::date >= (CURRENT_DATE - '7 days'::interval))", ""),
        ("((made)::date < '2026-01-01 12:00:00'::timestamp without time zone)", ""),
        ("((made)::date = ANY ('{2026-01-01,2026-01-02}'::date[]))", ""),
        ("((made)::date = $0)", ""),
        ("((made)::date = (InitPlan 1).col1)", ""),
        ("((made)::date = 'infinity'::date)", ""),
        (
            "(date_trunc('month'::text, made) = '2026-03-01 00:00:00+01'::timestamp with time zone)",
            "made >= '2026-03-01 00:00:00+01'::timestamp with time zone AND "
            "made < '2026-03-01 00:00:00+01'::timestamp with time zone + interval '1 month'",
        ),
        # No month begins then: no row has that value, and the range has many.
        ("(date_trunc('month'::text, made) = '2026-03-02 00:00:00'::timestamp without time zone)", ""),
        ("(to_char(made, 'YYYY'::text) = '2026'::text)", ""),
    ],
)
def test_a_part_of_a_timestamp_is_a_range_of_it(condition: str, as_range: str) -> None:
    (hidden,) = scan_conditions.hidden_timestamps(condition)
    assert hidden.as_range == as_range


def test_a_plan_with_a_part_of_a_timestamp_has_sql_for_it() -> None:
    def sql(condition: str) -> str:
        plan = plan_of("Seq Scan on l  (cost=0.00..28450.00 rows=30 width=8)", f"  Filter: {condition}")
        return advised(plan).get("rewrite") or advised(plan)["index"]

    assert sql("((made)::date = '2026-01-01'::date)") == (
        "WHERE made >= '2026-01-01'::date AND made < '2026-01-01'::date + 1\n"
        "CREATE INDEX CONCURRENTLY ON l (made);"
    )
    assert sql(
        "((EXTRACT(year FROM made) = '2026'::numeric) AND (EXTRACT(doy FROM made) = '7'::numeric))"
    ) == ("CREATE INDEX CONCURRENTLY ON l ((EXTRACT(year FROM made)), (EXTRACT(doy FROM made)));")


def test_an_index_has_what_is_equal_first_and_then_the_order_that_a_limit_wants() -> None:
    keys = scan_conditions.keys_of("((returned IS NULL) AND (member = 17))", "l")
    assert keys is not None and keys.columns == ("member", "returned")
    few = plan_of(
        "Limit  (cost=5509.30..5511.63 rows=20 width=63)",
        "  ->  Gather Merge  (cost=5509.30..5521.88 rows=108 width=63)",
        "        Workers Planned: 2",
        "        ->  Sort  (cost=4509.28..4509.39 rows=45 width=63)",
        "              Sort Key: at DESC",
        "              ->  Parallel Seq Scan on events  (cost=0.00..4508.08 rows=45 width=63)",
        "                    Filter: (kind = 'alarm'::text)",
    )
    assert advised(few)["index"] == "CREATE INDEX CONCURRENTLY ON events (kind, at DESC);"


def test_each_process_of_a_parallel_sort_has_its_own_work_mem() -> None:
    sorted_ = plan_of(
        "Gather Merge  (cost=0.00..9000.00 rows=10 width=4) (actual time=900.010..990.000 rows=10 loops=1)",
        "  Workers Planned: 2",
        "  Workers Launched: 2",
        "  ->  Sort  (cost=0.00..9000.00 rows=10 width=4) (actual time=800.000..900.000 rows=10 loops=3)",
        "        Sort Key: f.amount",
        "        Sort Method: external merge  Disk: 20000kB",
        "        Worker 0:  Sort Method: external merge  Disk: 20000kB",
        "        Worker 1:  Sort Method: external merge  Disk: 18000kB",
        "        ->  Parallel Seq Scan on fines f  (cost=0.00..90.00 rows=10 width=4) "
        "(actual time=0.001..1.700 rows=10 loops=3)",
        "Execution Time: 990.0 ms",
    )
    (setting,) = [each for each in sorted_.advice if each.kind == "setting"]
    # 2.5 times 20,000 kB, and not of all 58,000.
    assert setting.sql == "SET work_mem = '64MB';"
    assert "about 48.8 MB of work_mem" in setting.sentence


def test_analyze_is_not_advised_for_an_expression() -> None:
    def statistics(removed: int, rows: int) -> list[str | None]:
        plan = plan_of(
            "Seq Scan on m  (cost=0.00..1134.00 rows=40000 width=45) "
            f"(actual time=0.1..900.0 rows={rows} loops=1)",
            "  Filter: (lower(email) = 'a@b'::text)",
            f"  Rows Removed by Filter: {removed}",
            "Execution Time: 901.0 ms",
        )
        return [each.sql for each in plan.advice if each.kind == "statistics"]

    assert statistics(removed=390_000, rows=1) == []
    assert statistics(removed=10, rows=900_000) == [
        # A name is needed up to 15.
        "CREATE STATISTICS m_lower_email_stats ON (lower(email)) FROM m; ANALYZE m;"
    ]


ONE = """Sort  (cost=2.00..3.00 rows=10 width=4) (actual time=9.000..9.500 rows=10 loops=1)
  Sort Key: x
  ->  Seq Scan on t  (cost=0.00..1.00 rows=10 width=4) (actual time=0.010..8.000 rows=10 loops=1)
Execution Time: 9.600 ms
"""
INDENTED = "    " + ONE.replace("\n", "\n    ").rstrip() + "\n"
DOCUMENT = json.dumps([{"Plan": {"Node Type": "Seq Scan", "Relation Name": "t"}}], indent=2) + "\n"
HEADED = f" QUERY PLAN\n------------\n{INDENTED}(4 rows)\n\n"


@pytest.mark.parametrize(
    "content",
    [
        ONE + ONE,
        INDENTED + ONE,
        ONE + INDENTED,
        "before\n" + INDENTED + "after\n" + ONE,
        HEADED + ONE,
        ONE + HEADED,
        HEADED + HEADED,
        DOCUMENT + DOCUMENT,
        DOCUMENT + ONE,
        ONE + DOCUMENT,
    ],
)
def test_none_of_two_plans_in_a_file_is_left_out(content: str) -> None:
    assert len(read_plans(content, "a test")) == 2


def test_the_tree_keeps_its_depth_on_60_columns() -> None:
    lines = []
    for depth in range(12):
        figures = "(cost=0.00..1.00 rows=10 width=4) (actual time=0.010..8.000 rows=10 loops=1)"
        lines.append(f"{'      ' * depth}{'->  ' if depth else ''}Materialize  {figures}")
    shown = explain_page.page_of(ExplainResult(plans=(plan_of(*lines),))).terminal(width=60, unicode=False)
    nodes = [line for line in shown.splitlines() if "Materialize  #" in line]
    assert len(nodes) == 12 and max(map(len, shown.splitlines())) <= 60
    places = [line.index("Materialize") for line in nodes]
    # Deeper nodes stand further to the right, or their depth is said.
    assert all(
        b > a or f"[{depth}]" in line
        for depth, (a, b, line) in enumerate(zip(places, places[1:], nodes[1:], strict=False), start=1)
    )
