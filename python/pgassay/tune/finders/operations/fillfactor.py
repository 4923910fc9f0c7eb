"""A fillfactor that leaves room in each page, so that updates stay there and no index is touched (HOT).

Evidence: an UPDATE of the workload that sets no column of an index, on a table whose updates were HOT in
less than half of the cases (pg_stat_user_tables), with the fillfactor at 100.
Threshold: half; 10,000 updates before the share means anything.
Prediction: half of the indexes' part of ModifyTable's own time, for the share that was not HOT
(src/backend/access/heap/README.HOT): the row itself and the WAL stay, and pages fill up again. The table is
written anew, or old pages stay full.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.finders.base import Finder, Offer, Saving
from pgassay.tune.finders.evidence.building import place
from pgassay.tune.finders.evidence.evidence import Evidence
from pgassay.words import percent_rounded

HOT_MAX = 0.5
UPDATES_MIN = 10_000
_FILLFACTOR = 80


def _touches_index(table: TableFacts, columns: frozenset[str]) -> bool:
    """Whether an index has one of the columns; a summarising index (BRIN) does not stop HOT from 16 on."""
    for index in table.indexes:
        if index.method == "brin":
            continue
        texts = [key.expression or "" for key in index.keys] + [index.predicate or ""]
        names = {key.column for key in index.keys} | set(index.included)
        if names & columns or any(name in text for name in columns for text in texts):
            return True
    return False


def _find(evidence: Evidence) -> Iterator[Offer]:
    for statement, number, plan in evidence.plans:
        columns = evidence.text(statement).updated_columns
        for node in plan.nodes:
            table = evidence.table_of(node) if node.type == "ModifyTable" and columns else None
            if table is None or not node.own_ms or not table.indexes or "fillfactor" in table.options:
                continue
            updated, hot = float(table.updated or 0), float(table.hot_updated or 0)
            if updated < UPDATES_MIN or hot > HOT_MAX * updated or _touches_index(table, columns):
                continue
            where, count = place(table), len(table.indexes)
            part = 0.5 * count / (count + 2)
            yield Offer(
                Candidate(
                    id=f"fillfactor:{where}",
                    layer="operations",
                    kind="fillfactor",
                    title=f"Leave a fifth of {table.name}'s pages free for updates",
                    reason=f"of {updated:,.0f} updates {percent_rounded(hot / updated)} were HOT, though the "
                    "statement sets no "
                    f"column of an index: the other pages were full, and {count} indexes got new entries",
                    statements=(),
                    sql=(f"ALTER TABLE {where} SET (fillfactor = {_FILLFACTOR})",
                         f"VACUUM (FULL, ANALYZE) {where}"),
                    undo=(f"ALTER TABLE {where} RESET (fillfactor)",),
                    physical=True,
                    bytes=int(table.bytes * (100 / _FILLFACTOR - 1)),
                ),
                (Saving(statement.name, number, node.own_ms * (1 - hot / updated) * part),),
            )  # fmt: skip


FILLFACTOR = Finder("fillfactor", "operations", ("fillfactor",), _find)
