"""An index that has all columns a statement reads of a table, so that the heap is not visited.

Evidence: a scan that fetches many rows from the heap, a statement that names few columns of the table (never
`*`), and pages that VACUUM has marked all-visible: others are visited all the same (PostgreSQL's manual,
"Index-Only Scans and Covering Indexes").
Threshold: at least 80 % of the pages all-visible, at most three further columns of 32 bytes together, and a
tenth of the statement's time more than the same index without them would save.
Prediction: the rows come from the index alone.
"""

from collections.abc import Iterator

from pgassay.tune.finders.base import Finder, Offer
from pgassay.tune.finders.design.btree import fetched, ranges, single_values
from pgassay.tune.finders.evidence.building import Key, NewIndex, index_offer, is_there, serves
from pgassay.tune.finders.evidence.evidence import Evidence, Scan, statement_ms
from pgassay.tune.finders.evidence.work import btree_bytes, index_ms, is_correlated, width_of

VISIBLE_MIN = 0.8
INCLUDED_MAX, INCLUDED_BYTES_MAX = 3, 32
GAIN_OVER_PLAIN_MIN = 0.1
# A page of an index that is read whole, cached; rows of a narrow index, each handed on.
_PAGE_MS = 0.0008


def _find(evidence: Evidence) -> Iterator[Offer]:
    for scan in evidence.scans:
        if scan.node.type == "Index Only Scan" or evidence.text(scan.statement).target is not None:
            continue
        table = scan.read_table
        if table.pages and table.all_visible_pages < VISIBLE_MIN * table.pages:
            continue
        read = evidence.text(scan.statement).columns_read(scan.table, scan.alias)
        if read:
            yield from _for_scan(evidence, scan, read)


def _for_scan(evidence: Evidence, scan: Scan, read: frozenset[str]) -> Iterator[Offer]:
    rows = evidence.rows_of(scan.table)
    equal = single_values(scan, rows)
    bounds = ranges(scan)
    names = [str(each.column) for each in equal]
    first = next((name for name in bounds if name not in names), None)
    keys = [*names, *([first] if first else [])]
    used = [*equal, *(bounds[first] if first else [])]
    included = sorted(read - set(keys))
    if not keys or len(included) > INCLUDED_MAX or width_of(scan.table, included) > INCLUDED_BYTES_MAX:
        return
    index = NewIndex(scan.table, tuple(Key(name) for name in keys), included=tuple(included))
    if is_there(index):
        return
    wanted = fetched(scan, used, rows)
    machine = evidence.symptom.machine
    beside = is_correlated(scan.table, keys[0])
    size = btree_bytes(scan.table, rows, [*keys, *included], evidence.facts.block_bytes)
    pages = size / evidence.facts.block_bytes * wanted / max(rows, 1.0)
    after = index_ms(scan, wanted, machine, only=True, descents=max(scan.loops, 1.0)) + pages * _PAGE_MS
    plain = min(index_ms(scan, wanted, machine, beside=beside, descents=max(scan.loops, 1.0)), scan.ms)
    if any(serves(index, names, [Key(first)] if first else []) for index in scan.table.indexes):
        # The plain index is there, and this is what it takes.
        plain = scan.ms
    if plain - after < GAIN_OVER_PLAIN_MIN * statement_ms(scan.plan):
        return
    yield from index_offer(
        evidence, "covering", scan, index, scan.ms - after,
        f"{scan.sentence}; with {', '.join(included)} in the index the heap is not visited",
        size=size,
    )  # fmt: skip


COVERING = Finder("covering", "design", ("covering",), _find)
