"""Scans read pages that hold nothing alive: dead rows, and the space that they left; by an index as well.

A sequential scan reads a table's file from end to end (src/backend/access/heap/heapam.c). What the live rows
need is estimated from the average widths of ANALYZE, as in the documentation of the page layout
(doc/src/sgml/storage.sgml); VACUUM makes dead rows' space free for new ones but seldom gives it back, and
keeps what a snapshot may still see (src/backend/access/heap/vacuumlazy.c). What scans by indexes waste is
told by the pages for each row that they fetched, see `index_scans`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pgassay.analysis.causes import index_scans
from pgassay.analysis.causes.base import Answer, Found, Missing, Rule, lifted
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.index_scans import IndexRead
from pgassay.analysis.causes.scans import Saving, Scan, saved_seconds, scans
from pgassay.model.vacuum_state import Holder, TableState

# autovacuum comes when a fifth of the rows are dead (autovacuum_vacuum_scale_factor), and estimated widths
# are off by some percent: less than a third is no sign of neglect.
_WASTED_MIN = 1 / 3
_SHARE_MIN = 0.1
_DEAD_MIN = 0.2
# A snapshot is no obstacle before a VACUUM has met it, or would have: autovacuum looks every minute.
_HELD_S_MIN = 300.0
# What gives space back: autovacuum_vacuum_max_threshold since 18, REPACK since 19.
_FIRST_WITH_MAX_THRESHOLD, _FIRST_WITH_REPACK = 18, 19


@dataclass(frozen=True)
class _Source:
    """Scans of one table, or of one of its indexes, and what they waste.

    `live_rows`: of the table, as the scans met them or by the statistics. `figures`: for the evidence.
    """

    table: TableState
    live_rows: float
    saving: Saving
    figures: Mapping[str, float | str]
    index: str = ""


@dataclass(frozen=True)
class _Waste:
    """The source that wastes most, what all waste, its seconds and the part of them on a processor."""

    worst: _Source
    saving: Saving
    seconds: float
    cpu_s: float


def _waste(evidence: Evidence) -> _Waste | Missing | None:
    found = scans(evidence)
    if found is None:
        return Missing("dead rows and the pages that live rows need")
    by_index = [*index_scans.scattered_tables(evidence), *index_scans.half_empty_indexes(evidence)]
    sources = [
        *(source for scan in found if (source := _of_scan(evidence, scan)) is not None),
        *(_of_index(read) for read in by_index if read.wasted >= _WASTED_MIN),
    ]
    if not sources:
        return None
    total = sum((source.saving for source in sources), Saving())
    seconds, cpu_s = saved_seconds(evidence, total)
    if evidence.times.share(seconds) < _SHARE_MIN:
        return None
    return _Waste(max(sources, key=lambda source: source.saving.pages), total, seconds, cpu_s)


def _of_scan(evidence: Evidence, scan: Scan) -> _Source | None:
    table = scan.table
    dead = scan.times * (table.dead_rows or 0.0) if _holder(evidence, table, scan.live_rows) else 0.0
    # Where no average widths are known, dead rows are taken to be as wide as live ones.
    needed = table.pages_for(scan.live_rows)
    wasted = 1 - needed / table.pages if needed is not None else scan.dead_share
    if wasted < _WASTED_MIN:
        return None
    saving = Saving(scan.pages * wasted, scan.pages_read * wasted, 0.0, dead)
    return _Source(table, scan.live_rows, saving, {})


def _of_index(read: IndexRead) -> _Source:
    saving = Saving(read.pages * read.wasted, read.pages_read * read.wasted)
    return _Source(read.table, read.table.live_rows, saving, read.figures, read.index)


def _holder(evidence: Evidence, table: TableState, live_rows: float) -> Holder | None:
    """The oldest one that keeps the dead rows of the table from being removed."""
    dead = table.dead_rows or 0.0
    if evidence.server.vacuum_state is None or dead <= 0 or dead / (live_rows + dead) < _DEAD_MIN:
        return None
    for holder in evidence.server.vacuum_state.holders:
        if holder.transactions < 1:
            continue
        if holder.seconds is None or holder.seconds >= _HELD_S_MIN:
            return holder
        if table.vacuumed_s is not None and table.vacuumed_s < holder.seconds:
            return holder
    return None


def _holder_of_worst(evidence: Evidence, waste: _Waste) -> Holder | None:
    return _holder(evidence, waste.worst.table, waste.worst.live_rows)


def _found(evidence: Evidence, waste: _Waste, **more: float | str) -> Found:
    worst = waste.worst
    table, needed = worst.table, worst.table.pages_for(worst.live_rows)
    figures: dict[str, float | str] = {
        **more,
        "table": f"{table.schema_name}.{table.name}",
        "pages": float(table.pages),
        "live_rows": worst.live_rows,
    }
    if needed is not None:
        figures["pages_needed"] = needed
    if table.dead_rows is not None:
        figures["dead_rows"] = table.dead_rows
    if table.vacuumed_s is not None:
        figures["last_vacuum_s"] = table.vacuumed_s
    figures |= worst.figures
    figures["wasted_pages_looked_at"] = waste.saving.pages
    found = lifted(evidence, waste.seconds, figures, cpu_s=waste.cpu_s, reads_as_much=False)
    if not worst.index:
        return replace(found, remedy=_remedy_of_a_table(evidence))
    return replace(found, remedy=f"Rebuild the index: REINDEX INDEX CONCURRENTLY {worst.index}.")


def _remedy_of_a_table(evidence: Evidence) -> str:
    """How VACUUM comes oftener and the space is given back, by what the server's version has."""
    major = evidence.server.major
    if major is None:
        return ""
    often = "autovacuum_vacuum_scale_factor of the table"
    if major >= _FIRST_WITH_MAX_THRESHOLD:
        often += ", or autovacuum_vacuum_max_threshold, the maximum number of dead rows that it waits for"
    anew = "VACUUM FULL, which locks it, or pg_repack"
    if major >= _FIRST_WITH_REPACK:
        anew = (
            "REPACK (CONCURRENTLY), where it has a primary key or another replica identity index; else "
            "REPACK, which locks it"
        )
    return f"VACUUM more often ({often}), and rewrite it once to free its space ({anew})."


