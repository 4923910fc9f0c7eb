"""Executes plans with EXPLAIN ANALYZE after a trial, outside of all timing; what they write is rolled back.

The trial has been measured, its counters are read and its server still runs. What only reads is executed
then and there, in a READ ONLY transaction: the data are the arm's own and the caches as the trial left
them. A list of statements that write has changed the data, so that its plans would be those of other rows,
and what the first reader of data prunes and marks is gone after it: the data are restored first, and all
statements run once more in their order, in one transaction. Whatever could have written is rolled back, and
the data are restored before any further trial, since sequences and dead rows stay. Of a server that is
somebody else's nothing can be restored: what could write is not executed there.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pgassay.errors import MeasurementError, first_line
from pgassay.model.plans.executed_plan import PreparedKind, WorkPlan
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.trial.measure.plan_safety import could_write, is_reading
from pgassay.trial.measure.prepared_plans import document, explain_prepared, is_prepared, rolled_back
from pgassay.trial.target import ServerSession, TrialMachine
from pgassay.trial.trial_state import Plan, TrialState
from pgassay.workloads.row_variables import bound, divided
from pgassay.workloads.transactions import rolls_back

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

# Caches that a plan finds: what the trial has just read is in them, as far as it fits; or those of a server
# that was started on restored data.
AS_LEFT, RESTARTED = "as-left", "restarted"
# Reading the clock for every row of every node makes a statement slower: by little as a rule, at times twice.
_ANALYZE_TIMES, _ANALYZE_S = 1.5, 0.05
_TIMEOUT_TIMES, _TIMEOUT_MIN_S = 4.0, 1.0
# The stages of a trial at which its data are restored.
_RESTORING = ("stopping the last server", "restoring", "starting")
# The first statements after a start find nothing in memory.
_RESTARTED_TIMES = 2.0


@dataclass(frozen=True)
class PlanWork:
    """Which plans a trial is to execute.

    `is_due(statement, plan)`: whether the arm has none yet of this statement in this shape.
    `budget_s(wall_s)`: the seconds that plans may take now, given the wall time of this trial.
    """

    is_due: Callable[[str, Plan], bool]
    budget_s: Callable[[float], float]


@dataclass(frozen=True)
class _Session:
    """Where plans are executed, and what the trial was like.

    `mode`: what a transaction may do; `elapsed_s`: the seconds of each statement in the trial; `stopped`: the
    names of those that did not end in them. `is_own`: whether the data can be restored.
    """

    control: "ControlSession"
    workload: WorkloadSpec
    major: int
    elapsed_s: Mapping[str, float]
    mode: str
    stopped: frozenset[str]
    cache: str = AS_LEFT
    is_own: bool = True

    def expected_s(self, name: str) -> float:
        """About what executing a statement's plan takes."""
        times = _RESTARTED_TIMES if self.cache == RESTARTED else 1.0
        return _ANALYZE_TIMES * times * self.elapsed_s.get(name, 0.0) + _ANALYZE_S

    def timeout_s(self, name: str, left_s: float) -> float:
        """When it is stopped, where plans have so many seconds left."""
        return max(_TIMEOUT_MIN_S, min(_TIMEOUT_TIMES * self.expected_s(name), left_s))

    def endless(self, name: str) -> str:
        """Why one that the trial stopped has no plan: nobody knows how long it takes."""
        return f"it did not end in the {self.elapsed_s[name]:.2g} s that the trial gave it"


def execute_plans(
    trial: TrialState, server: ServerSession, explained: Mapping[str, Plan], work: PlanWork
) -> bool:
    """Execute the plans that are due after a trial; a server that did not survive it is let go.

    `explained`: the plans as EXPLAIN gave them before the trial. The trial holds whatever comes of them.
    Returns whether the server survived.
    """
    import psycopg

    due = {name: plan for name, plan in explained.items() if work.is_due(name, plan)}
    # What a replay's statements are executed with differs from one execution to the next.
    if not due or trial.arm.workload.is_replay:
        return True
    trial.stage("executing plans")
    began = time.monotonic()
    left_s = work.budget_s(began - trial.started)
    workload, machine = trial.arm.workload, trial.machine
    try:
        control = server.control
    except psycopg.Error:
        trial.target.abandon()
        return False
    session = _Session(
        control,
        workload,
        trial.arm.build.major,
        _elapsed_s(trial),
        "READ WRITE" if machine and workload.writes else "READ ONLY",
        frozenset(each.name for each in trial.observation.statements if each.stopped),
        is_own=bool(machine),
    )
    is_kept = trial.spec.protocol.rolls_back or not trial.arm.leaves_data_changed
    if machine is None or workload.kind == "load" or is_kept:
        # What a load changed is restored before the next trial in any case, and as it left them the data are
        # its own. What is rolled back finds the data as they were, and the server is other arms' as well.
        made = _each(session, due, left_s)
    else:
        made = _of_changed_data(trial, machine, session, explained, due, left_s)
    trial.observation.work_plans = made
    trial.fields["plans_s"] = round(time.monotonic() - began, 6)
    survived = not session.control.closed or any(each.cache == RESTARTED for each in made.values())
    if not survived:
        trial.target.abandon()
    return survived


