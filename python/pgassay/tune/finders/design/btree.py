"""B-trees of several columns for a scan that throws most of its rows away, or whose rows are sorted after it.

Evidence: a scan with conditions on columns, the rows it looked at and those that passed; a Sort and a Limit
just above it. Columns that are compared with one value come first, then the keys of the sort, or one range
(the order that multicolumn B-trees are read by: PostgreSQL's manual, "Multicolumn Indexes").
Threshold: what the index is predicted to save, as for every finder (registry.py); no index where one that is
there serves, or where a unique one finds the row already. Rows in the low per cents of a table pay; above
about a sixth, scattered, they don't (evidence/work.py).
Prediction: the scan's own time becomes that of fetching the rows that the keys let through; a sort whose
order the index gives goes, and with a LIMIT only as many rows are read as it takes.
"""

from collections.abc import Iterator

from pgassay.tune.finders.base import Finder, FinderOffer
from pgassay.tune.finders.evidence.building import Key, NewIndex, finds_one, index_offer, serving
from pgassay.tune.finders.evidence.conditions import Condition
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan, parents
from pgassay.tune.finders.evidence.shares import distinct_values, together
from pgassay.tune.finders.evidence.work import index_ms, is_correlated, rows_counted

KEYS_MAX = 4
# Of the rows that are looked at now; more are read as fast one after the other, whatever a noisy clock says.
SCATTERED_SHARE_MAX, BESIDE_SHARE_MAX = 0.2, 0.5
# A column whose condition lets more than this through makes an index larger and no scan shorter.
_SHARE_MAX = 0.8


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan in evidence.scans:
        if scan.node.type == "Index Only Scan":
            continue
        yield from _for_filter(evidence, scan)
        yield from _for_order(evidence, scan)
        yield from _for_extreme(evidence, scan)


def single_values(scan: TableScan, rows: float) -> list[Condition]:
    """The scan's conditions that compare a column with one value, the most telling first."""
    found: dict[str, Condition] = {}
    for condition in scan.conditions:
        if condition.column and condition.kind in ("equal", "outer", "in") and condition.column not in found:
            found[condition.column] = condition
    kept = [each for each in found.values() if together((each,), scan.table, rows) <= _SHARE_MAX]

    def telling(condition: Condition) -> tuple[float, str]:
        column = scan.table.column(condition.column or "")
        return -(distinct_values(column, rows) or 0.0 if column else 0.0), condition.column or ""

    return sorted(kept, key=telling)[:KEYS_MAX]


def ranges(scan: TableScan) -> dict[str, list[Condition]]:
    """The scan's bounds by their column."""
    found: dict[str, list[Condition]] = {}
    for condition in scan.conditions:
        if condition.kind == "range" and condition.column:
            found.setdefault(condition.column, []).append(condition)
    return found


def fetched(scan: TableScan, used: list[Condition], rows: float) -> float:
    """The rows that an index on these conditions lets through, for the whole statement.

    What passed all conditions is known; those that the index does not have are undone by statistics.
    """
    rest = tuple(each for each in scan.conditions if each not in used)
    passed = max(scan.rows, 1.0)
    return min(max(passed / max(together(rest, scan.table, rows), 1e-6), passed), max(scan.rows_in, passed))


