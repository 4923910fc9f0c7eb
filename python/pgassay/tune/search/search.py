"""Every candidate tried on the copy: what it touches by its plans, what it gains there, what it costs."""

import math
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import psycopg

from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.tune.candidate import Candidate
from pgassay.tune.search.forward import Space, select
from pgassay.tune.search.paired_timing import PairedTiming, seconds_in_turn, time_in_turn, totals
from pgassay.tune.search.planner_screen import (
    estimates,
    estimates_with,
    is_planner_setting,
    promised,
    seconds_on_top,
    set_beside,
    timed,
    touched_by,
    waits_for,
)
from pgassay.tune.search.search_run import SearchRun
from pgassay.tune.search.selection import (
    WORSE_MAX,
    Baseline,
    FixSelection,
    Seconds,
    Tried,
    gain_of,
    longest_s,
)
from pgassay.tune.statement_errors import TooLongError
from pgassay.tune.tuned_statements import MeasuredStatement

# Of the search's time for trying candidates alone: what is not tried together is not chosen.
ALONE_SHARE = 0.6
# What gains less than that by one timing is not looked at more closely.
MAY_GAIN_MIN = 0.25
UNUSED = "with it in place, the planner uses it in no statement"


def search(run: SearchRun) -> None:
    """Try every candidate alone, then together; the run's record holds what is known at any moment."""
    found, clock = run.found, run.clock
    candidates = found.to_try
    settings = {each.id: each for each in candidates if is_planner_setting(each)}
    plans = {
        name: estimates_with(run.copy, run.baseline.statements, {}, each) for name, each in settings.items()
    }
    has_told = False
    begins_at = time.monotonic()
    promises = {each.id: promised(run, each) for each in candidates}
    for candidate in _in_order(candidates, settings, promises):
        if candidate.id in found.tried or candidate.id in found.screened:
            continue  # by an earlier search
        if time.monotonic() >= begins_at + ALONE_SHARE * (clock.ends_at - begins_at):
            break
        _try(run, candidate, lambda: waits_for(run, plans, settings))
        if not clock.is_over:
            retime_small_changes(run, candidate)
        if not has_told and time.monotonic() >= clock.tells_at:
            has_told = True
            run.say(run.best_so_far())

    look_closer(run)
    _select(run)
    look_again(run)


def _in_order(
    candidates: Sequence[Candidate], settings: Collection[str], promises: Mapping[str, Mapping[str, float]]
) -> list[Candidate]:
    """The most promising for each statement first, then the second of each; settings of the planner last.

    Those touch every statement, and take the time of all. `promises`: by id, new over old time by statement.
    """
    places: dict[str, int] = {}
    ranks: dict[str, int] = {}
    for each in sorted(candidates, key=lambda each: min(promises[each.id].values(), default=1.0)):
        mine = promises[each.id] or dict.fromkeys(each.statements, 1.0)
        statement = min(mine, key=lambda name: mine[name], default="")
        ranks[each.id] = places[statement] = places.get(statement, -1) + 1
    return sorted(candidates, key=lambda each: (each.id in settings, ranks[each.id]))


def _select(run: SearchRun) -> None:
    """Choose among what was tried, and the planner's settings that changed no plan alone."""
    found, baseline, by_id = run.found, run.baseline, run.found.by_id
    settings = {each.id for each in found.to_try if is_planner_setting(each)}
    took_s = max((each.took_s for each in found.tried.values()), default=0.0)
    unused = {name: Tried(name, took_s=took_s) for name in settings & found.screened.keys()}
    tried = unused | found.tried
    in_turns = PairedTiming(run, tried)

    def measure(taken: Sequence[str], name: str, current: Seconds) -> Seconds | None:
        seconds = seconds_on_top(
            run, found.named(taken), by_id[name], alone=tried[name].touched, current=current
        )
        if seconds is not None:
            in_turns.on_top[name] = seconds
        return seconds

    found.selection = select(
        baseline.weights,
        baseline.seconds,
        list(tried.values()),
        measure,
        gain_min=run.gain_min,
        members_max=run.members_max,
        pick=in_turns.preferred,
        holds=in_turns.is_gain,
        anew=settings,
        has_time=lambda: not run.clock.is_over,
        space=Space(run.space_bytes, {name: each.bytes or 0 for name, each in tried.items()}),
    )
    for name, other in in_turns.dearer.items():
        if name in found.alike:
            continue  # which says more
        said = (
            f"'{by_id[other].title}' takes a tenth of its space or less, and the workload is only a little "
            "slower"
        )
        found.notes[name] = "; ".join(filter(None, (said, found.notes.get(name, ""))))
    for name in unused.keys() & {*found.selection.ids}:
        del found.screened[name]
        alone = seconds_alone(found.selection, name, baseline)
        found.tried[name] = replace(unused[name], seconds=alone, on_top=True)


def seconds_alone(selection: FixSelection, name: str, baseline: Baseline) -> dict[str, float]:
    """The seconds of one that was chosen as if it gained alone what it gains on top of those before it."""
    before = baseline.seconds
    for step in selection.steps:
        if step.id == name:
            ratios = {each: step.seconds[each] / before[each] for each in before if before[each] > 0}
            return {each: baseline.seconds[each] * ratio for each, ratio in ratios.items() if ratio != 1}
        before = step.seconds
    return {}


def retime_small_changes(run: SearchRun, candidate: Candidate) -> None:
    """Set what one changed little alone beside the workload as it is now, without it."""
    tried = run.found.tried.get(candidate.id)
    if tried is None or tried.refused:
        return
    touched = [each for each in run.baseline.statements if each.name in tried.seconds]
    seconds = set_beside(run.copy, touched, {}, current=run.baseline.seconds, seconds=tried.seconds)
    run.found.tried[candidate.id] = replace(tried, seconds=seconds)


