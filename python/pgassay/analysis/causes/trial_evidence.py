"""The evidence of a stored trial, gathered from its record and its samplers' files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache

from pgassay.analysis.accounts.arm_accounts import measured_spans, trial_accounts
from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.accounts.work_times import times_from_outside, work_times
from pgassay.analysis.causes.evidence import (
    MB,
    DeviceFlow,
    Evidence,
    EvidenceCaps,
    EvidenceMachine,
    Load,
    Observed,
    Work,
)
from pgassay.analysis.causes.observed_evidence import bytes_of_blocks, device_flow, processors_of
from pgassay.analysis.causes.sampler_files import Requests, moved, requests
from pgassay.analysis.causes.volume_evidence import burst_ends
from pgassay.analysis.descriptive.round_trips import RoundTrips, trips_of_trial
from pgassay.model.arm import Arm
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import Counters, LoadObservation, StatementObservation, TrialRecord, figure
from pgassay.record.experiment import StoredTrial

# As load_checks' share from which on a queue is one.
_UNDONE_SHARE_MAX = 0.01

# Statements that read less than this share of what the device delivered don't count in its rate.
_READING_SHARE = 0.05
# Sessions of pgassay's own that a trial opens beside the measured ones, at most.
_OWN_SESSIONS = 4


def evidence_of_trial(trial: StoredTrial, arm: Arm, ceilings: Mapping[str, ArmCeiling]) -> Evidence | None:
    """The evidence of a trial; None when the threads of a server of this machine were not observed.

    ceilings: `by_arm` of experiment.json's.
    """
    return _of_key(_Key(trial, arm, _ceiling(arm, ceilings.get(arm.name))))


class _Key:
    """A trial as an argument of a cached function: its folder never changes once it is written."""

    def __init__(self, trial: StoredTrial, arm: Arm, ceiling: ArmCeiling) -> None:
        self.trial, self.arm, self.ceiling = trial, arm, ceiling

    def __hash__(self) -> int:
        record = self.trial.record
        return hash((self.trial.folder, record.started_at, record.number, record.attempt))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and (self.trial.record, self.arm, self.ceiling) == (
            other.trial.record,
            other.arm,
            other.ceiling,
        )


@lru_cache(maxsize=4096)
def _of_key(key: _Key) -> Evidence | None:
    trial, arm, record = key.trial, key.arm, key.trial.record
    accounts = {account.process: account for account in trial_accounts(trial)}
    trips = trips_of_trial(record, arm)
    if not accounts and arm.spec.server is None:
        return None
    times = work_times(list(accounts.values())) if accounts else times_from_outside(record, arm, trips)
    spans = measured_spans(record)
    elapsed_s = sum(span.end_ns - span.begin_ns for span in spans) / 1e9 or _elapsed_s(record)
    if times.total_s <= 0 or elapsed_s <= 0:
        return None
    observed = Observed(
        folder=trial.folder,
        spans=tuple(spans),
        elapsed_s=elapsed_s,
        accounts=accounts,
        version=arm.spec.build.version,
        settings=record.facts.settings,
        counters=Counters(record.counters),
        caps=_caps(record, arm),
        group=_group(Counters(record.counters)),
        vacuum_state=record.upkeep_after,
        client_cpu_s=_client_cpu_s(record),
    )
    is_capped = record.facts.limits.inherited_cpus is not None
    return Evidence(
        server=observed,
        times=times,
        machine=EvidenceMachine(
            device=_device(trial, observed),
            ceiling=key.ceiling,
            processors=processors_of(observed, cap_is_clients=is_capped),
            shares_ceiling=arm.spec.storage.shares_ceiling,
            has_own_wal=arm.spec.storage.wal is not None,
            burst_ends=burst_ends(trial.folder, record, spans),
        ),
        work=_work(trial, arm, observed, trips),
    )


def _work(trial: StoredTrial, arm: Arm, observed: Observed, trips: RoundTrips | None) -> Work:
    record, wal_bytes = trial.record, trial.record.verification.wal_bytes
    read, hit = _bytes_of_blocks(record, observed)
    return Work(
        bytes_read=read,
        bytes_hit=hit,
        load=load_of_trial(record, arm),
        statements=record.statements,
        plans=trial.plans,
        wal_bytes=None if wal_bytes is None else float(wal_bytes),
        over_network=_over_network(record, arm),
        trips=trips,
        sessions_opened=_sessions_opened(record, arm, observed.counters),
        asked_for=arm.spec.settings,
        compared=frozenset(arm.levels),
    )


def _caps(record: TrialRecord, arm: Arm) -> EvidenceCaps:
    """The arm's own caps, or tighter ones of groups that pgassay was started in."""
    limits = record.facts.limits
    return EvidenceCaps(
        arm.spec.cpus if limits.inherited_cpus is None else limits.inherited_cpus,
        arm.spec.memory_bytes if limits.inherited_memory_bytes is None else limits.inherited_memory_bytes,
        is_inherited=limits.inherited_cpus is not None or limits.inherited_memory_bytes is not None,
    )


