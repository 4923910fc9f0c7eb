"""An index on the columns of a foreign key, for deletes and updates of the rows that it refers to.

Evidence: an executed DELETE or UPDATE whose plan shows the time in the constraint's trigger, and no index of
the referring table that begins with the key's columns: the trigger then reads that table whole for each row
(RI_FKey_noaction_del and its like, src/backend/utils/adt/ri_triggers.c).
Threshold: as for every index. Prediction: each call finds its rows by the index.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import ConstraintFacts, TableFacts
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.building import Key, NewIndex
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence
from pgassay.tune.finders.evidence.work import btree_bytes

_CALL_MS = 0.03


def _keys(evidence: FinderEvidence, name: str) -> Iterator[tuple[TableFacts, ConstraintFacts]]:
    for table in evidence.facts.tables:
        for constraint in table.constraints:
            if constraint.name == name and constraint.kind == "foreign":
                yield table, constraint


def _has_index(table: TableFacts, columns: tuple[str, ...]) -> bool:
    return any(
        index.valid and index.predicate is None and index.method in ("btree", "hash")
        and {key.column for key in index.keys[: len(columns)]} == set(columns)
        for index in table.indexes
    )  # fmt: skip


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for statement, number, plan in evidence.plans:
        for trigger in plan.triggers:
            for table, constraint in _keys(evidence, trigger.constraint or ""):
                # The check on the referring side has the same constraint; it reads the referred table. And
                # another table's may have the same name.
                if trigger.relation is not None and trigger.relation != constraint.referenced_table:
                    continue
                top = evidence.root_of(table)
                if _has_index(top, constraint.columns) or not trigger.ms:
                    continue
                index = NewIndex(top, tuple(Key(name) for name in constraint.columns))
                calls = trigger.calls or 1.0
                yield FinderOffer(
                    Candidate(
                        id=index.id,
                        layer="design",
                        kind="foreign-key",
                        title=index.title,
                        reason=f"the check of {constraint.name} took {trigger.ms:.1f} ms in "
                        f"{calls:,.0f} {'call' if round(calls) == 1 else 'calls'}, "
                        f"each reading {top.name}, which has no index on {', '.join(constraint.columns)}",
                        statements=(),
                        sql=(index.sql,),
                        undo=(index.undo,),
                        bytes=btree_bytes(
                            top, evidence.rows_of(top), constraint.columns, evidence.facts.block_bytes
                        ),
                    ),
                    (ExpectedSaving(statement.name, number, trigger.ms - calls * _CALL_MS),),
                )


FOREIGN_KEY = Finder("foreign-key", "design", ("foreign-key",), _find)
