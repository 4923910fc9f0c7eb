"""GIN for arrays, jsonb, text search and parts of words.

Evidence: a scan with @>, && or ? on an array or jsonb column; @@ on a tsvector, or on to_tsvector with a
configuration that is written out (only then it is immutable); LIKE '%part%', ILIKE or a regular expression
with three letters in a row, where the extension pg_trgm is at hand.
Threshold: as for every index; none where a GIN or GiST index on it that can is there.
Prediction: the rows that passed are fetched, twice as many for trigrams, of which some are looked at in vain;
the index's size by the column's width.
"""

import re
from collections.abc import Iterator

from pgassay.sql_text import identifier
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.finders.base import Finder, FinderOffer
from pgassay.tune.finders.design.btree import fetched
from pgassay.tune.finders.evidence.building import Key, NewIndex, index_offer
from pgassay.tune.finders.evidence.conditions import Condition, normalised
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan
from pgassay.tune.finders.evidence.work import index_ms, width_of

_LETTERS = re.compile(r"[^\W_]{3}")
_SEARCH_MS = 0.05
_TRIGRAMS = "gin_trgm_ops"
# Entries of a row's elements compress well: about half of the column's width, more for trigrams.
_SIZE_OF_WIDTH, _TRIGRAMS_OF_WIDTH = 0.6, 1.5


def _key(evidence: FinderEvidence, scan: TableScan, condition: Condition) -> tuple[Key, str] | None:
    """The key with its operator class, and what it searches; None where GIN has none."""
    column = scan.table.column(condition.column) if condition.column else None
    text = condition.column or condition.expression
    if text is None or (condition.column is None and not condition.immutable):
        return None
    is_expression = condition.column is None
    if condition.kind == "contains":
        if column is not None and column.own_type.endswith("[]"):
            return Key(text), "arrays that have the elements"
        if column is not None and column.own_type == "jsonb":
            opclass = "jsonb_path_ops" if condition.operator in ("@>", "@?") else ""
            return Key(text, opclass=opclass), "documents that have the keys or values"
        return None
    if condition.kind == "match":
        if (column is not None and column.own_type == "tsvector") or (
            is_expression and "to_tsvector" in text
        ):
            return Key(text, is_expression=is_expression), "documents that have the words"
        return None
    if condition.kind in ("like", "ilike", "regex") and condition.values:
        if "pg_trgm" not in (*evidence.facts.extensions, *evidence.facts.extensions_available):
            return None
        pattern = re.sub(r"\\.", " ", condition.values[0])
        # A fixed beginning is a B-tree's.
        from_start = condition.kind == "like" and pattern[:1] not in ("%", "_")
        if _LETTERS.search(pattern) and not from_start:
            opclass = _of_extension(evidence.facts, "pg_trgm", _TRIGRAMS)
            return Key(text, is_expression=is_expression, opclass=opclass), "texts with these letters"
    return None


def _of_extension(facts: SchemaFacts, extension: str, name: str) -> str:
    """The name of what an extension has, with its schema where the search path does not find that."""
    schema = facts.extension_schemas.get(extension)
    return name if schema is None or schema in facts.search_path else f"{identifier(schema)}.{name}"


def _is_there(scan: TableScan, key: Key) -> bool:
    """Whether an index of all rows finds what the key is for; jsonb_path_ops has values and no keys."""
    wanted = normalised(key.text) if key.is_expression else key.text
    return any(
        index.valid
        and index.predicate is None
        and index.method in ("gin", "gist")
        and any(
            (have.column or normalised(have.expression or "")) == wanted
            and (have.opclass != "jsonb_path_ops" or key.opclass == have.opclass)
            for have in index.keys
        )
        and (not key.opclass.endswith(_TRIGRAMS) or any("trgm" in have.opclass for have in index.keys))
        for index in scan.table.indexes
    )


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan in evidence.scans:
        for condition in scan.conditions:
            found = _key(evidence, scan, condition)
            if found is None or _is_there(scan, found[0]):
                continue
            key, what = found
            trigrams = key.opclass.endswith(_TRIGRAMS)
            rows = evidence.rows_of(scan.table)
            wanted = fetched(scan, [condition], rows) * (2 if trigrams else 1)
            after = index_ms(scan, wanted, evidence.symptom.machine) + _SEARCH_MS
            size = rows * width_of(scan.table, condition.columns)
            extension = trigrams and "pg_trgm" not in evidence.facts.extensions
            before = (f"CREATE EXTENSION IF NOT EXISTS {identifier('pg_trgm')}",) if extension else ()
            yield from index_offer(
                evidence, "gin", scan, NewIndex(scan.table, (key,), method="gin"), scan.ms - after,
                f"{scan.sentence}; a GIN index finds {what}",
                size=size * (_TRIGRAMS_OF_WIDTH if trigrams else _SIZE_OF_WIDTH), before=before,
            )  # fmt: skip


GIN = Finder("gin", "design", ("gin",), _find)
