"""One arm's run in one block: what is asked for, and what it left behind."""

from typing import Any, Literal

from pydantic import Field

from pgassay.model.arm import Arm
from pgassay.model.base import Frozen
from pgassay.model.experiment import Protocol
from pgassay.model.maintenance import MaintenanceObservation
from pgassay.model.vacuum_state import Upkeep

TrialStatus = Literal["ok", "failed", "invalid", "interrupted"]
TRIAL_FORMAT = 1


class TrialSpec(Frozen):
    """A trial to run. Knows nothing of the experiment around it but its own place in the order."""

    number: int
    attempt: int
    block: int
    position: int
    arm: Arm
    protocol: Protocol


class StatementObservation(Frozen):
    """One statement's run.

    `elapsed_s`: from sending it to the server's ReadyForQuery, by the native binary's monotonic
    clock; `clock_ns` are its readings at both ends. `cold`: the statement began with nothing of its
    relations in any cache pgassay can see.
    Byte counts are differences over the statement, None where they can't be had. `device_read_bytes` is what
    the device delivered to anybody, `server_device_read_bytes` what it delivered to the server's processes.
    `aio`: the plan holds a node that can use asynchronous reads on this major version.
    `device_bytes_min`: PostgreSQL's reads less what the page cache already held.
    """

    name: str
    elapsed_s: float
    rows: int
    cold: bool
    aio: bool
    postgres_read_bytes: int | None = None
    postgres_hit_bytes: int | None = None
    device_read_bytes: int | None = None
    device_read_requests: int | None = None
    server_device_read_bytes: int | None = None
    server_cpu_s: float | None = None
    clock_ns: tuple[int, int] | None = None

    @property
    def delivered_bytes(self) -> int | None:
        """What the device delivered to the server; to anybody, where the two can't be told apart."""
        if self.server_device_read_bytes is not None:
            return self.server_device_read_bytes
        return self.device_read_bytes


class LoadObservation(Frozen):
    """A load's measured interval (the warm-up is not in it).

    `late_transactions` began within the interval and ended after it, so they are not counted: with
    those of the warm-up and the measured ones they are all that the load committed.
    `per_second_mean_ms`, `per_second_p99_ms`: latencies of the transactions that ended in each second, None
    for a second in which none did; () in records that did not keep them.
    """

    transactions: int
    elapsed_s: float
    errors: int
    client_cpu_s: float
    per_second: tuple[int, ...] = ()
    per_second_mean_ms: tuple[float | None, ...] = ()
    per_second_p99_ms: tuple[float | None, ...] = ()
    latency_ms: dict[str, float] = Field(default_factory=dict)
    warmup_transactions: int = 0
    late_transactions: int = 0


class TrialRecord(Frozen):
    """trial.json. Raw observations and facts; every summary is recomputed from them.

    `facts` holds what is true before the measurement (effective settings, checksums, cache state,
    read-ahead), `counters` differences of the server's and the host's counters over it,
    `verification` what the protocol checked afterwards. `clock_ns` are CLOCK_MONOTONIC readings at
    the start and the end of the measured part, on the boot named by `boot_id`. `upkeep_before` and
    `upkeep_after`: what VACUUM had left to do at both ends, None where that could not be read.
    `clock_offset_ns`: CLOCK_REALTIME less CLOCK_MONOTONIC just before and just after the measured part, which
    ties the server's log to it.
    """

    format: int = TRIAL_FORMAT
    number: int
    attempt: int
    block: int
    position: int
    arm_id: str
    status: TrialStatus
    reason: str = ""
    started_at: str
    ended_at: str
    wall_s: float
    clock_ns: tuple[int, int] | None = None
    clock_offset_ns: tuple[int, int] | None = None
    host: str
    boot_id: str
    canary_s: float | None = None
    statements: tuple[StatementObservation, ...] = ()
    load: LoadObservation | None = None
    maintenance: tuple[MaintenanceObservation, ...] = ()
    server_cpu_s: float | None = None
    steal_s: float | None = None
    facts: dict[str, Any] = Field(default_factory=dict)
    counters: dict[str, Any] = Field(default_factory=dict)
    verification: dict[str, Any] = Field(default_factory=dict)
    upkeep_before: Upkeep | None = None
    upkeep_after: Upkeep | None = None
    warnings: tuple[str, ...] = ()
