"""How many checkpoints an arm's trials had, and the WAL that they wrote; descriptive, no verdict."""

from statistics import fmean

from pgassay.model.arm import Arm
from pgassay.model.server_statement import ArmCheckpoints
from pgassay.model.trial import Counters, TrialRecord
from pgassay.record.experiment import StoredExperiment

# From 17 on, and before.
REQUESTED = (("pg_stat_checkpointer", "num_requested"), ("pg_stat_bgwriter", "checkpoints_req"))
TIMED = (("pg_stat_checkpointer", "num_timed"), ("pg_stat_bgwriter", "checkpoints_timed"))


def arm_checkpoints(stored: StoredExperiment) -> tuple[ArmCheckpoints, ...]:
    """One for each arm or control of a load that writes; () where the servers' counters were not recorded."""
    found = (_of_arm(arm, stored) for arm in stored.experiment.arms if arm.role != "twin")
    return tuple(each for each in found if each is not None)


def counted(record: TrialRecord, names: tuple[tuple[str, str], ...]) -> float:
    """How far these counters moved; rows are there only where one did."""
    counters = Counters(record.counters)
    found = (counters.total(view, name) for view, name in names)
    return sum(each for each in found if each is not None)


def _of_arm(arm: Arm, stored: StoredExperiment) -> ArmCheckpoints | None:
    workload = arm.spec.workload
    if not workload.writes or workload.kind != "load":
        return None
    records = [
        trial.record
        for trial in stored.trials
        if trial.record.arm_id == arm.id and trial.record.status == "ok" and trial.record.counters
    ]
    written = [Counters(record.counters).total("pg_stat_wal", "wal_bytes") for record in records]
    if not records or None in written:
        return None
    return ArmCheckpoints(
        arm=arm.name,
        stratum=arm.stratum,
        trials=len(records),
        requested=fmean(counted(record, REQUESTED) for record in records),
        timed=fmean(counted(record, TIMED) for record in records),
        wal_bytes=fmean(each or 0.0 for each in written),
        full_page_images=fmean(
            Counters(record.counters).total("pg_stat_wal", "wal_fpi") or 0.0 for record in records
        ),
    )
