"""Executes the statements of a list by several sessions at once, each several times, and takes their means.

The executions stand in one queue, whose order is drawn by the block alone: all arms of a block have the same.
Whichever session is free takes the next one, so the work of a trial is the same whatever it takes. A single
statement that writes is rolled back, so that each execution finds the same rows; a transaction is executed as
it is written.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping
from statistics import fmean

from pgassay.errors import MeasurementError
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import Protocol
from pgassay.model.trial import StatementObservation
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.native.mix import MixExecution, MixStatement, run_mix
from pgassay.trial.measure import statement_plans
from pgassay.trial.target import ServerSession
from pgassay.trial.trial_state import Observation, Plan
from pgassay.workloads.row_variables import documents
from pgassay.workloads.statements import changes_data

# Unless somebody says how often: each statement so often, and each session several of them, so that the
# end, where some have none left, is a small part.
EXECUTIONS_MIN, EXECUTIONS_OF_SESSION_MIN = 8, 4


def executions_of(workload: WorkloadSpec, wanted: Mapping[str, int]) -> dict[str, int]:
    """How often a trial executes each statement, by its name; `wanted` says so of those that it names."""
    of_sessions = EXECUTIONS_OF_SESSION_MIN * workload.clients / max(1, len(workload.statements))
    default = workload.executions or max(EXECUTIONS_MIN, math.ceil(of_sessions))
    return {each.name: wanted.get(each.name, default) for each in workload.statements}


def order_of(executions: Mapping[str, int], block: int) -> list[int]:
    """The executions in the order of a block, as the numbers of their statements."""
    order = [number for number, count in enumerate(executions.values()) for _ in range(count)]
    random.Random(block).shuffle(order)
    return order


def run(
    server: ServerSession, spec: ArmSpec, protocol: Protocol, block: int, explained: Mapping[str, Plan]
) -> Observation:
    """Execute all of them once; raises MeasurementError when a statement fails, or never ends by itself."""
    statements = spec.workload.statements
    executed, failed = run_mix(
        server.parameters(),
        [_of_mix(each, _limit_ms(protocol, each.name)) for each in statements],
        order_of(executions_of(spec.workload, protocol.executions), block),
        spec.workload.clients,
        ["EXPLAIN " + each.sql for each in statements if statement_plans.explainable(each)],
    )
    observation = Observation(plans=dict(explained))
    by_statement: list[list[MixExecution]] = [[] for _ in statements]
    for each in executed:
        by_statement[each.statement].append(each)
    for number, (statement, mine) in enumerate(zip(statements, by_statement, strict=True)):
        plan = explained.get(statement.name)
        aio = plan is not None and statement_plans.facts(plan, spec.build.major).aio
        observed = _observed(statement, mine, protocol.statement_limits.get(statement.name), aio=aio)
        observation.statements.append(observed)
        said = {each.sqlstate: each.message for each in failed if each.statement == number}
        observation.warnings += _failure_warnings(observed, len(mine), said)
    observation.clock_ns = (
        min((each.start_ns for each in executed), default=0),
        max((each.end_ns for each in executed), default=0),
    )
    return observation


def _limit_ms(protocol: Protocol, name: str) -> int | None:
    limit_s = protocol.statement_limits.get(name)
    return None if limit_s is None else max(1, round(limit_s * 1e3))


def _of_mix(statement: Statement, limit_ms: int | None) -> MixStatement:
    """A statement that writes is rolled back; a transaction ends as it is written, and so may commit."""
    if statement.parts:
        return MixStatement(statement.name, "", limit_ms=limit_ms, parts=documents(statement))
    return MixStatement(statement.name, statement.sql, changes_data(statement.sql), limit_ms)


def _failure_warnings(observed: StatementObservation, executions: int, said: Mapping[str, str]) -> list[str]:
    if not observed.failures:
        return []
    kinds = [f"{count} × {state} ({said.get(state, '')})" for state, count in observed.failures.items()]
    return [
        f"{observed.name}: {sum(observed.failures.values())} of {executions} executions failed, and are not "
        f"in its mean: {', '.join(kinds)}"
    ]


def _observed(
    statement: Statement, executions: list[MixExecution], limit_s: float | None, *, aio: bool
) -> StatementObservation:
    kept = [each for each in executions if each.outcome in ("ended", "stopped")]
    if not kept:
        raise MeasurementError(
            f"the server cancelled every execution of {statement.name} in favour of another session: use "
            "fewer clients, or other values, so that sessions do not want the same rows"
        )
    seconds = [
        limit_s if each.outcome == "stopped" and limit_s is not None else (each.end_ns - each.start_ns) / 1e9
        for each in kept
    ]
    whole = [each.parts_ns for each in kept if each.parts_ns]
    return StatementObservation(
        name=statement.name,
        elapsed_s=fmean(seconds),
        rows=max(each.rows for each in kept),
        cold=False,
        aio=aio,
        stopped=any(each.outcome == "stopped" for each in kept),
        at_once=len(kept),
        parts_s={
            part.name: fmean(times[place] for times in whole) / 1e9
            for place, part in enumerate(statement.parts)
        },
        failures=dict(sorted(Counter(each.sqlstate or "" for each in executions if each.sqlstate).items())),
    )
