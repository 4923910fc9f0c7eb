"""An index that has all columns a statement reads of a table, so that the heap is not visited.

Evidence: a scan that fetches many rows from the heap, a statement that names few columns of the table (never
`*`), and pages that VACUUM has marked all-visible: others are visited all the same (PostgreSQL's manual,
"Index-Only Scans and Covering Indexes").
Threshold: at least 80 % of the pages all-visible, at most three further columns of 32 bytes together, and a
tenth of the statement's time more than the same index without them would save. For a join also where an index
on its columns is there, and the table is fully read all the same. Where several scans want
other columns beside the same keys, also one index for all of them: at most six columns of 64 bytes (merging
indexes: Chaudhuri and Narasayya, "Index Merging", ICDE 1999).
Prediction: the rows come from the index alone.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.finders.base import Finder, FinderOffer
from pgassay.tune.finders.design.btree import fetched, ranges, single_values
from pgassay.tune.finders.design.join import lookups
from pgassay.tune.finders.evidence.building import Key, NewIndex, index_offer, is_there, serving
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan, statement_ms
from pgassay.tune.finders.evidence.work import btree_bytes, index_ms, is_correlated, width_of

VISIBLE_MIN = 0.8
INCLUDED_MAX, INCLUDED_BYTES_MAX = 3, 32
SHARED_MAX, SHARED_BYTES_MAX = 6, 64
GAIN_OVER_PLAIN_MIN = 0.1
# A page of an index that is read completely, cached; rows of a narrow index, each handed on.
_PAGE_MS = 0.0008


@dataclass(frozen=True)
class _Covered:
    """A scan that an index could serve without the heap: by these keys, with these columns beside them."""

    scan: TableScan
    keys: tuple[str, ...]
    included: tuple[str, ...]
    wanted: float
    plain_ms: float

    def index(self, included: tuple[str, ...]) -> NewIndex:
        """The index with these columns beside its keys."""
        return NewIndex(self.scan.table, tuple(Key(name) for name in self.keys), included=included)


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    alike: dict[tuple[str, str, tuple[str, ...]], list[_Covered]] = defaultdict(list)
    for scan in evidence.scans:
        if scan.node.type == "Index Only Scan" or evidence.text(scan.statement).target is not None:
            continue
        table = scan.read_table
        if table.pages and table.all_visible_pages < VISIBLE_MIN * table.pages:
            continue
        read = evidence.text(scan.statement).columns_read(scan.table, scan.alias)
        # A level that reads few of them may be served by a narrower index than all levels together.
        levels = evidence.text(scan.statement).columns_of_levels(scan.table)
        for columns in sorted({read or frozenset(), *levels}, key=lambda each: (-len(each), sorted(each))):
            covered = _covered(evidence, scan, columns) if columns else None
            if covered is not None:
                alike[scan.table.schema_, scan.table.name, covered.keys].append(covered)
    for group in alike.values():
        yield from _offers(evidence, group)
    for scan in evidence.scans:
        yield from _for_join(evidence, scan)


def _for_join(evidence: FinderEvidence, scan: TableScan) -> Iterator[FinderOffer]:
    """For a join whose lookups an index would serve, and the planner reads the whole table nevertheless."""
    found = lookups(evidence, scan)
    read = evidence.text(scan.statement).columns_read(scan.table, scan.alias)
    table = scan.read_table
    if found is None or not read or evidence.text(scan.statement).target is not None:
        return
    if table.pages and table.all_visible_pages < VISIBLE_MIN * table.pages:
        return
    keys = tuple(found.columns)
    included = tuple(sorted(read - set(keys)))
    if not serving(scan.table, keys, ()):
        return  # the index without them is offered first
    if not included or not _is_narrow(scan.table, included, INCLUDED_MAX, INCLUDED_BYTES_MAX):
        return
    descents = found.outer_rows
    rows_ms = index_ms(scan, found.matched_rows, evidence.symptom.machine, only=True, descents=descents)
    index = NewIndex(scan.table, tuple(Key(name) for name in keys), included=included)
    if not is_there(index):
        yield from index_offer(
            evidence, "covering", scan, index, found.before_ms - rows_ms,
            f"{scan.sentence} to be joined to {descents:,.0f} rows; with {', '.join(included)} in an index "
            f"on {', '.join(keys)} they are looked up without visits to the heap",
        )  # fmt: skip


def _covered(evidence: FinderEvidence, scan: TableScan, read: frozenset[str]) -> _Covered | None:
    rows = evidence.rows_of(scan.table)
    equal = single_values(scan, rows)
    bounds = ranges(scan)
    names = [str(each.column) for each in equal]
    first = next((name for name in bounds if name not in names), None)
    keys = [*names, *([first] if first else [])]
    used = [*equal, *(bounds[first] if first else [])]
    included = sorted(read - set(keys))
    needed = {name for each in scan.conditions for name in (each.column, *each.columns) if name}
    known = {column.name for column in scan.table.columns}
    if not keys or not needed & known <= read:
        return None
    if not _is_narrow(scan.table, included, INCLUDED_MAX, INCLUDED_BYTES_MAX):
        return None
    wanted = fetched(scan, used, rows)
    beside = is_correlated(scan.table, keys[0])
    descents = max(scan.loops, 1.0)
    plain = min(index_ms(scan, wanted, evidence.symptom.machine, beside=beside, descents=descents), scan.ms)
    if serving(scan.table, names, [Key(first)] if first else []):
        # The plain index is there, and this is what it takes.
        plain = scan.ms
    return _Covered(scan, tuple(keys), tuple(included), wanted, plain)


def _is_narrow(table: TableFacts, included: Sequence[str], count: int, size: int) -> bool:
    return len(included) <= count and width_of(table, included) <= size


def _offers(evidence: FinderEvidence, group: Sequence[_Covered]) -> Iterator[FinderOffer]:
    """An index for each scan that it pays for; and one for all with the same keys, where they want others."""
    table = group[0].scan.table
    paying = []
    for each in group:
        after, size = _after(evidence, each, each.included)
        if each.plain_ms - after >= GAIN_OVER_PLAIN_MIN * statement_ms(each.scan.plan):
            paying.append(each)
            yield from _offer(evidence, each, each.included, after, size)
    union = tuple(sorted({name for each in group for name in each.included}))
    if not paying or all(union == each.included for each in group):
        return
    if _is_narrow(table, union, SHARED_MAX, SHARED_BYTES_MAX):
        for each in group:
            after, size = _after(evidence, each, union)
            yield from _offer(evidence, each, union, after, size)


def _after(evidence: FinderEvidence, covered: _Covered, included: tuple[str, ...]) -> tuple[float, int]:
    """What the scan takes with these columns in the index, in milliseconds, and the index's size."""
    scan, rows = covered.scan, evidence.rows_of(covered.scan.table)
    size = btree_bytes(scan.table, rows, [*covered.keys, *included], evidence.facts.block_bytes)
    pages = size / evidence.facts.block_bytes * covered.wanted / max(rows, 1.0)
    descents = max(scan.loops, 1.0)
    rows_ms = index_ms(scan, covered.wanted, evidence.symptom.machine, only=True, descents=descents)
    return rows_ms + pages * _PAGE_MS, size


def _offer(
    evidence: FinderEvidence, covered: _Covered, included: tuple[str, ...], after: float, size: int
) -> Iterator[FinderOffer]:
    index = covered.index(included)
    if not is_there(index):
        yield from index_offer(
            evidence, "covering", covered.scan, index, covered.scan.ms - after,
            f"{covered.scan.sentence}; with {', '.join(included)} in the index the heap is not visited",
            size=size,
        )  # fmt: skip


COVERING = Finder("covering", "design", ("covering",), _find)
