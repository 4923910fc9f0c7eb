"""Tables and indexes that take far more pages than their rows need.

Evidence: a sequential scan of a table, or a scan of many pages of a B-tree, that has at least twice the pages
that its rows would take if written anew, by their widths in pg_stats.
Threshold: twice, since estimates by widths are rarely further out (the check of pgstattuple's documentation
takes the same care); 500 pages of a table or 100 of an index too many, below which nothing is felt.
Prediction: a page that is read from memory costs about as much as fifteen rows in it; what was read from
the disk is counted as the plan's I/O time has it. A logical copy is never bloated.
"""

from collections.abc import Iterator

from pgassay.sql_text import identifier
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import IndexFacts, TableFacts
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.building import place, shown
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan
from pgassay.tune.finders.evidence.work import btree_bytes, expected_pages

TIMES_MIN = 2.0
TABLE_PAGES_MIN, INDEX_PAGES_MIN = 500, 100
_PAGE_IN_ROWS = 15.0
_FIRST_WITH_REPACK = 190_000


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan in evidence.scans:
        if scan.is_sequential:
            yield from _table(evidence, scan)
        elif scan.node.type in ("Index Only Scan", "Index Scan"):
            yield from _index(evidence, scan)


def _table(evidence: FinderEvidence, scan: TableScan) -> Iterator[FinderOffer]:
    table = scan.read_table
    rows = evidence.rows_of(table)
    needed = expected_pages(table, rows, evidence.facts.block_bytes)
    if table.pages < TIMES_MIN * needed or table.pages - needed < TABLE_PAGES_MIN:
        return
    if not any(column.width for column in table.columns):
        return
    gone = 1 - needed / table.pages
    # Summed over all processes, where the scan's time is that of each.
    io_ms = (scan.node.io_read_ms or 0.0) / max(scan.node.processes, 1.0)
    page_part = table.pages * _PAGE_IN_ROWS / (table.pages * _PAGE_IN_ROWS + max(rows, 1.0))
    saved = (io_ms + max(scan.ms - io_ms, 0.0) * page_part) * gone
    where = place(table)
    has_repack = evidence.facts.version >= _FIRST_WITH_REPACK
    yield FinderOffer(
        Candidate(
            id=f"rewrite:{where}",
            layer="operations",
            kind="bloat",
            title=f"Rewrite the table {shown(table)}",
            reason=f"{table.name} takes {table.pages:,} pages; its {rows:,.0f} rows need about "
            f"{needed:,.0f}; it is locked against reads and writes meanwhile"
            f"{_unlocked(table) if has_repack else ''}",
            statements=(),
            sql=(f"REPACK (ANALYZE) {where}" if has_repack else f"VACUUM (FULL, ANALYZE) {where}",
                 f"VACUUM {where}"),
            undoable=False,
            physical=True,
            bytes=int((needed - table.pages) * evidence.facts.block_bytes),
        ),
        (ExpectedSaving(scan.statement.name, scan.plan_number, saved),),
    )  # fmt: skip


def _unlocked(table: TableFacts) -> str:
    """How 19 does it beside readers and writers: an identity index finds the rows that change meanwhile."""
    if not any(index.primary for index in table.indexes):
        return ""
    return "; REPACK (CONCURRENTLY) allows reads and writes meanwhile, with wal_level = replica or higher"


def _index(evidence: FinderEvidence, scan: TableScan) -> Iterator[FinderOffer]:
    table = scan.read_table
    index: IndexFacts | None = next((each for each in table.indexes if each.name == scan.node.index), None)
    if (
        index is None
        or index.method != "btree"
        or index.predicate
        or any(not key.column for key in index.keys)
    ):
        return
    rows = evidence.rows_of(table)
    columns = [str(key.column) for key in index.keys] + list(index.included)
    block_bytes = evidence.facts.block_bytes
    needed = btree_bytes(table, rows, columns, block_bytes) / block_bytes
    if index.pages < TIMES_MIN * needed or index.pages - needed < INDEX_PAGES_MIN:
        return
    touched = (scan.node.own_buffers_hit or 0) + (scan.node.own_buffers_read or 0)
    pages = min(float(touched), float(index.pages))
    part = pages * _PAGE_IN_ROWS / (pages * _PAGE_IN_ROWS + max(scan.rows_in, 1.0))
    name = f"{identifier(index.schema_)}.{identifier(index.name)}"
    yield FinderOffer(
        Candidate(
            id=f"reindex:{name}",
            layer="operations",
            kind="bloat",
            title=f"Rebuild the index {shown(index)}",
            reason=f"{index.name} takes {index.pages:,} pages; {rows:,.0f} entries need about "
            f"{needed:,.0f}; a "
            f"scan went through {touched:,}",
            statements=(),
            sql=(f"REINDEX INDEX CONCURRENTLY {name}",),
            undoable=False,
            physical=True,
            bytes=int((needed - index.pages) * evidence.facts.block_bytes),
        ),
        (ExpectedSaving(scan.statement.name, scan.plan_number, scan.ms * part * (1 - needed / index.pages)),),
    )


BLOAT = Finder("bloat", "operations", ("bloat",), _find)
