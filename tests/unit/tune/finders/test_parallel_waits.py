"""Waits and memory below a Gather: EXPLAIN sums them over the processes, which worked side by side."""

import json

import pytest

from finder_samples import COLUMNS, ROWS, facts, symptom
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.candidate import AdvisedMachine
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence
from pgassay.tune.finders.infrastructure.memory import _needed_kb, _saved_ms
from pgassay.tune.finders.infrastructure.reading_and_writing import READING_AND_WRITING
from pgassay.tune.finders.registry import find

GATHER = {
    "Node Type": "Gather", "Plan Rows": 30, "Plan Width": 12, "Startup Cost": 0, "Total Cost": 900,
    "Actual Rows": 30, "Actual Loops": 1, "Actual Startup Time": 0.1, "Actual Total Time": 100.0,
    "Workers Planned": 2, "Workers Launched": 2,
}  # fmt: skip
SCAN = {
    "Node Type": "Seq Scan", "Parallel Aware": True, "Relation Name": "t", "Alias": "t", "Schema": "public",
    "Filter": "(b = 7)", "Plan Rows": 10, "Plan Width": 12, "Startup Cost": 0, "Total Cost": 800,
    "Actual Rows": 10, "Actual Loops": 3, "Actual Startup Time": 0.1, "Actual Total Time": 99.0,
    "Rows Removed by Filter": ROWS // 3 - 10, "Shared Hit Blocks": 0, "Parent Relationship": "Outer",
}  # fmt: skip


def parallel(**node: object) -> ExplainedPlan:
    document = {"Plan": GATHER | {"Plans": [SCAN | node]}, "Planning Time": 0.1, "Execution Time": 100.1}
    return read_plans(json.dumps([document]), "made")[0]


def read_in(read: int, all_ms: float) -> ExplainedPlan:
    return parallel(**{"Shared Read Blocks": read, "Shared I/O Read Time": all_ms})


def on(pages: int, **settings: str) -> SchemaFacts:
    return facts(rows=ROWS, pages=pages, columns=COLUMNS).model_copy(update={"settings": settings})


def test_two_thirds_of_a_bloated_table_s_pages_save_two_thirds_of_its_waits() -> None:
    needed = 493  # of 100,000 rows of three integers
    seen = read_in(2 * needed, 270.0)
    assert seen.nodes[1].processes == pytest.approx(3)
    (fix,) = [each for each in find(symptom(seen, known=on(needed * 3))) if each.kind == "bloat"]
    assert 1 / 3 <= fix.predicted["q"] < 0.5, "two thirds of the pages go, and no more than their part"


def test_a_scan_is_not_said_to_have_waited_longer_than_it_took() -> None:
    known = on(9000, io_method="sync")
    seen = symptom(read_in(9000, 270.0), known=known)
    machine = AdvisedMachine(random_read_us=90.0, sequential_read_mb_s=500.0)
    evidence = FinderEvidence(type(seen)(**{**vars(seen), "machine": machine}))
    (offer,) = READING_AND_WRITING.find(evidence)
    assert "waited 90 of 99 ms for 9,000 pages" in offer.candidate.reason
    assert offer.savings[0].ms == pytest.approx(90 * 0.33)


def test_temporary_files_of_three_processes_are_waited_for_side_by_side() -> None:
    plan = parallel(**{"Temp I/O Read Time": 60.0, "Temp I/O Write Time": 60.0})
    assert _saved_ms(plan, plan.nodes[1]) == pytest.approx(40.0)


def test_a_process_needs_memory_for_its_own_part_of_a_sort() -> None:
    """Of three that sorted 39 MB each on disk; their rows take less in memory."""
    worker = {"Sort Method": "external merge", "Sort Space Used": 40_000, "Sort Space Type": "Disk"}
    workers = [{"Worker Number": number, **worker} for number in (0, 1)]
    sort = parallel(**{"Node Type": "Sort", "Sort Key": ["b"], **worker, "Workers": workers}).nodes[1]
    assert sort.sort_kb == 120_000 and sort.processes == pytest.approx(3)
    assert _needed_kb(parallel(), sort, 180000) == pytest.approx(52_000, rel=0.01)


@pytest.mark.parametrize(("is_shared", "needed_kb"), [(True, 12_800), (False, 38_400)])
def test_processes_that_share_a_hash_table_need_a_part_of_it_each(is_shared: bool, needed_kb: float) -> None:
    hashed = {"Hash Batches": 8, "Original Hash Batches": 8, "Peak Memory Usage": 4000}
    node = parallel(**{"Node Type": "Hash", "Parallel Aware": is_shared, **hashed}).nodes[1]
    assert _needed_kb(parallel(), node, 180000) == pytest.approx(needed_kb)