def _for_filter(evidence: FinderEvidence, scan: TableScan) -> Iterator[FinderOffer]:
    """An index on what the scan filters by."""
    rows = evidence.rows_of(scan.table)
    equal = single_values(scan, rows)
    bounds = ranges(scan)
    names = [str(each.column) for each in equal]
    most = min(bounds, key=lambda name: together(tuple(bounds[name]), scan.table, rows), default=None)
    # A bound that most rows pass makes the index larger and the scan no shorter.
    if most is not None and (
        most in names or together(tuple(bounds[most]), scan.table, rows) > _SHARE_MAX
        or len(names) >= KEYS_MAX
    ):  # fmt: skip
        most = None
    keys = [Key(name) for name in names] + ([Key(most)] if most else [])
    if not keys or finds_one(scan.table, [str(each.column) for each in equal if each.kind != "in"]):
        return
    if serving(scan.table, names, keys[len(names) :]):
        return
    used = equal + (bounds[most] if most else [])
    wanted = fetched(scan, used, rows)
    beside = is_correlated(scan.table, keys[0].text)
    if wanted > (BESIDE_SHARE_MAX if beside else SCATTERED_SHARE_MAX) * scan.rows_in:
        return
    after = index_ms(scan, wanted, evidence.symptom.machine, beside=beside, descents=max(scan.loops, 1.0))
    yield from index_offer(
        evidence, "btree", scan, NewIndex(scan.table, tuple(keys)), scan.ms - after,
        f"{scan.sentence}; the index finds {rows_counted(wanted)}",
    )  # fmt: skip


def _for_order(evidence: FinderEvidence, scan: TableScan) -> Iterator[FinderOffer]:
    """An index that gives the rows in the order that is asked for."""
    if not scan.sort or scan.sort_node is None:
        return
    rows = evidence.rows_of(scan.table)
    equal = [each for each in single_values(scan, rows) if each.kind != "in"]
    names = [str(each.column) for each in equal]
    order = [
        Key(str(each.column), descending=each.descending, nulls_first=each.nulls_first)
        for each in scan.sort
        if each.column not in names
    ]
    if not order or len(names) + len(order) > KEYS_MAX or finds_one(scan.table, names):
        return
    if serving(scan.table, names, order):
        return
    if scan.limit is None and not names:
        # All rows by an index in an order that is not theirs on the disk: a sort is faster.
        return
    wanted = fetched(scan, equal, rows)
    if scan.limit is not None:
        # Rows come in order and are counted as they pass: the limit divided by the share that passes.
        wanted = min(scan.limit * max(wanted / max(scan.rows, 1.0), 1.0), wanted)
    beside = is_correlated(scan.table, order[0].text if not names else names[0])
    after = index_ms(scan, wanted, evidence.symptom.machine, beside=beside)
    before = scan.ms + (scan.sort_node.own_ms or 0.0) + _handing_on_ms(scan)
    limit = f" for {scan.limit:,.0f} rows" if scan.limit is not None else ""
    yield from index_offer(
        evidence, "btree", scan, NewIndex(scan.table, (*map(Key, names), *order)), before - after,
        f"{scan.sentence} and sorted{limit} ({scan.sort_node.own_ms or 0:.1f} ms); the index has their order "
        f"and {wanted:,.0f} rows are read",
    )  # fmt: skip


def _for_extreme(evidence: FinderEvidence, scan: TableScan) -> Iterator[FinderOffer]:
    """max() or min() of a column that no index has in order."""
    extreme = evidence.text(scan.statement).extreme
    above = next(parents(scan.plan, scan.node), None)
    if extreme is None or above is None or scan.table.column(extreme[1]) is None:
        return
    rows = evidence.rows_of(scan.table)
    equal = [each for each in single_values(scan, rows) if each.kind != "in"]
    if len(equal) != len(scan.conditions):
        return
    names = [str(each.column) for each in equal]
    if serving(scan.table, names, [Key(extreme[1])]):
        return
    after = index_ms(scan, 1, evidence.symptom.machine)
    aggregates = sum(node.own_ms or 0.0 for node in parents(scan.plan, scan.node))
    yield from index_offer(
        evidence, "btree", scan, NewIndex(scan.table, (*(Key(name) for name in names), Key(extreme[1]))),
        scan.ms + aggregates - after,
        f"{scan.sentence} for the {extreme[0]} of {extreme[1]}, which an index has at its end",
    )  # fmt: skip


def _handing_on_ms(scan: TableScan) -> float:
    """The own time of a Gather above the scan, which an index scan of few rows does without."""
    above = [node for node in parents(scan.plan, scan.node) if node.type in ("Gather", "Gather Merge")]
    return sum(node.own_ms or 0.0 for node in above)


BTREE = Finder("btree", "design", ("btree",), _find)
