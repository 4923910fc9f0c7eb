"""Writing ahead: waiting until it is on the disk, and checkpoints that come because it grew too far."""

from pgassay.analysis.causes.base import Answer, Found, Rule, gain
from pgassay.analysis.causes.evidence import Evidence

# Below this interval between checkpoints that were asked for, they cost more than they save: after each
# one every page that is changed goes whole into the WAL (full_page_writes).
_INTERVAL_MAX_S = 60.0
_REQUESTED_MIN = 2


def _fsync(evidence: Evidence) -> Answer:
    """Asleep in events of writing and syncing WAL, or of the lock that one flush for all holds."""
    times = evidence.times
    if times.wal_s <= 0:
        return None
    figures: dict[str, float | str] = {"wal_wait_s": times.wal_s}
    bytes_written = evidence.record.verification.get("wal_bytes")
    if isinstance(bytes_written, int | float):
        figures["wal_bytes"] = float(bytes_written)
    if evidence.record.load is not None and evidence.record.load.transactions:
        figures["wal_wait_ms_per_transaction"] = 1000 * times.wal_s / evidence.record.load.transactions
    return Found(times.wal_s, figures, gain(evidence, times.wal_s))


def _checkpoint(evidence: Evidence) -> Answer:
    """Checkpoints that the amount of WAL asked for (src/backend/postmaster/checkpointer.c), soon after
    each other. What they cost can't be told from the other writes, so no seconds are given."""
    requested = evidence.counter("pg_stat_checkpointer", "num_requested")
    if requested is None:
        requested = evidence.counter("pg_stat_bgwriter", "checkpoints_req")
    if not evidence.is_load or requested is None or requested < _REQUESTED_MIN:
        return None
    counted_s = evidence.elapsed_s + (
        evidence.arm.spec.workload.load.warmup_s if evidence.arm.spec.workload.load else 0.0
    )
    if counted_s / requested > _INTERVAL_MAX_S:
        return None
    figures: dict[str, float | str] = {
        "checkpoints_requested": requested,
        "seconds_between": counted_s / requested,
        "max_wal_size": str(evidence.record.facts.get("settings", {}).get("max_wal_size", "")),
    }
    images = evidence.counter("pg_stat_wal", "wal_fpi")
    if images is not None:
        figures["full_page_images"] = images
    return Found(None, figures)


FSYNC = Rule(
    "wal-fsync",
    "limit",
    "infrastructure",
    "Put the WAL on a device that syncs sooner, commit more per transaction, or where losing the last "
    "transactions is allowed set synchronous_commit=off.",
    _fsync,
)
CHECKPOINT = Rule(
    "checkpoint", "fault", "operations", "Raise max_wal_size, so that checkpoints come by time.", _checkpoint
)
