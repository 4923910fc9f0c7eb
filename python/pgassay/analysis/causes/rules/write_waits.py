"""What writes wait for beside the flush of WAL: pages that must leave shared buffers, room in files and in
the WAL's buffers, the status of transactions, and checkpoints.

Waits are those of samples that found the process asleep; `analysis/accounts/wait_groups.py` says which event
is in which group. Who wrote is counted by pg_stat_io (16 and newer).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from pgassay.analysis.accounts.wait_groups import CHECKPOINT, DATA_WRITE, EXTENSION, SLRU, WAL_INSERT
from pgassay.analysis.causes.base import Answer, Found, Rule, between, lifted, raising
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.rules.wal import full_buffers_s
from pgassay.model.trial import figure

# Of a bulk write's pages most go through a ring of their own, which no setting makes larger. That of a scan
# (bulkread) is for tables beyond a quarter of shared buffers alone (heapam.c, initscan).
_BULK_SHARE = 0.5
_SLRU_SETTINGS_MAJOR_MIN = 17
_QUEUE_SHARE_MAX = 0.25
# A queue that is less of the rest of the time moves no prediction.
_QUEUE_SHARE_MIN = 0.1
# By the beginning of a wait's name: whose status it is, what fills it, and the setting that has its size.
_SLRUS = {
    "Subtrans": (
        "subtransaction_buffers",
        "Sessions look up the parents of subtransactions: have transactions of fewer than 64 savepoints "
        "(each EXCEPTION block of PL/pgSQL is one), and end old transactions, for which they are looked up",
    ),
    "MultiXact": (
        "multixact_offset_buffers and multixact_member_buffers",
        "Rows are locked by several transactions at once: foreign keys to few rows and SELECT … FOR SHARE "
        "make such locks; spread them, or keep the transactions short",
    ),
    "Notify": ("notify_buffers", "Listeners lag behind NOTIFY: make them read faster, or send less"),
    "Serial": ("serializable_buffers", "Serializable transactions are long or many: make them shorter"),
    "CommitTs": ("commit_timestamp_buffers", "track_commit_timestamp costs this: is it needed?"),
    "Xact": (
        "transaction_buffers",
        "Sessions look up whether old transactions committed: VACUUM those tables",
    ),
}


def _waits(group: str, seconds_name: str) -> Callable[[Evidence], Answer]:
    """A rule's find: the seconds of a group's events, with each event in the figures."""

    def find(evidence: Evidence) -> Answer:
        return _waited(evidence, evidence.times.writing.get(group, {}), seconds_name)

    return find


def _waited(evidence: Evidence, events: Mapping[str, float], seconds_name: str) -> Found | None:
    seconds = sum(events.values())
    if seconds <= 0:
        return None
    figures: dict[str, float | str] = {
        seconds_name: seconds,
        "most_waited_for": max(events, key=lambda name: events[name]),
    }
    if evidence.work.load is not None and evidence.work.load.transactions:
        figures[f"{seconds_name.removesuffix('_s')}_ms_per_transaction"] = (
            1000 * seconds / evidence.work.load.transactions
        )
    return lifted(evidence, seconds, figures)


def _backend_writes(evidence: Evidence) -> Answer:
    """Backends that write pages of others before they can use their buffers (bufmgr.c, GetVictimBuffer)."""
    found = _waits(DATA_WRITE, "data_write_s")(evidence)
    if not isinstance(found, Found):
        return found
    rows = [
        row for row in evidence.server.counters.rows("pg_stat_io") if str(row.get("object", "")) == "relation"
    ]
    by_backends = [row for row in rows if str(row.get("backend_type", "")) == "client backend"]
    written = sum(figure(row, "writes") for row in by_backends)
    everybody = sum(figure(row, "writes") for row in rows)
    by_ring = {
        context: sum(figure(row, "writes") for row in by_backends if row.get("context") == context)
        for context in _RINGS
    }
    figures = dict(found.figures)
    if everybody > 0:
        figures |= {"backend_writes": written, "backend_writes_share": written / everybody}
    if evidence.server.settings.get("shared_buffers"):
        figures["shared_buffers"] = evidence.server.settings["shared_buffers"]
    most = max(by_ring, key=lambda context: by_ring[context])
    is_ring = written > 0 and sum(by_ring.values()) >= _BULK_SHARE * written
    return replace(found, figures=figures, remedy=_RINGS[most] if is_ring else "")


# By the context of pg_stat_io (src/backend/storage/buffer/freelist.c, GetAccessStrategy).
_RINGS = {
    "bulkwrite": (
        "COPY and CREATE TABLE AS write through a small ring of buffers of their own, so larger "
        "shared_buffers don't help: storage with faster writes does, or smaller batches."
    ),
    "vacuum": (
        "VACUUM and ANALYZE write through a small ring of buffers of their own, so larger shared_buffers "
        "don't help: raise vacuum_buffer_usage_limit (VACUUM's option BUFFER_USAGE_LIMIT; 0: without ring), "
        "or use storage with faster writes."
    ),
}


def _slru(evidence: Evidence) -> Answer:
    """Who waits for a page of a status is woken at once, and then stands in the processors' queue.

    Where that is long, what the lookups take of the processors can't be told, nor what is gained without.
    """
    found = _waits(SLRU, "slru_s")(evidence)
    if not isinstance(found, Found):
        return found
    queue_s = evidence.times.slru_queue_s
    if queue_s > _QUEUE_SHARE_MAX * evidence.times.written_s(SLRU):
        figures = found.figures | {"slru_runnable_s": queue_s}
        weight_s = evidence.times.written_s(SLRU) + queue_s
        found = replace(
            found, figures=figures, weight_s=weight_s, gain=None, gain_bound=math.inf, next_limit=""
        )
    name = str(found.figures["most_waited_for"])
    known = next((words for begins, words in _SLRUS.items() if name.startswith(begins)), None)
    if known is None:
        return found
    setting, words = known
    major = evidence.server.major
    raised = f"; or raise {setting}." if major is None or major >= _SLRU_SETTINGS_MAJOR_MIN else "."
    return replace(found, remedy=words + raised)


def _wal_insert(evidence: Evidence) -> Answer:
    """The locks of WAL insertion, and of a WAL buffer that must be written before it can be used (xlog.c).

    Who writes a buffer wakes all others, many times in a transaction, and each queues for a processor before
    it waits again. How much of that queue goes with the waits can't be told: at most their share of the time
    outside of it, at least nothing.
    """
    events = dict(evidence.times.writing.get(WAL_INSERT, {}))
    events["WALWrite"] = full_buffers_s(evidence)
    found = _waited(evidence, events, "wal_insert_s")
    if found is None:
        return None
    seconds, times = found.seconds or 0.0, evidence.times
    queue_s = times.runnable_s * times.share_awake(seconds)
    if queue_s > _QUEUE_SHARE_MIN * (times.total_s - seconds):
        found = between(found, lifted(evidence, seconds, {}, gained_s=seconds + queue_s))
    figures = found.figures | {"wal_insert_runnable_s": queue_s}
    full = evidence.server.counters.total("pg_stat_wal", "wal_buffers_full")
    if full is not None:
        figures["wal_buffers_full"] = full
    if evidence.work.wal_bytes is not None:
        figures["wal_bytes"] = evidence.work.wal_bytes
    if evidence.server.settings.get("wal_buffers"):
        figures["wal_buffers"] = evidence.server.settings["wal_buffers"]
    return replace(found, figures=figures)


BACKEND_WRITES = Rule(
    cause="backend-writes",
    kind="limit",
    layer="infrastructure",
    phrase="writing out pages of shared buffers to make room",
    remedy=(
        "Give the server larger shared_buffers, have the background writer clean ahead (a higher "
        "bgwriter_lru_maxpages, a shorter bgwriter_delay), or use storage with faster writes."
    ),
    next_step=(
        "Look who writes: SELECT backend_type, context, writes, fsyncs FROM pg_stat_io WHERE object = "
        "'relation' (16 and newer; buffers_backend of pg_stat_bgwriter before)."
    ),
    find=_backend_writes,
    settings=raising("shared_buffers", "bgwriter_lru_maxpages"),
    otherwise="Use storage with faster writes, or change fewer pages: fewer indexes, HOT updates.",
)
FILE_EXTENSION = Rule(
    cause="extension",
    kind="limit",
    layer="infrastructure",
    phrase="adding pages to files",
    remedy=(
        "Load by COPY or many rows in an INSERT, which add many pages at a time, in fewer sessions; use a "
        "file system that allocates faster; fewer indexes on the table that grows."
    ),
    next_step="Check which table or index grows (pg_relation_size twice), and who writes to it.",
    find=_waits(EXTENSION, "extension_s"),
)
TRANSACTION_STATUS = Rule(
    cause="slru",
    kind="limit",
    layer="design",
    phrase="the status of transactions, which is kept in small caches",
    remedy="Check pg_stat_slru for the cache that reads and writes most, and what fills it.",
    next_step="Check pg_stat_slru (blks_read, blks_written), and the oldest transaction (xact_start).",
    find=_slru,
)
WAL_INSERTION = Rule(
    cause="wal-insert",
    kind="limit",
    layer="infrastructure",
    phrase="room in the buffers of the WAL",
    remedy=(
        "Raise wal_buffers; write less WAL: fewer indexes, checkpoints further apart (max_wal_size), which "
        "saves full-page images; fewer concurrent writers."
    ),
    next_step="Check wal_buffers_full and wal_bytes of pg_stat_wal, and which statements write most WAL.",
    find=_wal_insert,
    settings=raising("wal_buffers", "max_wal_size"),
    otherwise="Write less WAL: fewer indexes, or fewer concurrent writers.",
)
CHECKPOINT_WAIT = Rule(
    cause="checkpoint-wait",
    kind="limit",
    layer="operations",
    phrase="waiting for a checkpoint",
    remedy=(
        # CREATE DATABASE copies by the WAL since 15, unless told otherwise (dbcommands.c).
        "Find the command that asks for checkpoints and waits (CHECKPOINT, DROP DATABASE, CREATE DATABASE "
        "with STRATEGY file_copy, a base backup with --checkpoint=fast), and run it rarely or in quiet hours."
    ),
    next_step="Look who waits: SELECT pid, query FROM pg_stat_activity WHERE wait_event LIKE 'Checkpoint%'.",
    find=_waits(CHECKPOINT, "checkpoint_wait_s"),
)