def look_closer(run: SearchRun) -> None:
    """Time in turn what seemed to gain too little once, and may gain something: the most promising first.

    On a busy machine one timing may be wrong by a factor of two and more. Half of the time that is left may
    go there. What is little beside a slow statement is much once that is fast: so the gain is that of the
    workload with each other statement at the best that anything came to.
    """
    found, baseline, by_id, now = run.found, run.baseline, run.found.by_id, time.monotonic()
    half = replace(run.clock, ends_at=now + (run.clock.ends_at - now) / 2)
    best = found.best(baseline.seconds)
    doubtful = []
    for name, tried in found.tried.items():
        others = best | {each: baseline.seconds[each] for each in tried.seconds}
        if (
            not tried.refused
            and MAY_GAIN_MIN <= gain_of(baseline.weights, others, tried.seconds) < run.gain_min
        ):
            doubtful.append(name)
    for name in sorted(doubtful, key=lambda each: min(by_id[each].predicted.values(), default=1.0)):
        tried = found.tried[name]
        if not half.has_rounds(tried):
            continue
        rounds = seconds_in_turn(run, [], [by_id[name]], tried.seconds)
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


def look_again(run: SearchRun) -> None:
    """Time those that looked slower once more, with and without in turn, as far as there is time.

    The workload as it is was timed minutes before them, and the machine may have been faster then.
    """
    found, baseline, by_id = run.found, run.baseline, run.found.by_id
    for name, tried in found.tried.items():
        if tried.refused or gain_of(baseline.weights, baseline.seconds, tried.seconds) >= WORSE_MAX:
            continue
        if tried.with_s or not run.clock.has_rounds(tried):
            continue
        rounds = time_in_turn(run, [], [by_id[name]], tried.seconds, baseline.seconds)
        if rounds is not None:  # else what was seen before stands, and tells nothing
            found.tried[name] = replace(tried, without_s=rounds[0], with_s=rounds[1])


def with_current_estimates(run: SearchRun) -> SearchRun:
    """The run with the estimates of this moment, where those of its beginning hold no longer.

    What statements wrote was rolled back and left dead rows: the tables have more pages, and the planner's
    costs are others with nothing applied. And what ANALYZE found beside an index of an expression stays when
    that is dropped: its sample is another, and a plan may be, of which no later candidate is the reason.
    """
    baseline, by_id = run.baseline, run.found.by_id
    is_analyzed = any(name in by_id and by_id[name].leaves_statistics for name in run.found.tried)
    if not is_analyzed and not any(each.of.writes for each in baseline.statements):
        return run
    return replace(run, baseline=replace(baseline, estimates=estimates(run.copy, baseline.statements, {})))


def _try(run: SearchRun, candidate: Candidate, waits: Callable[[], str | None]) -> None:
    """Apply it and time what it touches. `waits`: the setting that would make the planner use it."""
    began = time.monotonic()
    run = with_current_estimates(run)
    copy, baseline, found = run.copy, run.baseline, run.found
    limits = longest_s(baseline.weights, baseline.seconds, found.best(baseline.seconds), run.gain_min)
    before_bytes, before_wal = copy.bytes(), copy.wal_bytes()
    try:
        build_s = copy.push(candidate, run.clock.ends_at - time.monotonic())
        wal_bytes = copy.wal_bytes() - before_wal if candidate.sql else None
    except TooLongError as error:
        run.say(f"{candidate.title} was not tried for lack of time: {error}")
        return  # so that a longer search tries it
    except (UsageError, MeasurementError) as error:
        found.tried[candidate.id] = Tried(candidate.id, refused=str(error))
        return
    try:
        touched, is_used = touched_by(run, candidate)
        if not is_used:
            found.screened[candidate.id] = UNUSED
            setting = waits() if candidate.sql else None
            if setting is not None:
                run.waiting[candidate.id] = setting
            return
        texts = {each.statement: each.sql for each in candidate.rewrites}
        seconds = timed(copy, touched, texts, baseline.seconds, limits)
        stopped = tuple(name for name, each in seconds.items() if name in limits and math.isinf(each))
        if not candidate.rewrites:
            _compare_rows(run, candidate, touched)
        found.tried[candidate.id] = Tried(
            candidate.id,
            {name: each for name, each in seconds.items() if name not in stopped},
            round(build_s, 3),
            copy.bytes() - before_bytes,
            wal_bytes=wal_bytes,
            took_s=round(time.monotonic() - began, 3),
            stopped=stopped,
        )
    except (UsageError, MeasurementError) as error:
        found.tried[candidate.id] = Tried(candidate.id, refused=str(error))
    except psycopg.Error as error:
        found.tried[candidate.id] = Tried(
            candidate.id, refused=f"the copy's server failed: {first_line(error)}"
        )
    finally:
        copy.pop()


def _compare_rows(run: SearchRun, candidate: Candidate, touched: Sequence[MeasuredStatement]) -> None:
    """Whether the quick ones of the touched statements still return the same rows, as other plans may not."""
    compared, unlike = 0, []
    for statement in touched:
        before = run.baseline.rows.get(statement.name)
        if before is None:
            continue
        try:
            after = run.copy.rows(statement.sql)
        except psycopg.Error:
            continue
        compared += 1
        if not before.is_same_as(after):
            unlike.append(statement.name)
    if unlike:
        run.found.checks[candidate.id] = "different"
        run.found.notes[candidate.id] = (
            f"{', '.join(unlike)} returned different rows than before: that is correct only if "
            "it picks rows without a total order"
        )
    elif compared:
        run.found.checks[candidate.id] = "equal on 1 instance"
