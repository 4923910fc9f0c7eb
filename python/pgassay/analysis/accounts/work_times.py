"""The time of those who do a trial's work, added up by what it was spent on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.analysis.descriptive.round_trips import RoundTrips
from pgassay.model.account import Account, AccountItem
from pgassay.model.arm import Arm
from pgassay.model.trial import TrialRecord

WORKING = ("backend", "parallel worker")
# Events of reads of relations (src/backend/utils/activity/wait_event_names.txt of 16 to 18).
READS = frozenset(
    {
        *("DataFileRead", "DataFilePrefetch", "AioIoCompletion", "AioIoUringExecution", "AioIoUringSubmit"),
        *("AioUringCompletion", "AioWorkerSubmissionQueue"),
        # Another process reads the same page (src/backend/storage/buffer/bufmgr.c, WaitIO); 16 writes IO.
        *("BufferIo", "BufferIO"),
    }
)
# The events of class IPC in which the processes of one parallel query wait for each other
# (src/backend/utils/activity/wait_event_names.txt of 17 to 19; wait_event.c of 16 spells some otherwise).
# All others of the class are waits of their own: for a standby, a checkpoint, a group of transactions.
_PARALLEL_QUERY = frozenset(
    {
        *("AppendReady", "BgworkerShutdown", "BgworkerStartup", "BgWorkerShutdown", "BgWorkerStartup"),
        *("BtreePage", "ExecuteGather", "HashBatchAllocate", "HashBatchElect", "HashBatchLoad"),
        *("HashBuildAllocate", "HashBuildElect", "HashBuildHashInner", "HashBuildHashOuter"),
        *("HashGrowBatchesAllocate", "HashGrowBatchesDecide", "HashGrowBatchesElect"),
        *("HashGrowBatchesFinish", "HashGrowBatchesReallocate", "HashGrowBatchesRepartition"),
        *("HashGrowBucketsAllocate", "HashGrowBucketsElect", "HashGrowBucketsReallocate"),
        *("HashGrowBucketsReinsert", "MessageQueueInternal", "MessageQueuePutMessage"),
        *("MessageQueueReceive", "MessageQueueSend", "ParallelBitmapScan", "ParallelCreateIndexScan"),
        "ParallelFinish",
    }
)
_SYNCHRONOUS_REPLICATION = frozenset({"SyncRep"})
# Queues for ProcArrayLock and for the transaction status, whose first one works for all of them
# (src/backend/storage/ipc/procarray.c, ProcArrayGroupClearXid; src/backend/access/transam/clog.c).
_GROUPS = frozenset({"ProcArrayGroupUpdate", "ProcarrayGroupUpdate", "XactGroupUpdate", "ClogGroupUpdate"})
TEMPORARY = frozenset({"BuffileRead", "BuffileWrite", "BuffileTruncate"})
WAL = frozenset(
    {
        *("WALSync", "WALWrite", "WALInitSync", "WALInitWrite", "WalSync", "WalWrite"),
        *("WalInitSync", "WalInitWrite", "WALSyncMethodAssign"),
    }
)
_ROWS = frozenset({"transactionid", "tuple"})


@dataclass(frozen=True)
class WorkTimes:
    """Seconds of connections and parallel workers in one trial, without their waits for each other within a
    parallel query.

    cpu_s: on a processor, within any wait event; runnable_s: in the queue for one; read_s, temporary_s,
    wal_s, row_lock_s, lwlock_s: asleep in events of that kind; client_s, network_s: of the account.
    cpu_in_reads_s: the part of cpu_s within events of reads, which is copying from the page cache.
    temporary_cpu_s: that within events of temporary files. lwlocks: seconds by name, with the queues of
    groups of transactions. lock_s: asleep for locks of other types than rows', locks: by type. standby_s:
    until synchronous standbys had answered.
    """

    total_s: float
    cpu_s: float
    runnable_s: float
    read_s: float
    temporary_s: float
    wal_s: float
    row_lock_s: float
    lwlock_s: float
    client_s: float
    network_s: float
    cpu_in_reads_s: float
    temporary_cpu_s: float
    lwlocks: Mapping[str, float]
    lock_s: float = 0.0
    locks: Mapping[str, float] = field(default_factory=dict)
    standby_s: float = 0.0

    def share_awake(self, seconds: float) -> float:
        """As a share of the time outside the queue for a processor, which others can lengthen."""
        left = self.total_s - self.runnable_s
        return seconds / left if left > 0 else 0.0

    def share(self, seconds: float) -> float:
        """These seconds as a share of all; 0 of nothing."""
        return seconds / self.total_s if self.total_s > 0 else 0.0


def work_times(accounts: Sequence[Account]) -> WorkTimes:
    """Add up the accounts of those who work; all others' are left out."""
    working = [account for account in accounts if account.process in WORKING]
    items = [item for account in working for item in account.items]
    # A leader that waits for its workers is as slow as they are: their time says why.
    waits = [item for item in items if item.kind == "wait"]
    idle_s = sum(item.seconds for item in waits if item.wait_event in _PARALLEL_QUERY)

    def by_name(group: str) -> dict[str, float]:
        seconds: dict[str, float] = {}
        for item in waits:
            if _group(item) == group:
                seconds[item.wait_event] = seconds.get(item.wait_event, 0.0) + item.seconds
        return seconds

    def waited(group: str) -> float:
        return sum(item.seconds for item in waits if _group(item) == group)

    def of(kind: str, events: frozenset[str] | None = None) -> float:
        return sum(
            item.seconds
            for item in items
            if item.kind == kind and (events is None or item.wait_event in events)
        )

    return WorkTimes(
        total_s=sum(account.wall_s for account in working) - idle_s,
        cpu_s=of("cpu"),
        runnable_s=of("runnable"),
        read_s=waited("read"),
        temporary_s=waited("temporary"),
        wal_s=waited("wal"),
        row_lock_s=waited("row lock"),
        lwlock_s=waited("lwlock"),
        client_s=of("client"),
        network_s=of("network"),
        cpu_in_reads_s=of("cpu", READS),
        temporary_cpu_s=of("cpu", TEMPORARY),
        lwlocks=by_name("lwlock"),
        lock_s=waited("lock"),
        locks=by_name("lock"),
        standby_s=waited("standby"),
    )


def times_from_outside(record: TrialRecord, arm: Arm, trips: RoundTrips | None) -> WorkTimes:
    """What is known where only the client was seen: how long its connections took, and the way there."""
    load = arm.spec.workload.load
    if record.load is not None and load is not None:
        total_s = load.clients * record.load.elapsed_s
    else:
        total_s = record.sessions_s
    network_s = min(total_s, trips.seconds) if trips else 0.0
    return WorkTimes(total_s, 0, 0, 0, 0, 0, 0, 0, 0, network_s, 0, 0, {})


def _group(item: AccountItem) -> str:
    event = item.wait_event
    if event in READS:
        return "read"
    if event in TEMPORARY:
        return "temporary"
    if event in WAL:
        return "wal"
    if item.wait_event_type == "Lock":
        return "row lock" if event in _ROWS else "lock"
    if item.wait_event_type == "IPC":
        return "standby" if event in _SYNCHRONOUS_REPLICATION else "lwlock" if event in _GROUPS else ""
    return "lwlock" if item.wait_event_type == "LWLock" else ""
