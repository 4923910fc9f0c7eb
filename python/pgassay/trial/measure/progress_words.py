"""How far a maintenance command has come, in words, from a row of pg_stat_progress_*."""

from collections.abc import Mapping
from typing import Any

# View and phase → what is counted in it: done and total. Only these phases have a total; source:
# PostgreSQL's manual, "Progress Reporting", and src/backend/catalog/system_views.sql. The sums of index
# blocks and tuples stay at their totals in later phases, so that they tell nothing there.
_COUNTED = {
    ("vacuum", "scanning heap"): ("heap_blks_scanned", "heap_blks_total"),
    ("vacuum", "vacuuming heap"): ("heap_blks_vacuumed", "heap_blks_total"),
    ("vacuum", "vacuuming indexes"): ("indexes_processed", "indexes_total"),
    ("vacuum", "cleaning up indexes"): ("indexes_processed", "indexes_total"),
    ("analyze", "acquiring sample rows"): ("sample_blks_scanned", "sample_blks_total"),
    ("analyze", "acquiring inherited sample rows"): ("sample_blks_scanned", "sample_blks_total"),
    ("create_index", "building index"): ("blocks_done", "blocks_total"),
    ("create_index", "building index: scanning table"): ("blocks_done", "blocks_total"),
    ("create_index", "building index: loading tuples in tree"): ("tuples_done", "tuples_total"),
    ("create_index", "index validation: scanning index"): ("blocks_done", "blocks_total"),
    ("create_index", "index validation: scanning table"): ("blocks_done", "blocks_total"),
    ("cluster", "seq scanning heap"): ("heap_blks_scanned", "heap_blks_total"),
    ("repack", "seq scanning heap"): ("heap_blks_scanned", "heap_blks_total"),
}
# The views in which a later pass over the same phase is told by a count of the passes that have ended.
_PASSES = {"vacuum": "index_vacuum_count"}


def progress_words(view: str, relation: str, figures: Mapping[str, Any]) -> str:
    """One row of `pg_stat_progress_VIEW` as words: 'pgbench_accounts: scanning heap, 45 %'.

    A phase without a total has no percentage. VACUUM's passes over the indexes are numbered from the second.
    """
    phase = str(figures.get("phase") or "")
    words = f"{relation}: {phase}" if relation else phase
    passes = int(figures.get(_PASSES.get(view, "")) or 0)
    if passes and phase in ("scanning heap", "vacuuming indexes"):
        words += f" (pass {passes + 1})"
    done_name, total_name = _COUNTED.get((view, phase), ("", ""))
    done, total = figures.get(done_name), figures.get(total_name)
    if done is None or not total:
        return words
    return f"{words}, {min(1.0, done / total):.0%}".replace("%", " %")
