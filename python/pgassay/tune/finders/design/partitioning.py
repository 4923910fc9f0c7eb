"""Partitioning a large table by range or list, by a key that nearly all of its statements filter by.

Evidence: statements that read the table whole and let a part of it through by one and the same column: a
range of dates or numbers, or one of few values; hardly any reads it without.
Threshold: 1,000 pages; three quarters of the time that is spent in the table filters by the column; between 2
and 30 % of the rows (below, an index does it; above, little is left out); rows that don't lie in that order
already, which BRIN uses at no price. No key, view or child table refers to the table, every unique key has
the column, and nothing is on it that can't be made again, or the change is told and not tried.
On a server in use it is one transaction: rows that are written meanwhile would be in neither table. Taking it
back puts the rows, as they are then, into the old table: it has none that came since.
Prediction: of the scan's time the part that the partitions hold, and one partition more.
What becomes worse: statements without the key open every partition (45 times slower in a published test);
a unique key must have it; a default partition takes what no other does.
All that the table has goes over to the new one (`carried_over.py`), or the change is told and not tried.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise

from pglast import ast, parse_sql
from pglast.parser import ParseError
from pglast.stream import RawStream

from pgassay.sql_text import constant, identifier
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import ColumnFacts, ConstraintFacts, TableFacts
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.design.btree import ranges
from pgassay.tune.finders.design.carried_over import after_the_rows, before_the_rows, unchanged
from pgassay.tune.finders.evidence.building import defined_anew, place, shown
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan, statement_ms
from pgassay.tune.finders.evidence.shares import distinct_values
from pgassay.tune.names import bounded
from pgassay.words import percent_rounded

PAGES_MIN = 1000
TIME_SHARE_MIN = 0.75
SHARE_MIN, SHARE_MAX = 0.02, 0.3
CORRELATION_MAX = 0.9
VALUES_MAX = 20
_PARTITIONS = 12
# Beyond what is there now: rows of a time series, or of a counter, that are yet to come.
_AHEAD = 4
_COMMENTS = (
    "The DO blocks carry over what only this server knows: owner, privileges, tablespace, sequences.",
    "Rows beyond the last partition go to the default one: create more partitions before such rows arrive,",
    "with CREATE TABLE ... PARTITION OF ... FOR VALUES FROM (...) TO (...) as below.",
)
# Checks and NOT NULL come with LIKE.
_MADE_AGAIN = frozenset({"primary", "unique", "foreign"})
_LARGEST = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}
_DAYS = re.compile(r"(\d{4}-\d\d-\d\d)")


def _key(scan: TableScan) -> tuple[str, str] | None:
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
        seen = [found[1] for found in map(_DAYS.match, known) if found]
        if len(seen) < 2:
            return None
        first, last = date.fromisoformat(seen[0]), date.fromisoformat(seen[-1])
        step = max((last - first).days // _PARTITIONS + 1, 1)
        # A column's last day often stands for "for ever": what has it goes into the default partition.
        left = (date.max - first).days
        days = [str(first + timedelta(days=min(step * n, left))) for n in range(_PARTITIONS + _AHEAD + 1)]
        return list(dict.fromkeys(days))
    if column.type in _LARGEST:
        numbers = sorted(int(value) for value in known)
        step = max((numbers[-1] - numbers[0]) // _PARTITIONS + 1, 1)
        largest = _LARGEST[column.type]
        ends = (min(numbers[0] + step * n, largest) for n in range(_PARTITIONS + _AHEAD + 1))
        return list(dict.fromkeys(map(str, ends)))
    return None


def _parts(evidence: FinderEvidence, table: TableFacts, column: ColumnFacts, how: str) -> list[str] | None:
    """The partitions' bounds as SQL."""
    if how == "LIST":
        distinct = distinct_values(column, evidence.rows_of(table))
        if not distinct or distinct > VALUES_MAX or len(column.common) < distinct:
            return None
        return [f"FOR VALUES IN ({constant(value)})" for value in column.common]
    bounds = _bounds(column)
    if bounds is None:
        return None
    return [f"FOR VALUES FROM ({constant(first)}) TO ({constant(last)})" for first, last in pairwise(bounds)]


