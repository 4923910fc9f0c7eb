"""What reading a table by another way would take, in milliseconds, and what objects take on the disk.

The figures are of cached pages on a machine of today, scaled by what the plan's own scan took for a row; a
page that the plan had to read is charged with the machine's probe, where there is one. They decide what is
worth trying: only measured trials decide what is recommended.
"""

from collections.abc import Sequence

from pgassay.tune.candidate import AdvisedMachine
from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.finders.evidence.plan_evidence import TableScan

# A row of a sequential scan with one comparison; of an index scan, its heap page elsewhere or beside the one
# before; of an index-only scan; a descent of a B-tree. Measured on PostgreSQL 18, pages cached, TIMING on.
SEQUENTIAL_ROW_MS = 0.00008
FETCH_MS = 0.00045
FETCH_BESIDE_MS = 0.00018
INDEX_ONLY_ROW_MS = 0.00008
DESCENT_MS = 0.003
# B-tree pages are 90 % full when made (BTREE_DEFAULT_FILLFACTOR); an entry has a header and a line pointer.
_LEAF_FILL, _ENTRY_BYTES = 0.9, 8 + 4
_CORRELATED = 0.9
_MANY = 0.1
_UNKNOWN_WIDTH = 16
_SIMPLE = frozenset({"equal", "in", "outer", "range", "null", "not null", "true", "false"})
_PACE_MAX, _PACE_COSTLY_MAX = 20.0, 3.0


def pace(scan: TableScan) -> float:
    """How slow this machine's rows are beside the figures above, from the scan's own time.

    A regular expression's time is its own and not the machine's: such scans say less.
    """
    if not scan.is_sequential or scan.rows_in < 1000 or not scan.ms:
        return 1.0
    simple = all(each.kind in _SIMPLE and each.column for each in scan.conditions)
    times = scan.ms * max(scan.node.processes, 1.0) / scan.rows_in / SEQUENTIAL_ROW_MS
    return min(max(times, 0.5), _PACE_MAX if simple else _PACE_COSTLY_MAX)


def is_correlated(table: TableFacts, column: str | None) -> bool:
    """Whether rows lie on the disk in the order of a column."""
    found = table.column(column) if column else None
    return found is not None and abs(found.correlation or 0.0) >= _CORRELATED


def miss_share(scan: TableScan) -> float:
    """The share of the scan's pages that were not in shared buffers."""
    hit, read = scan.node.own_buffers_hit or 0, scan.node.own_buffers_read or 0
    return read / (hit + read) if hit + read else 0.0


def index_ms(
    scan: TableScan,
    rows: float,
    machine: AdvisedMachine,
    *,
    beside: bool = False,
    only: bool = False,
    descents: float = 1,
) -> float:
    """Reading `rows` rows by an index instead of as the scan did; `beside`: they lie next to each other."""
    row_ms = INDEX_ONLY_ROW_MS if only else FETCH_BESIDE_MS if beside else FETCH_MS
    table_rows = max(scan.read_table.rows, 1.0)
    if not only and not beside and rows > _MANY * table_rows:
        # Many rows: a bitmap visits each page once.
        row_ms = FETCH_BESIDE_MS + (FETCH_MS - FETCH_BESIDE_MS) / 3
    needed = descents * DESCENT_MS + rows * row_ms * pace(scan)
    if machine.random_read_us is not None and not only:
        per_page = max(table_rows / max(scan.read_table.pages, 1), 1.0)
        pages = rows / per_page if beside else min(rows, float(scan.read_table.pages))
        needed += pages * miss_share(scan) * machine.random_read_us / 1000
    return needed


def width_of(table: TableFacts, columns: Sequence[str]) -> int:
    """Bytes that these columns take in a row, on average, as pg_stats knows them."""
    found = [table.column(name) for name in columns]
    return sum((column.width or _UNKNOWN_WIDTH) if column else _UNKNOWN_WIDTH for column in found)


def btree_bytes(table: TableFacts, rows: float, columns: Sequence[str], block_bytes: int) -> int:
    """A B-tree's size when new: an entry for each row, its keys aligned to eight bytes."""
    key = -(-width_of(table, columns) // 8) * 8
    pages = rows * (key + _ENTRY_BYTES) / (_LEAF_FILL * block_bytes)
    return int(pages + 2) * block_bytes


def expected_pages(table: TableFacts, rows: float, block_bytes: int) -> float:
    """The pages that these rows would take if they were written anew: header 24, line pointer 4 bytes."""
    row = -(-(24 + width_of(table, [column.name for column in table.columns])) // 8) * 8 + 4
    fill = float(table.options.get("fillfactor", "100")) / 100
    return max(rows * row / ((block_bytes - 24) * fill), 1.0)


def size_in_words(size: float) -> str:
    """Bytes in words for a sentence: "12 MB"."""
    for unit, one in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if size >= one:
            return f"{size / one:,.0f} {unit}"
    return f"{size:,.0f} bytes"


def rows_counted(count: float) -> str:
    """'1 row', '1,234 rows'."""
    return f"{count:,.0f} row" if round(count) == 1 else f"{count:,.0f} rows"
