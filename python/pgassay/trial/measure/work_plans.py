"""Executes plans with EXPLAIN ANALYZE after a trial: outside of all timing, and nothing that could write.

The trial has been measured, its counters are read and its server still runs, so the data are the arm's own
and the caches are as the trial left them. Each statement runs in a READ ONLY transaction that is rolled back,
under a time limit.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgassay.errors import first_line
from pgassay.model.plans.work import WorkPlan
from pgassay.model.workload import Statement
from pgassay.trial.measure import plans
from pgassay.trial.observation import Plan
from pgassay.trial.running import ServerSession
from pgassay.trial.state import TrialState
from pgassay.workloads.split import strip_comments

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

# Caches that a plan finds: what the trial has just read is in them, as far as it fits.
CACHE = "as-left"
# Reading the clock for every row of every node makes a statement slower: by little as a rule, at times twice.
_ANALYZE_TIMES, _ANALYZE_S = 1.5, 0.05
_TIMEOUT_TIMES, _TIMEOUT_MIN_S = 4.0, 1.0
_READING = ("select", "with", "values", "table")
# Nodes that change data or lock rows, which writes their headers.
_WRITING_NODES = ("ModifyTable", "LockRows")
_FUNCTION = re.compile(r'("(?:[^"]|"")+"|[^\W\d][\w$]*)\s*\(')
_VOLATILE = """
SELECT DISTINCT proname::text FROM pg_catalog.pg_proc
WHERE provolatile = 'v' AND proname::text = ANY (%s)
  AND NOT (pronamespace = 'pg_catalog'::regnamespace AND proname::text = ANY (%s)) ORDER BY 1"""
# Volatile since they give another value each time, not since they change anything (pg_proc.dat).
_HARMLESS = [
    *("random", "random_normal", "setseed", "clock_timestamp", "timeofday", "gen_random_uuid"),
    *("uuidv4", "uuidv7", "pg_sleep", "pg_sleep_for", "pg_sleep_until", "pg_relation_size", "pg_table_size"),
    *("pg_total_relation_size", "pg_indexes_size", "pg_database_size", "pg_tablespace_size"),
]


@dataclass(frozen=True)
class PlanWork:
    """Which plans a trial is to execute.

    `is_due(statement, plan)`: whether the arm has none yet of this statement in this shape.
    `budget_s(wall_s)`: the seconds that plans may take now, given the wall time of this trial.
    """

    is_due: Callable[[str, Plan], bool]
    budget_s: Callable[[float], float]


@dataclass(frozen=True)
class Measured:
    """What a trial was like: its workload's kind, the seconds of each statement, and its wall time."""

    kind: str
    elapsed_s: Mapping[str, float]
    wall_s: float


def execute_plans(
    trial: TrialState, server: ServerSession, explained: Mapping[str, Plan], work: PlanWork
) -> None:
    """Execute the plans that are due after a trial; a server that did not survive it is let go.

    The trial holds whatever comes of them.
    """
    trial.stage("executing plans")
    began = time.monotonic()
    control, workload = server.control, trial.arm.workload
    elapsed_s = {each.name: each.elapsed_s for each in trial.observation.statements}
    statements = {statement.name: statement for statement in workload.statements}
    measured = Measured(workload.kind, elapsed_s, began - trial.started)
    made = execute_due(control, statements, explained, work, measured, trial.arm.build.major)
    if made:
        trial.observation.work_plans = made
        trial.fields["plans_s"] = round(time.monotonic() - began, 6)
    if control.closed:
        trial.target.abandon()


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


def execute_due(
    control: "ControlSession",
    statements: Mapping[str, Statement],
    explained: Mapping[str, Plan],
    work: PlanWork,
    measured: Measured,
    major: int,
) -> dict[str, WorkPlan]:
    """Execute the plans that are due, in the statements' order; what came of each, by name.

    `explained`: the plans as EXPLAIN gave them before the trial. Once the connection is lost nothing more is
    tried: the caller finds the session closed.
    """
    made: dict[str, WorkPlan] = {}
    left_s = work.budget_s(measured.wall_s)
    for name, plan in explained.items():
        if control.closed or not work.is_due(name, plan):
            continue
        refused = _refusal(control, statements[name], plan, measured)
        if refused:
            made[name] = WorkPlan(executed=False, reason=refused)
            continue
        expected_s = _ANALYZE_TIMES * measured.elapsed_s[name] + _ANALYZE_S
        if expected_s > left_s:
            reason = (
                f"it would take about {expected_s:.2g} s, and a tenth of the experiment's time leaves "
                f"{max(left_s, 0.0):.2g} s for plans"
            )
            made[name] = WorkPlan(executed=False, reason=reason, deferred=True)
            continue
        made[name] = _execute(
            control, statements[name], major, max(_TIMEOUT_MIN_S, _TIMEOUT_TIMES * expected_s)
        )
        left_s -= made[name].seconds
    return made


def _refusal(control: "ControlSession", statement: Statement, plan: Plan, measured: Measured) -> str:
    """Why a statement is never executed; '' when it is."""
    if measured.kind != "statements":
        return "it is one of a load's, whose parameters are drawn for each transaction: the plan is estimated"
    if statement.name not in measured.elapsed_s:
        return "the trial did not time it"
    words = strip_comments(statement.sql).replace("(", " ").split()
    kind = words[0].upper() if words else ""
    if kind.lower() not in _READING:
        return f"it could write: it is {'an' if kind[:1] in 'AEIOU' else 'a'} {kind}"
    writing = [
        str(node["Node Type"]) for node in plans.nodes(plan) if node.get("Node Type") in _WRITING_NODES
    ]
    if writing:
        return f"it could write: its plan has the node {writing[0]}"
    names = sorted(
        {*called(strip_comments(statement.sql)), *(name for text in _texts(plan) for name in called(text))}
    )
    found = control.execute(_VOLATILE.encode(), (names, _HARMLESS)).fetchall() if names else []
    if found:
        return f"it could write: it calls {', '.join(str(row[0]) for row in found)}, which is volatile"
    return ""


def called(text: str) -> Iterator[str]:
    """The names that stand before a parenthesis, as functions do; some are keywords or types."""
    for name in _FUNCTION.findall(text):
        yield name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _texts(value: object) -> Iterator[str]:
    """Every text of a plan: with VERBOSE its expressions, functions of views among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _roll_back(control: "ControlSession") -> None:
    import psycopg

    try:
        if not control.closed:
            control.execute("ROLLBACK")
    except psycopg.Error:
        control.close()


def _execute(control: "ControlSession", statement: Statement, major: int, timeout_s: float) -> WorkPlan:
    import psycopg

    begun = time.monotonic()
    document: dict[str, object] | None = None
    reason = ""
    try:
        control.execute("BEGIN TRANSACTION READ ONLY")
        control.execute(f"SET LOCAL statement_timeout = '{round(timeout_s * 1000)}ms'".encode())
        sql = f"EXPLAIN ({options(major)}) {statement.sql}"
        row = control.execute(sql.encode(), prepare=False).fetchone()
        found = row[0] if row else None
        document = (json.loads(found) if isinstance(found, str) else found or [None])[0]
    except psycopg.errors.QueryCanceled:
        reason = f"it took longer than {timeout_s:.2g} s under EXPLAIN ANALYZE and was stopped"
    except psycopg.Error as error:
        reason = f"the server refused it: {first_line(error)}"
    _roll_back(control)
    seconds = round(time.monotonic() - begun, 6)
    return WorkPlan(
        executed=document is not None, reason=reason, seconds=seconds, cache=CACHE, document=document
    )
