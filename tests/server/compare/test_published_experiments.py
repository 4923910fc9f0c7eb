"""Published experiments, each run by the one command that ships, show the figure of their plan in the report.

The sizes are a fraction of the published ones: figures are counts of rows, pages and nodes, and times are not
looked at.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whole_tool

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.shares_machine]

EXAMPLES = whole_tool.ROOT / "examples"
ROWS = 100_000
# Of pgbench_accounts in each page.
ROWS_OF_A_PAGE = 61


class Report:
    """What one run of an example says: the JSON document, the plans in it, and the report as text."""

    def __init__(self, name: str, folder: Path, scale: int, blocks: int, changes: dict[str, str]) -> None:
        """Run the example at this scale, with these words of its file replaced."""
        for sql in EXAMPLES.glob("*.sql"):
            (folder / sql.name).write_text(sql.read_text("utf-8"), "utf-8")
        text = re.sub(r"^scale = \d+$", f"scale = {scale}", (EXAMPLES / name).read_text("utf-8"), flags=re.M)
        # Every start of a server touches all of its shared memory.
        for old, new in {'shared_buffers = "1GB"': 'shared_buffers = "256MB"', **changes}.items():
            assert old in text or old not in changes, old
            text = text.replace(old, new)
        (folder / name).write_text(f"blocks = {blocks}\nseed = 7\n{text}", "utf-8")
        self.folder = folder / "out"
        finished = whole_tool.run("run", folder / name, "--out", self.folder, "--json", "--quiet")
        self.result = whole_tool.result_of(finished)
        self.text = " ".join(whole_tool.run("report", self.folder, "--markdown").stdout.split())

    def plan(self, statement: str, level: str) -> dict[str, Any]:
        """The executed plan of a statement in the arm whose name ends like this."""
        (found,) = [
            plan
            for plan in self.result["plans"]
            if plan["statement"] == statement and plan["arm"].endswith(level)
        ]
        assert found["executed"], found["reason"]
        return found

    def nodes(self, statement: str, level: str, *types: str) -> list[dict[str, Any]]:
        """The nodes of these types, or all."""
        nodes = self.plan(statement, level)["nodes"]
        return [node for node in nodes if not types or node["type"] in types]

    def blocks(self, statement: str, level: str) -> int:
        """What the whole plan looked at."""
        top = self.plan(statement, level)["nodes"][0]
        return int(top["buffers_hit"] + top["buffers_read"])

    def trials(self, level: str) -> list[dict[str, Any]]:
        """The valid trials of the arm whose name ends like this."""
        document = json.loads((self.folder / "experiment.json").read_bytes())
        arms = {arm["id"] for arm in document["arms"] if arm["name"].endswith(level)}
        return [trial for trial in whole_tool.valid_trials(self.folder) if trial["arm_id"] in arms]


@pytest.fixture
def run(require: Callable[..., None], tmp_path: Path) -> Callable[..., Report]:
    """Run an example; at scale 1 unless told otherwise.

    Plans get a tenth of an experiment's time: where one takes long beside its trials, so many blocks are run.
    """
    require("versions-16-17-18", "cold-cache")

    def run_one(name: str, scale: int = 1, blocks: int = 1, changes: dict[str, str] | None = None) -> Report:
        return Report(f"{name}.toml", tmp_path, scale, blocks, changes or {})

    return run_one


def test_18_removes_a_self_join(run: Callable[..., Report]) -> None:
    report = run("versions-self-join", 2)
    joins = ("Nested Loop", "Hash Join", "Merge Join")
    assert report.nodes("self-join", "16", *joins) and report.nodes("self-join", "17", *joins)
    assert not report.nodes("self-join", "18", *joins)
    scans = {level: len(report.nodes("self-join", level, "Seq Scan", "Index Scan")) for level in ("17", "18")}
    assert scans == {"17": 2, "18": 1}
    assert "drops 1 scan and 1 join" in report.text


def test_18_skips_through_an_index_once_for_each_branch(run: Callable[..., Report]) -> None:
    branches = 4
    report = run("versions-skip-scan", branches)
    (skipping,) = report.nodes("count", "18", "Index Only Scan")
    # One search for each branch, and at most one more after the last.
    assert branches <= skipping["index_searches"] <= branches + 1
    assert report.nodes("count", "17", "Index Only Scan")[0]["index_searches"] is None
    assert report.blocks("count", "18") < report.blocks("count", "17") / 5
    assert report.blocks("count", "17") == pytest.approx(report.blocks("count", "16"), rel=0.02)
    assert "descends its index" in report.text


def test_aggregating_first_leaves_few_rows_to_join(run: Callable[..., Report]) -> None:
    report = run("two-ways", blocks=6)
    rows = {
        level: max(
            node["rows"] * node["loops"] for node in report.nodes("report-per-teller", level) if is_join(node)
        )
        for level in ("join-first.sql", "aggregate-first.sql")
    }
    # Ten tellers, each with every account of its branch; or with one sum.
    assert rows["join-first.sql"] == pytest.approx(10 * ROWS, rel=0.01)
    assert rows["aggregate-first.sql"] == 10


def is_join(node: dict[str, Any]) -> bool:
    return node["type"] in ("Nested Loop", "Hash Join", "Merge Join")


def test_an_index_spares_the_rows_that_a_filter_removes(run: Callable[..., Report]) -> None:
    branches = 4
    report = run("with-index", branches)
    statement = "first-accounts-of-a-branch"
    (scan,) = report.nodes(statement, "none", "Seq Scan")
    # For each process that took part.
    assert scan["rows_removed"] * scan["loops"] == pytest.approx((branches - 1) * ROWS, rel=0.001)
    assert report.blocks(statement, "none") > branches * ROWS / ROWS_OF_A_PAGE
    indexed = report.nodes(statement, "with-index.sql")
    assert any(node["index"] == "accounts_by_branch" for node in indexed)
    assert not any(node["rows_removed"] for node in indexed)
    # The first fifty in the index's order, each with a page of its own at most.
    assert report.blocks(statement, "with-index.sql") < 100


def test_partitions_are_pruned_where_the_key_is_named_and_not_elsewhere(run: Callable[..., Report]) -> None:
    branches = 5
    report = run("partition-pruning", branches)
    whole, parts = "partitions-none.sql", "partitions-by-branch.sql"
    table = branches * ROWS / ROWS_OF_A_PAGE
    assert report.blocks("with-key", whole) == pytest.approx(table, rel=0.02)
    assert report.blocks("with-key", parts) == pytest.approx(table / branches, rel=0.02)
    assert len(report.nodes("with-key", parts, "Seq Scan")) == 1
    later = report.nodes("with-key-known-later", parts, "Seq Scan")
    scanned = [
        node for node in later if node["relation"].startswith("accounts_") and not node["never_executed"]
    ]
    assert len(scanned) == 1
    assert sum(node["never_executed"] for node in later) == branches - 1
    assert report.blocks("without-key", parts) == pytest.approx(table, rel=0.02)
    assert len(report.nodes("without-key", parts, "Seq Scan")) == branches
    # Without partitions all rows but those of one branch were thrown away.
    (scan,) = report.nodes("with-key", whole, "Seq Scan")
    assert scan["rows_removed"] == (branches - 1) * ROWS


def test_few_dead_rows_cost_nothing_and_half_do(run: Callable[..., Report]) -> None:
    report = run("dead-rows", 4, blocks=8)
    shares, blocks, pages = {}, {}, {}
    for level in ("none", "dead-rows-few.sql", "dead-rows-half.sql", "dead-rows-vacuumed.sql"):
        trial = report.trials(level)[0]
        (table,) = [each for each in trial["upkeep_before"]["tables"] if each["name"] == "pgbench_accounts"]
        shares[level] = table["dead_rows"] / (table["live_rows"] + table["dead_rows"])
        pages[level] = table["pages"]
        blocks[level] = report.blocks("first-accounts-of-a-branch", level)
        (statement,) = trial["statements"]
        measured = (statement["postgres_read_bytes"] + statement["postgres_hit_bytes"]) / 8192
        # The plan is executed on data as the trial met them; the trial's count has the catalogs as well.
        assert -50 < measured - blocks[level] < 1000
    assert shares["none"] == 0
    assert shares["dead-rows-few.sql"] == pytest.approx(0.027, abs=0.001)
    assert shares["dead-rows-half.sql"] == pytest.approx(0.5, abs=0.01)
    assert shares["dead-rows-vacuumed.sql"] == 0
    assert blocks["dead-rows-few.sql"] < 1.15 * blocks["none"]
    assert blocks["dead-rows-half.sql"] > 1.8 * blocks["none"]
    assert blocks["dead-rows-vacuumed.sql"] < 1.3 * blocks["none"]
    assert pages["dead-rows-vacuumed.sql"] == pages["dead-rows-half.sql"]
    assert pages["dead-rows-half.sql"] == pytest.approx(2 * pages["none"], rel=0.02)


def test_an_index_only_scan_fetches_each_row_until_vacuum_has_been(run: Callable[..., Report]) -> None:
    report = run("heap-fetches")
    (before,) = report.nodes("balance-of-all", "none", "Index Only Scan")
    (after,) = report.nodes("balance-of-all", "heap-fetches-vacuum.sql", "Index Only Scan")
    assert (before["heap_fetches"], after["heap_fetches"]) == (ROWS, 0)
    assert after["buffers_hit"] + after["buffers_read"] < (before["buffers_hit"] + before["buffers_read"]) / 3
    assert re.search(r"heap fetches", report.text, re.IGNORECASE)


def test_a_sort_that_fits_is_a_quicksort(run: Callable[..., Report]) -> None:
    report = run("sort-memory", blocks=4)
    (small,) = report.nodes("sort", "4MB", "Sort")
    (large,) = report.nodes("sort", "1GB", "Sort")
    assert (small["sort_method"], small["disk"]) == ("external merge", True)
    assert (large["sort_method"], large["disk"]) == ("quicksort", False)
    assert large["sort_kb"] > small["sort_kb"] > 4096 / 2
    assert "external merge" in report.text and "quicksort" in report.text


def test_the_second_visit_finds_the_table_in_large_buffers(run: Callable[..., Report]) -> None:
    """13 MB are more than a quarter of 16 MB, and less than one of 256 MB."""
    unlimited = {'storage = "loop:size=4GB,read_ahead=128,read_mb_s=125,read_iops=3000"\n': ""}
    report = run("second-visit", blocks=3, changes={'"64MB"': '"16MB"', '"2GB"': '"256MB"', **unlimited})
    table = ROWS / ROWS_OF_A_PAGE
    (small,) = report.nodes("second", "16MB", "Seq Scan")
    (large,) = report.nodes("second", "256MB", "Seq Scan")
    assert large["buffers_read"] == 0
    assert large["buffers_hit"] == pytest.approx(table, rel=0.02)
    assert small["buffers_read"] > 0.8 * table
    for level, first, second in (("16MB", 0.9, 0.8), ("256MB", 0.9, -1)):
        for trial in report.trials(level):
            read = [each["postgres_read_bytes"] / 8192 for each in trial["statements"][-2:]]
            assert read[0] >= first * table
            assert read[1] >= second * table if second > 0 else read[1] == 0
