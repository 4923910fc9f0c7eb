"""The traces of a stored experiment: which trials have one, what they measured, and how to replay them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.cloud_volumes.volume_limits import instance_of, without_instance
from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.trial import TrialRecord
from pgassay.model.volumes.offer import VolumeModel
from pgassay.model.volumes.size import SizeUnit
from pgassay.model.workload import WorkloadSpec
from pgassay.native.simulate import BesideSpec, RecordedSpec
from pgassay.record import layout
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.sizing.processor_use import cpu_s, lock_waits, processors, processors_min
from pgassay.storage.request_trace import TRACE_FILE, WAL_TRACE_FILE
from pgassay.storage.storage_options import format_bytes

_HOW_TO_RECORD = (
    "record them with --storage volume:unlimited,trace=yes, or use 'pgassay size --workload …', which does "
    "it all"
)

_Key = tuple[object, ...]


@dataclass(frozen=True)
class MeasuredRecording:
    """A trial on an imitated volume; `trace` is None where its requests were not recorded.

    `storage`: the volume's own text, with that of the WAL's. `model`, `wal_model`: what was imitated, the
    latter None where the WAL lay with the data or on a storage of another kind; `instance`: the limits that
    both shared, None where there were none. `wal_trace`: as `trace`. `parts`: the stretches of
    CLOCK_MONOTONIC that are replayed, of a load with its warm-up. `progress` of a load: (seconds from their
    beginning, units done by then), from the end of the warm-up second by second; () of statements and of a
    capture that is played.
    `clients`: of a load, each of which waits for its own requests; 0 of statements, whose server may look
    ahead. `cpu_s`: how long their server computed, and the clients of a load; 0 where nobody knows.
    `commits`: of a load whose transactions wait for a log, how many there were in the parts.
    `passing_on_ns`: what it takes to write what waits for the log, as another recording shows it; None where
    nobody knows. `processors_min`: as many processors they had at least, as what others took is known; 0
    where nobody knows. `lock_waits`: how many clients waited for another's transaction to end, on average.
    `lock_chance`: with which chance a transaction needs a lock that a certain other one holds, as another
    recording shows it; None where nobody knows.
    """

    trial: int
    attempt: int
    storage: str
    model: dict[str, object]
    elapsed_s: float
    units: int
    parts: tuple[tuple[int, int], ...]
    processors: float
    trace: Path | None
    progress: tuple[tuple[float, float], ...] = ()
    clients: int = 0
    cpu_s: float = 0.0
    commits: int = 0
    passing_on_ns: int | None = None
    processors_min: float = 0.0
    lock_waits: float = 0.0
    lock_chance: float | None = None
    wal_model: dict[str, object] | None = None
    instance: dict[str, object] | None = None
    wal_trace: Path | None = None

    @property
    def beside(self) -> BesideSpec | None:
        """What was imitated beside the volume of the data."""
        return None if self.wal_model is None else {"wal": self.wal_model, "instance": self.instance}

    @property
    def seconds_per_unit(self) -> float:
        """How long a unit took."""
        return self.elapsed_s / self.units

    def recorded(self) -> RecordedSpec:
        """What the native code replays; the trial has a trace."""
        return {
            "path": str(self.trace),
            "wal_path": None if self.wal_trace is None else str(self.wal_trace),
            "processors": self.processors,
            "clients": self.clients,
            "cpu_s": self.cpu_s,
            "commits": self.commits,
            "passing_on_ns": self.passing_on_ns,
            "processors_min": self.processors_min,
            "lock_waits": self.lock_waits,
            "lock_chance": self.lock_chance,
            "parts": self.parts,
        }


@dataclass(frozen=True)
class RecordingGroup:
    """The trials of arms that differ in their storage alone, those with traces first."""

    name: str
    unit: SizeUnit
    measured: tuple[MeasuredRecording, ...]

    @property
    def recordings(self) -> tuple[MeasuredRecording, ...]:
        """Those whose requests were recorded."""
        return tuple(each for each in self.measured if each.trace is not None)

    @property
    def has_wal(self) -> bool:
        """Whether the requests of the WAL's own volume were recorded beside those of the data's."""
        return all(each.wal_trace is not None for each in self.recordings)


def groups_of(
    stored: StoredExperiment, proofs: Sequence[StoredExperiment] = ()
) -> tuple[RecordingGroup, ...]:
    """The groups that have a recording, in the order of the arms, with what others measured of them.

    Raises UsageError where there is none, which says what to do, and for a proof of something else.
    """
    experiment = stored.experiment
    refuse_workloads([arm.spec.workload for arm in experiment.arms], str(stored.folder))
    found: dict[_Key, list[MeasuredRecording]] = {}
    names: dict[_Key, tuple[str, SizeUnit]] = {}
    # Else two groups would have one name: memory differs without a factor where instances do.
    tells_wal = len({arm.spec.storage.wal is None for arm in experiment.arms}) > 1
    tells_memory = len({arm.spec.memory_bytes for arm in experiment.arms}) > 1
    for arm, made in _measured_arms(stored):
        key = _key(arm)
        name = _name(arm, tells_wal=tells_wal, tells_memory=tells_memory)
        names.setdefault(key, (name, _unit(arm.spec.workload)))
        found.setdefault(key, []).append(made)
    for proof in proofs:
        measured = [(_key(arm), made) for arm, made in _measured_arms(proof) if _key(arm) in found]
        if not measured:
            raise UsageError(
                f"{proof.folder} has no trial of what {stored.folder} recorded on an imitated volume: "
                "name an experiment with the same build, data, settings, memory and workload"
            )
        for key, made in measured:
            found[key].append(replace(made, trace=None, wal_trace=None))
    groups = tuple(
        RecordingGroup(*names[key], tuple(sorted(trials, key=lambda each: each.trace is None)))
        for key, trials in found.items()
        if any(each.trace is not None for each in trials)
    )
    if not groups:
        raise UsageError(f"{stored.folder} has no trial whose requests were recorded: {_HOW_TO_RECORD}.")
    return groups


def refuse_workloads(workloads: Sequence[WorkloadSpec], what: str) -> None:
    """Raise UsageError for those of which no recording tells what waited for what."""
    if all(each.is_maintenance for each in workloads):
        raise UsageError(f"{what}: pgassay size is for statements or a load, not for maintenance.")
    if any(each.is_series for each in workloads):
        raise UsageError(
            f"{what}: pgassay size is for one load, not for a series of them: use one of sysbench's scripts, "
            "as sysbench:oltp_read_write"
        )
    if any(each.is_replay and each.replay.speed is not None for each in workloads):
        raise UsageError(
            f"{what}: a replay at the captured speed takes as long on every volume that keeps up with it: "
            "write replay:DIR,speed=max to size for the whole of it without pauses"
        )
    if any(each.load is not None and each.load.pace is not None for each in workloads):
        raise UsageError(
            f"{what}: a load at a rate does as much on every volume that keeps up with it: leave rate= or "
            "curve= out to size for the most that it can do, or compare volumes at the rate with pgassay "
            "compare storage=volume:gp2,size=100GiB,volume:gp3,size=100GiB --metric p99"
        )
    if all(each.is_mix for each in workloads):
        raise UsageError(
            f"{what}: pgassay size is for statements that one session executes, or for a load, not for "
            "statements at once: leave clients out, or use a load such as select-only:clients=8"
        )


def _unit(workload: WorkloadSpec) -> SizeUnit:
    if workload.load is None:
        return "run"
    return "statement" if workload.is_replay else "transaction"


def _measured_arms(stored: StoredExperiment) -> Iterator[tuple[Arm, MeasuredRecording]]:
    arms = {arm.id: arm for arm in stored.experiment.arms}
    for trial in stored.trials:
        arm = arms.get(trial.record.arm_id)
        if arm is None or trial.record.status != "ok":
            continue
        made = _measured(trial, arm, stored.experiment)
        if made is not None:
            yield arm, made


def _key(arm: Arm) -> _Key:
    """All of an arm that decides its requests, but for its storage."""
    spec = arm.spec
    return (
        spec.build.version,
        spec.build.binary_sha256,
        spec.dataset,
        spec.prepare,
        tuple(sorted(spec.settings.items())),
        spec.workload.model_dump_json(),
        spec.memory_bytes,
        spec.cpus,
        spec.storage.wal is not None,
    )


def _name(arm: Arm, *, tells_wal: bool, tells_memory: bool) -> str:
    parts = [f"{name}={level}" for name, level in arm.levels.items() if name != "storage"]
    if tells_memory and "memory" not in arm.levels:
        cap = arm.spec.memory_bytes
        parts.append(f"memory={'unlimited' if cap is None else format_bytes(cap)}")
    if tells_wal:
        parts.append("WAL with the data" if arm.spec.storage.wal is None else "WAL apart")
    return ", ".join(parts)


def _measured(trial: StoredTrial, arm: Arm, experiment: Experiment) -> MeasuredRecording | None:
    """What a trial on an imitated volume measured; None for one on another storage, or without its clock."""
    record = trial.record
    model = record.facts.storage.volume.model
    parts = _parts(record, arm)
    if arm.spec.storage.kind != "volume" or not model or not parts:
        return None
    if record.load is not None:
        elapsed_s, units = record.load.elapsed_s, record.load.transactions
    else:
        elapsed_s, units = sum(each.elapsed_s for each in record.statements), 1
    if units == 0 or elapsed_s <= 0:
        return None
    observations = trial.folder / layout.OBSERVATIONS_FOLDER
    trace, wal_trace = observations / TRACE_FILE, observations / WAL_TRACE_FILE
    storage, instance = str(model.get("name", "")), None
    wal = record.facts.storage.wal
    wal_model = None if wal is None or not wal.volume.model else dict(wal.volume.model)
    if wal_model is not None:
        storage += f",wal=volume:{wal_model.get('name', '')}"
        if record.facts.storage.volume.shared_instance is not None:
            both = VolumeModel.model_validate(model)
            model = without_instance(both).model_dump(mode="json")
            shared = instance_of(both)
            instance = None if shared is None else shared.model_dump(mode="json")
    return MeasuredRecording(
        trial=record.number,
        attempt=record.attempt,
        storage=storage,
        model=dict(model),
        elapsed_s=elapsed_s,
        units=units,
        parts=parts,
        processors=processors(record, arm, experiment, elapsed_s),
        trace=trace if trace.is_file() else None,
        progress=_progress(record, arm),
        clients=0 if arm.spec.workload.load is None else arm.spec.workload.load.clients,
        cpu_s=cpu_s(record, arm),
        processors_min=processors_min(trial, arm, experiment, parts),
        lock_waits=lock_waits(trial, parts),
        wal_model=wal_model,
        instance=instance,
        wal_trace=wal_trace if wal_model is not None and wal_trace.is_file() else None,
    )


def _progress(record: TrialRecord, arm: Arm) -> tuple[tuple[float, float], ...]:
    """A load does not ask for the same all the time: caches fill while it runs.

    () of a capture that is played: it is done once everywhere, and not for as long as there is time.
    """
    if record.load is None or arm.spec.workload.load is None or arm.spec.workload.is_replay:
        return ()
    load, warmup_s = record.load, arm.spec.workload.load.warmup_s
    done = float(load.warmup_transactions)
    points = [(0.0, 0.0)] if warmup_s > 0 else []
    points.append((warmup_s, done))
    for second, transactions in enumerate(load.per_second, 1):
        done += transactions
        points.append((warmup_s + min(float(second), load.elapsed_s), done))
    return tuple(points)


def _parts(record: TrialRecord, arm: Arm) -> tuple[tuple[int, int], ...]:
    if record.load is not None:
        if record.clock_ns is None or arm.spec.workload.load is None:
            return ()
        begin_ns, end_ns = record.clock_ns
        return ((begin_ns - round(arm.spec.workload.load.warmup_s * 1e9), end_ns),)
    clocks = [each.clock_ns for each in record.statements]
    found = [clock for clock in clocks if clock is not None]
    return tuple(sorted(found)) if len(found) == len(clocks) else ()