def load_of_trial(record: TrialRecord, arm: Arm) -> Load | None:
    """The load of a trial; None of one that ran statements."""
    done, asked = record.load, arm.spec.workload.load
    if done is None:
        return None
    if asked is None:
        return Load(done.transactions, done.client_cpu_s)
    return Load(
        done.transactions,
        done.client_cpu_s,
        asked.clients,
        asked.threads,
        asked.warmup_s,
        has_pauses=asked.replay is not None or asked.has_pauses or _keeps_its_rate(done),
        pooler=done.pooler,
        client_waited_s=done.client_run_queue_s,
    )


def _keeps_its_rate(load: LoadObservation) -> bool:
    """Whether an open loop did what was due: its connections are then idle because no transaction is due."""
    opened = load.open_loop
    return opened is not None and opened.queued + opened.skipped <= _UNDONE_SHARE_MAX * opened.scheduled


def _client_cpu_s(record: TrialRecord) -> float:
    """Of the load generator, and of the pooler between it and the server, which is under neither's cap."""
    if record.load is None:
        return 0.0
    return record.load.client_cpu_s + (record.load.pooler.cpu_s if record.load.pooler else 0.0)


def _elapsed_s(record: TrialRecord) -> float:
    return record.load.elapsed_s if record.load else sum(item.elapsed_s for item in record.statements)


def _group(counters: Counters) -> Mapping[str, float]:
    rows = counters.rows("control_group")
    return {name: figure(rows[0], name) for name in rows[0]} if rows else {}


def _over_network(record: TrialRecord, arm: Arm) -> bool | None:
    """Whether the client came over a network: always to a remote server; else as the observer saw it."""
    over = record.facts.observer.over
    return True if arm.spec.server is not None else None if over is None else over == "tcp"


def _sessions_opened(record: TrialRecord, arm: Arm, counters: Counters) -> float | None:
    """Beside those of the measurement itself."""
    rows = counters.rows("pg_stat_database")
    workload = arm.spec.workload
    is_alone = workload.load is None and not workload.is_mix
    own = (len(record.statements) if is_alone else workload.connections) + _OWN_SESSIONS
    return max(0.0, figure(rows[0], "sessions") - own) if rows and "sessions" in rows[0] else None


def _bytes_of_blocks(record: TrialRecord, observed: Observed) -> tuple[float, float]:
    """Bytes read and found in shared buffers: by the statements, or by a load with its warm-up, or a mix."""
    if record.statements and not record.is_mix:
        read = sum(item.postgres_read_bytes or 0 for item in record.statements)
        return float(read), float(sum(item.postgres_hit_bytes or 0 for item in record.statements))
    return bytes_of_blocks(observed)


def _device(trial: StoredTrial, observed: Observed) -> DeviceFlow | None:
    record = trial.record
    if record.statements and not record.is_mix:
        return _statements_flow(trial, observed.spans)
    own_bytes = record.verification.server_device_read_bytes
    return device_flow(observed, None if own_bytes is None else float(own_bytes))


def _statements_flow(trial: StoredTrial, spans: Sequence[Span]) -> DeviceFlow | None:
    known = [item for item in trial.record.statements if item.delivered_bytes is not None]
    total = sum(item.delivered_bytes or 0 for item in known)
    if not known or not all(item.counted_s for item in known):
        return None
    reading = [item for item in known if (item.delivered_bytes or 0) >= _READING_SHARE * max(total, 1)]
    seconds = sum(item.counted_s for item in reading)
    if not reading or seconds <= 0:
        # Who reads nothing may yet fill the device by writing.
        whole_s = sum(item.counted_s for item in known)
        return DeviceFlow(float(total), 0.0, 0.0, whole_s, 0.0, **asdict(requests(trial.folder, spans)))
    counters = moved(trial.folder, "device", ("weighted_ms",), spans)
    timed = [Span(*item.clock_ns, True) for item in reading if item.clock_ns]
    # Of a part of them the writes are not told.
    written = requests(trial.folder, timed) if len(timed) == len(reading) else Requests()
    return DeviceFlow(
        read_bytes=float(total),
        read_mb_s=sum(_device_bytes(item) for item in reading) / seconds / MB,
        reads_s=_requests(reading, seconds),
        seconds=seconds,
        service_s=counters[0] / 1000 if counters else None,
        **asdict(written),
    )


def _device_bytes(item: StatementObservation) -> int:
    """What the device delivered to anybody: its ceiling is for all of its readers together."""
    return item.device_read_bytes if item.device_read_bytes is not None else item.delivered_bytes or 0


def _requests(reading: Sequence[StatementObservation], seconds: float) -> float | None:
    requests = [item.device_read_requests for item in reading if item.device_read_requests is not None]
    return sum(requests) / seconds if len(requests) == len(reading) else None


def _ceiling(arm: Arm, known: ArmCeiling | None) -> ArmCeiling:
    """What the plan found, else the limits that the arm's storage was given."""
    if known is not None:
        return known
    storage = arm.spec.storage
    return ArmCeiling(
        read_mb_s=storage.read_limit_mb_s or None,
        read_mb_s_from="limit" if storage.read_mb_s else "",
        read_iops=storage.read_iops,
        read_iops_from="limit" if storage.read_iops else "",
    )
