"""Autovacuum works while the measured work needs the same processors, device or WAL.

Its workers are ordinary processes: their CPU is the scheduler's count, their bytes those of pg_stat_io
(src/backend/postmaster/autovacuum.c; "cost-based vacuum delay" is what holds them back).
"""

from pgassay.analysis.accounts.wait_groups import DATA_WRITE, EXTENSION
from pgassay.analysis.causes.base import Answer, Missing, Rule, lifted
from pgassay.analysis.causes.ceilings import counts_writes, fractions, is_full
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.rules.processors import is_machine_full
from pgassay.model.trial import CounterRow, figure

_WORKER = "autovacuum worker"
_TABLES = "pg_stat_user_tables"
# The launcher's wait for its next round, and a worker's pause by cost.
_IDLE = frozenset({"AutovacuumMain", "AutoVacuumMain", "VacuumDelay", ""})
# At work for less than this share of the time, or explaining less of it, it is as it should be.
_WORKING_MIN = 0.05
_SHARE_MIN = 0.05


def _autovacuum(evidence: Evidence) -> Answer:
    if evidence.is_unobserved:
        return Missing("what autovacuum did meanwhile")
    account = evidence.server.accounts.get("autovacuum")
    if account is None:
        return None
    cpu_s = sum(item.seconds for item in account.items if item.kind == "cpu")
    waits_s = sum(
        item.seconds
        for item in account.items
        if item.kind == "runnable" or (item.kind == "wait" and item.wait_event not in _IDLE)
    )
    if cpu_s + waits_s < _WORKING_MIN * evidence.server.elapsed_s:
        return None
    times = evidence.times
    processor_s = _processor_seconds(evidence, cpu_s)
    share = _share_of_bytes(evidence)
    full = is_full(evidence)
    waited_s = _waited_for_device_s(evidence) * (share or 0.0)
    wal_s = times.wal_s * _share_of_wal(evidence)
    seconds = processor_s + (waited_s if full else 0.0) + wal_s
    if times.share(seconds) < _SHARE_MIN:
        if full is None and times.share(waited_s) >= _SHARE_MIN:
            return Missing("whether the device that autovacuum reads from as well is full")
        return None
    figures: dict[str, float | str] = {"autovacuum_cpu_s": cpu_s, "autovacuum_waiting_s": waits_s}
    if share is not None:
        figures["share_of_bytes"] = share
    worked_ms = evidence.server.counters.total(_TABLES, "total_autovacuum_time", "total_autoanalyze_time")
    if worked_ms:
        # What 18 and newer sum up when a table is done, its sleeps among it.
        figures["autovacuum_worked_s"] = worked_ms / 1000
    tables = _tables(evidence)
    if tables:
        figures["tables"] = ", ".join(tables)
    return lifted(evidence, seconds, figures, cpu_s=cpu_s, reads_as_much=False)


def _processor_seconds(evidence: Evidence, cpu_s: float) -> float:
    """What the work would take less: where the processors are full, their time is shared by all of it."""
    processors, times = evidence.machine.processors, evidence.times
    if processors is None or not is_machine_full(evidence) or processors.own_s <= 0:
        return 0.0
    return min(times.runnable_s, times.total_s * min(1.0, cpu_s / processors.own_s))


def _waited_for_device_s(evidence: Evidence) -> float:
    """For reads, and where the device counts writes with them for pages that are written as well."""
    times = evidence.times
    if not any(counts_writes(evidence, name) for name in fractions(evidence)):
        return times.read_s
    return times.read_s + times.written_s(DATA_WRITE) + times.written_s(EXTENSION)


def _bytes(row: CounterRow, operation: str, block_bytes: float) -> float:
    """Bytes of a row of pg_stat_io: counted from 18 on, before that blocks."""
    name = f"{operation}_bytes"
    if name in row:
        return figure(row, name)
    each = figure(row, "op_bytes") if "op_bytes" in row else block_bytes
    return figure(row, f"{operation}s") * each


def _share_of_bytes(evidence: Evidence) -> float | None:
    """Autovacuum's share of all that was read and written of relations; None before 16, or of nothing."""
    rows = [row for row in evidence.server.counters.rows("pg_stat_io") if row.get("object") != "wal"]
    size = evidence.server.block_bytes
    moved = [(row, _bytes(row, "read", size) + _bytes(row, "write", size)) for row in rows]
    total = sum(count for _, count in moved)
    own = sum(count for row, count in moved if row.get("backend_type") == _WORKER)
    return own / total if total > 0 else None


def _share_of_wal(evidence: Evidence) -> float:
    """Its share of the bytes of WAL that were written; rows of WAL came with 18."""
    rows = [row for row in evidence.server.counters.rows("pg_stat_io") if row.get("object") == "wal"]
    size = evidence.server.block_bytes
    total = sum(_bytes(row, "write", size) for row in rows)
    own = sum(_bytes(row, "write", size) for row in rows if row.get("backend_type") == _WORKER)
    return own / total if total > 0 else 0.0


def _tables(evidence: Evidence) -> list[str]:
    rows = evidence.server.counters.rows(_TABLES)
    return [str(row.get("relname")) for row in rows if figure(row, "autovacuum_count") > 0]


AUTOVACUUM = Rule(
    cause="autovacuum",
    kind="fault",
    layer="operations",
    phrase="autovacuum needed the same processors, device or WAL",
    remedy=(
        "Let it run in small steps all the time (lower autovacuum_vacuum_scale_factor of the named "
        "tables), or VACUUM them in quiet hours. Do not raise autovacuum_vacuum_cost_delay: unfinished "
        "work becomes bloat."
    ),
    next_step="Check pg_stat_progress_vacuum, and which tables it vacuums again and again.",
    find=_autovacuum,
)
