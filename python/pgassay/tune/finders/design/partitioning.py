"""Partitioning a large table by range or list, by a key that nearly all of its statements filter by.

Evidence: statements that read the table whole and let a part of it through by one and the same column: a
range of dates or numbers, or one of few values; hardly any reads it without.
Threshold: 1,000 pages; three quarters of the time that is spent in the table filters by the column; between 2
and 30 % of the rows (below, an index does it; above, little is left out); rows that don't lie in that order
already, which BRIN uses at no price. Nothing refers to the table, and every unique key has the column, or the
change is told and not tried.
Prediction: of the scan's time the part that the partitions hold, and one partition more.
What becomes worse: statements without the key open every partition (45 times slower in a published test);
a unique key must have it; a default partition takes what no other does; privileges are given anew.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise

from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import ColumnFacts, TableFacts
from pgassay.tune.finders.base import Finder, Offer, Saving
from pgassay.tune.finders.design.btree import ranges
from pgassay.tune.finders.evidence.building import place
from pgassay.tune.finders.evidence.conditions import quoted
from pgassay.tune.finders.evidence.evidence import Evidence, Scan, statement_ms
from pgassay.tune.finders.evidence.shares import distinct_values

PAGES_MIN = 1000
TIME_SHARE_MIN = 0.75
SHARE_MIN, SHARE_MAX = 0.02, 0.3
CORRELATION_MAX = 0.9
VALUES_MAX = 20
_PARTITIONS = 12
_DAYS = re.compile(r"(\d{4}-\d\d-\d\d)")


def _key(scan: Scan) -> tuple[str, str] | None:
    """The column that the scan filters by, and how: range or list."""
    for name in ranges(scan):
        return name, "RANGE"
    for condition in scan.conditions:
        if condition.column and condition.kind in ("equal", "in"):
            return condition.column, "LIST"
    return None


def _bounds(column: ColumnFacts) -> list[str] | None:
    """The bounds of range partitions, by the histogram's ends; None for a type that isn't cut here."""
    known = sorted({*column.histogram[:1], *column.histogram[-1:], *column.common})
    if len(known) < 2:
        return None
    if column.type == "date" or column.type.startswith("timestamp"):
        days = [found[1] for found in map(_DAYS.match, known) if found]
        if len(days) < 2:
            return None
        first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
        step = max((last - first).days // _PARTITIONS + 1, 1)
        return [str(first + timedelta(days=step * number)) for number in range(_PARTITIONS + 1)]
    if column.type in ("integer", "bigint", "smallint"):
        numbers = sorted(int(value) for value in known)
        step = max((numbers[-1] - numbers[0]) // _PARTITIONS + 1, 1)
        return [str(numbers[0] + step * number) for number in range(_PARTITIONS + 1)]
    return None


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _parts(evidence: Evidence, table: TableFacts, column: ColumnFacts, how: str) -> list[str] | None:
    """The partitions' bounds as SQL."""
    if how == "LIST":
        distinct = distinct_values(column, evidence.rows_of(table))
        if not distinct or distinct > VALUES_MAX or len(column.common) < distinct:
            return None
        return [f"FOR VALUES IN ({_literal(value)})" for value in column.common]
    bounds = _bounds(column)
    if bounds is None:
        return None
    return [f"FOR VALUES FROM ({_literal(first)}) TO ({_literal(last)})" for first, last in pairwise(bounds)]


def _obstacle(evidence: Evidence, table: TableFacts, key: str) -> str:
    """Why the change can't be made by SQL alone; '' where it can."""
    if any(index.unique and key not in {each.column for each in index.keys} for index in table.indexes):
        return f"a unique key of {table.name} is without {key}"
    if any(
        constraint.referenced_table == table.name and constraint.referenced_schema == table.schema_
        for other in evidence.facts.tables
        for constraint in other.constraints
    ):
        return f"foreign keys refer to {table.name}"
    if (
        table.triggers
        or table.has_rules
        or table.row_security
        or any(each.identity for each in table.columns)
    ):
        return f"{table.name} has triggers, rules, policies or an identity column"
    return ""


