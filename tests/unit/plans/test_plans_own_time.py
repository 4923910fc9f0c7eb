"""Own times by hand: parallel processes, loops, SubPlans, InitPlans, CTEs, partitions, triggers."""

import pytest

from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans


def plan_of(*lines: str) -> ExplainedPlan:
    return read_plans("\n".join(lines), "a test")[0]


def own(plan: ExplainedPlan) -> list[float]:
    return [round(node.own_ms or 0.0, 3) for node in plan.nodes]


def line(name: str, total: float, loops: int = 1, rows: float = 1, first: float = 0.0) -> str:
    actual = f"(actual time={first:.3f}..{total:.3f} rows={rows} loops={loops})"
    return f"{name}  (cost=0.00..1.00 rows=1 width=4) {actual}"


def test_loops_are_multiplied() -> None:
    """2 µs a million times are two seconds: what a viewer that ignores loops calls nothing."""
    plan = plan_of(
        line("Nested Loop", 3000.0),
        "  ->  " + line("Seq Scan on a", 500.0, rows=1_000_000),
        "  ->  " + line("Index Scan using b_id on b", 0.002, loops=1_000_000),
        "Execution Time: 3000.500 ms",
    )
    assert own(plan) == [500.0, 500.0, 2000.0]
    assert plan.nodes[2].rounding_ms == pytest.approx(500)
    assert plan.unattributed_ms == pytest.approx(0.5)


def test_processes_below_a_gather_count_with_their_mean() -> None:
    """Three processes of 90 ms side by side are 90 ms of the statement; the Gather's own are the other 10."""
    plan = plan_of(
        line("Gather", 100.0),
        "  Workers Planned: 2",
        "  Workers Launched: 2",
        "  ->  " + line("Parallel Append", 90.0, loops=3),
        "        ->  " + line("Parallel Seq Scan on p1", 80.0, loops=2),
        "        ->  " + line("Parallel Seq Scan on p2", 60.0, loops=1),
    )
    assert own(plan) == [10.0, pytest.approx(90 - (160 + 60) / 3, abs=0.001), 53.333, 20.0]
    assert [node.processes for node in plan.nodes] == [1, 3, 3, 3]
    assert plan.nodes[2].processes_ms == 160.0


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_who_took_part_is_seen_in_the_plan_and_not_in_the_workers_planned(processes: int) -> None:
    """A worker that never came, and a leader that did not help, are no divisor."""
    plan = plan_of(
        line("Gather", 100.0),
        "  Workers Planned: 2",
        f"  Workers Launched: {max(0, processes - 1)}",
        "  ->  " + line("Parallel Seq Scan on t", 90.0, loops=processes),
    )
    assert own(plan) == [10.0, 90.0]


def test_a_gather_that_runs_again_and_again() -> None:
    plan = plan_of(
        line("Nested Loop", 1000.0),
        "  ->  " + line("Seq Scan on a", 100.0, rows=5),
        "  ->  " + line("Gather", 150.0, loops=5),
        "        ->  " + line("Parallel Seq Scan on b", 100.0, loops=15),
    )
    assert own(plan) == [150.0, 100.0, 250.0, 500.0]
    assert plan.nodes[3].processes == 3


def test_a_bitmap_that_all_processes_wait_for_counts_whole() -> None:
    def parallel(bitmap_ms: float) -> list[float]:
        return own(
            plan_of(
                line("Gather", 100.0),
                "  ->  " + line("Parallel Bitmap Heap Scan on t", 90.0, loops=3),
                "        ->  " + line("Bitmap Index Scan on i", bitmap_ms),
            )
        )

    assert parallel(60.0) == [10.0, 30.0, 60.0]
    # More than the others' time: some came when it was made.
    assert parallel(120.0) == [10.0, 50.0, 40.0]


def test_an_init_plan_is_within_the_node_that_names_it_and_not_within_the_one_above_it() -> None:
    for label, name in (("InitPlan 1 (returns $0)", "$0"), ("InitPlan 1", "(InitPlan 1).col1")):
        plan = plan_of(
            line("Aggregate", 100.0),
            f"  {label}",
            "    ->  " + line("Seq Scan on a", 70.0),
            "  ->  " + line("Seq Scan on b", 95.0),
            f"        Filter: (x = {name})",
        )
        assert own(plan) == [5.0, 70.0, 25.0]
        assert plan.nodes[1].subplan == label


