"""Waits by name per transaction, from the trials that were judged; what each is for, and what relieves it.

Names as in 17 to 19 (src/backend/utils/activity/wait_event_names.txt); 16 spells some otherwise, which the
case of letters does not decide here.
"""

from collections.abc import Sequence

from pgassay.analysis.accounts.arm_accounts import arm_accounts
from pgassay.analysis.accounts.threads import BACKEND
from pgassay.model.account import ArmAccounts
from pgassay.model.profile.result import ProfiledArm, WaitMeaning, WaitTimes
from pgassay.record.experiment import StoredExperiment

WAITS_MAX = 20
# Of the connections' time, in some arm.
SHARE_MIN = 0.0005
_M = WaitMeaning
_SLRU_RELIEF = "from 17 on raise {setting}; before, use fewer {what}"


def _slru(what: str, setting: str, fewer: str) -> WaitMeaning:
    return _M(means=what, relief=_SLRU_RELIEF.format(setting=setting, what=fewer))


_SUBTRANSACTIONS = _slru(
    "pages that say which transaction a subtransaction belongs to",
    "subtransaction_buffers",
    "savepoints and exception blocks in a transaction (64 at most), and end long transactions sooner",
)
_STATUS = _slru(
    "pages that say which transactions have committed",
    "transaction_buffers",
    "tiny transactions, and vacuum earlier, so rows need not be looked up",
)
_MEMBERS = _slru(
    "pages that say which transactions share the lock of a row",
    "multixact_member_buffers and multixact_offset_buffers",
    "locks of one row by many sessions (foreign keys to a few hot rows, SELECT FOR SHARE)",
)
_WAL_WRITE = _M(
    means="WAL that is written or flushed at a commit",
    relief="faster storage for pg_wal, larger transactions, commit_delay, or synchronous_commit=off where "
    "the last commits may be lost",
)
_EXTENSION = _M(means="a table or index that gets new pages", relief="load in larger batches (COPY)")
_BUFFER_CONTENT = _M(
    means="the content of a page that another session changes or reads",
    relief="spread hot rows and hot index pages (fillfactor, hash partitions, keys that do not all grow at "
    "one end)",
)
_READ = _M(
    means="a page of a table or index that is read from the system",
    relief="more shared_buffers, an index or plan that reads less, or faster storage",
)