def _elapsed_s(trial: TrialState) -> dict[str, float]:
    """The seconds of each statement; of a load's those of a whole transaction, the mean."""
    observed = trial.observation.load
    if observed is None:
        return {each.name: each.elapsed_s for each in trial.observation.statements}
    mean_s = observed.latency_ms.get("mean", 0.0) / 1000
    return {statement.name: mean_s for statement in trial.arm.workload.statements}


def options(major: int) -> str:
    """What EXPLAIN is asked for: all that this major version has (src/backend/commands/explain.c).

    From 18 on the options are read in explain_state.c.
    """
    wanted = ["ANALYZE", "BUFFERS", "WAL", "SETTINGS", "VERBOSE"]
    if major >= 17:
        wanted += ["MEMORY", "SERIALIZE"]
    if major >= 19:
        wanted.append("IO")
    return ", ".join([*wanted, "FORMAT JSON"])


# --- Each statement in a transaction of its own.


def _each(session: _Session, due: Mapping[str, Plan], left_s: float) -> dict[str, WorkPlan]:
    """Execute the plans that are due, in the statements' order; what came of each, by name.

    Once the connection is lost nothing more is tried: the caller finds the session closed.
    """
    made: dict[str, WorkPlan] = {}
    statements = {statement.name: statement for statement in session.workload.statements}
    for name, plan in due.items():
        if session.control.closed:
            break
        refused = _refusal(session, statements[name], plan)
        if refused:
            made[name] = WorkPlan(executed=False, reason=refused)
            continue
        expected_s = session.expected_s(name)
        if expected_s > left_s:
            made[name] = _deferred("it", expected_s, left_s)
            continue
        made[name] = _execute(session, statements[name], left_s)
        left_s -= made[name].seconds
    return made


def _refusal(session: _Session, statement: Statement, plan: Plan) -> str:
    """Why a statement is never executed; '' when it is."""
    import psycopg

    if statement.name not in session.elapsed_s:
        return "the trial did not time it"
    if statement.name in session.stopped:
        return session.endless(statement.name)
    if session.is_own:
        # A transaction that can't write, or data that are restored: the server itself is the judge.
        return ""
    try:
        return could_write(session.control, statement, plan)
    except psycopg.Error as error:
        return f"whether it could write is not known: {first_line(error)}"


def _deferred(what: str, expected_s: float, left_s: float) -> WorkPlan:
    reason = (
        f"{what} would take about {expected_s:.2g} s, and a tenth of the experiment's time leaves "
        f"{max(left_s, 0.0):.2g} s for plans"
    )
    return WorkPlan(executed=False, reason=reason, deferred=True)


def _execute(session: _Session, statement: Statement, left_s: float) -> WorkPlan:
    begun = time.monotonic()
    attempt = _Attempt(session, session.timeout_s(statement.name, left_s))
    with attempt, rolled_back(session.control, session.mode):
        attempt.explain(statement)
    return attempt.made(time.monotonic() - begun)


