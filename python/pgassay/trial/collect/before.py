"""Counters of the server and the machine just before the measured part of a trial."""

from dataclasses import dataclass

from pgassay.environment.cgroup import usage
from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.linux import machine
from pgassay.environment.linux.device import counters as device_counters
from pgassay.environment.server.reads import ServerReads
from pgassay.environment.storage.base import BlockDevice
from pgassay.trial.collect import verify
from pgassay.trial.collect.counters import Snapshot, snapshot
from pgassay.trial.running import RunningServer


@dataclass(frozen=True)
class Before:
    """What later readings are compared with.

    `device_bytes` were read by anybody, `reads` by the server; `wal` is the write-ahead log's position in
    bytes, `group` the counters of a capped server's control group; `steal_s` and `cpu_s` are CPU seconds.
    """

    device_bytes: int
    reads: ServerReads | None
    views: Snapshot
    wal: int
    group: dict[str, float]
    steal_s: float
    cpu_s: float


def counters_before(server: RunningServer, device: BlockDevice, group: Cgroup | None, major: int) -> Before:
    """Read them all; `group` is that of a capped server, None for any other."""
    return Before(
        device_bytes=device_counters(device).read_bytes if device.name else 0,
        reads=server.device_reads(),
        views=snapshot(server.control, major),
        wal=verify.wal_position(server.control),
        group=usage.counters(group) if group else {},
        steal_s=steal_s(),
        cpu_s=server.cpu_seconds(),
    )


def steal_s() -> float:
    """CPU time that the hypervisor took, since boot."""
    times = machine.cpu_times()
    return times.steal_s if times else 0.0
