"""The time of those who do a trial's work, added up by what it was spent on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    }
)
_TEMPORARY = frozenset({"BuffileRead", "BuffileWrite", "BuffileTruncate"})
_WAL = frozenset(
    {
        *("WALSync", "WALWrite", "WALInitSync", "WALInitWrite", "WalSync", "WalWrite"),
        *("WalInitSync", "WalInitWrite", "WALSyncMethodAssign"),
    }
)
_ROWS = frozenset({"transactionid", "tuple"})


@dataclass(frozen=True)
class WorkTimes:
    """Seconds of connections and parallel workers in one trial, without a leader's wait for its workers.

    cpu_s: on a processor, within any wait event; runnable_s: in the queue for one; read_s, temporary_s,
    wal_s, row_lock_s, lwlock_s: asleep in events of that kind; client_s, network_s: of the account.
    cpu_in_reads_s: the part of cpu_s within events of reads, which is copying from the page cache.
    temporary_cpu_s: that within events of temporary files. lwlocks: seconds by name.
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
    idle_s = sum(item.seconds for item in items if item.wait_event_type == "IPC" and item.kind == "wait")
    waits = [item for item in items if item.kind == "wait"]
    lwlocks: dict[str, float] = {}
    for item in waits:
        if item.wait_event_type == "LWLock" and _group(item) == "lwlock":
            lwlocks[item.wait_event] = lwlocks.get(item.wait_event, 0.0) + item.seconds

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
        temporary_cpu_s=of("cpu", _TEMPORARY),
        lwlocks=lwlocks,
    )


def times_from_outside(record: TrialRecord, arm: Arm, trips: RoundTrips | None) -> WorkTimes:
    """What is known where only the client was seen: how long its connections took, and the way there."""
    load = arm.spec.workload.load
    if record.load is not None and load is not None:
        total_s = load.clients * record.load.elapsed_s
    else:
        total_s = sum(item.elapsed_s for item in record.statements)
    network_s = min(total_s, trips.seconds) if trips else 0.0
    return WorkTimes(total_s, 0, 0, 0, 0, 0, 0, 0, 0, network_s, 0, 0, {})


def _group(item: AccountItem) -> str:
    event = item.wait_event
    if event in READS:
        return "read"
    if event in _TEMPORARY:
        return "temporary"
    if event in _WAL:
        return "wal"
    if item.wait_event_type == "Lock":
        return "row lock" if event in _ROWS else ""
    return "lwlock" if item.wait_event_type == "LWLock" else ""
