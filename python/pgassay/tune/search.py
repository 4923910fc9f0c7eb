"""Every candidate tried on the copy: what it touches by its plans, what it gains there, what it costs."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import psycopg

from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.model.plans.plan import ExplainedPlan
from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.selection import WORSE_MAX, Baseline, Seconds, Selection, Tried, gain_of, select
from pgassay.tune.statements import MeasuredStatement, sql_with
from pgassay.tune.turns import Clock, Turns, in_turn, seconds_in_turn, totals

# Below that a difference of the planner's cost is none.
COST_CHANGE_MIN = 0.01
_WRITES = "ModifyTable"
# Kinds whose effect the planner's cost does not tell: memory, caches, dead rows.
_TOLD_BY_COST = "CREATE INDEX"
# Of the search's time for trying candidates alone: what is not tried together is not chosen.
ALONE_SHARE = 0.6
# Gains of the workload between these are set beside the workload as it is once more.
CHANGED_LITTLE = (0.4, 1.3)
# What gains less than that by one timing is not looked at more closely.
MAY_GAIN_MIN = 0.25
SLOWER_NOW_MAX = 10.0


@dataclass
class Searched:
    """What the search has found so far; it grows while it goes on, and is whole at any moment."""

    tried: dict[str, Tried] = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    screened: dict[str, str] = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection)
    # By the id of what was not taken the one that was, where their gains could not be told apart.
    alike: dict[str, str] = field(default_factory=dict)
    # Of each set that the proof compares the workload's seconds, timed in turn once the set was chosen.
    rounds: dict[str, tuple[float, ...]] = field(default_factory=dict)


def search(
    copy: TrialCopy,
    baseline: Baseline,
    candidates: Sequence[Candidate],
    clock: Clock,
    found: Searched,
    say: Callable[[str], None],
    *,
    gain_min: float,
    members_max: int,
) -> None:
    """Try every candidate alone, then together; `found` holds what is known at any moment."""
    by_id = {candidate.id: candidate for candidate in candidates}
    has_told = False
    begins_at = time.monotonic()
    for candidate in candidates:
        if time.monotonic() >= begins_at + ALONE_SHARE * (clock.ends_at - begins_at):
            break
        _try(copy, baseline, candidate, found)
        if not clock.is_over:
            set_beside(copy, baseline, candidate, found)
        if not has_told and time.monotonic() >= clock.tells_at:
            has_told = True
            say(best_so_far(baseline, candidates, found))

    look_closer(copy, baseline, by_id, clock, found, gain_min)

    def measure(taken: Sequence[str], name: str) -> Seconds | None:
        if clock.is_over:
            return None
        return _on_top(copy, baseline, [by_id[each] for each in taken], by_id[name], found)

    in_turns = Turns(copy, baseline, by_id, found.tried, clock, gain_min, found.alike)
    found.selection = select(
        baseline.weights,
        baseline.seconds,
        list(found.tried.values()),
        measure,
        gain_min=gain_min,
        members_max=members_max,
        pick=in_turns.preferred,
        holds=in_turns.is_gain,
    )
    look_again(copy, baseline, by_id, clock, found)


def set_beside(copy: TrialCopy, baseline: Baseline, candidate: Candidate, found: Searched) -> None:
    """Set one that changed little beside the workload as it is now, without it.

    The workload was timed minutes before, and the machine may have become faster or slower since. The
    seconds with the candidate become what they would have been then: those as it was, times the ratio now.
    """
    tried = found.tried.get(candidate.id)
    if tried is None or tried.refused:
        return
    lowest, highest = CHANGED_LITTLE
    if not lowest < gain_of(baseline.weights, baseline.seconds, tried.seconds) < highest:
        return
    ratios = {}
    for statement in baseline.statements:
        if statement.name not in tried.seconds:
            continue
        try:
            now_s = copy.seconds(
                statement, statement.sql, usual_s=SLOWER_NOW_MAX * baseline.seconds[statement.name]
            )
        except UsageError:
            return  # what was seen before stands
        if not 0 < now_s < math.inf:
            return  # stopped: the machine is so slow now that nothing can be told
        ratios[statement.name] = tried.seconds[statement.name] / now_s
    seconds = {name: baseline.seconds[name] * ratio for name, ratio in ratios.items()}
    found.tried[candidate.id] = replace(tried, seconds=seconds)


def look_closer(
    copy: TrialCopy,
    baseline: Baseline,
    by_id: Mapping[str, Candidate],
    clock: Clock,
    found: Searched,
    gain_min: float,
) -> None:
    """Time in turn what seemed to gain too little once, and may gain something: the most promising first.

    On a busy machine one timing may be wrong by a factor of two and more. Half of the time that is left may
    go there.
    """
    now = time.monotonic()
    half = replace(clock, ends_at=now + (clock.ends_at - now) / 2)
    doubtful = [
        name
        for name, tried in found.tried.items()
        if not tried.refused and MAY_GAIN_MIN <= tried.gain(baseline.weights, baseline.seconds) < gain_min
    ]
    for name in sorted(doubtful, key=lambda each: min(by_id[each].predicted.values(), default=1.0)):
        tried = found.tried[name]
        if not half.has_rounds(tried):
            continue
        rounds = seconds_in_turn(copy, baseline, [], [by_id[name]], tried.seconds)
        if rounds is None or not all(math.isfinite(each) for one in rounds[0] for each in one.values()):
            continue
        seconds = {}
        for each in tried.seconds:
            ratio = statistics.median(
                after[each] / before[each] for before, after in zip(*rounds, strict=True)
            )
            seconds[each] = baseline.seconds[each] * ratio
        without_s, with_s = (totals(baseline, baseline.seconds, each) for each in rounds)
        found.tried[name] = replace(tried, seconds=seconds, without_s=without_s, with_s=with_s)


def look_again(
    copy: TrialCopy,
    baseline: Baseline,
    by_id: Mapping[str, Candidate],
    clock: Clock,
    found: Searched,
) -> None:
    """Time those that looked slower once more, with and without in turn, as far as there is time.

    The workload as it is was timed minutes before them, and the machine may have been faster then.
    """
    for name, tried in found.tried.items():
        if tried.refused or gain_of(baseline.weights, baseline.seconds, tried.seconds) >= WORSE_MAX:
            continue
        if tried.with_s or not clock.has_rounds(tried):
            continue
        rounds = in_turn(copy, baseline, [], [by_id[name]], tried.seconds, baseline.seconds)
        if rounds is not None:  # else what was seen before stands, and tells nothing
            found.tried[name] = replace(tried, without_s=rounds[0], with_s=rounds[1])


def best_so_far(baseline: Baseline, candidates: Sequence[Candidate], found: Searched) -> str:
    """The best candidate that was tried, in a sentence."""
    gains = {
        name: each.gain(baseline.weights, baseline.seconds)
        for name, each in found.tried.items()
        if not each.refused
    }
    best = max(gains, key=lambda name: gains[name], default=None)
    tried = f"{len(found.tried) + len(found.screened)} of {len(candidates)} candidates tried"
    if best is None or gains[best] <= 1:
        return f"{tried}, none gains anything so far"
    title = next(each.title for each in candidates if each.id == best)
    return f"{tried}; best so far: {title}, {gains[best]:.2f} × as fast on the copy (not proven)"


def as_now(copy: TrialCopy, baseline: Baseline) -> Baseline:
    """The baseline with the estimates of this moment, where statements write.

    What they wrote was rolled back and left dead rows: the tables have more pages, and the planner's costs
    are others with nothing applied.
    """
    if not any(each.of.writes for each in baseline.statements):
        return baseline
    estimates = {each.name: copy.estimate(each.sql, each.name) for each in baseline.statements}
    return replace(baseline, estimates=estimates)


def _try(copy: TrialCopy, baseline: Baseline, candidate: Candidate, found: Searched) -> None:
    began = time.monotonic()
    baseline = as_now(copy, baseline)
    before_bytes, before_wal = copy.bytes(), copy.wal_bytes()
    try:
        build_s = copy.push(candidate)
        wal_bytes = copy.wal_bytes() - before_wal if candidate.sql else None
    except (UsageError, MeasurementError) as error:
        found.tried[candidate.id] = Tried(candidate.id, refused=str(error))
        return
    try:
        touched, is_used = touched_by(copy, baseline, candidate)
        if not is_used:
            found.screened[candidate.id] = "the planner uses it in no statement, once it is there"
            return
        seconds = _measured(copy, baseline, candidate, touched)
        if not candidate.rewrites:
            _compare_rows(copy, baseline, candidate, touched, found)
        found.tried[candidate.id] = Tried(
            candidate.id,
            seconds,
            round(build_s, 3),
            copy.bytes() - before_bytes,
            wal_bytes=wal_bytes,
            took_s=round(time.monotonic() - began, 3),
        )
    except (UsageError, MeasurementError) as error:
        found.tried[candidate.id] = Tried(candidate.id, refused=str(error))
    except psycopg.Error as error:
        found.tried[candidate.id] = Tried(
            candidate.id, refused=f"the copy's server failed: {first_line(error)}"
        )
    finally:
        copy.pop()


def touched_by(
    copy: TrialCopy, baseline: Baseline, candidate: Candidate
) -> tuple[list[MeasuredStatement], bool]:
    """The statements that an applied candidate touches, and whether any plan shows it.

    Those that it was found for, those whose plan is another one now (or its cost, but for an index's), and,
    where it puts something into the database, all that write.
    """
    rewritten = {each.statement: each.sql for each in candidate.rewrites}
    by_use = _is_told_by_cost(candidate)
    touched, is_used = [], not by_use
    for statement in baseline.statements:
        plan = copy.estimate(sql_with(statement, rewritten), statement.name)
        is_changed = _differs(baseline.estimates[statement.name], plan, by_cost=not by_use)
        is_written = bool(candidate.sql) and any(node.type == _WRITES for node in plan.nodes)
        is_meant = statement.of.name in candidate.statements
        # The queries of a constraint's triggers, which look for rows that refer to one, are in no plan.
        is_used = is_used or is_changed or (is_written and is_meant)
        if is_changed or is_written or is_meant:
            touched.append(statement)
    return touched, is_used


def _is_told_by_cost(candidate: Candidate) -> bool:
    return bool(candidate.sql) and all(
        _TOLD_BY_COST in statement.upper().replace("UNIQUE ", "") for statement in candidate.sql
    )


def _differs(before: ExplainedPlan, after: ExplainedPlan, *, by_cost: bool) -> bool:
    """Whether the plans are not the same: by their nodes, and with `by_cost` by what they cost.

    CREATE INDEX counts the table's rows anew (index_update_stats, src/backend/catalog/index.c), so that
    the costs of plans that don't use the index change as well.
    """
    if [(node.type, node.index, node.relation) for node in before.nodes] != [
        (node.type, node.index, node.relation) for node in after.nodes
    ]:
        return True
    if not by_cost:
        return False
    costs = [plan.nodes[0].cost_total or 0.0 for plan in (before, after) if plan.nodes]
    return len(costs) == 2 and abs(costs[1] - costs[0]) > COST_CHANGE_MIN * max(costs)


def _measured(
    copy: TrialCopy, baseline: Baseline, candidate: Candidate, touched: Sequence[MeasuredStatement]
) -> dict[str, float]:
    rewritten = {each.statement: each.sql for each in candidate.rewrites}
    return {
        each.name: copy.seconds(each, sql_with(each, rewritten), usual_s=baseline.seconds[each.name])
        for each in touched
    }


def _compare_rows(
    copy: TrialCopy,
    baseline: Baseline,
    candidate: Candidate,
    touched: Sequence[MeasuredStatement],
    found: Searched,
) -> None:
    """Whether the quick ones of the touched statements still return the same rows, as other plans may not."""
    compared, unlike = 0, []
    for statement in touched:
        before = baseline.rows.get(statement.name)
        if before is None:
            continue
        try:
            after = copy.rows(statement.sql)
        except psycopg.Error:
            continue
        compared += 1
        if before.types != after.types or before.buckets_unlike(after):
            unlike.append(statement.name)
    if unlike:
        found.checks[candidate.id] = "different"
        found.notes[candidate.id] = (
            f"{', '.join(unlike)} returned other rows than before: it takes some of its rows without a total "
            "order, or a sum of floats differs in its last digits"
        )
    elif compared:
        found.checks[candidate.id] = "equal on 1 instance"


def _on_top(
    copy: TrialCopy,
    baseline: Baseline,
    taken: Sequence[Candidate],
    candidate: Candidate,
    found: Searched,
) -> Seconds | None:
    """The seconds of what a candidate touches on top of those taken; None where it can't be combined.

    That is what it touches alone, and what has another plan only on top: an index that was taken may be of
    use to a statement once a setting makes it cheap.
    """
    rewritten = {rewrite.statement for each in taken for rewrite in each.rewrites}
    if rewritten & {rewrite.statement for rewrite in candidate.rewrites}:
        return None  # a statement has one text
    texts = {rewrite.statement: rewrite.sql for each in (*taken, candidate) for rewrite in each.rewrites}
    names = found.tried[candidate.id].seconds
    by_cost = not _is_told_by_cost(candidate)
    try:
        copy.align(taken)
        before = {each.name: copy.estimate(sql_with(each, texts), each.name) for each in baseline.statements}
        copy.push(candidate)
    except (UsageError, MeasurementError):
        return None
    try:
        return {
            each.name: copy.seconds(each, sql_with(each, texts), usual_s=baseline.seconds[each.name])
            for each in baseline.statements
            if each.name in names
            or _differs(before[each.name], copy.estimate(sql_with(each, texts), each.name), by_cost=by_cost)
        }
    except UsageError:
        return None
    finally:
        copy.pop()
