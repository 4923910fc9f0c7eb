"""Two plans compared, in sentences; findings of one; what the versions print differently."""

import json

import jsonschema
import pytest

from pgassay.model.plans.explained_plan import ExplainedPlan, ExplainResult
from pgassay.plans.explain_plan import read_plans
from pgassay.plans.plan_comparison import beside
from pgassay.report import schema
from pgassay.report.explain import explain_page


def line(name: str, total: float, loops: int = 1, rows: object = 1, estimated: int = 1) -> str:
    return (
        f"{name}  (cost=0.00..1.00 rows={estimated} width=4) "
        f"(actual time=0.000..{total:.3f} rows={rows} loops={loops})"
    )


def plan_of(*lines: str) -> ExplainedPlan:
    return read_plans("\n".join(lines), "a test")[0]


def said(first: ExplainedPlan, second: ExplainedPlan) -> str:
    return " ".join(beside(first, second).sentences)


def found(plan: ExplainedPlan) -> dict[str, str]:
    return {finding.kind: finding.sentence for finding in plan.findings}


SELF_JOIN_17 = plan_of(
    line("Aggregate", 138.0),
    "  Buffers: shared hit=400000",
    "  ->  " + line("Nested Loop", 130.0, rows=100000, estimated=90000),
    "        Buffers: shared hit=400000",
    "        ->  " + line("Index Scan using accounts_bid on accounts b", 40.0, rows=100000, estimated=90000),
    "              Buffers: shared hit=1700",
    "        ->  " + line("Index Scan using accounts_pkey on accounts a", 0.001, loops=80000),
    "              Buffers: shared hit=398300",
    "Planning Time: 0.300 ms",
    "Execution Time: 138.100 ms",
)
SELF_JOIN_18 = plan_of(
    line("Aggregate", 48.0, rows="1.00"),
    "  Buffers: shared hit=1700",
    "  ->  " + line("Index Scan using accounts_bid on accounts b", 40.0, rows="100000.00", estimated=90000),
    "        Index Searches: 1",
    "        Buffers: shared hit=1700",
    "Planning Time: 0.200 ms",
    "Execution Time: 48.100 ms",
)


def test_a_join_that_is_gone() -> None:
    words = said(SELF_JOIN_17, SELF_JOIN_18)
    assert "B drops 1 scan and 1 join: Index Scan using accounts_pkey on accounts a." in words
    assert "Only in A: Nested Loop." in words
    assert "Total: 400,000 → 1,700 blocks" in words
    assert (
        "In all 90.0 ms less in B: 80.0 ms (89 %) at the Index Scan using accounts_pkey on accounts a"
        in words
    )
    assert "an example, not a measurement" in words
    assert (SELF_JOIN_17.major_max, SELF_JOIN_18.major_min) == (17, 18)


def test_what_the_versions_print_differently_is_told_where_it_is_seen() -> None:
    notes = " ".join(beside(SELF_JOIN_17, SELF_JOIN_18).notes)
    assert "Index Searches" in notes
    assert "WindowAgg" not in notes
    assert not beside(SELF_JOIN_17, SELF_JOIN_17).notes


def test_a_sort_that_fits_in_memory() -> None:
    def sorting(method: str, setting: str) -> ExplainedPlan:
        return plan_of(
            line("Sort", 100.0, rows=1000, estimated=1000),
            "  Sort Key: amount",
            f"  Sort Method: {method}",
            "  ->  " + line("Seq Scan on fact", 50.0, rows=1000, estimated=1000),
            f"Settings: work_mem = '{setting}'",
        )

    small, large = (
        sorting("external merge  Disk: 25600kB", "4MB"),
        sorting("quicksort  Memory: 40960kB", "64MB"),
    )
    words = said(small, large)
    assert "The sort by amount fits in memory in B: external merge 25.0 MB → quicksort 40.0 MB." in words
    assert "work_mem is 4MB in A and 64MB in B." in words
    assert "goes to temporary files in B" in said(large, small)
    assert "Both plans have the same nodes." in words
    assert "sorted in temporary files: external merge, 25.0 MB" in found(small)["spill"]
    assert "spill" not in found(large)


def test_an_index_in_place_of_a_scan() -> None:
    without = plan_of(
        line("Gather", 100.0, rows=50),
        "  Workers Planned: 2",
        "  Workers Launched: 1",
        "  ->  " + line("Parallel Seq Scan on accounts", 90.0, loops=2, rows=25, estimated=20),
        "        Filter: (bid = 1)",
        "        Rows Removed by Filter: 3300000",
    )
    index = plan_of(
        line("Index Scan using accounts_bid on accounts", 0.5, rows=50, estimated=40),
        "  Index Cond: (bid = 1)",
    )
    words = said(without, index)
    assert "accounts is read differently: Parallel Seq Scan → Index Scan using accounts_bid." in words
    thrown = "discards 0 rows in B, the Parallel Seq Scan on accounts 6,600,000 rows in A."
    assert f"The Index Scan using accounts_bid on accounts {thrown}" in words
    assert "Only in A: Gather." in words
    assert "read 6,600,050 rows and discarded 99.999 % of them." in found(without)["rows-removed"]
    assert "2 workers planned, 1 launched" in found(without)["workers"]
    assert not found(index)


