"""The share of blocks found in shared buffers, per table and index of each arm; descriptive, no verdict.

As people compute it from pg_statio_user_tables and pg_statio_user_indexes, of differences over the trials.
"""

from collections import Counter

from pgassay.model.arm import Arm
from pgassay.model.server_statement import TableCache
from pgassay.model.trial import CounterRow, figure
from pgassay.record.experiment import StoredExperiment

_TABLES, _INDEXES = "pg_statio_user_tables", "pg_statio_user_indexes"
# Schema, table, and index where it is one's.
_Key = tuple[str, str, str | None]


def table_cache(stored: StoredExperiment) -> tuple[TableCache, ...]:
    """One for each arm or control and what its valid trials touched, most blocks first.

    Indexes are missing where the trials recorded only their sum over a table.
    """
    found: list[TableCache] = []
    for arm in stored.experiment.arms:
        if arm.role != "twin":
            found += _of_arm(arm, stored)
    return tuple(found)


def _of_arm(arm: Arm, stored: StoredExperiment) -> list[TableCache]:
    hits: Counter[_Key] = Counter()
    reads: Counter[_Key] = Counter()
    for trial in stored.trials:
        if trial.record.arm_id != arm.id or trial.record.status != "ok":
            continue
        for row in trial.record.counters.get(_TABLES, ()):
            key = _key(row)
            hits[key] += round(figure(row, "heap_blks_hit"))
            reads[key] += round(figure(row, "heap_blks_read"))
        for row in trial.record.counters.get(_INDEXES, ()):
            key = _key(row)
            hits[key] += round(figure(row, "idx_blks_hit"))
            reads[key] += round(figure(row, "idx_blks_read"))
    touched = [key for key in hits if hits[key] + reads[key] > 0]
    return [
        TableCache(
            arm=arm.name,
            stratum=arm.stratum,
            table_schema=key[0],
            table=key[1],
            index=key[2],
            blocks_hit=hits[key],
            blocks_read=reads[key],
            hit_ratio=hits[key] / (hits[key] + reads[key]),
        )
        for key in sorted(touched, key=lambda key: (-(hits[key] + reads[key]), key[:2], key[2] or ""))
    ]


def _key(row: CounterRow) -> _Key:
    index = row.get("indexrelname")
    return str(row.get("schemaname")), str(row.get("relname")), None if index is None else str(index)