def _sql(table: TableFacts, key: str, how: str, parts: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    old = quoted(table.name[:48] + "_whole")
    where, schema = place(table), quoted(table.schema_)
    made = [
        f"ALTER TABLE {where} RENAME TO {old}",
        f"CREATE TABLE {where} (LIKE {schema}.{old} INCLUDING DEFAULTS INCLUDING CONSTRAINTS "
        "INCLUDING GENERATED "
        f"INCLUDING STORAGE INCLUDING COMMENTS) PARTITION BY {how} ({quoted(key)})",
    ]
    for number, bound in enumerate([*parts, "DEFAULT"], start=1):
        name = quoted(f"{table.name[:48]}_p{number}")
        made.append(f"CREATE TABLE {schema}.{name} PARTITION OF {where} {bound}")
    columns = ", ".join(quoted(column.name) for column in table.columns if not column.generated)
    made.append(f"INSERT INTO {where} ({columns}) SELECT {columns} FROM {schema}.{old}")
    for index in table.indexes:
        if index.constraint is None:
            # The old table keeps its indexes' names.
            words = re.sub(r"^(CREATE (?:UNIQUE )?INDEX) .*? ON (?:ONLY )?", r"\1 ON ", index.definition)
            made.append(words)
    made.append(f"VACUUM (ANALYZE) {where}")
    undo = (f"DROP TABLE {where}", f"ALTER TABLE {schema}.{old} RENAME TO {quoted(table.name)}")
    return tuple(made), undo


def _find(evidence: Evidence) -> Iterator[Offer]:
    by_table: dict[str, list[Scan]] = {}
    for scan in evidence.scans:
        if scan.table.kind == "table" and scan.table.pages >= PAGES_MIN:
            by_table.setdefault(place(scan.table), []).append(scan)
    for scans in by_table.values():
        keys = {found for found in map(_key, scans) if found is not None}
        for name, how in sorted(keys):
            yield from _for_key(evidence, scans, name, how)


def _time(evidence: Evidence, scan: Scan) -> float:
    return evidence.share(scan.statement.name) * scan.ms / statement_ms(scan.plan)


def _for_key(evidence: Evidence, scans: list[Scan], key: str, how: str) -> Iterator[Offer]:
    table = scans[0].table
    column = table.column(key)
    if column is None or abs(column.correlation or 0.0) > CORRELATION_MAX:
        return
    whole = [scan for scan in scans if scan.is_sequential]
    helped = [
        scan
        for scan in whole
        if any(each.column == key and each.kind in ("range", "equal", "in") for each in scan.conditions)
        and SHARE_MIN <= scan.rows / max(scan.rows_in, 1.0) <= SHARE_MAX
    ]
    spent = sum(_time(evidence, scan) for scan in scans)
    if not helped or sum(_time(evidence, scan) for scan in helped) < TIME_SHARE_MIN * spent:
        return
    parts = _parts(evidence, table, column, how)
    if parts is None:
        return
    obstacle = _obstacle(evidence, table, key)
    sql, undo = _sql(table, key, how, parts)
    without = sorted({scan.statement.name for scan in scans} - {scan.statement.name for scan in helped})
    words = f"; without it are {', '.join(without)}" if without else ""
    yield Offer(
        Candidate(
            id=f"partitions:{place(table)}:{how.lower()}({quoted(key)})",
            layer="design",
            kind="partitioning",
            title=f"Partition {table.name} by {how.lower()} of {key} into {len(parts)}",
            reason=f"{len(helped)} of {len(scans)} scans of {table.pages:,} pages filter by {key} and let "
            f"{helped[0].rows / max(helped[0].rows_in, 1.0):.0%} through{words}; statements without {key} "
            f"would open every partition, unique keys must have it, and privileges are given anew"
            + (f"; not tried: {obstacle}" if obstacle else ""),
            statements=(),
            sql=() if obstacle else sql,
            undo=() if obstacle else undo,
            described=bool(obstacle),
            bytes=0,
        ),
        tuple(
            Saving(
                scan.statement.name,
                scan.plan_number,
                scan.ms * (1 - min(scan.rows / max(scan.rows_in, 1.0) + 1 / (len(parts) + 1), 1.0)),
            )
            for scan in helped
        ),
    )


PARTITIONING = Finder("partitioning", "design", ("partitioning",), _find)
