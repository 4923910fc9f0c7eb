"""What each parallel process did of a node: EXPLAIN prints the workers' part on lines of their own."""

import json

import pytest

from pgassay.model.plans.explained_plan import ExplainedPlan, ExplainResult, PlanNode
from pgassay.plans.explain_plan import read_plans
from pgassay.report.explain import explain_page
from pgassay.report.explain.plan_lines import text_lines, tree_lines

FIGURES = "(cost=1.00..2.00 rows=300 width=4) (actual time=1.000..15.000 rows=300.00 loops=3)"


def below_a_gather(node: str, *lines: str) -> ExplainedPlan:
    """The plan of a node that a leader and two workers ran."""
    text = "\n        ".join((f"  ->  {node}  {FIGURES}", *lines))
    gather = f"Gather  {FIGURES.replace('loops=3', 'loops=1')}\n  Workers Planned: 2\n  Workers Launched: 2"
    (plan,) = read_plans(f"{gather}\n{text}\nExecution Time: 21.000 ms", "a test")
    return plan


def in_json(**keys: object) -> PlanNode:
    """The node of a plan as JSON has it."""
    node = {"Actual Total Time": 15.0, "Actual Rows": 300.0, "Actual Loops": 3, **keys}
    top = {"Node Type": "Gather", "Actual Total Time": 20.0, "Actual Rows": 900.0, "Actual Loops": 1}
    (plan,) = read_plans(json.dumps([{"Plan": {**top, "Plans": [node]}}]), "a test")
    return plan.nodes[1]


def group(method: str, space: str, peak: int) -> dict[str, object]:
    sizes = {"Average Sort Space Used": peak, "Peak Sort Space Used": peak}
    return {"Group Count": 1, "Sort Methods Used": [method], f"Sort Space {space}": sizes}


def test_an_incremental_sort_that_a_worker_did_on_disk_was_on_disk() -> None:
    in_memory = "Sort Method: quicksort  Average Memory: 26kB  Peak Memory: 26kB"
    on_disk = "Sort Method: external merge  Average Disk: 3600kB  Peak Disk: 3600kB"
    plan = below_a_gather(
        "Incremental Sort",
        "Sort Key: a, b",
        f"Full-sort Groups: 1  {in_memory}",
        f"Worker 0:  Full-sort Groups: 1  {in_memory}",
        f"  Pre-sorted Groups: 1  {on_disk}",
        f"Worker 1:  Full-sort Groups: 1  {in_memory}",
    )
    workers = [
        {"Worker Number": 0, "Full-sort Groups": group("quicksort", "Memory", 26)},
        {"Worker Number": 1, "Full-sort Groups": group("quicksort", "Memory", 26)},
    ]
    workers[0]["Pre-sorted Groups"] = group("external merge", "Disk", 3600)
    own = group("quicksort", "Memory", 26)
    document = in_json(**{"Node Type": "Incremental Sort", "Full-sort Groups": own, "Workers": workers})
    for node in (plan.nodes[1], document):
        assert (node.sort_method, node.sort_kb, node.disk) == ("quicksort, external merge", 3600, True)
        assert [worker.disk for worker in node.workers] == [True, False]
    assert "on disk" in explain_page.page_of(ExplainResult(plans=(plan,))).terminal(width=120)


@pytest.mark.parametrize("leader", [True, False])
def test_a_memoize_s_hits_are_those_of_all_processes(leader: bool) -> None:
    """A leader that asked for nothing has no line."""
    own = ["Hits: 900  Misses: 100  Evictions: 0  Overflows: 0  Memory Usage: 3kB"] if leader else []
    plan = below_a_gather(
        "Memoize",
        "Cache Key: a.x",
        *own,
        "Worker 0:  Hits: 800  Misses: 200  Evictions: 5  Overflows: 1  Memory Usage: 4kB",
        "Worker 1:  Hits: 700  Misses: 300  Evictions: 7  Overflows: 0  Memory Usage: 2kB",
    )
    node = plan.nodes[1]
    found = (node.cache_hits, node.cache_misses, node.cache_evictions, node.cache_overflows, node.memory_kb)
    assert found == (1500 + 900 * leader, 500 + 100 * leader, 12, 1, 4)


def test_a_bitmap_s_lossy_pages_are_those_of_all_processes() -> None:
    plan = below_a_gather(
        "Parallel Bitmap Heap Scan on t",
        "Recheck Cond: (x > 1)",
        "Heap Blocks: exact=10",
        "Worker 0:  Heap Blocks: exact=20 lossy=100",
        "Worker 1:  Heap Blocks: exact=30 lossy=200",
    )
    workers = [
        {"Worker Number": 0, "Exact Heap Blocks": 20, "Lossy Heap Blocks": 100},
        {"Worker Number": 1, "Exact Heap Blocks": 30, "Lossy Heap Blocks": 200},
    ]
    blocks = {"Exact Heap Blocks": 10, "Lossy Heap Blocks": 0}
    for node in (plan.nodes[1], in_json(**{"Node Type": "Bitmap Heap Scan", "Workers": workers}, **blocks)):
        assert (node.heap_blocks_exact, node.heap_blocks_lossy) == (60, 300)
    assert any(finding.kind == "lossy" for finding in plan.findings)


@pytest.mark.parametrize(
    ("scan", "read"),
    [
        # Each process builds a hash table of its own: the table has 50,000 rows, and not three times as many.
        ("Seq Scan", "50,000 rows in each of 3 processes"),
        ("Parallel Seq Scan", "150,000 rows"),
    ],
)
def test_a_scan_that_each_process_runs_reads_the_same_rows(scan: str, read: str) -> None:
    filtered = ("Filter: (kind = 7)", "Rows Removed by Filter: 49700")
    plan = below_a_gather(f"{scan} on parts", *filtered)
    (removed,) = [each.sentence for each in plan.findings if each.kind == "rows-removed"]
    assert f"read {read} and discarded 99.4 % of them" in removed
    rows = "300 rows" if "each" in read else "900 rows"
    assert f"reads the whole table, {read} for {rows}: create an index" in plan.advice[0].sentence


def test_an_estimate_of_a_parallel_scan_is_of_all_processes() -> None:
    cost = "(cost=0.00..20000.00 rows=310 width=4)"
    below = f"  ->  Parallel Seq Scan on parts  {cost}\n        Filter: (kind = 7)"
    (plan,) = read_plans(f"Gather  {cost}\n  Workers Planned: 2\n{below}", "a test")
    assert "for an estimated 744 rows" in plan.advice[0].sentence
    assert "for an estimated 744 rows" in plan.findings[0].sentence


def test_one_worker_is_one_in_the_tree() -> None:
    document = {
        "Plan": {
            "Node Type": "Gather", "Workers Planned": 1, "Workers Launched": 1, "Actual Rows": 1,
            "Actual Loops": 1, "Plan Rows": 1, "Plan Width": 4, "Startup Cost": 0, "Total Cost": 9,
        }
    }  # fmt: skip
    lines = text_lines(list(tree_lines(read_plans(json.dumps([document]), "made")[0])))
    assert "1 worker planned, 1 launched" in lines
