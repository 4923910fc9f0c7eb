"""The time of those who do a trial's work, added up by what it was spent on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.analysis.accounts.wait_groups import (
    CHECKPOINT,
    DATA_WRITE,
    EXTENSION,
    LIGHT,
    LOCK,
    PARALLEL_QUERY,
    READ,
    READS,
    ROW_LOCK,
    SLRU,
    STANDBY,
    TEMPORARY,
    TEMPORARY_FILES,
    WAL_FLUSH,
    WAL_INSERT,
    group_of,
)
from pgassay.analysis.descriptive.round_trips import RoundTrips
from pgassay.model.account import Account
from pgassay.model.arm import Arm
from pgassay.model.trial import TrialRecord

WORKING = ("backend", "parallel worker")
# What writes wait for, beside the flush of WAL.
WRITE_SIDE = (DATA_WRITE, EXTENSION, SLRU, WAL_INSERT, CHECKPOINT)


@dataclass(frozen=True)
class WorkTimes:
    """Seconds of connections and parallel workers in one trial, without their waits for each other within a
    parallel query.

    cpu_s: on a processor, within any wait event; runnable_s: in the queue for one; read_s, temporary_s,
    wal_s, row_lock_s, lwlock_s: asleep in events of that kind; client_s, network_s: of the account.
    cpu_in_reads_s: the part of cpu_s within events of reads, which is copying from the page cache.
    temporary_cpu_s: that within events of temporary files. lwlocks: seconds by name, with the queues of
    groups of transactions. lock_s: asleep for locks of other types than rows', locks: by type. standby_s:
    until synchronous standbys had answered. writing: by the group of WRITE_SIDE its events, with seconds.
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
    writing: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def written_s(self, group: str) -> float:
        """Seconds asleep in the events of a group of WRITE_SIDE."""
        return sum(self.writing.get(group, {}).values())

    def share_awake(self, seconds: float) -> float:
        """As a share of the time outside the queue for a processor, which others can lengthen."""
        left = self.total_s - self.runnable_s
        return seconds / left if left > 0 else 0.0

    @property
    def slru_queue_s(self) -> float:
        """Of the queue for a processor what follows a wait for the status of transactions.

        Who waits for such a page is woken within microseconds and queues again, as who has used up his time
        on a processor does; so the queue is shared as those times are.
        """
        slru_s = self.written_s(SLRU)
        return self.runnable_s * slru_s / (slru_s + self.cpu_s) if slru_s > 0 else 0.0

    def share(self, seconds: float) -> float:
        """These seconds as a share of all; 0 of nothing."""
        return seconds / self.total_s if self.total_s > 0 else 0.0


def work_times(accounts: Sequence[Account]) -> WorkTimes:
    """Add up the accounts of those who work; all others' are left out."""
    working = [account for account in accounts if account.process in WORKING]
    items = [item for account in working for item in account.items]
    # A leader that waits for its workers is as slow as they are: their time says why.
    waits = [item for item in items if item.kind == "wait"]
    idle_s = sum(item.seconds for item in waits if item.wait_event in PARALLEL_QUERY)

    def by_name(group: str) -> dict[str, float]:
        seconds: dict[str, float] = {}
        for item in waits:
            if group_of(item.wait_event_type, item.wait_event) == group:
                seconds[item.wait_event] = seconds.get(item.wait_event, 0.0) + item.seconds
        return seconds

    def waited(group: str) -> float:
        return sum(by_name(group).values())

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
        read_s=waited(READ),
        temporary_s=waited(TEMPORARY_FILES),
        wal_s=waited(WAL_FLUSH),
        row_lock_s=waited(ROW_LOCK),
        lwlock_s=waited(LIGHT),
        client_s=of("client"),
        network_s=of("network"),
        cpu_in_reads_s=of("cpu", READS),
        temporary_cpu_s=of("cpu", TEMPORARY),
        lwlocks=by_name(LIGHT),
        lock_s=waited(LOCK),
        locks=by_name(LOCK),
        standby_s=waited(STANDBY),
        writing={group: found for group in WRITE_SIDE if (found := by_name(group))},
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
