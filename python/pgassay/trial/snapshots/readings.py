"""Readings at both ends of the measured part of a trial: counters and clocks.

Statistics are differenced, never reset.
"""

import time
from dataclasses import dataclass

from pgassay.environment.cgroup import usage
from pgassay.environment.linux import machine
from pgassay.environment.linux.device import counters as device_counters
from pgassay.environment.server.device_reads import ServerReads, reads_between
from pgassay.model.trial import CounterRow
from pgassay.trial.snapshots import verify
from pgassay.trial.snapshots.counters import Snapshot, block_bytes, database_bytes, difference, snapshot
from pgassay.trial.snapshots.verify import BytesRead
from pgassay.trial.target import LocalTrialServer, ServerSession
from pgassay.trial.trial_caps import group_counters


@dataclass(frozen=True)
class LocalReadings:
    """What is read of a server on this machine.

    `device_bytes` were read by anybody, `reads` by the server; `wal` is the write-ahead log's position in
    bytes, `group` the counters of a capped server's control group; `cpu_s` are the server's CPU seconds.
    """

    device_bytes: int
    reads: ServerReads | None
    wal: int
    group: dict[str, float]
    cpu_s: float


@dataclass(frozen=True)
class Readings:
    """What later readings are compared with; `steal_s` are CPU seconds, `local` None for remote servers."""

    views: Snapshot
    steal_s: float
    local: LocalReadings | None


@dataclass(frozen=True)
class CounterChange:
    """How the readings moved over the measured part.

    `counters`: rows that moved by view, ready for JSON. `wal_bytes`: None where the server isn't on this
    machine, as others may write there.
    """

    counters: dict[str, list[CounterRow]]
    read: BytesRead
    wal_bytes: int | None


def readings(server: ServerSession, local: LocalTrialServer | None, major: int) -> Readings:
    """Read them all, now: the server's CPU time last, so that reading the rest is no work of the workload."""
    if local is None:
        return Readings(views=snapshot(server.control, major), steal_s=steal_s(), local=None)
    device_bytes = device_counters(local.device).read_bytes if local.device.name else 0
    reads = local.running.device_reads()
    views = snapshot(server.control, major)
    wal = verify.wal_position(server.control)
    group = group_counters(local.capped_group, local.inherited)
    steal = steal_s()
    return Readings(
        views, steal, LocalReadings(device_bytes, reads, wal, group, cpu_s=local.running.cpu_seconds())
    )


def moved_since(
    before: Readings, server: ServerSession, local: LocalTrialServer | None, major: int
) -> CounterChange:
    """Read the counters again; how they moved since."""
    wal_bytes = device_bytes = reads = None
    wal = verify.wal_position(server.control) if local else 0
    after = snapshot(server.control, major)
    moved = difference(before.views, after)
    if local is not None and before.local is not None:
        wal_bytes = wal - before.local.wal
        if local.device.name:
            device_bytes = device_counters(local.device).read_bytes - before.local.device_bytes
        reads = reads_between(before.local.reads, local.running.device_reads())
        if group := group_counters(local.capped_group, local.inherited):
            moved["control_group"] = [usage.difference(before.local.group, group)]
    postgres = database_bytes(before.views, after, block_bytes(server.control))[0]
    return CounterChange(moved, BytesRead(postgres=postgres, device=device_bytes, server=reads), wal_bytes)


def steal_s() -> float:
    """CPU time that the hypervisor took, since boot."""
    times = machine.cpu_times()
    return times.steal_s if times else 0.0


def clock_offset_ns() -> int:
    """CLOCK_REALTIME less CLOCK_MONOTONIC, now: what a server's log says its times by, less a trial's own.

    The reading between two others that lie closest together is the one that nothing interrupted.
    """
    found = []
    for _ in range(3):
        before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        found.append((after - before, real - (before + after) // 2))
    return min(found)[1]
