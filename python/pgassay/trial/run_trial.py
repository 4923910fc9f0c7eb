"""One trial by the protocol, from restoring the data to its record on disk, on any kind of target.

The order is that of the rules of a trial: restore and settle, read the machine's speed, start, assert from
inside, plan (which warms the catalogs), cache state and its proof, canary, measure with samplers on one
clock, collect, verify, write atomically. On a target whose machine is somebody else's the steps that need it
are left out: nothing is restored, started, put into a cache or sampled, and the round trip to the server is
timed. The trial knows nothing of the experiment around it.
"""

from pathlib import Path

from pgassay.environment.remote.round_trip import SAMPLES_OF_A_TRIAL, round_trip_ms
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.plans.executed_plan import WorkPlans
from pgassay.model.trial import TrialRecord, TrialSpec, TrialStatus
from pgassay.record import layout
from pgassay.record.documents import to_json
from pgassay.record.experiment import TrialWriter
from pgassay.trial import steps, trial_caps
from pgassay.trial.arm_switch import show_all, switch_to
from pgassay.trial.before_trial_command import run_before_trial
from pgassay.trial.measure.timed_statements import StatementTimer
from pgassay.trial.measure.work_plans import PlanWork, execute_plans
from pgassay.trial.observe.trial_observers import volume_imposed
from pgassay.trial.snapshots import machine_speed
from pgassay.trial.snapshots.verify import outages
from pgassay.trial.target import Target
from pgassay.trial.trial_state import NeutralTrial, OnStep, TrialState, outcome
from pgassay.words import plural


def run_trial(
    spec: TrialSpec,
    target: Target,
    folder: Path,
    on_step: OnStep = lambda _: None,
    neutral: NeutralTrial | None = None,
    work: PlanWork | None = None,
) -> tuple[Path, TrialRecord]:
    """Run one trial and write its folder below `folder`; returns the folder and the record.

    `on_step` gets what the trial is at, in words; it returns at once, and is called from any thread.
    `neutral` is what ran before it and is not counted, for the record. `work` says which plans are executed
    after all else.
    A trial that fails, or breaks a rule, is recorded with its reason and returned like any other;
    one that is interrupted is recorded, and the interruption goes on. Raises UsageError for what
    only the user can mend, and MeasurementError when the record can't be written, or the storage is lost.
    """
    trial = TrialState(spec, target, on_step, neutral)
    writer = TrialWriter(folder, spec.number, spec.attempt)
    details = f": see {layout.SERVER_LOG_FILE}" if trial.machine else ""
    try:
        status, reason = outcome(lambda: _measure(trial, work), details)
        lost = None
        if status != "ok":
            reason += trial_caps.out_of_memory_reason(
                trial.arm, trial.machine.group if trial.machine else None
            )
            reason += _outage_of(trial)
            lost = abandon(target)
        record = write_trial(trial, writer, status, reason)
        if lost is not None:
            raise lost
    except UsageError:
        target.abandon()
        raise
    except (KeyboardInterrupt, SystemExit):
        target.abandon()
        if not writer.final.exists():  # else it was whole before the interruption came
            write_trial(trial, writer, "interrupted", "interrupted by the user")
        raise
    finally:
        writer.discard()
    return writer.final, record


def _outage_of(trial: TrialState) -> str:
    """What the clients of its load met where the server was gone; '' where it was not, or they had to end."""
    load = trial.observation.load
    sentences = outages(load) if load is not None else []
    if load is None or not sentences:
        return ""
    states = ", ".join(f"{state} {count}" for state, count in sorted(load.failures.items()))
    failed = [f"{plural(load.errors, 'transaction')} failed ({states})"] if states else []
    return "; meanwhile " + "; ".join([*sentences, *failed])


def abandon(target: Target) -> MeasurementError | None:
    """Leave the target after a failure; why it can't be used again, where the storage is lost as well.

    That ends the experiment, but not before the trial is recorded.
    """
    try:
        target.abandon()
    except MeasurementError as error:
        return error
    return None


def write_trial(trial: TrialState, writer: TrialWriter, status: TrialStatus, reason: str) -> TrialRecord:
    """Write the folder of a trial; returns the record, which is in its place when all else is."""
    observation = trial.observation
    if observation.plans:
        writer.add(layout.PLANS_FILE, to_json(observation.plans))
    if observation.work_plans:
        document = WorkPlans(statements=observation.work_plans)
        writer.add(layout.WORK_PLANS_FILE, to_json(document.model_dump()))
    for name, content in observation.files.items():
        writer.add(name, content)
    for name, content in trial.observations.items():
        writer.add(f"{layout.OBSERVATIONS_FOLDER}/{name}", content)
    if trial.machine is not None:
        writer.add(layout.SERVER_LOG_FILE, trial.log())
    record = trial.record(status, reason)
    writer.finish(record)
    return record


def _measure(trial: TrialState, work: PlanWork | None) -> None:
    """The steps of the protocol, in their order."""
    machine = trial.machine
    was_restored = machine is not None and steps.restore(trial, machine)
    if machine is not None:
        steps.read_speeds(trial, machine)
    run_before_trial(trial)
    local = steps.start(trial, machine) if machine else None
    server = local.running if local else trial.target.session(trial.spec.arm)
    if local:
        switch_to(trial, local)
    steps.assert_arm(trial, server)
    if machine and local:
        steps.assert_machine(trial, machine, local)
        trial.facts["restored"] = was_restored
        steps.prepare_server(trial, local)
    prepared = steps.plan_statements(trial, server, local)
    with steps.counted_statements(prepared) as counted, steps.measured_session(trial, prepared) as timer:
        steps.finish_caches(trial, prepared)
        if timer is not None and local is None:
            trip_ms = round_trip_ms(timer.session, SAMPLES_OF_A_TRIAL)
            trial.server_facts["round_trip_ms"] = round(trip_ms, 4)
        trial.stage("canary")
        trial.fields["canary_s"] = machine_speed.canary_s()
        with volume_imposed(trial):
            _execute_further(trial, prepared, timer)
            before = steps.measure_between_readings(trial, prepared, counted, timer)
            trial.stage("verifying")
            steps.verify_trial(trial, prepared, before)
            _repeat(trial, prepared, timer)
    if trial.spec.protocol.plans != "off":
        trial.observation.plans = prepared.explained
    if work is not None:
        execute_plans(trial, prepared.server, prepared.explained, work)
    if trial.spec.protocol.switched_indexes:
        show_all(trial, prepared.server)
    trial.stage("")


def _execute_further(trial: TrialState, prepared: steps.Prepared, timer: StatementTimer | None) -> None:
    """Execute short statements several times, where each time can be in the cache state that is asked for."""
    protocol = trial.spec.protocol
    if timer is None or trial.arm.workload.is_mix:
        return
    if protocol.executions and protocol.cache not in ("cold", "cold-each"):
        trial.stage("executing short statements")
        timer.execute_further(prepared.keeper)


def _repeat(trial: TrialState, prepared: steps.Prepared, timer: StatementTimer | None) -> None:
    """Measure the statements further times within this start, after all that the record holds is read.

    Not where they write, and not where only their first time is in the cache state that is asked for.
    """
    further = trial.spec.protocol.repetitions - 1
    workload = trial.arm.workload
    if timer is None or prepared.keeper is None or trial.arm.leaves_data_changed or workload.is_maintenance:
        return
    if workload.kind == "statements" and not workload.is_mix and trial.spec.protocol.cache != "cold":
        trial.stage("measuring again")
        repeated = [timer.repeat(prepared.keeper) for _ in range(further)]
        trial.fields["repeated_s"] = tuple(repeated)
