"""VACUUM where dead rows are read again and again, or index-only scans go to the heap.

Evidence: an index-only scan whose heap fetches are a fifth of its rows and more, on a table with pages that
are not marked all-visible, or a scan by an index that would need no heap on such pages; a scan by
an index of a table of which a fifth and more are dead rows (pg_stat_user_tables).
Threshold: a fifth is where autovacuum itself starts (autovacuum_vacuum_scale_factor); below, it will soon.
Prediction: the fetches from the heap go; a bitmap scan spares the visits to dead rows. A sequential scan
gains nothing: the pages stay, see bloat. A logical copy has neither dead rows nor this visibility.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.building import place, shown
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan
from pgassay.tune.finders.evidence.work import FETCH_MS, index_ms
from pgassay.words import percent_rounded

DEAD_MIN = 0.2
FETCHED_MIN = 0.2
_VISIBLE_MAX = 0.9
_ROWS_MIN = 1000
# A bitmap scan visits the pages of dead rows each time; an index scan marks their entries and skips them
# later (kill_prior_tuple, src/backend/access/index/indexam.c). A sequential scan prunes the pages that it
# reads and is no faster for a VACUUM, which leaves the pages there: see bloat.py.
_DEAD_COSTS = {"Bitmap Heap Scan": 0.8, "Index Scan": 0.3}


def dead_share(table: TableFacts) -> float:
    """The dead rows' share of all that lie in the table."""
    dead, live = float(table.dead_rows or 0), max(table.rows, 0.0) or float(table.live_rows or 0)
    return dead / (dead + live) if dead + live >= _ROWS_MIN else 0.0


def _covered_ms(evidence: FinderEvidence, scan: TableScan) -> tuple[str, float] | None:
    """The index of a scan that could do without the heap, and what it would take then."""
    if scan.node.type not in ("Index Scan", "Bitmap Heap Scan") or scan.rows_in < _ROWS_MIN:
        return None
    read = evidence.text(scan.statement).columns_read(scan.table, scan.alias)
    for name in scan.indexes if read is not None else ():
        index = evidence.index(scan.read_table, name)
        if index is None or index.method != "btree" or read is None:
            continue
        if read <= {*(key.column for key in index.keys), *index.included}:
            return name, index_ms(scan, scan.rows_in, evidence.symptom.machine, only=True)
    return None


def harmed(evidence: FinderEvidence) -> Iterator[tuple[TableScan, float, str]]:
    """Scans that VACUUM would help, with the milliseconds that it saves them and why."""
    for scan in evidence.scans:
        table = scan.read_table
        fetches = float(scan.node.heap_fetches or 0)
        visible = table.all_visible_pages / table.pages if table.pages else 1.0
        if (
            scan.node.type == "Index Only Scan"
            and fetches >= FETCHED_MIN * max(scan.rows_in, _ROWS_MIN)
            and visible < _VISIBLE_MAX
        ):
            yield scan, min(fetches * FETCH_MS, 0.8 * scan.ms), (
                f"an index-only scan of {scan.rows_in:,.0f} rows went to the heap for {fetches:,.0f}: "
                f"{percent_rounded(visible)} "
                f"of {table.name}'s pages are marked all-visible"
            )  # fmt: skip
        covered = _covered_ms(evidence, scan) if visible < _VISIBLE_MAX else None
        if covered is not None:
            yield scan, scan.ms - covered[1], (
                f"{covered[0]} has all columns that are read of {table.name}, but {percent_rounded(visible)} "
                "of the pages are "
                f"marked all-visible, so the heap is visited ({scan.ms:.1f} ms)"
            )  # fmt: skip
        dead = dead_share(table)
        part = _DEAD_COSTS.get(scan.node.type, 0.0)
        if dead >= DEAD_MIN and part:
            yield scan, scan.ms * dead * part, (
                f"{percent_rounded(dead)} of {table.name}'s rows are dead, and {', '.join(scan.indexes)} "
                "still leads to them "
                f"({scan.ms:.1f} ms)"
            )  # fmt: skip


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan, saved, why in harmed(evidence):
        where = place(scan.read_table)
        yield FinderOffer(
            Candidate(
                id=f"vacuum:{where}",
                layer="operations",
                kind="vacuum",
                title=f"VACUUM {shown(scan.read_table)}",
                reason=why,
                statements=(),
                sql=(f"VACUUM (ANALYZE) {where}",),
                undoable=False,
                physical=True,
                bytes=0,
            ),
            (ExpectedSaving(scan.statement.name, scan.plan_number, saved),),
        )


VACUUM = Finder("vacuum", "operations", ("vacuum",), _find)
