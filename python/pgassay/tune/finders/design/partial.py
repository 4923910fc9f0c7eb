"""An index of the few rows that a statement always asks for: WHERE status = 'open', deleted_at IS NULL.

Evidence: a condition that stands in the statement's own text with its value (a parameter can't be known to be
it when a generic plan is made), or a boolean column or NULL test, that a small share of the rows passes.
Threshold: at most a fifth of the rows by the column's statistics, so that the index is at most a fifth as
large as a full one, and writes of other rows leave it alone.
Prediction: the rows that the other keys let through are fetched.
Of one value among many that are as rare (one customer's orders) it is offered as such: an index on the column
gains the same for all of them, and is taken where it does (`search/paired_timing.py`).
"""

from collections.abc import Iterator

from pgassay.tune.finders.base import Finder, FinderOffer
from pgassay.tune.finders.design.btree import KEYS_MAX, fetched, ranges, single_values
from pgassay.tune.finders.evidence.building import Key, NewIndex, finds_one, index_offer, is_there, serving
from pgassay.tune.finders.evidence.conditions import Condition
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan
from pgassay.tune.finders.evidence.shares import same, share
from pgassay.tune.finders.evidence.work import btree_bytes, index_ms
from pgassay.tune.rewrites.tree import readable_expression
from pgassay.words import percent_rounded

SHARE_MAX = 0.2
# Where so many rows have values that no index finds, the few others are what an index is for.
FREQUENT_MIN = 0.5


def _is_literal(evidence: FinderEvidence, scan: TableScan, condition: Condition) -> bool:
    if condition.kind in ("true", "false", "null", "not null"):
        return True
    return condition.kind == "equal" and any(
        name == condition.column and condition.values and same(value, condition.values[0])
        for name, value in evidence.text(scan.statement).literals
    )


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan in evidence.scans:
        rows = evidence.rows_of(scan.table)
        few = [
            each
            for each in scan.conditions
            if each.column
            and _is_literal(evidence, scan, each)
            and scan.table.column(each.column) is not None
            and share(each, scan.table, rows) <= SHARE_MAX
        ]
        if not few:
            continue
        fixed = min(few, key=lambda each: share(each, scan.table, rows))
        column = scan.table.column(str(fixed.column))
        # A value of its own for each row is a key and no predicate.
        if column is None or (
            fixed.kind == "equal" and (column.distinct is None or not 0 < column.distinct <= 100)
        ):
            continue
        yield from _for_condition(evidence, scan, fixed, rows)


def _for_condition(
    evidence: FinderEvidence, scan: TableScan, fixed: Condition, rows: float
) -> Iterator[FinderOffer]:
    equal = [each for each in single_values(scan, rows) if each.column != fixed.column]
    bounds = [name for name in ranges(scan) if name != fixed.column]
    names = [str(each.column) for each in equal]
    order = [
        Key(str(each.column), descending=each.descending, nulls_first=each.nulls_first)
        for each in scan.sort
        if each.column not in (*names, fixed.column)
    ]
    if order and scan.limit is not None:
        tail, used = order, [fixed, *equal]
    else:
        tail = [Key(bounds[0])] if bounds else []
        used = [fixed, *equal, *(ranges(scan)[bounds[0]] if bounds else [])]
    keys = [*(Key(name) for name in names), *tail] or [Key(str(fixed.column))]
    if len(keys) > KEYS_MAX or finds_one(scan.table, [*names, str(fixed.column)]):
        return
    full = [*names, *([str(fixed.column)] if fixed.kind in ("equal", "null") else [])]
    if serving(scan.table, full, tail):
        return
    index = NewIndex(scan.table, tuple(keys), predicate=fixed.text)
    if is_there(index):
        return
    wanted = fetched(scan, used, rows)
    saved = scan.ms
    if order and scan.limit is not None:
        wanted = min(scan.limit * max(wanted / max(scan.rows, 1.0), 1.0), wanted)
        saved += (scan.sort_node.own_ms or 0.0) if scan.sort_node else 0.0
    part = share(fixed, scan.table, rows)
    after = index_ms(scan, wanted, evidence.symptom.machine)
    yield from index_offer(
        evidence, "partial", scan, index, saved - after,
        f"{scan.sentence}; {readable_expression(fixed.text)} holds for {percent_rounded(part)} of the rows, "
        "the only rows in the index",
        size=max(
            btree_bytes(scan.table, rows * part, [key.text for key in keys], evidence.facts.block_bytes),
            2 * evidence.facts.block_bytes,
        ),
        for_one_value=_is_one_of_many(scan, fixed),
    )  # fmt: skip


def _is_one_of_many(scan: TableScan, fixed: Condition) -> bool:
    """Whether other values of the column are as rare, and no value is what most of the other rows have."""
    column = scan.table.column(str(fixed.column))
    if fixed.kind != "equal" or column is None:
        return False
    frequent = sum(each for each in column.common_share if each > SHARE_MAX)
    return frequent < FREQUENT_MIN


PARTIAL = Finder("partial", "design", ("partial",), _find)