def test_skip_scan_heap_fetches_and_partitions() -> None:
    def scan(*details: str) -> ExplainedPlan:
        return plan_of(line("Index Only Scan using i on t", 40.0, rows=5000, estimated=5000), *details)

    before = scan("  Heap Fetches: 5000", "  Buffers: shared hit=8690")
    after = scan("  Heap Fetches: 0", "  Index Searches: 101", "  Buffers: shared hit=258")
    words = said(before, after)
    assert "Heap fetches of the Index Only Scan using i on t: 5,000 → 0." in words
    assert (
        "descends its index 101 times in B (a skip scan, or a list of values): 8,690 → 258 blocks." in words
    )
    assert "visited the table for 5,000 rows" in found(before)["heap-fetches"]
    assert "101 times in 1 loop" in found(after)["index-searches"]
    whole = plan_of(
        line("Append", 5.0), "  ->  " + line("Seq Scan on p1", 2.0), "  ->  " + line("Seq Scan on p2", 2.0)
    )
    pruned = plan_of(line("Append", 3.0), "  Subplans Removed: 1", "  ->  " + line("Seq Scan on p1", 2.0))
    assert "The Append leaves out 1 partition at the start in B, 0 in A." in said(whole, pruned)
    assert "B drops 1 scan: Seq Scan on p2." in said(whole, pruned)


@pytest.mark.parametrize(
    ("estimated", "rows", "expected"),
    [(1, 5000, "5,000 times too few"), (90000, 2000, "45 times too many"), (1000, 5000, "")],
)
def test_an_estimate_that_is_wrong_tenfold(estimated: int, rows: int, expected: str) -> None:
    sentence = found(plan_of(line("Seq Scan on t", 5.0, rows=rows, estimated=estimated))).get(
        "misestimate", ""
    )
    assert expected in sentence
    assert bool(expected) == bool(sentence)


def test_a_limit_stops_a_scan_early_and_proves_no_estimate_wrong() -> None:
    plan = plan_of(
        line("Limit", 1.0, rows=10), "  ->  " + line("Seq Scan on t", 1.0, rows=10, estimated=90000)
    )
    assert "misestimate" not in found(plan)


def test_the_json_obeys_its_schema() -> None:
    assert schema.EXPLAIN.file.read_text(encoding="utf-8") == schema.EXPLAIN.text()
    pair = (SELF_JOIN_17, SELF_JOIN_18)
    for result in (ExplainResult(plans=pair, beside=beside(*pair)), ExplainResult(plans=pair[:1])):
        value = json.loads(explain_page.page_of(result).json())
        jsonschema.validate(value, schema.EXPLAIN.schema(), cls=jsonschema.Draft202012Validator)
        assert value["schema"] == 1
    issue_keys = {
        "id", "parent", "type", "relation", "index", "own_ms", "total_ms", "rows_estimated", "rows", "loops",
        "rows_removed", "heap_fetches", "index_searches", "sort_method", "sort_kb", "disk", "buffers_hit",
        "buffers_read", "workers_launched", "never_executed",
    }  # fmt: skip
    assert issue_keys <= value["plans"][0]["nodes"][0].keys()


def test_the_tree_on_the_terminal_the_page_and_in_markdown() -> None:
    result = ExplainResult(plans=(SELF_JOIN_17, SELF_JOIN_18), beside=beside(SELF_JOIN_17, SELF_JOIN_18))
    shown = explain_page.page_of(result).terminal(width=200)
    nodes = [each.split() for each in shown.splitlines() if "#3" in each]
    assert nodes[0][:4] == ["80.0", "ms", "58", "%"]
    assert "[only in A]" in shown
    coloured = explain_page.page_of(result).terminal(width=200, colour=True)
    assert "\x1b[1;31m" in next(
        each for each in coloured.splitlines() if "accounts_pkey on accounts a  #3" in each
    )
    page = explain_page.page_of(result).html()
    # The section, the Aggregate, the join and its two scans, of which each has lines below it.
    beside_each_other = page[page.index('class="plans"') :]
    first = beside_each_other[: beside_each_other.index("<h3>B</h3>")]
    assert first.count("<details open>") == first.count("</details>") == 4
    assert page.count("accounts_pkey on accounts a  #3") == 1
    assert "http" not in page.replace("http-equiv", "")
    assert "accounts_pkey on accounts a  #3" in explain_page.page_of(result).markdown()
    narrow = explain_page.page_of(result).terminal(width=60, unicode=False)
    assert max(map(len, narrow.splitlines())) <= 60