def test_an_init_plan_that_nothing_names_is_found_by_its_time() -> None:
    """Without VERBOSE, a list of results is not printed."""
    plan = plan_of(
        line("Limit", 100.0),
        "  InitPlan 1 (returns $0)",
        "    ->  " + line("Seq Scan on a", 70.0),
        "  ->  " + line("Sort", 99.0),
        "        ->  " + line("Seq Scan on b", 95.0),
    )
    assert own(plan) == [1.0, 70.0, 4.0, 25.0]


def test_an_init_plan_for_workers_is_computed_within_the_gather() -> None:
    plan = plan_of(
        line("Gather", 100.0),
        "  InitPlan 1 (returns $0)",
        "    ->  " + line("Seq Scan on a", 70.0),
        "  ->  " + line("Parallel Seq Scan on b", 20.0, loops=3),
        "        Filter: (x = $0)",
    )
    assert own(plan) == [10.0, 70.0, 20.0]


def test_workers_of_an_init_plan_that_end_later_are_waited_for_by_the_node_around() -> None:
    """As 18 printed it: the InitPlan's Gather is shut down after the plan's own nodes have ended."""
    plan = plan_of(
        line("Aggregate", 56.064, first=31.466),
        "  InitPlan 1",
        "    ->  " + line("Gather", 55.985, first=31.392),
        "          ->  " + line("Parallel Seq Scan on side", 0.088, loops=3),
        "  ->  " + line("Append", 31.464, first=31.46),
        "        ->  " + line("Bitmap Heap Scan on parts_1", 0.051),
        "              Recheck Cond: (id = (InitPlan 1).col1)",
    )
    assert own(plan) == [0.007, 55.897, 0.088, 0.021, 0.051]


def test_a_sub_plan_is_counted_for_each_of_its_loops() -> None:
    plan = plan_of(
        line("Seq Scan on a", 100.0, rows=10),
        "  Filter: (x > (SubPlan 1))",
        "  SubPlan 1",
        "    ->  " + line("Aggregate", 8.0, loops=10),
        "          ->  " + line("Seq Scan on b", 7.5, loops=10),
    )
    assert own(plan) == [20.0, 5.0, 75.0]


def test_a_sub_plan_of_several_partitions_is_printed_once_and_taken_from_all() -> None:
    plan = plan_of(
        line("Append", 205.0),
        "  ->  " + line("Seq Scan on p1", 100.0, rows=100),
        "        Filter: (x > (SubPlan 1))",
        "        Rows Removed by Filter: 900",
        "        SubPlan 1",
        "          ->  " + line("Aggregate", 0.05, loops=3600),
        "  ->  " + line("Seq Scan on p2", 100.0, rows=1000),
        "        Filter: (x > (SubPlan 1))",
    )
    # 20 ms are left for the scans' own work, on a thousand rows each.
    assert own(plan) == [5.0, 10.0, 180.0, 10.0]


def test_a_sub_plan_of_an_index_condition_runs_while_the_join_starts_the_scan_again() -> None:
    plan = plan_of(
        line("Nested Loop", 100.0),
        "  ->  " + line("Seq Scan on a", 10.0, rows=1000),
        "  ->  " + line("Index Scan using b_id on b", 0.01, loops=1000),
        "        Index Cond: (id = (SubPlan 1))",
        "        SubPlan 1",
        "          ->  " + line("Seq Scan on c", 0.06, loops=1000),
    )
    assert own(plan) == [20.0, 10.0, 10.0, 60.0]


def test_a_sub_plan_of_a_filter_is_not_taken_for_the_tenth_of_an_index_condition() -> None:
    plan = plan_of(
        line("Nested Loop", 200.0),
        "  ->  " + line("Seq Scan on a", 10.0, rows=1000),
        "  ->  " + line("Index Scan using b_id on b", 0.07, loops=1000),
        "        Index Cond: (id = (SubPlan 10))",
        "        Filter: (x > (SubPlan 1))",
        "        SubPlan 1",
        "          ->  " + line("Seq Scan on c", 0.06, loops=1000),
        "        SubPlan 10",
        "          ->  " + line("Seq Scan on d", 0.01, loops=1000),
    )
    assert own(plan) == [110.0, 10.0, 10.0, 60.0, 10.0]


