"""What the chosen set does to statements that are prepared once for all values of their parameters.

The search and the proof put values into a statement's text, so that each is planned for its values (a custom
plan). A prepared statement gets one plan for all values (a generic one) after five executions, where its cost
is no higher (choose_custom_plan of src/backend/utils/cache/plancache.c): by pgjdbc, by poolers, in PL/pgSQL.
An index with a condition on a value, or one that is worth it for a rare value alone, is in no generic plan.
"""

import contextlib
from collections.abc import Mapping, Sequence

import psycopg
from pglast import ast, parse_sql
from pglast.parser import ParseError

from pgassay.errors import MeasurementError, UsageError
from pgassay.model.base import Frozen
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_output.find_plans import FoundPlan
from pgassay.plans.explain_plan import explained
from pgassay.sql_text import constant
from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.planner_screen import differs, estimates, is_told_by_plan
from pgassay.tune.search.search_run import SearchRun
from pgassay.tune.tuned_statements import MeasuredStatement

_NAME = "pgassay_generic"
_MODE = "SET LOCAL plan_cache_mode = 'force_generic_plan'"
# Of executions; the first may find other caches.
_EXECUTIONS = 2


class GenericPlan(Frozen):
    """A statement under its generic plan, which is another one than for its values, with the chosen set.

    `seconds_before`: as it is, under the generic plan that it has then; None where that was not executed.
    `unused`: the ids of chosen indexes that its custom plan uses, and its generic one does not.
    """

    statement: str
    seconds_before: float | None
    seconds_after: float
    unused: tuple[str, ...] = ()


def generic_plans(run: SearchRun) -> tuple[GenericPlan, ...]:
    """Execute what has another generic plan than a custom one with the chosen set, by set of values.

    The copy has the members applied afterwards. What can't be prepared or executed is left out.
    """
    copy, baseline, members = run.copy, run.baseline, run.found.members
    indexes = {each.id: _made_by(each) for each in members}
    texts = {rewrite.statement: rewrite.sql for each in members for rewrite in each.rewrites}
    asked = [each for each in baseline.statements if each.of.parameters and each.name not in baseline.endless]
    if not asked or not members:
        return ()
    copy.align(members)
    custom = estimates(copy, baseline.statements, texts)
    found = dict[str, tuple[float, tuple[str, ...]]]()
    for each in asked:
        with_all = _plan(copy, each, texts.get(each.of.name, each.of.sql), executes=False)
        if with_all is None or not differs(custom[each.name], with_all, by_cost=False):
            continue
        after_s = _seconds(copy, each, texts.get(each.of.name, each.of.sql))
        if after_s is not None:
            found[each.name] = after_s, _unused(custom[each.name], with_all, indexes)
    before: dict[str, float | None] = {}
    # What is not undone in a moment is not taken back for this.
    if found and all(map(is_told_by_plan, members)):
        copy.align(())
        before = {each.name: _seconds(copy, each, each.of.sql) for each in asked if each.name in found}
        copy.align(members)
    return tuple(
        GenericPlan(statement=name, seconds_before=before.get(name), seconds_after=after_s, unused=unused)
        for name, (after_s, unused) in found.items()
    )


def _made_by(candidate: Candidate) -> tuple[str, ...]:
    """The names of the indexes that its SQL makes, as plans have them."""
    names = []
    for sql in candidate.sql:
        with contextlib.suppress(ParseError):
            made = (each.stmt for each in parse_sql(sql))
            names += [str(each.idxname) for each in made if isinstance(each, ast.IndexStmt) and each.idxname]
    return tuple(names)


def _unused(
    custom: ExplainedPlan, generic: ExplainedPlan, indexes: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    by_values = {node.index for node in custom.nodes if node.index}
    by_none = {node.index for node in generic.nodes if node.index}
    return tuple(name for name, made in indexes.items() if by_values & {*made} and not by_none & {*made})


def _seconds(copy: TrialCopy, statement: MeasuredStatement, sql: str) -> float | None:
    """The least of some executions under the generic plan."""
    times = []
    for _ in range(_EXECUTIONS):
        plan = _plan(copy, statement, sql, executes=True)
        if plan is None or plan.execution_ms is None:
            return None
        times.append(plan.execution_ms / 1000)
    return min(times)


def _plan(copy: TrialCopy, statement: MeasuredStatement, sql: str, *, executes: bool) -> ExplainedPlan | None:
    """The generic plan of a statement; None where it can't be prepared, planned or executed in its time."""
    values = ", ".join(map(constant, statement.of.parameters[statement.set_index]))
    options = "ANALYZE, TIMING off, FORMAT json" if executes else "FORMAT json"
    mode = "READ WRITE" if statement.of.writes else "READ ONLY"
    explain = f"EXPLAIN ({options}) EXECUTE {_NAME}" + (f" ({values})" if values else "")
    try:
        with copy.session.transaction(force_rollback=True):
            copy.session.execute(f"SET TRANSACTION {mode}".encode())
            copy.session.execute(f"SET LOCAL statement_timeout = '{copy.timeout_s:.0f}s'".encode())
            copy.session.execute(_MODE.encode())
            copy.session.execute(f"PREPARE {_NAME} AS {sql}".encode(), prepare=False)
            row = copy.session.execute(explain.encode(), prepare=False).fetchone()
    except (psycopg.Error, UsageError, MeasurementError):
        return None
    finally:
        # It outlives its transaction; where it could not be prepared there is none.
        with contextlib.suppress(psycopg.Error):
            copy.session.execute(f"DEALLOCATE {_NAME}".encode(), prepare=False)
    document = row[0][0] if row else {}
    return explained(FoundPlan(document, "json"), 1, f"the generic plan of {statement.name}")
