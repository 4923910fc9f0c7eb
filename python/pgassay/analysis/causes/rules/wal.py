"""Writing ahead: waiting until it is on the disk here or at a standby, and checkpoints that it asks for."""

import math
from dataclasses import replace

from pgassay.analysis.causes.base import Answer, Found, Rule, SettingRemedy, lifted, raising
from pgassay.analysis.causes.evidence import Evidence
from pgassay.errors import UsageError
from pgassay.value_syntax.quantities import size_bytes

# Below this interval between checkpoints that were asked for, they cost more than they save: after each
# one every page that is changed goes whole into the WAL (full_page_writes).
_INTERVAL_MAX_S = 60.0
_REQUESTED_MIN = 2
# Since 14.
_COMPLETION_TARGET = 0.9


def _fsync(evidence: Evidence) -> Answer:
    """Asleep in events of writing and syncing WAL, or of the lock that one flush for all holds."""
    seconds = evidence.times.wal_s - full_buffers_s(evidence)
    if seconds <= 0:
        return None
    figures: dict[str, float | str] = {"wal_wait_s": seconds}
    if evidence.work.wal_bytes is not None:
        figures["wal_bytes"] = evidence.work.wal_bytes
    if evidence.work.load is not None and evidence.work.load.transactions:
        figures["wal_wait_ms_per_transaction"] = 1000 * seconds / evidence.work.load.transactions
    found = lifted(evidence, seconds, figures)
    return replace(found, remedy=_NOT_AT_COMMIT) if _commits_wait_not(evidence) else found


def full_buffers_s(evidence: Evidence) -> float:
    """Of the waits for writes of WAL those that make room in its buffers (xlog.c, AdvanceXLInsertBuffer).

    Such a write and one at a commit wait in the same events. The server counts the former, and there is one
    of the latter a transaction at most, so their shares are those of the numbers. Transactions are of the
    measured part; the counter has its warm-up too.
    """
    full = evidence.server.counters.total("pg_stat_wal", "wal_buffers_full") or 0.0
    if full <= 0 or evidence.work.load is None:
        return 0.0
    if _commits_wait_not(evidence):
        return evidence.times.wal_s
    at_commit = (evidence.work.load.transactions or 0) * evidence.counted_s / evidence.server.elapsed_s
    return evidence.times.wal_s * full / (full + at_commit)


def _commits_wait_not(evidence: Evidence) -> bool:
    return evidence.server.settings.get("synchronous_commit") == "off"


_NOT_AT_COMMIT = (
    "Commits don't wait (synchronous_commit=off): pages that leave shared buffers need their WAL on the disk "
    "first. Put the WAL on a device that syncs faster, or give the server larger shared_buffers."
)


def _standby(evidence: Evidence) -> Answer:
    """Asleep in SyncRep: the commit is here, and the standbys of synchronous_standby_names have yet to say
    that they have it (src/backend/replication/syncrep.c, SyncRepWaitForLSN)."""
    times = evidence.times
    if times.standby_s <= 0:
        return None
    figures: dict[str, float | str] = {"standby_wait_s": times.standby_s}
    for name in ("synchronous_standby_names", "synchronous_commit"):
        if evidence.server.settings.get(name):
            figures[name] = evidence.server.settings[name]
    if evidence.work.load is not None and evidence.work.load.transactions:
        figures["standby_wait_ms_per_transaction"] = 1000 * times.standby_s / evidence.work.load.transactions
    return lifted(evidence, times.standby_s, figures)


def _checkpoint(evidence: Evidence) -> Answer:
    """Checkpoints that the amount of WAL asked for (src/backend/postmaster/checkpointer.c), soon after
    each other. What they cost can't be told from the other writes, so no seconds are given."""
    requested = evidence.server.counters.total("pg_stat_checkpointer", "num_requested")
    if requested is None:
        requested = evidence.server.counters.total("pg_stat_bgwriter", "checkpoints_req")
    if evidence.work.load is None or requested is None or requested < _REQUESTED_MIN:
        return None
    counted_s = evidence.counted_s
    requested = min(requested, _most_by_wal(evidence))
    if requested < _REQUESTED_MIN or counted_s / requested > _INTERVAL_MAX_S:
        return None
    figures: dict[str, float | str] = {
        "checkpoints_requested": requested,
        "seconds_between": counted_s / requested,
        "max_wal_size": evidence.server.settings.get("max_wal_size", ""),
    }
    images = evidence.server.counters.total("pg_stat_wal", "wal_fpi")
    if images is not None:
        figures["full_page_images"] = images
    return Found(None, figures)


def _most_by_wal(evidence: Evidence) -> float:
    """How many checkpoints the WAL can have asked for: the server counts commands that do as well.

    One comes after max_wal_size / (1 + checkpoint_completion_target) of WAL (xlog.c,
    CalculateCheckpointSegments), and the first is due sooner.
    """
    target = evidence.server.settings.get("checkpoint_completion_target", "")
    try:
        limit_bytes = size_bytes(evidence.server.settings.get("max_wal_size", ""), default_unit="MB")
        each_bytes = limit_bytes / (1 + float(target or _COMPLETION_TARGET))
    except (UsageError, ValueError):
        return math.inf
    if evidence.work.wal_bytes is None or each_bytes <= 0:
        return math.inf
    return math.floor(evidence.work.wal_bytes / each_bytes) + 1


FSYNC = Rule(
    cause="wal-fsync",
    kind="limit",
    layer="infrastructure",
    phrase="waiting for WAL to reach the disk",
    remedy=(
        "Put the WAL on a device that syncs faster, do more work per commit, or set synchronous_commit=off "
        "if losing the last transactions is acceptable."
    ),
    next_step=(
        "Check how long a WAL write takes on its device ('pgassay probe' on pg_wal's folder measures "
        "durable writes), and how many transactions commit one row each."
    ),
    find=_fsync,
    # `local` waits for the flush here as `on` does: it spares the standby alone (syncrep.c).
    settings=(SettingRemedy("synchronous_commit", ("off",), "Not waiting for the WAL"),),
    otherwise="Put the WAL on a device that syncs faster, or do more work per commit.",
)
STANDBY = Rule(
    cause="synchronous-replication",
    kind="limit",
    layer="infrastructure",
    phrase="waiting for synchronous standbys",
    remedy=(
        "Do more work per commit, move the standby nearer or give it a faster WAL disk, or wait for "
        "less: synchronous_commit=remote_write, or local where the standby may lag behind."
    ),
    next_step=(
        "Check write_lag, flush_lag and replay_lag of pg_stat_replication: they show whether the "
        "network, the standby's disk or its replay causes the wait."
    ),
    find=_standby,
    settings=(SettingRemedy("synchronous_commit", ("remote_write", "local", "off"), "Waiting for less"),),
    otherwise="Do more work per commit, or move the standby nearer.",
)
CHECKPOINT = Rule(
    cause="checkpoint",
    kind="fault",
    layer="operations",
    phrase="checkpoints came because the WAL grew to max_wal_size",
    remedy="Raise max_wal_size, so that checkpoints are timed; pg_wal needs room for as much.",
    next_step=(
        "Check the log for 'checkpoints are occurring too frequently', and how much WAL is written in "
        "checkpoint_timeout."
    ),
    find=_checkpoint,
    settings=raising("max_wal_size"),
)