def test_a_cte_is_within_its_scan_and_counted_once() -> None:
    plan = plan_of(
        line("Aggregate", 100.0),
        "  CTE c",
        "    ->  " + line("Seq Scan on a", 80.0, rows=1000),
        "  ->  " + line("CTE Scan on c", 90.0, rows=1000),
    )
    assert own(plan) == [10.0, 80.0, 10.0]


def test_two_scans_of_a_cte_share_what_is_left_by_their_rows() -> None:
    """The first pays for the CTE, the second reads stored rows: 12 ms of reading, of 1000 and 500 rows."""
    plan = plan_of(
        line("Hash Join", 110.0),
        "  CTE c",
        "    ->  " + line("Seq Scan on a", 80.0, rows=1000),
        "  ->  " + line("CTE Scan on c x", 88.0, rows=1000),
        "  ->  " + line("Hash", 5.0, rows=500),
        "        ->  " + line("CTE Scan on c y", 4.0, rows=500),
    )
    assert own(plan) == [17.0, 80.0, 8.0, 1.0, 4.0]


def test_ctes_of_one_name_in_two_queries_are_told_apart() -> None:
    plan = plan_of(
        line("Nested Loop", 100.0),
        "  CTE c",
        "    ->  " + line("Seq Scan on a", 10.0),
        "  ->  " + line("CTE Scan on c", 15.0),
        "  ->  " + line("Aggregate", 60.0),
        "        CTE c",
        "          ->  " + line("Seq Scan on b", 40.0),
        "        ->  " + line("CTE Scan on c c_1", 50.0),
    )
    assert own(plan) == [25.0, 10.0, 5.0, 10.0, 40.0, 10.0]


def test_a_cte_that_changes_data_runs_on_after_the_plan() -> None:
    plan = plan_of(
        line("Result", 1.0),
        "  CTE c",
        "    ->  " + line("Insert on a", 50.0, rows=0),
        "          ->  " + line("Seq Scan on b", 20.0),
        "Execution Time: 52.000 ms",
    )
    assert own(plan) == [1.0, 30.0, 20.0]
    assert plan.nodes_ms == pytest.approx(51)
    assert plan.unattributed_ms == pytest.approx(1)


def test_partitions_that_were_never_run_take_no_time() -> None:
    plan = plan_of(
        line("Append", 10.0),
        "  Subplans Removed: 3",
        "  ->  Seq Scan on p1  (cost=0.00..1.00 rows=1 width=4) (never executed)",
        "  ->  " + line("Seq Scan on p2", 8.0),
    )
    assert own(plan) == [2.0, 0.0, 8.0]
    assert [node.never_executed for node in plan.nodes] == [False, True, False]
    assert plan.nodes[0].subplans_removed == 3


def test_what_contradicts_itself_is_shown_and_not_cut_off() -> None:
    plan = plan_of(line("Sort", 10.0), "  ->  " + line("Seq Scan on a", 12.0), "Execution Time: 10.100 ms")
    assert own(plan) == [-2.0, 12.0]
    assert plan.nodes_ms == pytest.approx(10)


def test_a_constraint_s_trigger_runs_after_the_plan_and_any_other_may_be_within_it() -> None:
    plan = plan_of(
        line("Insert on a", 40.0, rows=0),
        "  ->  " + line("Result", 1.0),
        "Trigger for constraint a_b_fkey: time=25.000 calls=100",
        "Trigger before_row on a: time=30.000 calls=100",
        "Trigger audit on a: time=2.000 calls=100",
        "Execution Time: 70.000 ms",
    )
    assert [(trigger.name, trigger.ran) for trigger in plan.triggers] == [
        ("a_b_fkey", "after"),
        ("before_row", "within"),
        ("audit", None),
    ]
    assert plan.triggers_ms == 25.0
    assert plan.unattributed_ms == pytest.approx(5)


def test_blocks_of_a_node_s_own_are_without_those_below_it() -> None:
    plan = plan_of(
        line("Aggregate", 10.0),
        "  Buffers: shared hit=100 read=50",
        "  InitPlan 1 (returns $0)",
        "    ->  " + line("Seq Scan on a", 1.0),
        "          Buffers: shared hit=30",
        "  ->  " + line("Seq Scan on b", 9.0),
        "        Filter: (x = $0)",
        "        Buffers: shared hit=100 read=50",
    )
    assert [(node.own_buffers_hit, node.own_buffers_read) for node in plan.nodes] == [
        (0, 0),
        (30, 0),
        (70, 50),
    ]