MEANINGS: dict[tuple[str, str], WaitMeaning] = {
    ("LWLock", "LockManager"): _M(
        means="the shared table of locks, for relations beyond those a session has places for (16 before 18)",
        relief="prune partitions, drop unused indexes, prepare statements; 18 has more such places with a "
        "higher max_locks_per_transaction",
    ),
    ("LWLock", "BufferMapping"): _M(
        means="the table that says which page is in which buffer, when pages come and go",
        relief="more shared_buffers, so that fewer pages are replaced, or plans that read fewer pages",
    ),
    ("LWLock", "BufferContent"): _BUFFER_CONTENT,
    ("Buffer", "BufferShared"): _BUFFER_CONTENT,
    ("Buffer", "BufferExclusive"): _BUFFER_CONTENT,
    ("LWLock", "WALInsert"): _M(
        means="one of the places by which sessions copy their WAL into its buffers",
        relief="write less WAL (fewer indexes, HOT updates, wal_compression, fewer full-page images by a "
        "larger max_wal_size), or fewer sessions that write at a time",
    ),
    ("LWLock", "WALBufMapping"): _M(
        means="a page of the WAL buffers that is made ready", relief="more wal_buffers"
    ),
    ("LWLock", "WALWrite"): _WAL_WRITE,
    ("IO", "WalSync"): _WAL_WRITE,
    ("IO", "WalWrite"): _WAL_WRITE,
    ("LWLock", "ProcArray"): _M(
        means="the list of running transactions, read for every snapshot",
        relief="fewer connections at a time (a pooler)",
    ),
    ("IPC", "ProcarrayGroupUpdate"): _M(
        means="the end of transactions, which one session does for a group",
        relief="fewer connections at a time (a pooler), larger transactions",
    ),
    ("LWLock", "XidGen"): _M(
        means="a number for a new transaction", relief="larger transactions, fewer savepoints that write"
    ),
    ("LWLock", "SubtransSLRU"): _SUBTRANSACTIONS,
    ("LWLock", "SubtransBuffer"): _SUBTRANSACTIONS,
    ("LWLock", "XactSLRU"): _STATUS,
    ("LWLock", "XactBuffer"): _STATUS,
    ("LWLock", "MultiXactMemberSLRU"): _MEMBERS,
    ("LWLock", "MultiXactMemberBuffer"): _MEMBERS,
    ("LWLock", "MultiXactOffsetSLRU"): _MEMBERS,
    ("LWLock", "MultiXactOffsetBuffer"): _MEMBERS,
    ("LWLock", "MultiXactGen"): _MEMBERS,
    ("LWLock", "ParallelHashJoin"): _M(
        means="the hash table that the processes of a parallel query share",
        relief="more work_mem, fewer workers",
    ),
    ("LWLock", "LockFastPath"): _M(
        means="a session's own list of weak table locks, read by sessions that need a strong one",
        relief="fewer commands that lock tables strongly (ALTER TABLE, CREATE INDEX) while others work",
    ),
    ("LWLock", "PgStatsData"): _M(
        means="counters of statistics that several sessions write", relief="larger transactions"
    ),
    ("IO", "DataFileRead"): _READ,
    ("IO", "AioIoCompletion"): _READ,
    ("IPC", "BufferIo"): _M(
        means="a page that another session reads right now", relief="the same as for DataFileRead"
    ),
    ("IO", "DataFileExtend"): _EXTENSION,
    ("Lock", "extend"): _EXTENSION,
    ("IO", "DataFileWrite"): _M(
        means="a changed page that is written to make room",
        relief="more shared_buffers, or a background writer that is ahead (bgwriter_lru_maxpages, "
        "bgwriter_delay)",
    ),
    ("Lock", "transactionid"): _M(
        means="a row that another transaction has changed and not yet committed",
        relief="shorter transactions, hot rows last in them or spread over several rows",
    ),
    ("Lock", "tuple"): _M(
        means="a place in the queue for a row", relief="the same as for Lock transactionid"
    ),
    ("Lock", "relation"): _M(
        means="a table that is locked more strongly", relief="find who locks it: pg_blocking_pids"
    ),
    ("IPC", "ExecuteGather"): _M(
        means="rows from the workers of a parallel query", relief="none needed if the workers are busy"
    ),
    ("Timeout", "SpinDelay"): _M(
        means="a spinlock that many processors want", relief="fewer connections at a time, or a newer version"
    ),
}
_BY_LOWER = {(kind, name.lower()): meaning for (kind, name), meaning in MEANINGS.items()}


def meaning_of(wait_event_type: str, wait_event: str) -> WaitMeaning | None:
    """What a wait is for; None for one that is not in the table."""
    return _BY_LOWER.get((wait_event_type, wait_event.lower()))


def wait_times(stored: StoredExperiment, arms: Sequence[ProfiledArm]) -> tuple[WaitTimes, ...]:
    """The waits of the connections in these arms, the longest first; () where none were observed.

    Waits for the client are none of the server's.
    """
    accounts = {(each.arm, each.stratum): each for each in arm_accounts(stored)}
    seen = [accounts.get((arm.name, arm.stratum)) for arm in arms]
    times = [None if each is None else _us(each) for each in seen]
    names = dict.fromkeys(name for each in times if each is not None for name in each)
    found = [
        WaitTimes(
            event_type=kind,
            event=event,
            us=tuple(None if each is None else each.get((kind, event), 0.0) for each in times),
            meaning=meaning_of(kind, event),
        )
        for kind, event in names
    ]
    found.sort(key=lambda wait: -max(us or 0.0 for us in wait.us))
    return tuple(found[:WAITS_MAX])


def _us(account: ArmAccounts) -> dict[tuple[str, str], float]:
    """µs per transaction (or per pass) of each wait that takes a share worth showing."""
    units = account.transactions or 1.0
    found: dict[tuple[str, str], float] = {}
    least_s = 0.0
    for each in account.accounts:
        if each.process != BACKEND:
            continue
        least_s = SHARE_MIN * each.wall_s
        for item in each.items:
            if item.kind == "wait" and item.wait_event:
                name = item.wait_event_type, item.wait_event
                found[name] = found.get(name, 0.0) + item.seconds
    return {name: 1e6 * waited_s / units for name, waited_s in found.items() if waited_s >= least_s}
