"""One trial on a remote server: the protocol without what needs its operating system.

No restart, no eviction, no restoring: the caches are as they are. Assert from inside, plan (which warms the
catalogs), canary, round trip, measure between two snapshots of the statistics, write atomically.
"""

from pathlib import Path
from typing import Any

import psycopg

from pgassay.environment.linux import machine
from pgassay.environment.remote.round_trip import SAMPLES_OF_A_TRIAL, round_trip_ms
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.trial import StatementObservation, TrialRecord, TrialSpec, TrialStatus
from pgassay.native.sql import SqlSession
from pgassay.record import layout
from pgassay.record.write import TrialWriter, to_json
from pgassay.trial.assertions import assert_from_inside
from pgassay.trial.canary import canary_s
from pgassay.trial.collect import counters, verify
from pgassay.trial.collect.server_statements import ServerStatements, counted_before, counted_files
from pgassay.trial.collect.vacuum_state import upkeep_or_none
from pgassay.trial.measure import load, plans
from pgassay.trial.observation import Observation
from pgassay.trial.remote_host import RemoteHost, RemoteSession
from pgassay.trial.state import Progress, TrialState, attempt

_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE state = 'active' AND backend_type = 'client backend' AND application_name NOT LIKE 'pgassay%'"""


class _RemoteTrial(TrialState):
    """A trial on one remote server."""

    def __init__(self, spec: TrialSpec, session: RemoteSession, progress: Progress) -> None:
        super().__init__(spec, progress)
        self.session = session


def run_remote_trial(
    spec: TrialSpec, host: RemoteHost, folder: Path, progress: Progress = lambda _: None
) -> tuple[Path, TrialRecord]:
    """Run one trial and write its folder below `folder`; returns the folder and the record.

    As `trial.run.run_trial`: what fails is recorded with its reason and returned like any other. Raises
    UsageError for what only the user can mend, MeasurementError when the record can't be written.
    """
    trial = _RemoteTrial(spec, host.session(spec.arm), progress)
    writer = TrialWriter(folder, spec.number, spec.attempt)
    try:
        status, reason = attempt(lambda: _measure(trial))
        if status != "ok":
            host.close_sessions()
        record = _write(trial, writer, status, reason)
    except UsageError:
        host.close_sessions()
        raise
    except (KeyboardInterrupt, SystemExit):
        host.close_sessions()
        if not writer.final.exists():
            _write(trial, writer, "interrupted", "interrupted by the user")
        raise
    finally:
        writer.discard()
    return writer.final, record


def _write(trial: _RemoteTrial, writer: TrialWriter, status: TrialStatus, reason: str) -> TrialRecord:
    if trial.observation.plans:
        writer.add(layout.PLANS_FILE, to_json(trial.observation.plans))
    for name, content in trial.observation.files.items():
        writer.add(name, content)
    record = trial.record(status, reason)
    writer.finish(record)
    return record


def _measure(trial: _RemoteTrial) -> None:
    spec, arm = trial.spec, trial.spec.arm
    control = trial.session.control
    trial.progress("asserting")
    trial.facts = assert_from_inside(control, arm.spec)
    trial.facts["server"] = {"name": arm.spec.server.name if arm.spec.server else ""}
    trial.facts["cache"] = {"state": spec.protocol.cache}
    trial.progress("planning")
    explained = _explain_all(trial)
    trial.fields["upkeep_before"] = upkeep_or_none(control)
    others = control.execute(_OTHERS).fetchone()
    trial.facts["server"]["other_active_sessions"] = int(others[0]) if others else 0
    trial.fields["canary_s"] = canary_s()
    with SqlSession() as session:
        session.connect(trial.session.parameters())
        if arm.spec.workload.kind == "statements":
            for statement in arm.spec.workload.statements:
                if plans.explainable(statement):
                    session.execute("warm the catalogs", "EXPLAIN " + statement.sql)
        trial.facts["server"]["round_trip_ms"] = round(round_trip_ms(session, SAMPLES_OF_A_TRIAL), 4)
        trial.progress("measuring")
        before = counters.snapshot(control, arm.spec.build.major)
        statements = ServerStatements.of(control)
        counted = counted_before(trial.session, statements)
        steal_before = _steal_s()
        if arm.spec.workload.kind == "statements":
            trial.observation = _run_statements(trial, session, explained)
        else:
            trial.observation = load.run(
                trial.session,
                arm.spec,
                spec.number * 1009 + spec.attempt,
                lambda second: trial.progress(f"second {second.get('second')}"),
            )
    trial.fields["steal_s"] = _steal_s() - steal_before
    for name, content in counted_files(trial.session, statements, counted).items():
        trial.observation.files[f"{layout.OBSERVATIONS_FOLDER}/{name}"] = content
    trial.observation.plans = explained
    after = counters.snapshot(control, arm.spec.build.major)
    trial.fields["counters"] = counters.difference(before, after)
    trial.fields["upkeep_after"] = upkeep_or_none(control)
    trial.fields["verification"] = {"postgres_read_bytes": counters.database_blocks(before, after)[0]}
    if trial.observation.load is not None:
        trial.warnings += verify.load_warnings(trial.observation.load)


def _explain_all(trial: _RemoteTrial) -> dict[str, Any]:
    """EXPLAIN every statement by the control session, which has the arm's settings."""
    explained: dict[str, Any] = {}
    for statement in trial.spec.arm.spec.workload.statements:
        try:
            plan = plans.explain(trial.session.control, statement)
        except psycopg.Error as error:
            message = str(error).strip().splitlines()[0]
            raise MeasurementError(
                f"statement {statement.name} can't be planned ({message}): correct its SQL"
            ) from error
        if plan is not None:
            explained[statement.name] = plan
    return explained


def _run_statements(trial: _RemoteTrial, session: SqlSession, explained: dict[str, Any]) -> Observation:
    """Time every statement once, in order, in one session."""
    observation = Observation()
    major = trial.spec.arm.spec.build.major
    begin_ns = end_ns = 0
    for statement in trial.spec.arm.spec.workload.statements:
        done = session.execute(statement.name, statement.sql)
        begin_ns, end_ns = begin_ns or done.start_ns, done.end_ns
        plan = explained.get(statement.name)
        observation.statements.append(
            StatementObservation(
                name=statement.name,
                elapsed_s=done.elapsed_s,
                rows=done.rows,
                cold=False,
                aio=plans.facts(plan, major).aio if plan else False,
            )
        )
    observation.clock_ns = (begin_ns, end_ns)
    return observation


def _steal_s() -> float:
    times = machine.cpu_times()
    return times.steal_s if times else 0.0
