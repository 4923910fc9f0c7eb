"""A B-tree for LIKE 'prefix%', with the operator class that the collation needs.

Evidence: a scan with a LIKE whose pattern begins with a fixed part. In a collation that is not C, only an
index with text_pattern_ops is read for it (PostgreSQL's manual, "Operator Classes and Operator Families"):
a plain index on the column is there in many schemas and no use.
Threshold: as for every index; none where an index with that operator class is there.
Prediction: the rows that passed are fetched instead of all being looked at.
"""

from collections.abc import Iterator

from pgassay.tune.finders.base import Finder, FinderOffer
from pgassay.tune.finders.design.btree import fetched
from pgassay.tune.finders.evidence.building import Key, NewIndex, index_offer, is_there
from pgassay.tune.finders.evidence.conditions import Condition
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan
from pgassay.tune.finders.evidence.work import index_ms, rows_counted

# These compare bytes: LIKE finds a beginning by them (src/backend/utils/adt/like_support.c).
_C = ("C", "POSIX", "ucs_basic", "pg_c_utf8", "pg_unicode_fast")


def prefix_of(pattern: str) -> str:
    """The fixed beginning of a LIKE pattern."""
    made = ""
    characters = iter(pattern)
    for character in characters:
        if character in "%_":
            break
        made += next(characters, "") if character == "\\" else character
    return made


def _opclass(evidence: FinderEvidence, scan: TableScan, condition: Condition) -> str | None:
    """The operator class to name; '' where the default does; None where LIKE can't use an index."""
    column = scan.table.column(condition.column or condition.columns[0])
    if column is None or not column.deterministic:
        return None
    collation = evidence.facts.collation if column.collation in ("default", "") else column.collation
    if collation in _C:
        return ""
    if condition.column is None:
        return "text_pattern_ops"
    # format_type's names; blank-padded characters have operators of their own.
    for name, opclass in (("character varying", "varchar"), ("character", "bpchar")):
        if column.own_type == name or column.own_type.startswith(f"{name}("):
            return f"{opclass}_pattern_ops"
    return "text_pattern_ops"


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan in evidence.scans:
        for condition in scan.conditions:
            if condition.kind != "like" or not condition.values or not prefix_of(condition.values[0]):
                continue
            if condition.column is None and (condition.expression is None or not condition.immutable):
                continue
            opclass = _opclass(evidence, scan, condition)
            if opclass is None:
                continue
            text = condition.column or str(condition.expression)
            key = Key(text, is_expression=condition.column is None, opclass=opclass)
            index = NewIndex(scan.table, (key,))
            if is_there(index):
                continue
            wanted = fetched(scan, [condition], evidence.rows_of(scan.table))
            after = index_ms(scan, wanted, evidence.symptom.machine)
            word = f" with {opclass}, which LIKE needs in this collation" if opclass else ""
            yield from index_offer(
                evidence, "like-prefix", scan, index, scan.ms - after,
                f"{scan.sentence}; the index{word} finds {rows_counted(wanted)} with that beginning",
                analyze=condition.column is None,
            )  # fmt: skip


LIKE_PREFIX = Finder("like-prefix", "design", ("like-prefix",), _find)
