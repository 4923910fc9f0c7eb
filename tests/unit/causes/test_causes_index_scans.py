"""Bloat that scans by an index meet: told by the pages for each row, never where a row costs one anyway."""

from typing import Any

import pytest

from cause_samples import evidence, record
from pgassay.analysis.causes import index_scans
from pgassay.analysis.causes.base import Found
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.rank import trial_causes
from pgassay.model.vacuum_state import Holder, IndexState, TableState, VacuumState
from pgassay.trial.snapshots.vacuum_state import entry_bytes

# A million rows of 128 bytes: 63 fill a page, 15 874 pages hold all; here they lie in five times as many.
BLOATED = TableState(
    schema_name="public", name="t", pages=80_000, live_rows=1e6, dead_rows=0, row_bytes=128.0, vacuumed_s=50.0
)
PACKED = BLOATED.model_copy(update={"pages": 15_900})
HALF_DEAD = BLOATED.model_copy(update={"pages": 31_800, "dead_rows": 1e6})
# 20 bytes an entry: 366 fill a page, 2733 pages hold all.
SPARSE = IndexState(
    schema_name="public", table="t", name="t_k", pages=13_000, rows=1e6, entry_bytes=20.0, fillfactor=90
)
FULL = SPARSE.model_copy(update={"pages": 2_760})
KEY = {"schemaname": "public", "relname": "t"}


def fetched(
    table: TableState,
    rows: float,
    pages: float,
    *,
    entries: float | None = None,
    scans: float = 10.0,
    index: IndexState | None = None,
    index_pages: float = 0.0,
    holders: tuple[Holder, ...] = (),
    **uses: float,
) -> Evidence:
    """Ten seconds in which so many rows were fetched by an index from so many pages, all read from a disk."""
    of_index = {**KEY, "indexrelname": index.name if index else ""}
    counters: dict[str, list[dict[str, Any]]] = {
        "pg_stat_database": [{"tup_returned": rows}],
        "pg_stat_user_tables": [{**KEY, "idx_scan": scans, "idx_tup_fetch": rows, **uses}],
        "pg_statio_user_tables": [{**KEY, "heap_blks_read": pages, "heap_blks_hit": 0.0}],
        "pg_stat_user_indexes": [
            {**of_index, "idx_scan": scans, "idx_tup_read": rows if entries is None else entries}
        ],
        "pg_statio_user_indexes": [{**of_index, "idx_blks_read": index_pages, "idx_blks_hit": 0.0}],
    }
    return evidence(
        read_s=8.0,
        cpu_s=2.0,
        cpu_in_reads_s=1.0,
        record=record(counters=counters),
        bytes_read=(pages + index_pages) * 8192,
        bytes_hit=0.0,
        vacuum_state=VacuumState(tables=(table,), holders=holders, indexes=(index,) if index else ()),
    )


def faults_of(found: Evidence) -> dict[str, Found]:
    return {rule.cause: answer for rule, answer in trial_causes(found).faults}


def test_a_range_in_the_table_s_order_goes_through_pages_that_hold_few_rows() -> None:
    """A tenth of the rows from a tenth of the pages: rewritten, these were a fifth as many."""
    found = faults_of(fetched(BLOATED, rows=1e5, pages=8_000))
    assert set(found) == {"bloat"}
    figures = found["bloat"].figures
    assert figures["table"] == "public.t"
    assert figures["pages_for_each_row"] == pytest.approx(0.08)
    assert figures["pages_for_each_row_without"] == pytest.approx(1 / 63, rel=0.01)
    assert figures["wasted_pages_looked_at"] == pytest.approx(8000 - 1587, rel=0.01)
    # Eight seconds of waiting and one of copying go by pages, and some of the rest.
    assert found["bloat"].seconds == pytest.approx(0.8 * 9, abs=0.5)
    assert not faults_of(fetched(PACKED, rows=1e5, pages=1_590))


def test_rows_that_lie_apart_cost_a_page_each_in_any_table() -> None:
    """The same table: what an index finds in no order is not found sooner in a smaller file."""
    for pages in (1e5, 0.95e5, 0.5e5):
        assert not faults_of(fetched(BLOATED, rows=1e5, pages=pages))


def test_a_table_of_wide_rows_shows_no_order() -> None:
    """One live row to a page: in order or not, each row costs a page."""
    wide = BLOATED.model_copy(update={"live_rows": 1e5, "row_bytes": 2000.0})
    assert not faults_of(fetched(wide, rows=5e4, pages=4e4))


