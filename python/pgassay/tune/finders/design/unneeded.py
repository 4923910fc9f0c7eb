"""Indexes that nobody needs: the same twice, the beginning of another, never scanned.

Evidence: the catalogs. Two B-trees of the same keys, classes, order and predicate; one whose keys another
begins with; one that was never scanned since the statistics were reset, though its table was read by others
often, and that no plan of this workload uses. Never one that a constraint, uniqueness, the replica identity
or CLUSTER rests on: those are told apart, and a plain index beside a unique one of the same keys goes. What
another index is needless beside stays, though it was never scanned: of two that are alike the planner takes
one. So does what begins with the columns of a foreign key: deletes of rows that are referred to may be rare;
and an index on an expression, which ANALYZE counts the values of for plans that do not read it.
Threshold: 1 MB, or a statement of the workload that changes the table; a hundred scans of the table, and
a month of counting, before "never" means anything: a report may run once a month. Before that it is told and
not tried. From 16 on the server knows when an index was scanned last: three months ago counts as never.
Scans on standbys are counted there alone: the reason names those that the server knows, and has the query
that asks them.
Prediction: an INSERT, or an UPDATE that is not HOT, saves this index's part of ModifyTable's time: one part
of the indexes and the row itself.
"""

from collections.abc import Iterator

from pgassay.sql_text import constant, identifier
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import IndexFacts, TableFacts
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.building import defined_anew, shown
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence
from pgassay.tune.finders.evidence.work import size_in_words
from pgassay.words import join

BYTES_MIN = 1 << 20
SCANS_MIN = 100
COUNTED_DAYS_MIN, IDLE_DAYS_MIN = 30.0, 90.0


def _may_go(index: IndexFacts) -> bool:
    return not (
        index.unique
        or index.primary
        or index.constraint
        or index.replica_identity
        or index.clustered
        or not index.valid
    )


def _same_keys(index: IndexFacts, other: IndexFacts, length: int) -> bool:
    return (
        index.method == other.method
        and index.keys[:length] == other.keys[:length]
        and index.predicate == other.predicate
    )


def _beside(table: TableFacts, index: IndexFacts) -> tuple[IndexFacts, str, str] | None:
    """The index that makes this one needless, the kind of that and its sentence."""
    for other in table.indexes:
        if other is index or not other.valid:
            continue
        whole = len(index.keys) == len(other.keys) and _same_keys(index, other, len(index.keys))
        if whole and set(index.included) <= set(other.included):
            # Of two that are alike one stays: the one of a constraint, else the first by name.
            if not _may_go(other) or (other.included, other.name) < (index.included, index.name):
                return other, "duplicate", f"{other.name} has the same keys"
            if set(index.included) < set(other.included):
                return other, "duplicate", f"{other.name} has the same keys and more columns"
        longer = len(other.keys) > len(index.keys) and not index.included
        if longer and index.method == "btree" and _same_keys(index, other, len(index.keys)):
            return other, "prefix", f"{other.name} begins with the same keys"
    return None


def _is_for_references(table: TableFacts, index: IndexFacts) -> bool:
    """Whether rows that refer to one of another table are found by it: a delete there looks for them."""
    return any(
        constraint.kind == "foreign"
        and {key.column for key in index.keys[: len(constraint.columns)]} == set(constraint.columns)
        for constraint in table.constraints
    )