def _obstacle(evidence: FinderEvidence, table: TableFacts, key: str) -> str:
    """Why the change can't be made by SQL alone; '' where it can."""
    if any(index.unique and key not in {each.column for each in index.keys} for index in table.indexes):
        return f"a unique key of {table.name} is without {key}"
    if any(
        constraint.referenced_table == table.name and constraint.referenced_schema == table.schema_
        for other in evidence.facts.tables
        for constraint in other.constraints
    ):
        return f"foreign keys refer to {table.name}"
    if table.views or table.used_by:
        return f"{', '.join((*table.views, *table.used_by))} would keep using the old table"
    if any(index.replica_identity for index in table.indexes):
        return f"the replica identity of {table.name} is an index, of which each partition has its own"
    if any(index.clustered for index in table.indexes):
        return f"{table.name} is clustered on an index, which a partitioned table can't be"
    if table.inherited:
        return f"tables inherit from {table.name}"
    if (
        table.triggers
        or table.has_rules
        or table.row_security
        or any(each.identity for each in table.columns)
    ):
        return f"{table.name} has triggers, rules, policies or an identity column"
    for constraint in _own(table):
        if constraint.kind == "exclusion":
            return f"{constraint.name} is an exclusion constraint"
        if not (constraint.valid and constraint.enforced):
            return f"{constraint.name} does not hold for all rows"
        if constraint.kind in _MADE_AGAIN and _again(table, constraint) is None:
            return f"{constraint.name} can't be made again"
    return ""


def _own(table: TableFacts) -> list[ConstraintFacts]:
    """The table's constraints, without what its foreign keys have for each partition that they refer to."""
    return [each for each in table.constraints if not each.of_partition]


def _again(table: TableFacts, constraint: ConstraintFacts) -> str | None:
    """The constraint of the old table for the new one, whatever the search path is then; None for no SQL."""
    named = f"CONSTRAINT {identifier(constraint.name)} {constraint.definition}"
    try:
        root = parse_sql(f"ALTER TABLE {place(table)} ADD {named}")[0].stmt
        added = root.cmds[0].def_
    except (ParseError, AttributeError, IndexError, TypeError):
        return None
    if not isinstance(added, ast.Constraint) or len(root.cmds) != 1:
        return None
    if added.pktable is not None:
        added.pktable.schemaname = constraint.referenced_schema
    return str(RawStream()(root))


