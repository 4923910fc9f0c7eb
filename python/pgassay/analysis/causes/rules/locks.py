"""Connections wait for each other: for rows, or for locks within the server.

Wait events of the types Lock (transactionid and tuple are those of rows; src/backend/storage/lmgr/README)
and LWLock, of samples that found the process asleep.
"""

from pgassay.analysis.causes.base import Answer, Found, Rule, gain
from pgassay.analysis.causes.evidence import Evidence


def _rows(evidence: Evidence) -> Answer:
    times = evidence.times
    if times.row_lock_s <= 0:
        return None
    figures: dict[str, float | str] = {"row_lock_s": times.row_lock_s}
    if evidence.record.load is not None and evidence.record.load.transactions:
        per_transaction_s = times.row_lock_s / evidence.record.load.transactions
        figures["row_lock_ms_per_transaction"] = 1000 * per_transaction_s
    return Found(times.row_lock_s, figures, gain(evidence, times.row_lock_s))


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
    return Found(times.lwlock_s, figures, gain(evidence, times.lwlock_s))


ROWS = Rule(
    "row-locks",
    "limit",
    "design",
    "Shorten what happens while the row is locked, touch hot rows last, or spread them over several rows.",
    _rows,
)
LIGHT = Rule(
    "lwlocks",
    "limit",
    "infrastructure",
    "Use fewer connections at a time (a pooler), or a newer version; the lock's name says what is contended.",
    _light,
)
