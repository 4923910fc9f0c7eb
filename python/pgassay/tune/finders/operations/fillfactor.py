"""A fillfactor that leaves room in each page, so that updates stay there and no index is touched (HOT).

Evidence: an UPDATE of the workload that sets no column of an index, on a table whose updates were HOT in
less than half of the cases (pg_stat_user_tables), with the fillfactor at 100; from 16 on, that the others
went to another page (n_tup_newpage_upd), which an index on what they set does not explain.
Threshold: half; 10,000 updates before the share means anything.
Prediction: half of the indexes' part of ModifyTable's own time, for the share that was not HOT
(src/backend/access/heap/README.HOT): the row itself and the WAL stay, and pages fill up again. On the copy
the table is written anew, to have what a server in use comes to by its updates; a script sets the option
alone.
What becomes worse: the table takes a quarter more of the disk and of memory, and so does a scan of it.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.building import place, shown
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence
from pgassay.words import percent_rounded

HOT_MAX, ELSEWHERE_MIN = 0.5, 0.5
UPDATES_MIN = 10_000
_FILLFACTOR = 80
_COMMENTS = (
    "This affects pages written from now on. Full pages get free space as updates move their rows elsewhere.",
    "It was proven on a copy whose pages all had that room: VACUUM (FULL) gives it immediately, and locks "
    "the",
    "table against reads and writes meanwhile.",
)


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


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for statement, number, plan in evidence.plans:
        columns = evidence.text(statement).updated_columns
        for node in plan.nodes:
            table = evidence.table_of(node) if node.type == "ModifyTable" and columns else None
            if table is None or not node.own_ms or not table.indexes or "fillfactor" in table.options:
                continue
            updated, hot = float(table.updated or 0), float(table.hot_updated or 0)
            if updated < UPDATES_MIN or hot > HOT_MAX * updated or _touches_index(table, columns):
                continue
            elsewhere = table.updated_elsewhere
            if elsewhere is not None and elsewhere < ELSEWHERE_MIN * (updated - hot):
                continue
            moved = f", {elsewhere:,} of them onto another page" if elsewhere is not None else ""
            where, count = place(table), len(table.indexes)
            anew = f"VACUUM (FULL, ANALYZE) {where}"
            part = 0.5 * count / (count + 2)
            yield FinderOffer(
                Candidate(
                    id=f"fillfactor:{where}",
                    layer="operations",
                    kind="fillfactor",
                    title=f"Keep a fifth of {shown(table)}'s pages free for updates",
                    reason=f"of {updated:,.0f} updates {percent_rounded(hot / updated)} were HOT, though the "
                    f"statement sets no column of an index{moved}: pages were full, and {count} indexes got "
                    "new entries; a fifth of free space takes a quarter more disk space, and "
                    "makes scans read as much more",
                    statements=(),
                    sql=(f"ALTER TABLE {where} SET (fillfactor = {_FILLFACTOR})", anew),
                    on_copy=(anew,),
                    comments=_COMMENTS,
                    undo=(f"ALTER TABLE {where} RESET (fillfactor)",),
                    physical=True,
                    bytes=int(table.bytes * (100 / _FILLFACTOR - 1)),
                ),
                (ExpectedSaving(statement.name, number, node.own_ms * (1 - hot / updated) * part),),
            )  # fmt: skip


FILLFACTOR = Finder("fillfactor", "operations", ("fillfactor",), _find)