def _never_scanned(evidence: FinderEvidence, table: TableFacts, index: IndexFacts) -> tuple[str, str] | None:
    used = any(index.name in scan.indexes for scan in evidence.scans)
    others = sum(each.scans or 0 for each in table.indexes if each is not index)
    is_idle = index.last_scan_days is not None and index.last_scan_days >= IDLE_DAYS_MIN
    if used or _is_for_references(table, index) or any(key.expression for key in index.keys):
        return None
    if index.scans != 0 and not is_idle:
        return None
    scans = others + (table.sequential_scans or 0)
    if scans < SCANS_MIN:
        return None
    ask = (
        f"SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = {constant(index.name)} "
        f"AND schemaname = {constant(index.schema_)}"
    )
    known = evidence.facts.standbys
    named = f" ({join(known)})" if known else ""
    standbys = f"scans on standbys{named} are counted there: check on each with {ask}"
    if index.scans:
        return f"not scanned for {index.last_scan_days:,.0f} days", (
            f"it was scanned last {index.last_scan_days:,.0f} days ago; {standbys}"
        )
    return "never scanned", (
        f"it was never scanned while {table.name} was read {scans:,} times in other ways, in "
        f"{_counted(evidence)}; {standbys}"
    )


def _counted(evidence: FinderEvidence) -> str:
    days = evidence.facts.counted_days
    if days is None:
        return "an unknown time"
    return f"{days:,.0f} days of statistics" if days >= 1 else "less than a day of statistics"


def _too_soon(evidence: FinderEvidence, kind: str) -> str:
    """Why an index that nothing scanned is told and not tried; '' where it was counted for long enough."""
    days = evidence.facts.counted_days
    if kind != "never scanned" or (days is not None and days >= COUNTED_DAYS_MIN):
        return ""
    return (
        f"its scans were counted in {_counted(evidence)}: a monthly job may need it; check again after "
        f"{COUNTED_DAYS_MIN:.0f} days"
    )


def _needless(evidence: FinderEvidence, table: TableFacts) -> Iterator[tuple[IndexFacts, str, str]]:
    """Each index that may go, with the kind of its needlessness and its sentence."""
    beside = {index.name: _beside(table, index) for index in table.indexes if _may_go(index)}
    rested_on = {found[0].name for found in beside.values() if found is not None}
    for index in table.indexes:
        if index.name not in beside:
            continue
        found = beside[index.name]
        why = found[1:] if found is not None else None
        if why is None and index.name not in rested_on:
            why = _never_scanned(evidence, table, index)
        if why is not None:
            yield index, *why


def _made_again(table: TableFacts, index: IndexFacts) -> str:
    """The statement that makes it; the catalog tells the index of a partitioned table as ON ONLY that."""
    if table.kind != "partitioned":
        return index.definition
    return defined_anew(index.definition, name=index.name)


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for table in evidence.facts.tables:
        savings = tuple(_savings(evidence, table))
        if table.parent is not None:
            continue
        for index, kind, why in _needless(evidence, table):
            if index.bytes < BYTES_MIN and not savings:
                continue
            too_soon = _too_soon(evidence, kind)
            name = f"{identifier(index.schema_)}.{identifier(index.name)}"
            yield FinderOffer(
                Candidate(
                    id=f"drop-index:{index.schema_}.{index.name}",
                    layer="design",
                    kind="unneeded-index",
                    title=f"Drop the index {shown(index)} ({kind})",
                    reason=f"{index.name} takes {size_in_words(index.bytes)} and is maintained by every "
                    f"write: {why}",
                    statements=tuple(saving.statement for saving in savings),
                    sql=(f"DROP INDEX {name}",),
                    undo=(_made_again(table, index),),
                    bytes=-index.bytes,
                    described=bool(too_soon),
                    why_not=too_soon,
                ),
                savings,
                without_gain=True,
            )


def _savings(evidence: FinderEvidence, table: TableFacts) -> Iterator[ExpectedSaving]:
    """One index's part of the time of the statements that write new rows or versions into the table."""
    for statement, number, plan in evidence.plans:
        for node in plan.nodes:
            if node.type != "ModifyTable" or not node.own_ms or evidence.table_of(node) is not table:
                continue
            if node.name.startswith(("Insert", "Update", "Merge")):
                yield ExpectedSaving(statement.name, number, node.own_ms / (len(table.indexes) + 1))


UNNEEDED = Finder("unneeded-index", "design", ("unneeded-index",), _find)
