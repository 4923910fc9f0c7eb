"""The workload as it is, measured on the copy: plans, times, rows.

Of statements that were read from a server, one that fails on the copy is named and does not end the others.
Every statement is given a short time at first. What does not end in it is given more only where the planner's
estimate says that it may end then: waiting for one that takes an hour tells nothing that helps to mend it.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import psycopg

from pgassay.errors import UsageError
from pgassay.experiment.running.result_bag import Bag
from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.selection import Baseline
from pgassay.tune.statement_errors import TooLongError
from pgassay.tune.timeouts.estimated_plan import plausible_execution
from pgassay.tune.timeouts.time_limits import StatementTimeout, first_s, may_end_in
from pgassay.tune.tuned_statements import MeasuredStatement, measured, with_values
from pgassay.words import seconds as in_words

# Rows are compared of statements that take no longer.
ROWS_S_MAX = 1.0
# Of statements that are quick the plan is that of the shortest of so many executions.
PLANS_MAX, PLANS_S_MAX = 3, 0.5
_FOREIGN_TABLES = """SELECT nspname, relname
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE relkind = 'f'"""
_TABLE_ROWS = """SELECT reltuples FROM pg_class
WHERE relname = %s AND relnamespace = coalesce(to_regnamespace(quote_ident(%s)), relnamespace)"""


@dataclass
class _Measured:
    """What is known so far, by a statement's text with its values: its estimated plan and what it took.

    `executed`: its executed plan, or of one that did not end in `seconds` what takes the place of that.
    """

    estimates: dict[str, ExplainedPlan] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    executed: dict[str, ExplainedPlan] = field(default_factory=dict)

    def ended(self) -> dict[str, tuple[float, ExplainedPlan]]:
        """The seconds and the estimated plan of those that ended."""
        return {text: (self.seconds[text], self.estimates[text]) for text in self.executed}


@dataclass(frozen=True)
class MeasuredBaseline:
    """What was measured. `plans`: by the statement's name one executed plan for each set of values.

    `statements`: those that could be measured, with the sets of values that could; `said`: why others could
    not, and which did not end.
    """

    baseline: Baseline
    plans: dict[str, tuple[ExplainedPlan, ...]]
    statements: tuple[TunedStatement, ...]
    said: tuple[str, ...] = ()


def baseline_of(copy: TrialCopy, statements: Sequence[TunedStatement], *, goes_on: bool) -> MeasuredBaseline:
    """Measure every statement with each set of its values; the copy knows then which did not end.

    Raises UsageError for the first that fails, and with `goes_on` where none is left.
    """
    found, said = _Measured(), list[str]()
    late = _look(copy, statements, found, said, goes_on=goes_on)
    _wait_longer(copy, late, found)
    kept = _with_texts(statements, found.executed)
    _rename_endless(copy, statements, kept)
    said += _not_ended(copy)
    plans: dict[str, tuple[ExplainedPlan, ...]] = {}
    seconds, estimates = {}, {}
    rows: dict[str, Bag] = {}
    for each in measured(kept):
        seconds[each.name] = found.seconds[each.sql]
        plans[each.of.name] = (*plans.get(each.of.name, ()), found.executed[each.sql])
        estimates[each.name] = copy.estimate(each.sql, each.name)
        if not each.of.writes and seconds[each.name] <= ROWS_S_MAX and each.name not in copy.endless:
            rows |= _rows(copy, each)
    endless = tuple(name for name in seconds if name in copy.endless)
    return MeasuredBaseline(
        Baseline(measured(kept), seconds, estimates, rows, endless), plans, kept, tuple(said)
    )


def _look(
    copy: TrialCopy,
    statements: Sequence[TunedStatement],
    found: _Measured,
    said: list[str],
    *,
    goes_on: bool,
) -> list[MeasuredStatement]:
    """Measure each one for a short time; those that did not end in it. `said` gets why others failed."""
    late: list[MeasuredStatement] = []
    foreign = {(str(row[0]), str(row[1])) for row in copy.session.execute(_FOREIGN_TABLES).fetchall()}
    for each in measured(statements):
        try:
            estimate = copy.estimate(each.sql, each.name)
            _refuse_foreign(estimate, each.name, foreign)
            # Timed first, so that what it reads is in the caches where it is in those of the trials as well.
            seconds = copy.seconds(each, each.sql, limit_s=first_s(copy.timeout_s))
            found.estimates[each.sql] = estimate
            if seconds == math.inf:
                late.append(each)
                continue
            found.seconds[each.sql] = seconds
            found.executed[each.sql] = executed_plan(copy, each, seconds)
        except UsageError as error:
            if not goes_on:
                raise
            said.append(f"it was left out: {error}")
    if not found.estimates:
        raise UsageError(f"no statement of the server can be measured on the copy: {said[-1]}")
    return late


def _wait_longer(copy: TrialCopy, late: Sequence[MeasuredStatement], found: _Measured) -> None:
    """Give those that did not end more time where that may be enough; the copy knows which don't end then."""
    first, longer = first_s(copy.timeout_s), copy.timeout_s / max(len(late), 1)
    ended = found.ended()
    for each in late:
        waited, estimate = first, found.estimates[each.sql]
        seconds = math.inf
        if longer > first and may_end_in(longer, estimate, ended):
            waited, seconds = longer, copy.seconds(each, each.sql, limit_s=longer)
        if seconds == math.inf:
            copy.endless[each.name] = StatementTimeout(waited, estimate)
            seconds = waited
        found.seconds[each.sql] = seconds
        found.executed[each.sql] = executed_plan(copy, each, seconds)