def test_blocks_of_a_cte_are_its_own_without_timing_too() -> None:
    """As EXPLAIN (ANALYZE, BUFFERS, TIMING off) prints them: the scan's include the CTE's."""
    figures = "(cost=0.00..1.00 rows=1 width=4) (actual rows=1 loops=1)"
    plan = plan_of(
        f"Aggregate  {figures}",
        "  Buffers: shared hit=500",
        "  CTE x",
        f"    ->  Seq Scan on a  {figures}",
        "          Buffers: shared hit=500",
        f"  ->  CTE Scan on x  {figures}",
        "        Buffers: shared hit=500",
    )
    assert [node.own_buffers_hit for node in plan.nodes] == [0, 500, 0]


def test_without_timing_there_are_no_times_and_without_analyze_no_rows() -> None:
    untimed = plan_of(
        "Aggregate  (cost=0.00..1.00 rows=1 width=4) (actual rows=1 loops=1)",
        "  ->  Seq Scan on a  (cost=0.00..1.00 rows=1 width=4) (actual rows=10 loops=1)",
        "Execution Time: 1.000 ms",
    )
    assert [node.own_ms for node in untimed.nodes] == [None, None]
    assert (untimed.executed, untimed.execution_ms, untimed.unattributed_ms) == (True, 1.0, None)
    estimated = plan_of("Seq Scan on a  (cost=0.00..1.00 rows=10 width=4)")
    assert (estimated.executed, estimated.nodes[0].rows, estimated.nodes[0].rows_estimated) == (
        False,
        None,
        10,
    )


def test_a_cte_that_sub_plans_read_is_no_negative_time_of_the_node_above() -> None:
    """Two SubPlans of a list of results scan one CTE: taken from the top too, it would leave less than 0."""
    plan = plan_of(
        line("Result", 2926.0),
        "  CTE foo",
        "    ->  " + line("Group", 2925.9, rows=3),
        "  SubPlan 2",
        "    ->  " + line("Aggregate", 2925.95),
        "          ->  " + line("CTE Scan on foo", 2925.93, rows=3),
        "  SubPlan 3",
        "    ->  " + line("Aggregate", 0.03),
        "          ->  " + line("CTE Scan on foo foo_1", 0.02, rows=3),
    )
    # 0.05 ms of reading, 0.02 ms of which the second scan has at most.
    assert own(plan) == [0.02, 2925.9, 0.02, 0.03, 0.01, 0.02]
    assert min(own(plan)) >= 0


def test_workers_that_had_little_to_do_are_told_where_verbose_shows_them() -> None:
    plan = plan_of(
        line("Gather", 130.0),
        "  Workers Planned: 2",
        "  Workers Launched: 2",
        "  ->  " + line("Parallel Append", 45.0, loops=3),
        "        Worker 0:  actual time=0.010..5.000 rows=1 loops=1",
        "        Worker 1:  actual time=0.010..10.000 rows=1 loops=1",
    )
    assert own(plan) == [85.0, 45.0]
    assert [worker.loop_ms for worker in plan.nodes[1].workers] == [5.0, 10.0]
    (uneven,) = [finding.sentence for finding in plan.findings if finding.kind == "uneven-workers"]
    assert "5.00 ms to 120 ms in 3 processes" in uneven


def test_a_cte_scan_on_top_of_the_plan_holds_its_cte_below_itself() -> None:
    """The CTE's time was counted twice: within the scan, and once more as if it ran after the plan."""
    plan = plan_of(
        line("CTE Scan on x", 100.0, rows=50),
        "  Buffers: shared hit=443",
        "  CTE x",
        "    ->  " + line("Seq Scan on t", 80.0, rows=100_000),
        "          Buffers: shared hit=443",
        "Execution Time: 100.500 ms",
    )
    assert own(plan) == [20.0, 80.0]
    assert [node.own_buffers_hit for node in plan.nodes] == [0, 443]
    assert plan.unattributed_ms == pytest.approx(0.5)
