"""Connections wait for each other: for rows, for locks on other objects, or for locks within the server.

Wait events of the types Lock (transactionid and tuple are those of rows; src/backend/storage/lmgr/README;
their types are LockTagTypeNames of src/backend/utils/adt/lockfuncs.c) and LWLock, of samples that found the
process asleep.
"""

from dataclasses import replace

from pgassay.analysis.causes.base import Answer, Rule, lifted
from pgassay.analysis.causes.evidence import Evidence


def _rows(evidence: Evidence) -> Answer:
    times = evidence.times
    if times.row_lock_s <= 0:
        return None
    figures: dict[str, float | str] = {"row_lock_s": times.row_lock_s}
    if evidence.work.load is not None and evidence.work.load.transactions:
        per_transaction_s = times.row_lock_s / evidence.work.load.transactions
        figures["row_lock_ms_per_transaction"] = 1000 * per_transaction_s
    return lifted(evidence, times.row_lock_s, figures)


def _light(evidence: Evidence) -> Answer:
    times = evidence.times
    if times.lwlock_s <= 0:
        return None
    name = max(times.lwlocks, key=lambda each: times.lwlocks[each])
    figures: dict[str, float | str] = {
        "lwlock_s": times.lwlock_s,
        "most_waited_for": name,
        "most_waited_for_s": times.lwlocks[name],
    }
    return lifted(evidence, times.lwlock_s, figures)


# What to do about each type of lock.
_REMEDIES = {
    "relation": (
        "Find the command that takes a stronger lock on the table than its readers and writers need (ALTER "
        "TABLE, CREATE INDEX without CONCURRENTLY, LOCK, VACUUM FULL), and keep its transaction short."
    ),
    "page": (
        "A GIN index merges its list of pending entries, one session at a time: make that list smaller "
        "(gin_pending_list_limit), or switch it off (the index's fastupdate = off)."
    ),
    "advisory": "The application takes this lock itself: hold it for a shorter time, or lock less.",
    "virtualxid": (
        "A command waits for older transactions to end (CREATE INDEX CONCURRENTLY, REINDEX CONCURRENTLY): "
        "end those that stay open."
    ),
    "spectoken": "INSERT … ON CONFLICT waits for another insertion of the same key: insert each key once.",
    "frozenid": "VACUUM waits for another VACUUM to update the database's oldest transaction.",
}


def _objects(evidence: Evidence) -> Answer:
    """Every type of lock but those of rows; the figures name each with its seconds."""
    times = evidence.times
    if times.lock_s <= 0:
        return None
    name = max(times.locks, key=lambda each: times.locks[each])
    figures: dict[str, float | str] = {"lock_s": times.lock_s, "most_waited_for": name}
    figures |= {f"{each}_s": times.locks[each] for each in sorted(times.locks)}
    return replace(lifted(evidence, times.lock_s, figures), remedy=_REMEDIES.get(name, ""))


ROWS = Rule(
    cause="row-locks",
    kind="limit",
    layer="design",
    phrase="waiting for rows locked by others",
    remedy=(
        "Shorten the time while the row is locked, update hot rows last, or spread them over several rows."
    ),
    next_step=(
        "Check the head of the lock chain below, what its transaction does after it locked the "
        "row, and which statements wait for it."
    ),
    find=_rows,
)
OBJECTS = Rule(
    cause="object-locks",
    kind="limit",
    layer="design",
    phrase="waiting for locks on tables or other objects",
    remedy="Find who holds the named lock (pg_locks, pg_blocking_pids), and hold it for a shorter time.",
    next_step=(
        "Look who holds the lock that is waited for: SELECT pid, pg_blocking_pids(pid), wait_event, query "
        "FROM pg_stat_activity WHERE wait_event_type = 'Lock'."
    ),
    find=_objects,
)
LIGHT = Rule(
    cause="lwlocks",
    kind="limit",
    layer="infrastructure",
    phrase="waiting for locks within the server",
    remedy=(
        "Use fewer concurrent connections (a pooler), or a newer version; the lock's name says "
        "what is contended."
    ),
    next_step=(
        "Check how many connections are busy at the same time, and what the named lock protects (table 'Wait "
        "Events of Type LWLock' of PostgreSQL's manual)."
    ),
    find=_light,
)