def _rename_endless(
    copy: TrialCopy, before: Sequence[TunedStatement], kept: Sequence[TunedStatement]
) -> None:
    """Have what did not end by the names of what is kept: those count a statement's sets of values.

    Where the first of two sets failed, the second is no longer 'list [2]', but 'list'.
    """
    waiting = {
        (each.of.name, each.sql): copy.endless[each.name]
        for each in measured(before)
        if each.name in copy.endless
    }
    names = ((each.name, (each.of.name, each.sql)) for each in measured(kept))
    copy.endless = {name: waiting[text] for name, text in names if text in waiting}


def _not_ended(copy: TrialCopy) -> list[str]:
    """What is said of those that did not end."""
    endless: dict[str, list[str]] = {}
    for name, waiting in copy.endless.items():
        endless.setdefault(in_words(waiting.limit_s), []).append(name)
    return [
        f"{', '.join(names)} did not finish in {time}: "
        f"{'each' if len(names) > 1 else 'it'} counts with that time, a lower bound, and is given as "
        "long with every candidate; a longer --max-time allows more"
        for time, names in endless.items()
    ]


def executed_plan(copy: TrialCopy, statement: MeasuredStatement, seconds: float) -> ExplainedPlan:
    """The shortest of a few executions: what else the machine did is in the others' nodes.

    Of a statement that does not end in so many seconds, with EXPLAIN or at all, what replaces it.
    """
    waiting = copy.endless.get(statement.name)
    if waiting is None or seconds < waiting.limit_s:
        count = PLANS_MAX if PLANS_MAX * seconds <= PLANS_S_MAX else 1
        try:
            made = [
                copy.executed(statement.sql, statement.name, writes=statement.of.writes) for _ in range(count)
            ]
            return min(made, key=lambda plan: plan.execution_ms or 0.0)
        except TooLongError:
            pass  # it would have ended, and the clock of EXPLAIN takes as long again
    return plausible_execution(
        copy.estimate(statement.sql, statement.name), seconds, lambda node: _table_rows(copy, node)
    )


def _table_rows(copy: TrialCopy, node: PlanNode) -> float | None:
    """The rows that the planner knows of the table that a node reads."""
    if node.relation is None:
        return None
    row = copy.session.execute(_TABLE_ROWS, (node.relation, node.relation_schema)).fetchone()
    return float(row[0]) if row and row[0] >= 0 else None


def _refuse_foreign(plan: ExplainedPlan, name: str, foreign: Collection[tuple[str, str]]) -> None:
    """Raise UsageError for a statement that would reach another server, directly or through a view.

    `foreign`: the foreign tables, each with its schema: another schema may have a table of that name.
    """
    for node in plan.nodes:
        if node.type.startswith("Foreign") or (node.relation_schema, node.relation) in foreign:
            raise UsageError(
                f"statement {name} reaches the foreign table {node.relation or 'of a join'}, which is on "
                "another server and not in the copy: leave it out"
            )


def _with_texts(statements: Sequence[TunedStatement], kept: Collection[str]) -> tuple[TunedStatement, ...]:
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
    return {statement.name: first} if first.is_same_as(second) else {}
