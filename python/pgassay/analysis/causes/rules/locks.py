"""Connections wait for each other: for rows, or for locks within the server.

Wait events of the types Lock (transactionid and tuple are those of rows; src/backend/storage/lmgr/README)
and LWLock, of samples that found the process asleep.
"""

from pgassay.analysis.causes.base import Answer, Rule, lifted
from pgassay.analysis.causes.evidence import Evidence


def _rows(evidence: Evidence) -> Answer:
    times = evidence.times
    if times.row_lock_s <= 0:
        return None
    figures: dict[str, float | str] = {"row_lock_s": times.row_lock_s}
    if evidence.load is not None and evidence.load.transactions:
        per_transaction_s = times.row_lock_s / evidence.load.transactions
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


ROWS = Rule(
    cause="row-locks",
    kind="limit",
    layer="design",
    phrase="waiting for rows that others had locked",
    remedy=(
        "Shorten what happens while the row is locked, touch hot rows last, or spread them over several rows."
    ),
    next_step=(
        "Look at the head of the chain of locks below, what its transaction does after it took the row, and "
        "which statements wait for it."
    ),
    find=_rows,
)
LIGHT = Rule(
    cause="lwlocks",
    kind="limit",
    layer="infrastructure",
    phrase="waiting for locks within the server",
    remedy=(
        "Use fewer connections at a time (a pooler), or a newer version; the lock's name says what is "
        "contended."
    ),
    next_step=(
        "Look how many connections are busy at a time, and what the lock that is named protects (table 'Wait "
        "Events of Type LWLock' of PostgreSQL's manual)."
    ),
    find=_light,
)
