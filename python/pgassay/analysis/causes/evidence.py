"""All that the rules may look at of one trial, gathered from its record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pgassay.analysis.accounts.arms import measured_spans, trial_accounts
from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.causes.times import WorkTimes, times_from_outside, work_times
from pgassay.analysis.descriptive.round_trips import RoundTrips, trips_of_trial
from pgassay.errors import UsageError
from pgassay.model.account import Account
from pgassay.model.arm import Arm
from pgassay.model.trial import StatementObservation, TrialRecord
from pgassay.model.vacuum_state import Upkeep
from pgassay.record import observations
from pgassay.record.read import StoredTrial

MB = 1e6
# A storage's limits are in 2²⁰ bytes per second.
_LIMIT_MB = 1.048576
# Statements that read less than this share of what the device delivered don't count in its rate.
_READING_SHARE = 0.05
# Sessions of pgassay's own that a trial opens beside the measured ones, at most.
_OWN_SESSIONS = 4
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


@dataclass(frozen=True)
class DeviceFlow:
    """What the device delivered while statements read, or during a load; MB are 10⁶ bytes.

    read_bytes: to the server where that is known, a load's warm-up included; the rates are those of all who
    read from the device, since its ceiling is for them together.
    service_s: the time of its requests from their start to their end, summed (the kernel's weighted time);
    None where its counters were not sampled. seconds: how long that was.
    """

    read_bytes: float
    read_mb_s: float
    reads_s: float | None
    seconds: float
    service_s: float | None


@dataclass(frozen=True)
class Ceiling:
    """The most that the device can deliver: by its probe, or by the limit it was given."""

    read_mb_s: float | None = None
    read_mb_s_from: str = ""
    read_iops: float | None = None
    read_iops_from: str = ""


@dataclass(frozen=True)
class Processors:
    """The machine's processors over the measured part: their number, and seconds of use.

    available_s: what the server and its client could have used at most, by the number of processors or the
    server's cap; own_s: what they used; others_s: what all others used.
    """

    count: float
    available_s: float
    own_s: float
    others_s: float


@dataclass(frozen=True)
class Evidence:
    """One trial. `blocks_read`, `blocks_hit`: pages that PostgreSQL asked the kernel for, and found itself.

    `group`: what the counters of the server's control group moved by, {} without one. `upkeep`: what VACUUM
    had left to do, `plans` those of the statements by name. `over_network`: whether the clients come over
    one, `trips` what they waited for it. `sessions_opened`: connections that others than pgassay opened
    meanwhile, `connect_s` what opening one takes. None where that is not known. `is_live`: an interval of a
    server that runs already, of whose clients nothing is known.
    """

    arm: Arm
    record: TrialRecord
    folder: Path
    elapsed_s: float
    accounts: Mapping[str, Account]
    times: WorkTimes
    device: DeviceFlow | None
    ceiling: Ceiling
    processors: Processors | None
    bytes_read: float
    bytes_hit: float
    group: Mapping[str, float]
    spans: tuple[Span, ...] = ()
    upkeep: Upkeep | None = None
    plans: Mapping[str, Any] = field(default_factory=dict)
    over_network: bool | None = None
    trips: RoundTrips | None = None
    sessions_opened: float | None = None
    connect_s: float | None = None
    is_live: bool = False

    @property
    def is_unobserved(self) -> bool:
        """Whether nothing is known of the server's processes, so that times but the whole are not counted."""
        return not self.accounts

    @property
    def is_load(self) -> bool:
        """Whether a closed loop of connections was measured."""
        return self.record.load is not None

    def rows(self, view: str) -> Sequence[Mapping[str, Any]]:
        """The rows of a statistics view that moved, with what they moved by."""
        rows: Sequence[Mapping[str, Any]] = self.record.counters.get(view, ())
        return rows

    def counter(self, view: str, *names: str) -> float | None:
        """The sum of these counters over the rows of a view; None when the record has no such row."""
        rows = [row for row in self.rows(view) if any(name in row for name in names)]
        return sum(float(row.get(name, 0.0)) for row in rows for name in names) if rows else None


def gather(trial: StoredTrial, arm: Arm, ceilings: Mapping[str, Any]) -> Evidence | None:
    """The evidence of a trial; None when the threads of a server of this machine were not observed.

    ceilings: `by_arm` of experiment.json's.
    """
    return _gather(_Key(trial, arm, _ceiling(arm, ceilings.get(arm.name))))


class _Key:
    """A trial as an argument of a cached function: its folder never changes once it is written."""

    def __init__(self, trial: StoredTrial, arm: Arm, ceiling: Ceiling) -> None:
        self.trial, self.arm, self.ceiling = trial, arm, ceiling

    def __hash__(self) -> int:
        return hash((self.trial.folder, self.trial.record.started_at))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and (self.trial.record, self.arm, self.ceiling) == (
            other.trial.record,
            other.arm,
            other.ceiling,
        )


@lru_cache(maxsize=4096)
def _gather(key: _Key) -> Evidence | None:
    trial, arm = key.trial, key.arm
    accounts = {account.process: account for account in trial_accounts(trial)}
    trips = trips_of_trial(trial.record, arm)
    if not accounts and arm.spec.server is None:
        return None
    times = work_times(list(accounts.values())) if accounts else times_from_outside(trial.record, arm, trips)
    spans = measured_spans(trial.record)
    elapsed_s = sum(span.end_ns - span.begin_ns for span in spans) / 1e9 or _elapsed_s(trial.record)
    if times.total_s <= 0 or elapsed_s <= 0:
        return None
    read, hit = _blocks(trial.record)
    groups = trial.record.counters.get("control_group") or [{}]
    return Evidence(
        arm=arm,
        record=trial.record,
        folder=trial.folder,
        elapsed_s=elapsed_s,
        accounts=accounts,
        times=times,
        device=_device(trial, spans),
        ceiling=key.ceiling,
        processors=_processors(trial, arm, spans, accounts, elapsed_s),
        bytes_read=read,
        bytes_hit=hit,
        group={name: float(value) for name, value in groups[0].items()},
        spans=tuple(spans),
        upkeep=trial.record.upkeep_after,
        plans=trial.plans,
        over_network=_over_network(trial.record, arm),
        trips=trips,
        sessions_opened=_sessions_opened(trial.record, arm),
    )


def _elapsed_s(record: TrialRecord) -> float:
    return record.load.elapsed_s if record.load else sum(item.elapsed_s for item in record.statements)


def _over_network(record: TrialRecord, arm: Arm) -> bool | None:
    """Whether the client came over a network: always to a remote server; else as the observer saw it."""
    over = (record.facts.get("observer") or {}).get("over")
    return True if arm.spec.server is not None else None if over is None else over == "tcp"


def _sessions_opened(record: TrialRecord, arm: Arm) -> float | None:
    """Beside those of the measurement itself."""
    rows = record.counters.get("pg_stat_database") or [{}]
    load = arm.spec.workload.load
    own = (load.clients if load else len(record.statements)) + _OWN_SESSIONS
    return max(0.0, float(rows[0]["sessions"]) - own) if "sessions" in rows[0] else None


def _blocks(record: TrialRecord) -> tuple[float, float]:
    """Bytes read and found in shared buffers: by the statements, or by a load with its warm-up."""
    if record.statements:
        read = sum(item.postgres_read_bytes or 0 for item in record.statements)
        return float(read), float(sum(item.postgres_hit_bytes or 0 for item in record.statements))
    rows = record.counters.get("pg_stat_database") or [{}]
    return 8192.0 * rows[0].get("blks_read", 0.0), 8192.0 * rows[0].get("blks_hit", 0.0)


# A rule asks for the same file again and again; a trial's folder never changes once it is written.
@lru_cache(maxsize=8)
def read_columns(folder: Path, sampler: str) -> Mapping[str, Sequence[float]]:
    """The columns of a sampler's file; {} when there is none, or a damaged one."""
    try:
        return observations.columns(folder, sampler) or {}
    except UsageError:
        return {}


def moved(folder: Path, sampler: str, names: Sequence[str], spans: Sequence[Span]) -> list[float] | None:
    """How far cumulative counters of a sampler moved within the spans; None when it left no such file."""
    columns = read_columns(folder, sampler)
    if not columns or not columns.get("clock_ns") or not {*names} <= columns.keys():
        return None
    clock = np.asarray(columns["clock_ns"], np.float64)
    edges = np.array([[span.begin_ns, span.end_ns] for span in spans])
    found = [np.interp(edges, clock, np.asarray(columns[name], np.float64)) for name in names]
    return [float((values[:, 1] - values[:, 0]).sum()) for values in found]


def _device(trial: StoredTrial, spans: Sequence[Span]) -> DeviceFlow | None:
    record = trial.record
    if record.statements:
        return _statements_flow(trial, spans)
    counters = moved(trial.folder, "device", ("read_bytes", "reads", "weighted_ms"), spans)
    if counters is None:
        return None
    seconds = sum(span.end_ns - span.begin_ns for span in spans) / 1e9
    read_bytes, reads, weighted_ms = counters
    own_bytes = record.verification.get("server_device_read_bytes")
    delivered = float(own_bytes) if isinstance(own_bytes, int | float) else read_bytes
    return DeviceFlow(delivered, read_bytes / seconds / MB, reads / seconds, seconds, weighted_ms / 1000)


def _statements_flow(trial: StoredTrial, spans: Sequence[Span]) -> DeviceFlow | None:
    known = [item for item in trial.record.statements if item.delivered_bytes is not None]
    total = sum(item.delivered_bytes or 0 for item in known)
    if not known:
        return None
    reading = [item for item in known if (item.delivered_bytes or 0) >= _READING_SHARE * max(total, 1)]
    seconds = sum(item.elapsed_s for item in reading)
    if not reading or seconds <= 0:
        return DeviceFlow(float(total), 0.0, 0.0, 0.0, 0.0)
    counters = moved(trial.folder, "device", ("weighted_ms",), spans)
    return DeviceFlow(
        read_bytes=float(total),
        read_mb_s=sum(_device_bytes(item) for item in reading) / seconds / MB,
        reads_s=_requests(reading, seconds),
        seconds=seconds,
        service_s=counters[0] / 1000 if counters else None,
    )


def _device_bytes(item: StatementObservation) -> int:
    """What the device delivered to anybody: its ceiling is for all of its readers together."""
    return item.device_read_bytes if item.device_read_bytes is not None else item.delivered_bytes or 0


def _requests(reading: Sequence[StatementObservation], seconds: float) -> float | None:
    requests = [item.device_read_requests for item in reading if item.device_read_requests is not None]
    return sum(requests) / seconds if len(requests) == len(reading) else None


def _ceiling(arm: Arm, known: object) -> Ceiling:
    """What the plan found, else the limits that the arm's storage was given."""
    if isinstance(known, Mapping):
        return Ceiling(
            read_mb_s=known.get("read_mb_s"),
            read_mb_s_from=str(known.get("read_mb_s_from", "")),
            read_iops=known.get("read_iops"),
            read_iops_from=str(known.get("read_iops_from", "")),
        )
    storage = arm.spec.storage
    return Ceiling(
        read_mb_s=storage.read_mb_s * _LIMIT_MB if storage.read_mb_s else None,
        read_mb_s_from="limit" if storage.read_mb_s else "",
        read_iops=storage.read_iops,
        read_iops_from="limit" if storage.read_iops else "",
    )


def _processors(
    trial: StoredTrial,
    arm: Arm,
    spans: Sequence[Span],
    accounts: Mapping[str, Account],
    elapsed_s: float,
) -> Processors | None:
    counters = moved(trial.folder, "host_cpu", (*_BUSY, "idle", "iowait"), spans)
    if counters is None:
        return None
    server_s = sum(item.seconds for each in accounts.values() for item in each.items if item.kind == "cpu")
    client_s = trial.record.load.client_cpu_s if trial.record.load else 0.0
    count = sum(counters) / elapsed_s
    own_s = server_s + client_s
    available_s = count * elapsed_s
    if arm.spec.cpus is not None:
        available_s = min(available_s, arm.spec.cpus * elapsed_s + client_s)
    return Processors(count, available_s, own_s, max(0.0, sum(counters[: len(_BUSY)]) - own_s))