def _bloat(evidence: Evidence) -> Answer:
    waste = _waste(evidence)
    if not isinstance(waste, _Waste):
        return waste
    return None if _holder_of_worst(evidence, waste) else _found(evidence, waste)


def _held(evidence: Evidence) -> Answer:
    waste = _waste(evidence)
    if not isinstance(waste, _Waste):
        return waste
    holder = _holder_of_worst(evidence, waste)
    if holder is None:
        return None
    who: dict[str, float | str] = {
        "held_by": f"{holder.kind} {holder.name}",
        "transactions_since": float(holder.transactions),
    }
    if holder.seconds is not None:
        who["held_s"] = holder.seconds
    return replace(_found(evidence, waste, **who), remedy=HOLDER_REMEDIES[holder.kind])


# A slot that is dropped takes its standby with it: what holds the rows is a query there.
_OF_A_STANDBY = (
    "The oldest query of the standby holds them, through hot_standby_feedback: find the oldest "
    "backend_xmin in its pg_stat_activity, and end that query or shorten such queries; a reporting standby "
    "may not need hot_standby_feedback. Keep the replication slot. Then VACUUM."
)
HOLDER_REMEDIES: Mapping[str, str] = {
    "session": "End the transaction of this session, and have its application commit or end idle "
    "transactions (idle_in_transaction_session_timeout). Then VACUUM.",
    "prepared transaction": "COMMIT PREPARED or ROLLBACK PREPARED this transaction: until then it keeps its "
    "locks too. Then VACUUM.",
    "standby": _OF_A_STANDBY,
    "replication slot": f"{_OF_A_STANDBY} Drop a slot only if no standby uses it any more "
    "(active is false in pg_replication_slots).",
}
BLOAT = Rule(
    cause="bloat",
    kind="fault",
    layer="operations",
    phrase="scans read pages without live rows",
    remedy=(
        "VACUUM more often (autovacuum_vacuum_scale_factor of the table), and rewrite it once to "
        "free its space (VACUUM FULL, which locks it, or pg_repack)."
    ),
    next_step="Check n_dead_tup and last_autovacuum of pg_stat_user_tables for that table.",
    find=_bloat,
)
HELD = Rule(
    cause="bloat-held",
    kind="fault",
    layer="operations",
    phrase="scans read dead rows that VACUUM may not remove",
    remedy=(
        "End what holds the dead rows (see the evidence): VACUUM can't remove them before that. Then VACUUM."
    ),
    next_step="Check what the named holder does, and whether it can be ended.",
    find=_held,
)
