"""When autovacuum should have come to a table, by its size and the version."""

from typing import Any

import pytest

from finder_samples import facts, plan, symptom
from pgassay.tune.candidate import Candidate
from pgassay.tune.finders.registry import find

ROWS = 1_000_000_000
SCALED, LATE = "autovacuum:public.t:threshold", "autovacuum:cost-limit"


def found(
    dead: int, version: int = 180000, settings: dict[str, str] | None = None, **changes: Any
) -> list[Candidate]:
    """Of an index-only scan that goes to the heap for each row, since VACUUM has not been there."""
    known = facts(rows=ROWS, pages=ROWS // 100, all_visible_pages=0, dead_rows=dead, updated=ROWS, **changes)
    known = known.model_copy(update={"version": version, "settings": settings or {}})
    read = plan("", rows=100_000, ms=100.0)
    changed = {"type": "Index Only Scan", "filter": None, "index": "i", "heap_fetches": 100_000}
    seen = read.model_copy(update={"nodes": (read.nodes[0].model_copy(update=changed),)})
    return [each for each in find(symptom(seen, known=known)) if each.kind == "autovacuum"]


@pytest.mark.parametrize(
    ("version", "options", "threshold"),
    [
        (170000, {}, "200,000,050"),
        (180000, {"autovacuum_vacuum_max_threshold": "-1"}, "200,000,050"),
        (180000, {"autovacuum_vacuum_max_threshold": "180000000"}, "180,000,000"),
    ],
)
def test_autovacuum_waits_for_a_part_of_the_rows_or_for_the_largest_threshold(
    version: int, options: dict[str, str], threshold: str
) -> None:
    (fix,) = found(150_000_000, version, options=options)
    assert fix.id == SCALED and f"waits until {threshold} are dead" in fix.reason


def test_since_18_autovacuum_comes_to_a_large_table_at_100_million_dead_rows() -> None:
    assert not found(150_000_000), "it has come already"
    (late,) = found(300_000_000)
    assert late.id == LATE and "autovacuum should have run at 100,000,000" in late.reason
    assert not found(300_000_000, 170000)


@pytest.mark.parametrize(
    ("settings", "is_offered"),
    [
        ({"autovacuum_vacuum_cost_limit": "-1", "vacuum_cost_limit": "200"}, True),
        ({"autovacuum_vacuum_cost_limit": "-1", "vacuum_cost_limit": "10000"}, False),
        ({"autovacuum_vacuum_cost_limit": "400", "vacuum_cost_limit": "10000"}, True),
        ({"autovacuum_vacuum_cost_delay": "0"}, False),
        ({"autovacuum_vacuum_cost_delay": "-1", "vacuum_cost_delay": "0"}, False),
        ({"autovacuum_vacuum_cost_delay": "-1", "vacuum_cost_delay": "10"}, True),
    ],
)
def test_a_limit_is_offered_where_it_is_higher_than_the_one_that_holds(
    settings: dict[str, str], is_offered: bool
) -> None:
    """-1 stands for vacuum_cost_limit, beside which 2000 may be the lower one; without a delay none holds."""
    offered = found(300_000_000, settings=settings)
    assert [each.settings for each in offered] == [{"autovacuum_vacuum_cost_limit": "2000"}] * is_offered


def test_a_limit_of_the_table_is_changed_there() -> None:
    (fix,) = found(300_000_000, options={"autovacuum_vacuum_cost_limit": "100"})
    assert not fix.settings and fix.sql == ("ALTER TABLE public.t SET (autovacuum_vacuum_cost_limit = 2000)",)
    assert fix.undo == ("ALTER TABLE public.t SET (autovacuum_vacuum_cost_limit = 100)",)