def _sql(
    table: TableFacts, key: str, how: str, parts: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    schema = identifier(table.schema_)
    where, old_name = place(table), identifier(bounded(table.name, "_whole"))
    old = f"{schema}.{old_name}"
    keys = [each for each in table.constraints if each.kind in ("primary", "unique")]
    foreign = [each for each in _own(table) if each.kind == "foreign"]
    made = [
        f"ALTER TABLE {where} RENAME TO {old_name}",
        # Names that statements and drivers use (ON CONFLICT ON CONSTRAINT) are the new table's.
        *(_renamed(old, each.name, bounded(each.name, "_whole")) for each in keys),
        f"CREATE TABLE {where} (LIKE {old} INCLUDING DEFAULTS INCLUDING CONSTRAINTS "
        "INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING STATISTICS "
        f"INCLUDING COMMENTS) PARTITION BY {how} ({identifier(key)})",
        before_the_rows(old, where, table),
    ]
    made += _partitions(table, parts)
    columns = ", ".join(identifier(column.name) for column in table.columns if not column.generated)
    made.append(f"INSERT INTO {where} ({columns}) SELECT {columns} FROM {old}")
    # The old table keeps its indexes' names.
    made += [
        defined_anew(index.definition)
        for index in table.indexes
        if index.constraint is None and index.valid and index.definition
    ]
    again = (_again(table, each) for each in _own(table) if each.kind in _MADE_AGAIN)
    made += [statement for statement in again if statement is not None]
    made.append(after_the_rows(old, where))
    # Rows that stay behind would keep what they refer to from being deleted.
    made += [f"ALTER TABLE {old} DROP CONSTRAINT {identifier(each.name)}" for each in foreign]
    made.append(f"VACUUM (ANALYZE) {where}")
    new_name = identifier(bounded(table.name, "_parts"))
    new = f"{schema}.{new_name}"
    undo = (
        # What was written since is in the new table alone; nobody writes to it once it has another name.
        f"ALTER TABLE {where} RENAME TO {new_name}",
        unchanged(new, old),
        f"TRUNCATE {old}",
        f"INSERT INTO {old} ({columns}) SELECT {columns} FROM {new}",
        after_the_rows(new, old),
        f"DROP TABLE {new}",
        *(_renamed(old, bounded(each.name, "_whole"), each.name) for each in keys),
        f"ALTER TABLE {old} RENAME TO {identifier(table.name)}",
        *(statement for statement in (_again(table, each) for each in foreign) if statement is not None),
        f"VACUUM (ANALYZE) {where}",
    )
    return tuple(made), undo


def _renamed(table: str, name: str, other: str) -> str:
    return f"ALTER TABLE {table} RENAME CONSTRAINT {identifier(name)} TO {identifier(other)}"


def _partitions(table: TableFacts, parts: Sequence[str]) -> list[str]:
    """The partitions, each with the storage parameters that the table had; a partitioned table takes none."""
    kind = "CREATE UNLOGGED TABLE" if table.unlogged else "CREATE TABLE"
    options = ", ".join(f"{name} = {constant(value)}" for name, value in table.options.items())
    stored = f" WITH ({options})" if options else ""
    made = []
    for number, bound in enumerate([*parts, "DEFAULT"], start=1):
        name = identifier(bounded(table.name, f"_p{number}"))
        made.append(f"{kind} {identifier(table.schema_)}.{name} PARTITION OF {place(table)} {bound}{stored}")
    return made


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    by_table: dict[str, list[TableScan]] = {}
    for scan in evidence.scans:
        if scan.table.kind == "table" and scan.table.pages >= PAGES_MIN:
            by_table.setdefault(place(scan.table), []).append(scan)
    for scans in by_table.values():
        keys = {found for found in map(_key, scans) if found is not None}
        for name, how in sorted(keys):
            yield from _for_key(evidence, scans, name, how)


def _time(evidence: FinderEvidence, scan: TableScan) -> float:
    return evidence.share(scan.statement.name) * scan.ms / statement_ms(scan.plan)


def _for_key(evidence: FinderEvidence, scans: list[TableScan], key: str, how: str) -> Iterator[FinderOffer]:
    table = scans[0].table
    column = table.column(key)
    # PostgreSQL partitions by no column that it computes itself.
    if column is None or column.generated or abs(column.correlation or 0.0) > CORRELATION_MAX:
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
    yield FinderOffer(
        Candidate(
            id=f"partitions:{place(table)}:{how.lower()}({identifier(key)})",
            layer="design",
            kind="partitioning",
            title=f"Partition {shown(table)} by {how.lower()} of {key} into {len(parts)}",
            reason=f"{len(helped)} of {len(scans)} scans of {table.pages:,} pages filter by {key} and let "
            f"{percent_rounded(helped[0].rows / max(helped[0].rows_in, 1.0))} through{words}; statements "
            f"without {key} would open every partition, unique keys must have it, "
            f"and the original table stays as {bounded(table.name, '_whole')}, to go back to"
            + (f"; not tried: {obstacle}" if obstacle else ""),
            statements=(),
            sql=() if obstacle else sql,
            undo=() if obstacle else undo,
            at_once=not obstacle,
            comments=_COMMENTS,
            described=bool(obstacle),
            bytes=0,
        ),
        tuple(
            ExpectedSaving(
                scan.statement.name,
                scan.plan_number,
                scan.ms * (1 - min(scan.rows / max(scan.rows_in, 1.0) + 1 / (len(parts) + 1), 1.0)),
            )
            for scan in helped
        ),
    )


PARTITIONING = Finder("partitioning", "design", ("partitioning",), _find)