class _Attempt:
    """One statement under EXPLAIN ANALYZE: what came of it, whatever the server said.

    A context manager that ends with the statement's errors; `reason` is '' unless there was one.
    """

    def __init__(self, session: _Session, timeout_s: float) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._kind: PreparedKind | None = None
        self._document: dict[str, object] | None = None
        self.reason = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool:
        import psycopg

        if isinstance(value, psycopg.errors.QueryCanceled):
            self.reason = f"it took longer than {self._timeout_s:.2g} s under EXPLAIN ANALYZE and was stopped"
        elif isinstance(value, psycopg.errors.ReadOnlySqlTransaction):
            self.reason = f"it could write: {first_line(value)}"
        elif isinstance(value, psycopg.Error):
            self.reason = f"the server refused it: {first_line(value)}"
        return bool(self.reason)

    def explain(self, statement: Statement) -> None:
        """Execute it in the transaction that is open; raises psycopg.Error."""
        session = self._session
        self._limit()
        if is_prepared(session.workload):
            found, self._kind = explain_prepared(
                session.control, session.workload, statement, options(session.major)
            )
            self._document = found
            return
        sql = f"EXPLAIN ({options(session.major)}) {statement.sql}"
        row = session.control.execute(sql.encode(), prepare=False).fetchone()
        self._document = document(row[0] if row else None)

    def run(self, statement: Statement) -> None:
        """Execute what has no plan, for what follows it; raises psycopg.Error.

        Of a transaction what it does, within the one that is open already.
        """
        self._limit()
        if not statement.parts:
            self._session.control.execute(statement.sql.encode(), prepare=False)
        elif not rolls_back(statement):
            values: dict[str, str] = {}
            for part, text in divided(statement)[1:-1]:
                done = self._session.control.execute(bound(text, values).encode(), prepare=False)
                if part.gset is not None and done.pgresult is not None and done.pgresult.ntuples:
                    for place, column in enumerate(done.description or ()):
                        # As the server wrote it, as psql keeps it; a null unsets.
                        name, kept = f"{part.gset}{column.name}", done.pgresult.get_value(0, place)
                        values.pop(name, None)
                        values |= {} if kept is None else {name: kept.decode()}

    def _limit(self) -> None:
        limit = f"SET LOCAL statement_timeout = '{round(self._timeout_s * 1000)}ms'"
        self._session.control.execute(limit.encode())

    def made(self, seconds: float) -> WorkPlan:
        """What is kept of it."""
        return WorkPlan(
            executed=self._document is not None,
            reason=self.reason,
            seconds=round(seconds, 6),
            cache=self._session.cache,
            document=self._document,
            rolled_back=self._session.mode == "READ WRITE",
            kind=self._kind,
        )


# --- A list of statements that changed the data: all of them once more, on restored ones.


def _of_changed_data(
    trial: TrialState,
    machine: TrialMachine,
    session: _Session,
    explained: Mapping[str, Plan],
    due: Mapping[str, Plan],
    left_s: float,
) -> dict[str, WorkPlan]:
    """Restore the data and execute all statements; where that takes too long, those alone that only read.

    So where the trial stopped one of them: what follows it would find data that it left half done. Not even
    those that read where the trial was the first reader of its data: they would meet what it left.
    """
    restored = replace(session, cache=RESTARTED)
    statements = {statement.name: statement for statement in session.workload.statements}
    expected_s = sum(trial.took_s(name) for name in _RESTORING) + sum(map(restored.expected_s, statements))
    if expected_s > left_s or session.stopped:
        meets_the_same = session.workload.writes
        reading = {
            name: plan for name, plan in due.items() if meets_the_same and is_reading(statements[name])
        }
        if session.stopped:
            name = min(session.stopped)
            late = WorkPlan(executed=False, reason=f"not without {name}: {session.endless(name)}")
        else:
            late = _deferred("restoring the data and executing all statements", expected_s, left_s)
        made = _each(replace(session, mode="READ ONLY"), reading, left_s)
        return {name: made.get(name, late) for name in due if name in made or name not in reading}
    import psycopg

    began = time.monotonic()
    try:
        machine.restore(trial.spec.arm)
        server = machine.start_server(trial.spec.arm, fresh=True).running
        # Not even what is rolled back leaves the data as they were.
        machine.taint()
        left_s -= time.monotonic() - began
        return _in_order(replace(restored, control=server.control), explained, due, left_s)
    except (MeasurementError, OSError, psycopg.Error) as error:
        trial.target.abandon()
        reason = f"the data could not be restored for it: {first_line(error)}"
        return {name: WorkPlan(executed=False, reason=reason, cache=RESTARTED) for name in due}


def _in_order(
    session: _Session, explained: Mapping[str, Plan], due: Mapping[str, Plan], left_s: float
) -> dict[str, WorkPlan]:
    """All statements one after the other in one transaction, so that each finds what those before it did."""
    import psycopg

    made: dict[str, WorkPlan] = {}
    failed = ""
    try:
        with rolled_back(session.control, session.mode):
            for statement in session.workload.statements:
                begun = time.monotonic()
                if failed:
                    reason = f"it follows {failed}, which did not finish"
                    made[statement.name] = WorkPlan(executed=False, reason=reason, cache=RESTARTED)
                    continue
                with _Attempt(session, session.timeout_s(statement.name, left_s)) as attempt:
                    (attempt.explain if statement.name in explained else attempt.run)(statement)
                failed = statement.name if attempt.reason else ""
                made[statement.name] = attempt.made(time.monotonic() - begun)
                left_s -= made[statement.name].seconds
    except psycopg.Error as error:
        reason = f"the server refused it: {first_line(error)}"
        made |= {name: WorkPlan(executed=False, reason=reason) for name in due if name not in made}
    return {name: made[name] for name in due}
