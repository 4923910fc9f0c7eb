"""The workload as it is, measured on the copy: plans, times, rows.

Of statements that were read from a server, one that fails on the copy is named and does not end the others.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import psycopg

from pgassay.errors import UsageError
from pgassay.experiment.running.result_bag import Bag
from pgassay.model.plans.plan import ExplainedPlan
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.selection import Baseline
from pgassay.tune.statements import MeasuredStatement, measured, with_values

# Rows are compared of statements that take no longer.
ROWS_S_MAX = 1.0
# Of statements that are quick the plan is that of the shortest of so many executions.
PLANS_MAX, PLANS_S_MAX = 3, 0.5
_FOREIGN_TABLES = "SELECT relname FROM pg_class WHERE relkind = 'f'"
# By a statement's text, with its values: its executed plan and its time.
Measured = dict[str, tuple[ExplainedPlan, float]]


@dataclass(frozen=True)
class MeasuredBaseline:
    """What was measured. `plans`: by the statement's name one executed plan for each set of values.

    `statements`: those that could be measured, with the sets of values that could; `failed`: why others not.
    """

    baseline: Baseline
    plans: dict[str, tuple[ExplainedPlan, ...]]
    statements: tuple[TunedStatement, ...]
    failed: tuple[str, ...] = ()


def baseline_of(copy: TrialCopy, statements: Sequence[TunedStatement], *, goes_on: bool) -> MeasuredBaseline:
    """Measure every statement with each set of its values.

    Raises UsageError for the first that fails or takes too long, and with `goes_on` where none is left.
    """
    tried, kept, failed = _tried(copy, statements, goes_on=goes_on)
    plans: dict[str, tuple[ExplainedPlan, ...]] = {}
    seconds, estimates = {}, {}
    rows: dict[str, Bag] = {}
    for each in measured(kept):
        executed, seconds[each.name] = tried[each.sql]
        plans[each.of.name] = (*plans.get(each.of.name, ()), executed)
        estimates[each.name] = copy.estimate(each.sql, each.name)
        if not each.of.writes and seconds[each.name] <= ROWS_S_MAX:
            rows |= _rows(copy, each)
    return MeasuredBaseline(Baseline(measured(kept), seconds, estimates, rows), plans, kept, tuple(failed))


def _tried(
    copy: TrialCopy, statements: Sequence[TunedStatement], *, goes_on: bool
) -> tuple[Measured, tuple[TunedStatement, ...], list[str]]:
    """(each one's executed plan and time, the statements that have them, why others have none)."""
    found: Measured = {}
    failed: list[str] = []
    foreign = {str(row[0]) for row in copy.session.execute(_FOREIGN_TABLES).fetchall()}
    for each in measured(statements):
        try:
            _refuse_foreign(copy.estimate(each.sql, each.name), each.name, foreign)
            # Timed first, so that what it reads is in the caches where it is in those of the trials as well.
            seconds = copy.seconds(each, each.sql)
            if seconds == math.inf:
                raise UsageError(
                    f"statement {each.name} takes too long for this --max-time: give more, or leave it out"
                )
            executed = executed_plan(copy, each, seconds)
        except UsageError as error:
            if not goes_on:
                raise
            failed.append(f"it was left out: {error}")
            continue
        found[each.sql] = executed, seconds
    if not found:
        raise UsageError(f"no statement of the server can be measured on the copy: {failed[-1]}")
    return found, _with_texts(statements, found), failed


def executed_plan(copy: TrialCopy, statement: MeasuredStatement, seconds: float) -> ExplainedPlan:
    """The shortest of a few executions: what else the machine did is in the others' nodes."""
    count = PLANS_MAX if PLANS_MAX * seconds <= PLANS_S_MAX else 1
    made = [copy.executed(statement.sql, statement.name, writes=statement.of.writes) for _ in range(count)]
    return min(made, key=lambda plan: plan.execution_ms or 0.0)


def _refuse_foreign(plan: ExplainedPlan, name: str, foreign: Collection[str]) -> None:
    """Raise UsageError for a statement that would reach another server, directly or through a view."""
    for node in plan.nodes:
        if node.type.startswith("Foreign") or node.relation in foreign:
            raise UsageError(
                f"statement {name} reaches the foreign table {node.relation or 'of a join'}, which lies on "
                "another server and in no copy: leave it out"
            )


def _with_texts(statements: Sequence[TunedStatement], kept: Measured) -> tuple[TunedStatement, ...]:
    """The statements with those sets of values alone whose texts are `kept`; without those that have none."""
    found = []
    for each in statements:
        sets = tuple(values for values in each.parameters if with_values(each.sql, values) in kept)
        if sets or (not each.parameters and each.sql in kept):
            found.append(each.model_copy(update={"parameters": sets}))
    return tuple(found)


def _rows(copy: TrialCopy, statement: MeasuredStatement) -> dict[str, Bag]:
    """What a query returns, where it returns the same twice."""
    try:
        first, second = copy.rows(statement.sql), copy.rows(statement.sql)
    except psycopg.Error:
        return {}  # EXPLAIN runs it, and COPY does not: nothing is said of its rows
    return {} if first.buckets_unlike(second) else {statement.name: first}
