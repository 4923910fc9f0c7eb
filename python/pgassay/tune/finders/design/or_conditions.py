"""Indexes for OR over several columns: one for each side, which a BitmapOr reads together.

Evidence: a scan whose condition has an OR, each of whose sides compares a column or an immutable expression
of the table with values. One side without an index leaves the whole table to be read
(PostgreSQL's manual, "Combining Multiple Indexes"), so those that are missing are one candidate.
Threshold: as for every index; at most a fifth of the rows that the scan looks at pass the sides.
Prediction: the rows that pass the sides are fetched.
"""

from collections.abc import Iterator
from dataclasses import replace

from pglast import ast, enums
from pglast.stream import RawStream

from pgassay.tune.candidate import Candidate
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.design.btree import SCATTERED_SHARE_MAX
from pgassay.tune.finders.evidence.building import Key, NewIndex, index_offer, is_there, place
from pgassay.tune.finders.evidence.conditions import Condition, conditions, expression_of
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan, checked
from pgassay.tune.finders.evidence.shares import together
from pgassay.tune.finders.evidence.work import btree_bytes, index_ms

# More sides are a list of searches that nobody writes by hand.
_SIDES_MAX = 4
_KINDS = frozenset({"equal", "in", "range", "null"})


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan in evidence.scans:
        for condition in scan.conditions:
            sides = _sides(scan, condition, evidence.rows_of(scan.table))
            if sides:
                yield from _offer(evidence, scan, sides)


def _sides(scan: TableScan, condition: Condition, rows: float) -> list[Condition]:
    """Of each side of an OR what lets the fewest rows through; [] where an index can't serve one of them."""
    tree = expression_of(condition.text) if condition.kind == "other" else None
    if not isinstance(tree, ast.BoolExpr) or tree.boolop != enums.BoolExprType.OR_EXPR:
        return []
    found: dict[str, Condition] = {}
    for part in tree.args:
        read = (checked(each, scan.table) for each in conditions(RawStream()(part), scan.alias))
        able = [each for each in read if _is_able(each)]
        if not able:
            return []
        best = min(able, key=lambda each: together((each,), scan.table, rows))
        found.setdefault(best.column or str(best.expression), best)
    # Several values of one column are one search, which other finders offer an index for.
    return [*found.values()] if 1 < len(found) <= _SIDES_MAX else []


def _is_able(condition: Condition) -> bool:
    if condition.kind not in _KINDS:
        return False
    is_expression = condition.expression is not None and condition.immutable and bool(condition.columns)
    return condition.column is not None or is_expression


def _offer(evidence: FinderEvidence, scan: TableScan, sides: list[Condition]) -> Iterator[FinderOffer]:
    rows = evidence.rows_of(scan.table)
    share = min(sum(together((each,), scan.table, rows) for each in sides), 1.0)
    wanted = max(share * scan.rows_in, scan.rows, 1.0)
    if wanted > SCATTERED_SHARE_MAX * scan.rows_in:
        return
    wanted_indexes = [NewIndex(scan.table, (_key(each),)) for each in sides]
    missing = [each for each in wanted_indexes if not is_there(each)]
    if not missing:
        return
    descents = len(sides) * max(scan.loops, 1.0)
    saved_ms = scan.ms - index_ms(scan, wanted, evidence.symptom.machine, descents=descents)
    reason = (
        f"{scan.sentence}; OR's {'side' if len(missing) == 1 else 'sides'} "
        f"{' and '.join(index.keys[0].text for index in missing)} "
        f"{'has' if len(missing) == 1 else 'have'} no index, and together they find {wanted:,.0f} rows"
    )
    is_analyzed = any(index.keys[0].is_expression for index in missing)
    if len(missing) == 1:
        yield from index_offer(
            evidence, "or-conditions", scan, missing[0], saved_ms, reason, analyze=is_analyzed
        )  # fmt: skip
        return
    if saved_ms <= 0 or scan.table.kind not in ("table", "partitioned", "materialized view"):
        return
    # Another candidate may be one of them alone: each has a name of its own.
    others = [missing[1], *(missing[0] for _ in missing[1:])]
    made = [replace(index, beside=other.id) for index, other in zip(missing, others, strict=True)]
    yield FinderOffer(_together(evidence, made, reason, is_analyzed=is_analyzed), (
        ExpectedSaving(scan.statement.name, scan.plan_number, saved_ms),
    ))  # fmt: skip


def _together(
    evidence: FinderEvidence, indexes: list[NewIndex], reason: str, *, is_analyzed: bool
) -> Candidate:
    """One candidate of several indexes."""
    table, rows = indexes[0].table, evidence.rows_of(indexes[0].table)
    sizes = (btree_bytes(table, rows, [each.keys[0].text], evidence.facts.block_bytes) for each in indexes)
    return Candidate(
        id="+".join(each.id for each in indexes),
        layer="design",
        kind="or-conditions",
        title=" and ".join(
            each.title if not number else each.title.removeprefix("Index on ")
            for number, each in enumerate(indexes)
        ).replace("Index on", "Indexes on", 1),
        reason=reason,
        statements=(),
        sql=(*(each.sql for each in indexes), *((f"ANALYZE {place(table)}",) if is_analyzed else ())),
        undo=tuple(each.undo for each in indexes),
        bytes=int(sum(sizes)),
    )


def _key(side: Condition) -> Key:
    return Key(side.column or str(side.expression), is_expression=side.column is None)


OR_CONDITIONS = Finder("or-conditions", "design", ("or-conditions",), _find)
