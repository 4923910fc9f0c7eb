"""What scans by an index read of tables and of the indexes themselves, beyond what packed ones would take.

A row that an index points to costs a page of its own where neighbours in the index lie apart in the table,
and no rewriting changes that. Dead space costs such scans in two ways, which counters tell: pages are gone
through in the table's order and hold few rows each, or more than one page is looked at for a row, since
entries lead to versions that are dead (src/backend/access/heap/heapam_handler.c, heapam_index_fetch_tuple,
counts a page when it is another than before). An index's own leaf pages are gone through one after the other
(src/backend/access/nbtree/nbtsearch.c), so that sparse ones are more of them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pgassay.analysis.causes.evidence import Evidence
from pgassay.model.trial import CounterRow, figure
from pgassay.model.vacuum_state import IndexState, TableState
from pgassay.sql_text import identifier

# Of fewer rows or pages nothing can be told that matters.
_ROWS_MIN = 1000
_PAGES_MIN = 64
# Where sequential scans and changes look at more than this share of the pages, whose they are is not known.
_OTHERS_MAX = 0.25
# Pages are gone through in their order where a row costs no more of them than the whole table has for each,
# with some room for jumps. Where the table holds fewer than two rows a page, that is no sign of order.
_IN_ORDER = 1.25
_ORDER_MAX = 0.5
# From here on pages were looked at for entries that lead to nothing alive.
_PAGES_OF_A_ROW_MIN = 1.5
# A change of a row looks for its place in each index, and at up to two pages of the table.
_CHANGES = ("n_tup_ins", "n_tup_upd", "n_tup_del")


@dataclass(frozen=True)
class IndexRead:
    """What scans by indexes read of one table, or of one index, that packed ones would spare.

    `pages`: looked at; `pages_read`: of these not in shared buffers; `wasted`: the share that would be
    spared. `figures`: for the evidence. `index`: its name with its schema, as SQL has it; '' for a table.
    """

    table: TableState
    pages: float
    pages_read: float
    wasted: float
    figures: Mapping[str, float | str]
    index: str = ""


def scattered_tables(evidence: Evidence) -> list[IndexRead]:
    """The tables whose rows were fetched by indexes from more pages than packed rows would take."""
    if evidence.server.vacuum_state is None:
        return []
    uses, reads = _rows(evidence, "pg_stat_user_tables"), _rows(evidence, "pg_statio_user_tables")
    entries = _entries(evidence)
    found = []
    for table in evidence.server.vacuum_state.tables:
        key = (table.schema_name, table.name)
        made = _of_table(table, uses.get(key, {}), reads.get(key, {}), entries.get(key))
        found += [made] if made is not None else []
    return found


def _of_table(
    table: TableState, uses: CounterRow, reads: CounterRow, entries: float | None
) -> IndexRead | None:
    read, hit = figure(reads, "heap_blks_read"), figure(reads, "heap_blks_hit")
    asked, rows = read + hit, figure(uses, "idx_tup_fetch")
    others = figure(uses, "seq_scan") * table.pages + 2 * sum(figure(uses, name) for name in _CHANGES)
    if table.pages < _PAGES_MIN or rows < _ROWS_MIN or asked <= 0 or others > _OTHERS_MAX * asked:
        return None
    needed = table.pages_for(table.live_rows)
    dead = _dead_share(table)
    # Without widths dead rows are taken to be as wide as live ones.
    empty = 1 - needed / table.pages if needed is not None else dead
    pages = asked - others
    of_a_row = pages / rows
    in_table = table.pages / max(1.0, table.live_rows)
    if of_a_row >= _PAGES_OF_A_ROW_MIN:
        # An index-only scan counts pages of the visibility map, and fetches few of the rows that it finds.
        if entries is not None and entries * (1 - dead) > _PAGES_OF_A_ROW_MIN * rows:
            return None
        wasted = min(1 - 1 / of_a_row, max(empty, dead))
    elif in_table <= _ORDER_MAX and of_a_row <= _IN_ORDER * in_table:
        wasted = min(1 - (1 - empty) * in_table / of_a_row, empty)
    else:
        return None
    figures = {"pages_for_each_row": of_a_row, "pages_for_each_row_without": of_a_row * (1 - wasted)}
    return IndexRead(table, pages, pages * read / asked, wasted, figures)


def half_empty_indexes(evidence: Evidence) -> list[IndexRead]:
    """The B-trees that were gone through from leaf page to leaf page, and whose pages are half empty."""
    if evidence.server.vacuum_state is None:
        return []
    tables = {(table.schema_name, table.name): table for table in evidence.server.vacuum_state.tables}
    uses = _index_rows(evidence, "pg_stat_user_indexes")
    reads = _index_rows(evidence, "pg_statio_user_indexes")
    changes = _rows(evidence, "pg_stat_user_tables")
    found = []
    for index in evidence.server.vacuum_state.indexes:
        key = (index.schema_name, index.table, index.name)
        table = tables.get(key[:2])
        if table is not None:
            changed = sum(figure(changes.get(key[:2], {}), name) for name in _CHANGES)
            made = _of_index(index, table, uses.get(key, {}), reads.get(key, {}), changed)
            found += [made] if made is not None else []
    return found


def _of_index(
    index: IndexState, table: TableState, uses: CounterRow, reads: CounterRow, changed: float
) -> IndexRead | None:
    read, hit = figure(reads, "idx_blks_read"), figure(reads, "idx_blks_hit")
    asked, scans, entries = read + hit, figure(uses, "idx_scan"), figure(uses, "idx_tup_read")
    needed, of_a_page = index.pages_needed, index.entries_of_a_page
    if index.pages < _PAGES_MIN or needed is None or of_a_page is None or entries < _ROWS_MIN or asked <= 0:
        return None
    # Each scan, and each change of a row, goes down the tree; its first leaf page is no waste.
    descents = _levels(index.pages, of_a_page) * (scans + changed)
    pages = asked - descents
    if pages <= 0 or descents > asked / 2:
        return None
    empty = 1 - needed / index.pages
    wasted = min(1 - entries / of_a_page / pages, empty)
    figures: dict[str, float | str] = {
        "index": index.name,
        "index_pages": float(index.pages),
        "index_pages_needed": needed,
        "entries_for_each_page": entries / pages,
        "entries_of_a_full_page": of_a_page,
    }
    name = f"{identifier(index.schema_name)}.{identifier(index.name)}"
    return IndexRead(table, pages, pages * read / asked, wasted, figures, name)


def _levels(pages: int, entries_of_a_page: float) -> int:
    """The pages from the root to a leaf, at least; the levels above the leaves have a fillfactor of 70."""
    return 1 + math.ceil(math.log(max(pages, 2)) / math.log(max(2.0, 0.7 * entries_of_a_page)))


def _dead_share(table: TableState) -> float:
    dead = table.dead_rows or 0.0
    return dead / (table.live_rows + dead) if dead else 0.0


def _rows(evidence: Evidence, view: str) -> dict[tuple[str, str], CounterRow]:
    return {
        (str(row.get("schemaname", "")), str(row.get("relname", ""))): row
        for row in evidence.server.counters.rows(view)
    }


def _index_rows(evidence: Evidence, view: str) -> dict[tuple[str, str, str], CounterRow]:
    names = ("schemaname", "relname", "indexrelname")
    rows = evidence.server.counters.rows(view)
    return {
        (str(row.get(names[0], "")), str(row.get(names[1], "")), str(row.get(names[2], ""))): row
        for row in rows
    }


def _entries(evidence: Evidence) -> dict[tuple[str, str], float]:
    """The entries that scans of a table's indexes returned; no key where the record doesn't hold them."""
    found: dict[tuple[str, str], float] = {}
    for (schema, table, _), row in _index_rows(evidence, "pg_stat_user_indexes").items():
        found[schema, table] = found.get((schema, table), 0.0) + figure(row, "idx_tup_read")
    return found
