"""What a candidate touches by the planner's answer: asking costs next to nothing, timing statements does.

A candidate that changes nothing but plans (an index, a setting of the planner's costs) can make a statement
faster or slower only where the plan is another one, so it is timed there alone. Which plans it changes
depends on what else is applied: an index is passed over until random pages are as cheap as they are in
memory, and that setting changes nothing until there is an index.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from pglast import ast, parse_sql

from pgassay.errors import MeasurementError, UsageError
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.tune.answer.side_costs import writing_elsewhere
from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.search_run import SearchRun
from pgassay.tune.search.selection import Seconds
from pgassay.tune.tuned_statements import MeasuredStatement, sql_with

# Below that a difference of the planner's cost is none.
COST_CHANGE_MIN = 0.01
# Gains of a statement between these are set beside the statement as it is once more.
CHANGED_LITTLE = (0.4, 1.3)
SLOWER_NOW_MAX = 10.0
# Settings that decide which plan is taken and nothing else (PostgreSQL's manual, "Query Planning").
PLANNER_SETTINGS = frozenset(
    {
        "random_page_cost", "seq_page_cost", "cpu_tuple_cost", "cpu_index_tuple_cost", "cpu_operator_cost",
        "parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size",
        "min_parallel_index_scan_size", "effective_cache_size", "join_collapse_limit", "from_collapse_limit",
    }
)  # fmt: skip
_CREATES_INDEX = "CREATE INDEX"
_WRITES = "ModifyTable"


def is_planner_setting(candidate: Candidate) -> bool:
    """Whether it is nothing but settings that decide which plan is taken."""
    return bool(candidate.settings) and not candidate.sql and is_told_by_plan(candidate)


def is_told_by_plan(candidate: Candidate) -> bool:
    """Whether it changes a statement that reads by nothing but its plan: not by memory, caches, dead rows."""
    if candidate.rewrites or candidate.build is not None or candidate.storage is not None:
        return False
    creates = all(_CREATES_INDEX in each.upper().replace("UNIQUE ", "") for each in candidate.sql)
    is_something = bool(candidate.sql or candidate.settings)
    return is_something and creates and candidate.settings.keys() <= PLANNER_SETTINGS


def index_made_by(candidate: Candidate) -> str | None:
    """The name of the index that a candidate makes, where it is that and nothing else."""
    if len(candidate.sql) != 1 or not is_told_by_plan(candidate) or candidate.settings:
        return None
    root = parse_sql(candidate.sql[0])[0].stmt
    return str(root.idxname) if isinstance(root, ast.IndexStmt) and root.idxname else None


def differs(before: ExplainedPlan, after: ExplainedPlan, *, by_cost: bool) -> bool:
    """Whether the plans are not the same: by their nodes, and with `by_cost` by what they cost.

    CREATE INDEX counts the table's rows anew (index_update_stats, src/backend/catalog/index.c), so that
    the costs of plans that don't use the index change as well.
    """
    if before.shape != after.shape:
        return True
    costs = before.cost_total, after.cost_total
    return by_cost and abs(costs[1] - costs[0]) > COST_CHANGE_MIN * max(costs)


def touched_by(run: SearchRun, candidate: Candidate) -> tuple[list[MeasuredStatement], bool]:
    """The statements that an applied candidate touches, and whether any plan shows it.

    Those whose plan is another one now; where a plan does not tell all, those that it was found for and those
    whose cost is another; and, where it puts something into the database, all that write into it: what a
    write of another table takes beside an index is chance.
    """
    elsewhere = _elsewhere(run, candidate)
    rewritten = {each.statement: each.sql for each in candidate.rewrites}
    by_use = is_told_by_plan(candidate)
    touched, is_used = [], not by_use
    for statement in run.baseline.statements:
        plan = run.copy.estimate(sql_with(statement, rewritten), statement.name)
        is_changed = differs(run.baseline.estimates[statement.name], plan, by_cost=not by_use)
        is_written = bool(candidate.sql) and _writes(plan) and statement.of.name not in elsewhere
        is_meant = statement.of.name in candidate.statements
        # The queries of a constraint's triggers, which look for rows that refer to one, are in no plan.
        is_used = is_used or is_changed or (is_written and is_meant)
        if is_changed or is_written or (is_meant and not by_use):
            touched.append(statement)
    return touched, is_used


def estimates(
    copy: TrialCopy, statements: Sequence[MeasuredStatement], texts: Mapping[str, str]
) -> dict[str, ExplainedPlan]:
    """The plans of these statements as the copy is, with other texts of some."""
    return {each.name: copy.estimate(sql_with(each, texts), each.name) for each in statements}


def estimates_with(
    copy: TrialCopy, statements: Sequence[MeasuredStatement], texts: Mapping[str, str], setting: Candidate
) -> dict[str, ExplainedPlan]:
    """The plans of these statements with a planner's setting, which holds for the question alone."""
    with copy.session.transaction(force_rollback=True):
        for name, value in setting.settings.items():
            copy.session.execute("SELECT set_config(%s, %s, true)", (name, value))
        return estimates(copy, statements, texts)


