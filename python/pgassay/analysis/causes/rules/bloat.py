"""Scans read pages that hold nothing alive: dead rows, and the space that they left.

A sequential scan reads a table's file from end to end (src/backend/access/heap/heapam.c). What the live rows
need is estimated from the average widths of ANALYZE, as in the documentation of the page layout
(doc/src/sgml/storage.sgml); VACUUM makes dead rows' space free for new ones but seldom gives it back, and
keeps what a snapshot may still see (src/backend/access/heap/vacuumlazy.c).
"""

from dataclasses import dataclass

from pgassay.analysis.causes.base import Answer, Found, Missing, Rule, lifted
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.scans import Saving, Scan, saved_seconds, scans
from pgassay.model.vacuum_state import Holder

# autovacuum comes when a fifth of the rows are dead (autovacuum_vacuum_scale_factor), and estimated widths
# are off by some percent: less than a third is no sign of neglect.
_WASTED_MIN = 1 / 3
_SHARE_MIN = 0.1
_DEAD_MIN = 0.2
# A snapshot is no obstacle before a VACUUM has met it, or would have: autovacuum looks every minute.
_HELD_S_MIN = 300.0


@dataclass(frozen=True)
class _Waste:
    """The scan that wastes most, what all of them waste, its seconds and the part of them on a processor."""

    worst: Scan
    saving: Saving
    seconds: float
    cpu_s: float


def _waste(evidence: Evidence) -> _Waste | Missing | None:
    found = scans(evidence)
    if found is None:
        return Missing("dead rows and the pages that live rows need")
    savings = {scan: saving for scan in found if (saving := _saving(evidence, scan)) is not None}
    if not savings:
        return None
    total = sum(savings.values(), Saving())
    seconds, cpu_s = saved_seconds(evidence, total)
    if evidence.times.share(seconds) < _SHARE_MIN:
        return None
    return _Waste(max(savings, key=lambda scan: savings[scan].pages), total, seconds, cpu_s)


def _saving(evidence: Evidence, scan: Scan) -> Saving | None:
    table = scan.table
    dead = scan.times * (table.dead_rows or 0.0) if _holder(evidence, scan) else 0.0
    # Where no average widths are known, dead rows are taken to be as wide as live ones.
    needed = table.pages_for(scan.live_rows)
    wasted = 1 - needed / table.pages if needed is not None else scan.dead_share
    if wasted < _WASTED_MIN:
        return None
    return Saving(scan.pages * wasted, scan.pages_read * wasted, 0.0, dead)


def _holder(evidence: Evidence, scan: Scan) -> Holder | None:
    """The oldest one that keeps the dead rows of the table from being removed."""
    table = scan.table
    if evidence.vacuum_state is None or scan.dead_share < _DEAD_MIN:
        return None
    for holder in evidence.vacuum_state.holders:
        if holder.transactions < 1:
            continue
        if holder.seconds is None or holder.seconds >= _HELD_S_MIN:
            return holder
        if table.vacuumed_s is not None and table.vacuumed_s < holder.seconds:
            return holder
    return None


def _found(evidence: Evidence, waste: _Waste, **more: float | str) -> Found:
    scan = waste.worst
    table, needed = scan.table, scan.table.pages_for(scan.live_rows)
    figures: dict[str, float | str] = {
        **more,
        "table": f"{table.schema_name}.{table.name}",
        "pages": float(table.pages),
        "live_rows": scan.live_rows,
    }
    if needed is not None:
        figures["pages_needed"] = needed
    if table.dead_rows is not None:
        figures["dead_rows"] = table.dead_rows
    if table.vacuumed_s is not None:
        figures["last_vacuum_s"] = table.vacuumed_s
    figures["wasted_pages_looked_at"] = waste.saving.pages
    return lifted(evidence, waste.seconds, figures, cpu_s=waste.cpu_s, reads_as_much=False)


def _bloat(evidence: Evidence) -> Answer:
    waste = _waste(evidence)
    if not isinstance(waste, _Waste):
        return waste
    return None if _holder(evidence, waste.worst) else _found(evidence, waste)


def _held(evidence: Evidence) -> Answer:
    waste = _waste(evidence)
    if not isinstance(waste, _Waste):
        return waste
    holder = _holder(evidence, waste.worst)
    if holder is None:
        return None
    who: dict[str, float | str] = {
        "held_by": f"{holder.kind} {holder.name}",
        "transactions_since": float(holder.transactions),
    }
    if holder.seconds is not None:
        who["held_s"] = holder.seconds
    return _found(evidence, waste, **who)


BLOAT = Rule(
    cause="bloat",
    kind="fault",
    layer="operations",
    phrase="scans read pages that hold nothing alive",
    remedy=(
        "VACUUM oftener (autovacuum_vacuum_scale_factor of the table), and rewrite it once to give its space "
        "back (VACUUM FULL, which locks it, or pg_repack)."
    ),
    next_step="Look at n_dead_tup and last_autovacuum of pg_stat_user_tables for the table named.",
    find=_bloat,
)
HELD = Rule(
    cause="bloat-held",
    kind="fault",
    layer="operations",
    phrase="scans read dead rows that VACUUM may not remove",
    remedy=(
        "End what holds the dead rows (the session, the prepared transaction or the replication slot named "
        "in the evidence): VACUUM can't remove them before that. Then VACUUM."
    ),
    next_step="Look what the holder named does, and who would miss it if it ended.",
    find=_held,
)
