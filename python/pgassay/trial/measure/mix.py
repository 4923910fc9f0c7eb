"""Executes the statements of a list by several sessions at once, each several times, and takes their means.

The executions stand in one queue, whose order is drawn by the block alone: all arms of a block have the same.
Whichever session is free takes the next one, so the work of a trial is the same whatever it takes. What
writes is rolled back, so that each execution finds the same rows.
"""

import math
import random
from collections.abc import Mapping
from statistics import fmean

from pgassay.errors import MeasurementError
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import Protocol
from pgassay.model.trial import StatementObservation
from pgassay.model.workload import WorkloadSpec
from pgassay.native.mix import MixExecution, MixStatement, run_mix
from pgassay.trial.measure import plans
from pgassay.trial.state import Observation, Plan
from pgassay.trial.target import ServerSession
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
    executed = run_mix(
        server.parameters(),
        [
            MixStatement(each.name, each.sql, changes_data(each.sql), _limit_ms(protocol, each.name))
            for each in statements
        ],
        order_of(executions_of(spec.workload, protocol.executions), block),
        spec.workload.clients,
        ["EXPLAIN " + each.sql for each in statements if plans.explainable(each)],
    )
    observation = Observation(plans=dict(explained))
    by_statement: list[list[MixExecution]] = [[] for _ in statements]
    for each in executed:
        by_statement[each.statement].append(each)
    for statement, mine in zip(statements, by_statement, strict=True):
        plan = explained.get(statement.name)
        aio = plan is not None and plans.facts(plan, spec.build.major).aio
        observation.statements.append(
            _observed(statement.name, mine, protocol.statement_limits.get(statement.name), aio=aio)
        )
        given_up = sum(each.outcome == "given-up" for each in mine)
        if given_up:
            observation.warnings.append(
                f"{statement.name}: the server gave {given_up} of {len(mine)} executions up for another "
                "session's sake (a deadlock or a serialisation failure): they are not in its mean"
            )
    observation.clock_ns = (
        min((each.start_ns for each in executed), default=0),
        max((each.end_ns for each in executed), default=0),
    )
    return observation


def _limit_ms(protocol: Protocol, name: str) -> int | None:
    limit_s = protocol.statement_limits.get(name)
    return None if limit_s is None else max(1, round(limit_s * 1e3))


def _observed(
    name: str, executions: list[MixExecution], limit_s: float | None, *, aio: bool
) -> StatementObservation:
    kept = [each for each in executions if each.outcome != "given-up"]
    if not kept:
        raise MeasurementError(
            f"the server gave up every execution of {name} for another session's sake: use fewer clients, or "
            "other values, so that sessions do not want the same rows"
        )
    seconds = [
        limit_s if each.outcome == "stopped" and limit_s is not None else (each.end_ns - each.start_ns) / 1e9
        for each in kept
    ]
    return StatementObservation(
        name=name,
        elapsed_s=fmean(seconds),
        rows=max(each.rows for each in kept),
        cold=False,
        aio=aio,
        stopped=any(each.outcome == "stopped" for each in kept),
        at_once=len(kept),
    )
