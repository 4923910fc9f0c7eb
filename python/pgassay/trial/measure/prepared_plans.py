"""Plans of a load's prepared statements, as its sessions come to execute them: generic or custom.

A prepared statement is planned for the values of its first five executions. From then on the plan is made
once for all values, unless plans for the values have been cheaper; plan_cache_mode forces one or the other
(src/backend/utils/cache/plancache.c, choose_custom_plan). So the plan that a load spends its time in is that
of the sixth execution.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgassay.model.plans.executed_plan import PreparedKind
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.workloads.pgbench_builtin import with_parameters

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

_NAME = "pgassay_planned"
_EXECUTIONS_BEFORE = 5
_COUNTS = "SELECT generic_plans FROM pg_catalog.pg_prepared_statements WHERE name = %s"
# What the load declares of its parameters; the server finds the others' types itself.
_TYPES = {"oltp_read_only": "bigint", "sysbench": "bigint"}


def is_prepared(workload: WorkloadSpec) -> bool:
    """Whether a workload's statements are prepared once for each connection."""
    return workload.load is not None and workload.load.protocol == "prepared"


@contextmanager
def rolled_back(control: "ControlSession", mode: str) -> Iterator[None]:
    """A transaction, `READ ONLY` or `READ WRITE`, that is rolled back whatever happens in it.

    Where that fails the session is closed, and the caller finds it so.
    """
    import psycopg

    control.execute(f"BEGIN TRANSACTION {mode}".encode())
    try:
        yield
    finally:
        try:
            if not control.closed:
                control.execute("ROLLBACK")
        except psycopg.Error:
            control.close()


def explain_prepared(
    control: "ControlSession", workload: WorkloadSpec, statement: Statement, options: str
) -> tuple[dict[str, object] | None, PreparedKind | None]:
    """EXPLAIN (`options`) of the execution of a load's statement at which it has its lasting plan.

    The values are those of the statement's text. To be called in a transaction; raises psycopg.Error.
    """
    text, values = with_parameters(statement)
    left_over = control.execute(_COUNTS.encode(), (_NAME,)).fetchone()
    if left_over is not None:
        control.execute(f"DEALLOCATE {_NAME}".encode())
    type_name = _TYPES.get(workload.family)
    types = f"({', '.join([type_name] * len(values))})" if type_name and values else ""
    control.execute(f"PREPARE {_NAME} {types} AS {text}".encode(), prepare=False)
    execution = f"EXECUTE {_NAME}" + (f"({', '.join(values)})" if values else "")
    for _ in range(_EXECUTIONS_BEFORE):
        control.execute(f"EXPLAIN {execution}".encode(), prepare=False)
    before = _generic_plans(control)
    row = control.execute(f"EXPLAIN ({options}) {execution}".encode(), prepare=False).fetchone()
    kind: PreparedKind = "generic" if _generic_plans(control) > before else "custom"
    control.execute(f"DEALLOCATE {_NAME}".encode())
    plan = document(row[0] if row else None)
    return plan, kind if plan is not None else None


def document(answer: object) -> dict[str, object] | None:
    """The one plan of what EXPLAIN (FORMAT JSON) answers, as text or read; None where there is none."""
    read = json.loads(answer) if isinstance(answer, str) else answer
    found = read[0] if isinstance(read, list) and read else None
    return found if isinstance(found, dict) else None


def _generic_plans(control: "ControlSession") -> int:
    row = control.execute(_COUNTS.encode(), (_NAME,)).fetchone()
    return int(row[0]) if row else 0