def test_what_never_ran_was_not_read() -> None:
    def append(*parts: str) -> ExplainedPlan:
        return plan_of(line("Append", 5.0, rows=10), *parts)

    idle = [
        f"  ->  Seq Scan on p{number}  (cost=0.00..1.00 rows=1 width=4) (never executed)"
        for number in range(9)
    ]
    words = said(
        append("  ->  " + line("Seq Scan on a", 2.0)), append("  ->  " + line("Seq Scan on b", 2.0), *idle)
    )
    assert "A reads Seq Scan on a; B reads Seq Scan on b." in words
    assert "9 scans only in B never ran: Seq Scan on p0, Seq Scan on p1 and 7 more." in words


def test_a_setting_that_only_one_version_has_to_name_is_no_difference() -> None:
    def planned(name: str, value: str | None, version: int) -> ExplainedPlan:
        plan = plan_of(line("Seq Scan on t", 5.0), *([f"Settings: {name} = '{value}'"] if value else []))
        return plan.model_copy(update={"major_min": version, "major_max": version})

    io = "effective_io_concurrency"
    assert io not in said(planned(io, "16", 17), planned(io, None, 18))
    assert f"{io} is 1 (its default) in A and 16 (its default) in B" not in said(
        planned(io, None, 17), planned(io, None, 18)
    )
    assert f"{io} is 64 in A and 16 (its default) in B." in said(planned(io, "64", 17), planned(io, None, 18))
    assert "jit" not in said(planned("jit", "off", 18), planned("jit", None, 19))
    assert "work_mem is 8MB in A and its default in B." in said(
        planned("work_mem", "8MB", 17), planned("work_mem", None, 18)
    )


def test_reading_is_told_where_it_was_done() -> None:
    plan = plan_of(
        line("Sort", 90.0, rows=1000),
        "  Buffers: shared hit=5 read=900, temp read=100 written=100",
        "  I/O Timings: shared read=32.800, temp read=1.000",
        "  ->  " + line("Seq Scan on t", 50.0, rows=1000),
        "        Buffers: shared hit=5 read=900",
        "        I/O Timings: shared read=32.800",
    )
    assert [node.own_io_read_ms for node in plan.nodes] == [0.0, 32.8]
    assert [node.own_temp_read for node in plan.nodes] == [100, 0]
    shown = explain_page.page_of(ExplainResult(plans=(plan,))).terminal(width=120)
    assert shown.count("32.8 ms of reading") == 1
    assert shown.count("temporary blocks") == 1


def test_what_became_faster_at_one_node_and_slower_at_another_is_told_as_such() -> None:
    def two(sort_ms: float, scan_ms: float) -> ExplainedPlan:
        return plan_of(line("Sort", sort_ms + scan_ms), "  ->  " + line("Seq Scan on t", scan_ms))

    words = said(two(100.0, 1900.0), two(1100.0, 100.0))
    assert (
        "In all 800 ms less in B: 1.800 s less at the Seq Scan on t; but 1.000 s more at the Sort." in words
    )
    assert "%" not in words


def test_shares_of_a_change_are_never_more_than_all_of_it() -> None:
    """A scan that took 1.8 s less, where 60 nodes took 15 ms more each: "788 ms less: 1.795 s (228 %)"."""

    def many(scan_ms: float, each_ms: float) -> ExplainedPlan:
        parts = ["  ->  " + line(f"Index Scan using i{number} on p{number}", each_ms) for number in range(60)]
        scan = "  ->  " + line("Seq Scan on t", scan_ms)
        return plan_of(line("Append", scan_ms + 60 * each_ms), scan, *parts)

    words = said(many(1900.0, 1.0), many(100.0, 16.0))
    assert (
        "In all 900 ms less in B: 1.800 s less at the Seq Scan on t; but 900 ms more at other nodes." in words
    )
    assert "%" not in words


@pytest.mark.parametrize("number", [1, 2])
def test_a_long_statement_that_is_cut_says_so(number: int) -> None:
    plan = SELF_JOIN_17.model_copy(update={"statement": "SELECT 1 -- " + "x" * 3000})
    plans = (plan, plan)[:number]
    page = explain_page.page_of(ExplainResult(plans=plans, beside=beside(*plans) if number == 2 else None))
    for shown in (page.terminal(width=80), page.markdown(), page.html()):
        assert "(cut: 3,012 characters in all)" in shown.replace("\n", " ")
