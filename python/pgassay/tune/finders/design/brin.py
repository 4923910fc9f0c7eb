"""BRIN for a range of a column in whose order the rows lie on the disk.

Evidence: a sequential scan with a range on a column whose correlation (pg_stats) is nearly 1, as that of a
time of insertion.
Threshold: a correlation of 0.95, for below it the pages' ranges overlap; a table of 1,000 pages, eight
of BRIN's ranges (128 pages each, or 32 as here for tables below 8,192 pages); at most 30 % of the rows.
Prediction: the pages of the range, and one range of pages at each end, are read.
"""

from collections.abc import Iterator

from pgassay.tune.finders.base import Finder, FinderOffer
from pgassay.tune.finders.design.btree import fetched, ranges
from pgassay.tune.finders.evidence.building import Key, NewIndex, index_offer
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence
from pgassay.words import percent_rounded

CORRELATION_MIN = 0.95
PAGES_MIN = 1000
SHARE_MAX = 0.3
_SMALL_TABLE_PAGES, _SMALL_RANGE, _RANGE = 8192, 32, 128
_SEARCH_MS = 0.1


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan in evidence.scans:
        table = scan.read_table
        if not scan.is_sequential or table.pages < PAGES_MIN:
            continue
        for name, bounds in ranges(scan).items():
            column = table.column(name)
            if column is None or abs(column.correlation or 0.0) < CORRELATION_MIN:
                continue
            if any(
                index.valid and index.keys[0].column == name and not index.predicate
                for index in scan.table.indexes
            ):
                continue
            rows = max(table.rows, 1.0)
            wanted = fetched(scan, bounds, rows)
            if wanted > SHARE_MAX * scan.rows_in:
                continue
            width = _SMALL_RANGE if table.pages < _SMALL_TABLE_PAGES else _RANGE
            part = min(wanted / max(scan.rows_in, 1.0) + 2 * width / table.pages, 1.0)
            index = NewIndex(
                scan.table, (Key(name),), method="brin",
                options=f"pages_per_range = {width}" if width != _RANGE else "",
            )  # fmt: skip
            yield from index_offer(
                evidence, "brin", scan, index, scan.ms * (1 - part) - _SEARCH_MS,
                f"{scan.sentence}; rows lie in the order of {name} (correlation "
                f"{column.correlation:.2f}), so "
                f"a BRIN index of a few pages skips {percent_rounded(1 - part)} of the table",
                size=3 * evidence.facts.block_bytes + table.pages / width * 24,
            )  # fmt: skip


BRIN = Finder("brin", "design", ("brin",), _find)