def test_entries_that_lead_to_dead_versions_cost_pages_without_a_row() -> None:
    """Rows that lie apart, each of which has a dead version elsewhere: two pages for a row."""
    found = faults_of(fetched(HALF_DEAD, rows=1e5, pages=2e5, entries=2e5))
    assert found["bloat"].figures["pages_for_each_row"] == pytest.approx(2)
    assert found["bloat"].figures["wasted_pages_looked_at"] == pytest.approx(1e5)
    holder = Holder(kind="replication slot", name="standby", transactions=9)
    assert set(faults_of(fetched(HALF_DEAD, rows=1e5, pages=2e5, entries=2e5, holders=(holder,)))) == {
        "bloat-held"
    }


@pytest.mark.parametrize(
    ("changes", "uses"),
    [
        # A foreign key's check locks each row that it fetches, which looks at its page again.
        ({"table": PACKED, "pages": 3e5}, {}),
        # An index-only scan looks at pages of the visibility map.
        ({"table": HALF_DEAD, "pages": 2e5, "entries": 1e7}, {}),
        ({"table": HALF_DEAD, "pages": 2e5}, {"n_tup_upd": 5e4}),
        ({"table": HALF_DEAD, "pages": 2e5}, {"seq_scan": 3.0}),
        ({"table": HALF_DEAD, "rows": 500.0, "pages": 1000.0}, {}),
    ],
    ids=["locks", "index-only", "changes", "sequential scans", "few rows"],
)
def test_pages_that_something_else_may_have_looked_at_prove_nothing(
    changes: dict[str, Any], uses: dict[str, float]
) -> None:
    given: dict[str, Any] = {"rows": 1e5, "entries": None, **changes}
    seen = fetched(given["table"], given["rows"], given["pages"], entries=given["entries"], **uses)
    assert index_scans.scattered_tables(seen) == [] or max(
        read.wasted for read in index_scans.scattered_tables(seen)
    ) == pytest.approx(0, abs=0.01)


def test_half_empty_leaf_pages_are_bloat_of_the_index_and_a_full_index_is_not() -> None:
    """A tenth of the entries: 273 pages of a full index, 1300 of this one."""
    found = faults_of(fetched(PACKED, rows=0, entries=1e5, pages=0, index=SPARSE, index_pages=1_330))
    assert set(found) == {"bloat"}
    figures = found["bloat"].figures
    assert (figures["index"], figures["index_pages"]) == ("t_k", 13_000)
    assert figures["index_pages_needed"] == pytest.approx(2_733, abs=1)
    assert figures["entries_for_each_page"] == pytest.approx(1e5 / 1_300, rel=0.01)
    assert figures["entries_of_a_full_page"] == 366
    assert found["bloat"].remedy == "Rebuild the index: REINDEX INDEX CONCURRENTLY public.t_k."
    mixed = SPARSE.model_copy(update={"name": "T_k"})
    found = faults_of(fetched(PACKED, rows=0, entries=1e5, pages=0, index=mixed, index_pages=1_330))
    assert found["bloat"].remedy == 'Rebuild the index: REINDEX INDEX CONCURRENTLY public."T_k".'
    assert not faults_of(fetched(PACKED, rows=0, entries=1e5, pages=0, index=FULL, index_pages=303))


def test_single_rows_go_down_the_tree_in_any_index() -> None:
    """Each scan takes the pages from the root to a leaf, which a smaller tree takes as well."""
    looked_up = fetched(PACKED, rows=1e5, pages=1e5, scans=1e5, index=SPARSE, index_pages=3e5)
    assert not faults_of(looked_up)


def test_an_index_whose_widths_are_not_known_is_not_judged() -> None:
    unknown = SPARSE.model_copy(update={"entry_bytes": None})
    assert not faults_of(fetched(PACKED, rows=0, entries=1e5, pages=0, index=unknown, index_pages=1_330))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([(4, "i", False, 4, 0.0)], 4 + 16),
        ([(4, "i", False, 4, 0.0)] * 2, 4 + 16),
        ([(4, "i", False, 4, 0.0), (8, "d", False, 8, 0.0)], 4 + 24),
        ([(-1, "i", False, 33, 0.0)], 4 + 48),
        ([(4, "i", False, 4, 0.5)], 4 + 24),
        ([(-1, "i", False, None, None)], None),
    ],
    ids=["int", "two ints", "aligned", "text", "nulls", "never analysed"],
)
def test_what_an_entry_takes(columns: list[tuple[Any, ...]], expected: float | None) -> None:
    assert entry_bytes(columns) == expected