def promised(run: SearchRun, candidate: Candidate) -> Mapping[str, float]:
    """New over old time by statement, before a trial: by its finder, of a rewrite by the planner's costs.

    Costs of one statement's texts compare, whatever a unit of them takes.
    """
    texts = {each.statement: each.sql for each in candidate.rewrites}
    if candidate.predicted or not texts:
        return candidate.predicted
    written = [each for each in run.baseline.statements if each.of.name in texts]
    plans, before = estimates(run.copy, written, texts), run.baseline.estimates
    return {
        each.of.name: plans[each.name].cost_total / max(before[each.name].cost_total, 1e-9)
        for each in written
    }


def waits_for(
    run: SearchRun,
    with_settings: Mapping[str, Mapping[str, ExplainedPlan]],
    settings: Mapping[str, Candidate],
) -> str | None:
    """The planner's setting, by its id, with which the index that is applied now would be used; None without.

    `with_settings`: by the setting's id the plans of all statements with it and without the index.
    """
    for name, before in with_settings.items():
        after = estimates_with(run.copy, run.baseline.statements, {}, settings[name])
        if any(differs(before[each], after[each], by_cost=False) for each in before):
            return name
    return None


def seconds_on_top(
    run: SearchRun,
    taken: Sequence[Candidate],
    candidate: Candidate,
    *,
    alone: Collection[str],
    current: Seconds,
) -> Seconds | None:
    """The seconds of what a candidate touches on top of those taken; None where it can't be combined.

    Those whose plan is another one there, and those that write; where a plan does not tell all, also `alone`,
    what it touches alone. Those that it changes little, `current` being what they took, are timed without it
    once more, as the machine may have become faster or slower since (`set_beside`).
    """
    copy, statements = run.copy, run.baseline.statements
    before_texts = {rewrite.statement: rewrite.sql for each in taken for rewrite in each.rewrites}
    own_texts = {rewrite.statement: rewrite.sql for rewrite in candidate.rewrites}
    if before_texts.keys() & own_texts.keys():
        return None  # a statement has one text
    texts = before_texts | own_texts
    by_use, elsewhere = is_told_by_plan(candidate), _elsewhere(run, candidate)
    try:
        copy.align(taken)
        before = estimates(copy, statements, before_texts)
        if is_planner_setting(candidate):
            after = estimates_with(copy, statements, texts, candidate)
            if not any(differs(before[name], after[name], by_cost=False) for name in before):
                return {}
        copy.push(candidate)
    except (UsageError, MeasurementError):
        return None
    try:
        after = estimates(copy, statements, texts)
        touched = [
            each
            for each in statements
            if (each.name in alone and not by_use)
            or (candidate.sql and _writes(after[each.name]) and each.of.name not in elsewhere)
            or differs(before[each.name], after[each.name], by_cost=not by_use)
        ]
        # What takes much longer than with those taken is not waited for as long as it took without them.
        seconds = timed(copy, touched, texts, current)
    except UsageError:
        return None
    finally:
        copy.pop()
    return set_beside(copy, touched, before_texts, current=current, seconds=seconds)


def set_beside(
    copy: TrialCopy,
    touched: Sequence[MeasuredStatement],
    texts: Mapping[str, str],
    *,
    current: Seconds,
    seconds: Seconds,
) -> Seconds:
    """The seconds of what was changed little, set beside what the statements take without it now.

    `current` was timed minutes before, and the machine may have become faster or slower since. The seconds
    become what they would have been then: those as it was, times the ratio now. `texts`: of the statements
    without it. What can't be told now stays as it was seen. A write waits for the disk, where one flush may
    take a hundred times another: it is set beside itself however much slower it looked.
    """
    lowest, highest = CHANGED_LITTLE
    doubtful = [
        each
        for each in touched
        if 0 < seconds[each.name] < math.inf
        and (
            lowest < (ratio := current[each.name] / seconds[each.name]) < highest
            or (each.of.writes and ratio <= lowest)
        )
    ]
    try:
        now = timed(
            copy, doubtful, texts, {each.name: SLOWER_NOW_MAX * current[each.name] for each in doubtful}
        )
    except UsageError:
        return seconds
    if not all(0 < each < math.inf for each in now.values()):
        return seconds  # stopped: the machine is so slow now that nothing can be told
    return {**seconds, **{name: current[name] * seconds[name] / without_s for name, without_s in now.items()}}


def timed(
    copy: TrialCopy,
    statements: Sequence[MeasuredStatement],
    texts: Mapping[str, str],
    usual: Seconds,
    limits: Seconds | None = None,
) -> dict[str, float]:
    """The seconds of these statements on the copy as it is, with other texts of some. Raises UsageError.

    `usual`: what each took before; `limits`: what some are waited for at most. Infinite for what was stopped.
    """
    limits = limits or {}
    return {
        each.name: copy.seconds(
            each, sql_with(each, texts), usual_s=usual[each.name], limit_s=limits.get(each.name, math.inf)
        )
        for each in statements
    }


def _elsewhere(run: SearchRun, candidate: Candidate) -> frozenset[str]:
    """The statements that write other tables than those of the candidate's indexes."""
    return writing_elsewhere(candidate, [each.of for each in run.baseline.statements], run.facts)


def _writes(plan: ExplainedPlan) -> bool:
    return any(node.type == _WRITES for node in plan.nodes)
